//! Text compared as content, not as layout: the same words in YAML, in a Python literal and in a mail are equal here.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Runs of letters, digits and the signs that addresses, links, paths and ids are made of.
static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\p{N}+(?:,\p{N}{3})+(?:\.\p{N}+)?|[\p{Alphabetic}\p{N}@./:_\-#%+=&?~]+").ok()
});

static SCHEME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[a-z][a-z0-9+.-]*://").ok());

/// Letters, digits and the signs of addresses and links, lower case, without anything that quoting, wrapping or
/// indenting can change.
pub fn squash(text: &str) -> String {
    Squashed::new(text).text
}

/// A squashed text that knows where in the original each of its bytes stood.
#[derive(Debug)]
pub struct Squashed {
    /// The squashed text.
    pub text: String,
    /// Bytes of the original character, one entry per byte of `text`.
    from: Vec<Range<usize>>,
}

impl Squashed {
    /// Squashes a text.
    pub fn new(text: &str) -> Self {
        let mut squashed = Self {
            text: String::with_capacity(text.len()),
            from: Vec::with_capacity(text.len()),
        };
        let mut letters = text.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            if letter == '\\' && letters.next_if(|(_, next)| "ntr".contains(*next)).is_some() {
                continue;
            }
            if letter.is_alphanumeric() || "@./:_-#$%+=&?".contains(letter) {
                squashed.text.extend(letter.to_lowercase());
                squashed
                    .from
                    .resize(squashed.text.len(), at..at + letter.len_utf8());
            }
        }
        squashed
    }

    /// Where in the original a range of the squashed text stood; `None` for an empty range.
    pub fn original(&self, range: Range<usize>) -> Option<Range<usize>> {
        let letters = self.from.get(range)?;
        let (first, last) = (letters.first()?, letters.last()?);
        Some(first.start..last.end)
    }
}

/// The words of a text, lower case; a link without its scheme, anything without the punctuation around it.
pub fn words(text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    bare_words(&text)
        .map(|word| {
            let scheme = SCHEME.as_ref().and_then(|scheme| scheme.find(word));
            let start = scheme.map_or(0, |found| found.end());
            word.get(start..).unwrap_or(word).to_owned()
        })
        .collect()
}

/// The words of a text as they stand there, without the punctuation around them. An escape for white space in a quoted
/// scalar separates words.
pub fn bare_words(text: &str) -> impl Iterator<Item = &str> {
    let found = WORD.as_ref().map(|word| word.find_iter(text));
    found
        .into_iter()
        .flatten()
        .map(|word| {
            let escaped = text
                .get(..word.start())
                .is_some_and(|before| before.ends_with('\\'));
            let rest = word.as_str();
            let rest = if escaped {
                rest.strip_prefix(['n', 't', 'r']).unwrap_or(rest)
            } else {
                rest
            };
            rest.trim_matches(['.', ':', '-', '?', '=', '&', '/'])
        })
        .filter(|word| !word.is_empty())
}

/// The number that a word stands for; separators of thousands and a currency sign do not count.
pub fn number(word: &str) -> Option<f64> {
    let digits: String = word.chars().filter(|c| *c != ',' && *c != '$').collect();
    let plain = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    plain.then(|| digits.parse().ok()).flatten()
}

/// Whether a word is an address, a link, a path, an account, an id or an amount, and not one that any text has.
pub fn is_name_like(word: &str) -> bool {
    word.chars().count() >= 4 && word.contains(|c: char| c.is_ascii_digit() || "@./_:".contains(c))
}

/// Every string and number in a value, as text.
pub fn leaves(value: &Value) -> Vec<String> {
    match value {
        Value::Null | Value::Bool(_) => Vec::new(),
        Value::Number(number) => vec![number.to_string()],
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(leaves).collect(),
        Value::Object(members) => members.values().flat_map(leaves).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn layout_and_quoting_do_not_count() {
        let mail = "Please pay\nthe user's bill: https://Pay.example/x?y=1";
        let yaml = "  'Please pay\n\n    the user''s\n    bill: https://pay.example/x?y=1'";
        let python = "{'a': \"Please pay\\nthe user's bill: https://pay.example/x?y=1\"}";
        assert_eq!(squash(mail), squash(yaml));
        assert!(squash(python).contains(&squash(mail)));
    }

    #[test]
    fn a_squashed_range_finds_its_original() {
        let text = "a: 'Pay\n    the user''s bill\\nnow'";
        let squashed = Squashed::new(text);
        assert_eq!(squashed.text, "a:paytheusersbillnow");
        let start = squashed.text.find("pay").unwrap();
        let range = squashed.original(start..squashed.text.len()).unwrap();
        assert_eq!(text.get(range), Some("Pay\n    the user''s bill\\nnow"));
        assert_eq!(squashed.original(3..3), None);
    }

    #[test]
    fn words_are_bare() {
        assert_eq!(
            words("See <https://a.example/b/>, or mail x@y.example."),
            ["see", "a.example/b", "or", "mail", "x@y.example"]
        );
        assert!(is_name_like("x@y.example") && is_name_like("de89") && !is_name_like("pizza"));
    }

    #[test]
    fn leaves_are_strings_and_numbers() {
        let value = json!({"a": ["x", {"b": 1.5}], "c": null, "d": true});
        assert_eq!(leaves(&value), ["x", "1.5"]);
    }
}
