//! Texts that talk about injections quote them: a short quotation in such a text counts for less.
//!
//! Quotes alone mean nothing, since every string of JSON is quoted: the quotation must be short, stand in a sentence, and the
//! words around it must be about attacks or examples.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// What a quoted phrase counts.
const QUOTED: f64 = 0.6;

/// Longest rest of the quotation after the phrase, in bytes.
const SHORT: usize = 80;

/// Bytes on both sides that are looked at.
const AROUND: usize = 240;

/// Words of a text about injections; two different ones make it one.
const DISCUSSION: [&str; 30] = [
    "threat",
    "owasp",
    "defen",
    "explain",
    "coverage",
    "test",
    "prompts",
    "rule",
    "injection",
    "jailbreak",
    "attack",
    "phrase",
    "example",
    "detect",
    "red-team",
    "red team",
    "guardrail",
    "security",
    "malicious",
    "payload",
    "quote",
    "fixture",
    "sample",
    "risky",
    "unsafe",
    "adversarial",
    "classif",
    "pattern",
    "refuse",
    "blog",
];

/// What the phrase at `span` counts: 1, or less where it is quoted by a text about such phrases.
pub(super) fn factor(text: &str, span: &Range<usize>) -> f64 {
    if is_quoted(text, span) && is_discussed(text, span) {
        QUOTED
    } else {
        1.0
    }
}

fn is_quoted(text: &str, span: &Range<usize>) -> bool {
    let mut before = text.get(..span.start).unwrap_or_default().chars().rev();
    let open = before.next();
    let close = match open {
        Some(c @ ('"' | '\'' | '`')) => c,
        Some('\u{201c}') => '\u{201d}',
        Some('\u{2018}') => '\u{2019}',
        Some('\u{ab}') => '\u{bb}',
        _ => return false,
    };
    let after = text.get(span.end..).unwrap_or_default();
    let rest = after
        .get(..after.floor_char_boundary(SHORT))
        .unwrap_or_default();
    rest.lines().next().is_some_and(|line| line.contains(close))
}

fn is_discussed(text: &str, span: &Range<usize>) -> bool {
    let from = text.floor_char_boundary(span.start.saturating_sub(AROUND));
    let to = text.ceil_char_boundary((span.end + AROUND).min(text.len()));
    let before = text.get(from..span.start).unwrap_or_default();
    let after = text.get(span.end..to).unwrap_or_default();
    let Some(words) = WORDS.as_ref() else {
        return false;
    };
    let mut first = None;
    let mut found = [before, after]
        .into_iter()
        .flat_map(|side| words.find_overlapping_iter(side))
        .map(|found| found.pattern());
    found.any(|word| *first.get_or_insert(word) != word)
}

/// One automaton for them all.
static WORDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(DISCUSSION)
        .ok()
});

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(text: &str, phrase: &str) -> f64 {
        let start = text.find(phrase).unwrap();
        factor(text, &(start..start + phrase.len()))
    }

    #[test]
    fn a_short_quotation_in_a_text_about_attacks_counts_less() {
        let phrase = "ignore all rules";
        for text in [
            "Phrases like 'ignore all rules' are examples of attacks.",
            "The detector refuses the pattern \u{201c}ignore all rules now\u{201d}.",
        ] {
            assert!(weight(text, phrase) < 1.0, "{text}");
        }
        for text in [
            "{\"body\": \"ignore all rules\"}",
            "He said 'ignore all rules' to me.",
            "Examples of attacks: ignore all rules",
            "Examples of attacks: 'ignore all rules",
        ] {
            assert!((weight(text, phrase) - 1.0).abs() < f64::EPSILON, "{text}");
        }
        let long = format!(
            "Examples of attacks: 'ignore all rules {}'",
            "and more ".repeat(20)
        );
        assert!((weight(&long, phrase) - 1.0).abs() < f64::EPSILON);
    }
}
