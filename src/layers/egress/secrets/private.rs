//! Values that are private for a session: what a tool gave back in a field that the policy names.
//!
//! Compared without case, spaces and the signs that divide numbers, so that `123-45-6789` is also `123 45 6789`.

use std::collections::HashSet;

use aho_corasick::AhoCorasick;

/// Shortest value, in characters that are compared: a shorter one stands everywhere by chance.
pub const SHORTEST: usize = 5;

/// Most values of one session that are looked for, the newest first.
const MOST: usize = 4096;

/// The private values of a session.
#[derive(Clone, Debug)]
pub struct PrivateValues(AhoCorasick);

impl PrivateValues {
    /// These values; nothing where none is long enough, or they are too many or long to be looked for.
    pub fn new<'v>(values: impl IntoIterator<Item = &'v str>) -> Option<Self> {
        let mut read: Vec<_> = values
            .into_iter()
            .map(|value| comparable(value).0)
            .filter(|value| value.chars().count() >= SHORTEST)
            .collect();
        // Values come in the order in which they were given.
        read.reverse();
        let mut seen = HashSet::new();
        read.retain(|value| seen.len() < MOST && seen.insert(value.clone()));
        if read.is_empty() {
            return None;
        }
        AhoCorasick::new(read).ok().map(Self)
    }

    /// Whether one of them stands in the text, as words of its own.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let (text, divided) = comparable(text);
        let begins = |at: usize| at == 0 || divided.binary_search(&at).is_ok();
        self.0.find_overlapping_iter(&text).any(|found| {
            begins(found.start()) && (found.end() == text.len() || begins(found.end()))
        })
    }
}

/// The letters and digits of a text in lower case, and the places in it at which others stood between.
fn comparable(text: &str) -> (String, Vec<usize>) {
    let mut plain = String::with_capacity(text.len());
    let mut divided = Vec::new();
    for c in text.chars() {
        if c.is_alphanumeric() {
            plain.extend(c.to_lowercase());
        } else if divided.last() != Some(&plain.len()) {
            divided.push(plain.len());
        }
    }
    (plain, divided)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_however_it_is_written_and_only_as_a_whole() {
        let values = PrivateValues::new(["123-45-6789", "Ann Example", "42"]).unwrap();
        for text in [
            "123456789",
            "it is 123 45 6789.",
            "ANN  example",
            "x=123-45-6789&y",
        ] {
            assert!(values.is_in(text), "{text}");
        }
        for text in ["1234567890", "0123456789", "Joann Example", "42", ""] {
            assert!(!values.is_in(text), "{text}");
        }
        assert!(PrivateValues::new(["42", "", "a-b"]).is_none());
    }

    #[test]
    fn of_too_many_values_the_newest_are_looked_for() {
        let given: Vec<_> = (0..=MOST).rev().map(|n| format!("value-{n:06}")).collect();
        let values = PrivateValues::new(given.iter().map(String::as_str)).unwrap();
        assert!(values.is_in("value 000000"));
        assert!(!values.is_in(&given[0]));
    }
}
