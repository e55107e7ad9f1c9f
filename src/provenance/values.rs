//! Values in running text, in the form in which layers compare them. URLs stand in a file of their own.

use std::collections::HashSet;

use unicode_normalization::UnicodeNormalization;

use super::ValueKind;
use super::urls::Web;
use crate::layers::recipients::{Address, read_list};

/// Longest e-mail address that is looked for, on each side of the `@`.
const LONGEST_SIDE: usize = 255;

/// Fewest and most digits of a telephone number (E.164).
const DIGITS: std::ops::RangeInclusive<usize> = 7..=15;

/// What a whole text is as a value of this kind: none, one, or the addresses of a list of mailboxes.
pub(super) fn whole(kind: ValueKind, text: &str) -> Vec<String> {
    let one = match kind {
        ValueKind::Email if !text.contains('@') => None,
        ValueKind::Email => {
            let list = read_list(text).unwrap_or_default();
            return list.iter().map(Address::to_key).collect();
        }
        ValueKind::Url => Web::read(text.trim()).map(|web| web.to_key()),
        ValueKind::Account => Some(squeezed(text)),
        ValueKind::Phone => phone(text.trim()),
        ValueKind::Text => Some(fold(text)),
    };
    one.into_iter().collect()
}

/// A layer's key as [`whole`] writes it.
pub(super) fn comparable(kind: ValueKind, key: &str) -> String {
    match kind {
        ValueKind::Email | ValueKind::Account | ValueKind::Phone => key.to_owned(),
        ValueKind::Url => Web::read(key).map(|web| web.to_key()).unwrap_or_default(),
        ValueKind::Text => fold(key),
    }
}

/// Every e-mail address in a text, canonical.
pub(super) fn emails(text: &str) -> HashSet<String> {
    let mut found = HashSet::new();
    for (at, _) in text.match_indices('@') {
        let (Some(before), Some(after)) = (text.get(..at), text.get(at + 1..)) else {
            continue;
        };
        let start = before
            .char_indices()
            .rev()
            .take(LONGEST_SIDE)
            .take_while(|(_, c)| is_local(*c))
            .last();
        let Some((start, _)) = start else { continue };
        let end = after
            .char_indices()
            .take(LONGEST_SIDE)
            .find(|(_, c)| !(c.is_alphanumeric() || matches!(c, '-' | '.' | '_')))
            .map_or(after.len().min(LONGEST_SIDE * 4), |(end, _)| end);
        let local = before.get(start..).unwrap_or_default();
        let end = after.floor_char_boundary(end);
        let glued = before
            .get(..start)
            .is_some_and(|before| before.ends_with('@'));
        if glued || after.get(end..).is_some_and(|rest| rest.starts_with('@')) {
            continue;
        }
        let domain = after.get(..end).unwrap_or_default();
        let domain = domain.trim_end_matches(['.', '-', '_']);
        // `to=ann@x` and `'ann@x'`: both readings.
        let bare = local.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_');
        let tail = bare
            .rsplit(['=', '/', '?', '&', '|', '\'', '`', '{', '*'])
            .next();
        for local in [Some(local), Some(bare), tail].into_iter().flatten() {
            let read = read_list(&format!("{local}@{domain}")).unwrap_or_default();
            found.extend(read.iter().map(Address::to_key));
        }
    }
    found
}

fn is_local(c: char) -> bool {
    c.is_alphanumeric() || (c.is_ascii_punctuation() && !"\"(),:;<>@[\\]".contains(c))
}

/// Every international telephone number in a text, as E.164.
pub(super) fn phones(text: &str) -> HashSet<String> {
    let mut found = HashSet::new();
    let starts = text.char_indices().filter(|(at, c)| {
        let before = text
            .get(..*at)
            .and_then(|before| before.chars().next_back());
        let fresh = before.is_none_or(|c| !c.is_alphanumeric() && c != '+');
        fresh && (*c == '+' || *c == '0')
    });
    for (at, _) in starts {
        let rest = text.get(at..).unwrap_or_default();
        let part = |c: char| c.is_ascii_digit() || is_phone_mark(c);
        let end = rest.char_indices().skip(1).find(|(_, c)| !part(*c));
        let run = rest
            .get(..end.map_or(rest.len(), |(end, _)| end))
            .unwrap_or_default();
        // A number may be followed by another after a blank: each prefix of its groups is a reading.
        let ends = run
            .char_indices()
            .filter(|(_, c)| is_phone_mark(*c))
            .map(|(end, _)| end);
        for end in ends.take(8).chain([run.len()]) {
            found.extend(run.get(..end).and_then(phone));
        }
    }
    found
}

const fn is_phone_mark(c: char) -> bool {
    matches!(
        c,
        ' ' | '-' | '.' | '(' | ')' | '/' | '\u{a0}' | '\u{2010}' | '\u{2011}'
    )
}

/// An international number as E.164.
fn phone(text: &str) -> Option<String> {
    let text = text.trim_end_matches(is_phone_mark);
    let text = text.strip_prefix("tel:").unwrap_or(text);
    let rest = text.strip_prefix('+').or_else(|| text.strip_prefix("00"))?;
    // `+44 (0)20`: the zero is for callers inside the country.
    let rest = rest.replace("(0)", "");
    if !rest.chars().all(|c| c.is_ascii_digit() || is_phone_mark(c)) {
        return None;
    }
    let digits: String = rest.chars().filter(char::is_ascii_digit).collect();
    DIGITS.contains(&digits.len()).then(|| format!("+{digits}"))
}

fn squeezed(text: &str) -> String {
    let solid = text.chars().filter(|c| !c.is_whitespace());
    solid.map(|c| c.to_ascii_uppercase()).collect()
}

/// A text without white space, in upper case, that remembers where words begin.
#[derive(Debug)]
pub(super) struct Squeezed {
    text: String,
    /// For each byte of `text`: no letter or digit stands right before it in the original.
    fresh: Vec<bool>,
}

impl Squeezed {
    pub(super) fn new(text: &str) -> Self {
        let mut squeezed = String::with_capacity(text.len());
        let mut fresh = Vec::with_capacity(text.len());
        let mut after_word = false;
        for c in text.chars() {
            if !c.is_whitespace() {
                squeezed.push(c.to_ascii_uppercase());
                fresh.resize(squeezed.len(), !after_word);
            }
            after_word = c.is_alphanumeric() || c == '_';
        }
        Self {
            text: squeezed,
            fresh,
        }
    }

    /// Whether the account number stands here, between words.
    pub(super) fn has(&self, key: &str) -> bool {
        let fresh = |at: usize| self.fresh.get(at).copied().unwrap_or(true);
        !key.is_empty()
            && self.text.match_indices(key).any(|(at, _)| {
                let end = at + key.len();
                let next = self.text.get(end..).and_then(|rest| rest.chars().next());
                let ends = next.is_none_or(|c| fresh(end) || !(c.is_alphanumeric() || c == '_'));
                fresh(at) && ends
            })
    }
}

/// NFKC, lower case, runs of white space as one space, none around.
pub(super) fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut blank = false;
    for c in text.nfkc().flat_map(char::to_lowercase) {
        if c.is_whitespace() {
            blank = !folded.is_empty();
            continue;
        }
        if std::mem::take(&mut blank) {
            folded.push(' ');
        }
        folded.push(c);
    }
    folded
}

/// A text as words are compared in it.
#[derive(Debug)]
pub(super) struct Folded(String);

impl Folded {
    pub(super) fn new(text: &str) -> Self {
        Self(fold(text))
    }

    /// Whether the words stand here as words of their own: not as a piece of a longer name, path or address.
    pub(super) fn has(&self, key: &str) -> bool {
        let key = fold(key);
        let Some(first) = key.chars().next() else {
            return false;
        };
        let mut from = 0;
        while let Some(at) = self.0.get(from..).and_then(|rest| rest.find(&key)) {
            let (start, end) = (from + at, from + at + key.len());
            let before = self.0.get(..start).unwrap_or_default();
            let after = self.0.get(end..).unwrap_or_default();
            if begins(before, first) && ends(after, key.chars().next_back()) {
                return true;
            }
            from = start + first.len_utf8();
        }
        false
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Marks that join what stands around them into one name, path or address.
const fn is_joint(c: char) -> bool {
    matches!(c, '-' | '.' | '/' | '\\' | '@' | ':' | '+' | '~')
}

fn begins(before: &str, first: char) -> bool {
    let mut back = before.chars().rev();
    match back.next() {
        Some(c) if is_word(c) => !is_word(first) && !is_joint(first),
        Some('/' | '\\' | '~') => false,
        Some(c) if is_joint(c) => !back.next().is_some_and(is_word),
        _ => true,
    }
}

fn ends(after: &str, last: Option<char>) -> bool {
    let mut rest = after.chars();
    match rest.next() {
        Some(c) if is_word(c) => last.is_some_and(|last| !is_word(last) && !is_joint(last)),
        Some('/' | '\\') => false,
        Some(c) if is_joint(c) => !rest.next().is_some_and(is_word),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_a_sentence_are_found_as_they_are_compared() {
        for text in [
            "write to Ann <ANN@X.example>, please",
            "ann@x.example.",
            "mailto:Ann@x.example?subject=hi",
            "('ann@x.example')",
            "to=ann@x.example&cc=",
            "**ann@x.example**",
        ] {
            assert!(emails(text).contains("ann@x.example"), "{text}");
        }
        for text in [
            "joann@x.example",
            "ann@x.example.evil.example",
            "ann@xx.example",
            "ann at x.example",
        ] {
            assert!(!emails(text).contains("ann@x.example"), "{text}");
        }
        assert!(emails("@ @@ a@ @b a@b@c").is_empty());
    }

    #[test]
    fn a_telephone_number_is_found_in_every_grouping() {
        for text in [
            "call +1 (555) 123-4567 now",
            "0015551234567",
            "tel:+15551234567",
            "+1.555.123.4567, or write",
            "+15551234567 12 times",
        ] {
            assert!(phones(text).contains("+15551234567"), "{text}");
        }
        assert!(phones("+44 (0)20 7946 0018").contains("+442079460018"));
        assert!(phones("+155512345678").contains("+155512345678"));
        assert!(!phones("+155512345678").contains("+15551234567"));
        assert!(phones("+1 2, 555-123-4567").is_empty());
    }

    #[test]
    fn an_account_stands_between_words() {
        let has = |text: &str, key: &str| Squeezed::new(text).has(key);
        assert!(has(
            "pay gb82 west 1234 5698 7654 32 today",
            "GB82WEST12345698765432"
        ));
        assert!(has("(GB82WEST12345698765432).", "GB82WEST12345698765432"));
        assert!(has("account 42 of", "42"));
        assert!(!has("account 421 of", "42"));
        assert!(!has("xGB82WEST12345698765432", "GB82WEST12345698765432"));
        assert!(!has("GB82WEST123456987654321", "GB82WEST12345698765432"));
        assert!(!has("", "42"));
        assert!(!has("x", ""));
    }

    #[test]
    fn words_are_names_of_their_own() {
        let has = |text: &str, key: &str| Folded::new(text).has(key);
        for (text, key) in [
            ("post it in #General.", "general"),
            ("@alice's files", "Alice"),
            ("Ann  Lee\nand Bob", "ann lee"),
            ("read /home/ann/notes.txt, then", "/home/ann/notes.txt"),
            ("\u{ff27}eneral", "general"),
            ("file 7 of it", "7"),
            ("(team-a)", "team-a"),
            ("in general: hi", "general"),
        ] {
            assert!(has(text, key), "{text} {key}");
        }
        for (text, key) in [
            ("generally", "general"),
            ("read /home/ann/notes.txt", "/home/ann"),
            ("read /home/ann/notes.txt", "notes.txt"),
            ("mail bob@evil.example", "bob"),
            ("External_0", "External"),
            ("team-a", "team"),
            ("file 77", "7"),
            ("", "a"),
            ("a", " "),
        ] {
            assert!(!has(text, key), "{text} {key}");
        }
    }

    #[test]
    fn a_whole_value_is_nothing_but_the_value() {
        for (kind, text, key) in [
            (ValueKind::Email, "Ann <ANN@x.example>", "ann@x.example"),
            (
                ValueKind::Email,
                "bob@x.example, ann@x.example",
                "ann@x.example",
            ),
            (ValueKind::Account, "gb82 west", "GB82WEST"),
            (ValueKind::Phone, "+1 555 123 4567", "+15551234567"),
            (ValueKind::Text, " General ", "general"),
            (ValueKind::Url, "http://A.example", "https://a.example/#top"),
        ] {
            assert!(whole(kind, text).contains(&comparable(kind, key)), "{text}");
        }
        for (kind, text, key) in [
            (ValueKind::Email, "write ann@x.example", "ann@x.example"),
            (ValueKind::Account, "IBAN gb82", "GB82"),
            (ValueKind::Text, "in general", "general"),
            (
                ValueKind::Url,
                "see https://a.example/",
                "https://a.example/",
            ),
        ] {
            assert!(
                !whole(kind, text).contains(&comparable(kind, key)),
                "{text}"
            );
        }
    }
}
