//! Whether a value is like what the user said: shares a name.
//!
//! Weaker than the value itself: whoever gives himself a name that the user says is like it. It serves beside other conditions.

use std::collections::HashSet;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::ValueKind;
use super::text::Text;
use super::urls::Web;
use super::values::fold;

/// Shortest name, and shortest piece of a path.
const WORD: usize = 3;
const PIECE: usize = 6;

/// Words that are written large and name nobody.
const EMPTY: [&str; 72] = [
    "account",
    "add",
    "all",
    "and",
    "any",
    "are",
    "ask",
    "book",
    "buy",
    "can",
    "change",
    "check",
    "com",
    "contact",
    "could",
    "create",
    "delete",
    "did",
    "dear",
    "does",
    "download",
    "email",
    "fetch",
    "find",
    "first",
    "follow",
    "for",
    "from",
    "get",
    "give",
    "have",
    "hello",
    "help",
    "her",
    "his",
    "how",
    "info",
    "invite",
    "last",
    "look",
    "mail",
    "make",
    "new",
    "not",
    "now",
    "open",
    "our",
    "pay",
    "please",
    "post",
    "read",
    "remove",
    "reply",
    "say",
    "see",
    "send",
    "share",
    "summarize",
    "tell",
    "thanks",
    "that",
    "the",
    "their",
    "then",
    "this",
    "transfer",
    "update",
    "use",
    "what",
    "who",
    "with",
    "you",
];

/// The words of a text: lower case, without accents, but for those that name nobody.
fn words(text: &str) -> HashSet<String> {
    split(text)
        .map(|word| word.to_lowercase())
        .filter(|word| tells(word))
        .collect()
}

/// The words of a text that its writer marks as names: written large, or in letters that know no large and small.
pub(super) fn names(text: &str) -> HashSet<String> {
    let large = |word: &String| word.chars().next().is_some_and(|c| !c.is_lowercase());
    let large = split(text).filter(large);
    large
        .map(|word| word.to_lowercase())
        .filter(|word| tells(word))
        .collect()
}

fn split(text: &str) -> impl Iterator<Item = String> {
    let plain: String = text.nfkd().filter(|c| !is_combining_mark(*c)).collect();
    let words = plain.split(|c: char| !c.is_alphanumeric());
    words.map(str::to_owned).collect::<Vec<_>>().into_iter()
}

fn tells(word: &str) -> bool {
    word.chars().count() >= WORD && word.contains(char::is_alphabetic) && !EMPTY.contains(&word)
}

/// Whether what stands beside a value names somebody whom one of these texts names. Of an address only what is before the `@`
/// counts: a domain is of many.
pub(super) fn names_alike(beside: &str, said: &[&Text]) -> bool {
    let mut who = String::with_capacity(beside.len());
    for word in beside.split(|c: char| c.is_whitespace() || "<>(),;\"".contains(c)) {
        who.push_str(word.split('@').next().unwrap_or_default());
        who.push(' ');
    }
    shares(&words(&who), said)
}

/// Whether the value itself is like what one of these texts says.
pub(super) fn is_like(kind: ValueKind, key: &str, said: &[&Text]) -> bool {
    match kind {
        ValueKind::Email => names_alike(key, said),
        ValueKind::Text => shares(&words(key), said),
        ValueKind::Url => Web::read(key).is_some_and(|web| {
            let mut pieces = web.segments().filter(|piece| {
                let compound = |c: char| c.is_ascii_digit() || matches!(c, '-' | '_');
                piece.len() >= PIECE && piece.contains(compound)
            });
            pieces.any(|piece| said.iter().any(|text| says(text, piece)))
        }),
        ValueKind::Account | ValueKind::Phone => false,
    }
}

/// Whether the text says the piece, also between slashes of a longer name such as `team/data_tools`, which is no URL and no
/// address.
fn says(text: &Text, piece: &str) -> bool {
    if text.holds(ValueKind::Text, piece) {
        return true;
    }
    let words = text.as_str().split_whitespace();
    let mut names = words.filter(|word| word.contains('/') && !word.contains([':', '@']));
    names.any(|name| {
        let name = name.trim_matches(|c: char| !c.is_alphanumeric());
        let host = name
            .split('/')
            .next()
            .is_some_and(|first| first.contains('.'));
        !host && name.split('/').any(|part| fold(part) == fold(piece))
    })
}

fn shares(words: &HashSet<String>, said: &[&Text]) -> bool {
    let known = |word: &String| said.iter().any(|text| text.names().contains(word));
    words.iter().any(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_like_a_name_between_slashes() {
        let said =
            Text::new("Accept team/data_tools, see y.example/page_1 and ann_1@y.example/x".into());
        let like = |url: &str| is_like(ValueKind::Url, url, &[&said]);
        assert!(like("https://z.example/accept/team/data_tools/"));
        for url in [
            "https://z.example/data_tools2",
            "https://data_tools.example/team",
            "https://z.example/page_1",
            "https://z.example/ann_1",
        ] {
            assert!(!like(url), "{url}");
        }
    }

    #[test]
    fn names_are_alike_by_a_word_that_is_written_large() {
        let said = "Please ask Zoë and Alexander Chen, bob and \u{674e}\u{5c0f}\u{9f8d} about report_2024-b. Send it to Eve-Marie too";
        let said = Text::new(said.into());
        let said = [&said];
        for beside in [
            "a.chen@y.example",
            "Zoe <z@y.example>",
            "alexander",
            "\u{674e}\u{5c0f}\u{9f8d} <l@y.example>",
            "marie@y.example",
        ] {
            assert!(names_alike(beside, &said), "{beside}");
        }
        for beside in [
            "mallory@chen.example",
            "please@y.example",
            "Send it",
            "bob@y.example",
            "al",
            "",
            "zoey",
            "ask@y.example",
        ] {
            assert!(!names_alike(beside, &said), "{beside}");
        }
        assert!(is_like(ValueKind::Email, "chen@y.example", &said));
        assert!(!is_like(ValueKind::Email, "mallory@chen.example", &said));
        assert!(is_like(ValueKind::Text, "Chen's key", &said));
        assert!(is_like(
            ValueKind::Url,
            "https://y.example/x/report_2024-b",
            &said
        ));
        assert!(!is_like(ValueKind::Url, "https://chen.example/bob", &said));
        assert!(!is_like(ValueKind::Account, "CHEN", &said));
    }
}
