//! Whether a value is like what the user said: shares a name or another word that tells something.
//!
//! Weaker than the value itself: whoever gives himself a name that the user says is like it. It serves beside other conditions.

use std::collections::HashSet;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::ValueKind;
use super::text::Text;
use super::urls::Web;

/// Shortest word that tells something, and shortest piece of a path.
const WORD: usize = 3;
const PIECE: usize = 6;

/// Words of a sentence that name nobody.
const EMPTY: [&str; 86] = [
    "about", "account", "address", "admin", "after", "again", "all", "also", "and", "any", "are",
    "ask", "been", "before", "but", "can", "com", "contact", "could", "did", "does", "email",
    "every", "for", "from", "get", "give", "had", "has", "have", "hello", "help", "her", "here",
    "him", "his", "how", "info", "into", "its", "just", "let", "mail", "make", "may", "message",
    "more", "must", "new", "not", "now", "one", "our", "out", "please", "read", "reply", "said",
    "see", "send", "service", "she", "should", "some", "support", "team", "tell", "than", "thank",
    "thanks", "that", "the", "their", "them", "then", "there", "they", "this", "user", "was",
    "what", "when", "which", "will", "with", "you", // and
];

/// The words of a text that may name something: lower case, without accents.
pub(super) fn words(text: &str) -> HashSet<String> {
    let plain: String = text
        .nfkd()
        .filter(|c| !is_combining_mark(*c))
        .flat_map(char::to_lowercase)
        .collect();
    let words = plain.split(|c: char| !c.is_alphanumeric());
    let telling = words.filter(|word| {
        word.chars().count() >= WORD && word.contains(char::is_alphabetic) && !EMPTY.contains(word)
    });
    telling.map(str::to_owned).collect()
}

/// Whether what stands beside a value names somebody whom one of these texts names. Of an address only what is before the `@`
/// counts: a domain is of many.
pub(super) fn names_alike(beside: &str, said: &[&Text]) -> bool {
    let mut names = String::with_capacity(beside.len());
    for word in beside.split(|c: char| c.is_whitespace() || "<>(),;\"".contains(c)) {
        names.push_str(word.split('@').next().unwrap_or_default());
        names.push(' ');
    }
    shares(&words(&names), said)
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
            pieces.any(|piece| said.iter().any(|text| text.holds(ValueKind::Text, piece)))
        }),
        ValueKind::Account | ValueKind::Phone => false,
    }
}

fn shares(words: &HashSet<String>, said: &[&Text]) -> bool {
    let known = |word: &String| said.iter().any(|text| text.words().contains(word));
    words.iter().any(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_alike_by_a_word_that_tells_something() {
        let said = Text::new(
            "Please ask Zoë and Alexander Chen about report_2024-b; tell bob@x.example too".into(),
        );
        let said = [&said];
        for beside in ["a.chen@y.example", "Zoe <z@y.example>", "Bob", "alexander"] {
            assert!(names_alike(beside, &said), "{beside}");
        }
        for beside in [
            "eve@chen.example",
            "please@y.example",
            "ask the team",
            "al",
            "",
            "zoey",
        ] {
            assert!(!names_alike(beside, &said), "{beside}");
        }
        assert!(is_like(ValueKind::Email, "chen@y.example", &said));
        assert!(!is_like(ValueKind::Email, "eve@chen.example", &said));
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
