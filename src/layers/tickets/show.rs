//! How values of a call are shown to a person: nothing invisible, nothing that reorders a line or
//! passes for another character, nothing folded without a count.

use std::fmt::Write;

use serde_json::Value;

use super::lookalike::lookalikes;
use crate::store::tickets::digest::sha256_hex;
use crate::unicode::{is_blank, is_ignorable, is_separator, is_unshown};

/// Longest value, in characters, that is shown whole.
const WHOLE: usize = 120;

/// Of a longer one: characters at its start.
const HEAD: usize = 72;

/// And at its end.
const TAIL: usize = 24;

/// What a person does not see, or cannot tell from something else.
fn is_hidden(c: char) -> bool {
    c.is_control() || is_ignorable(c) || is_blank(c) || is_separator(c) || is_unshown(c)
}

/// Marks that are drawn over the letter before them: a text with them looks like another one without.
const OVERLAID: &[(char, char)] = &[
    ('\u{300}', '\u{36f}'),
    ('\u{1ab0}', '\u{1aff}'),
    ('\u{1dc0}', '\u{1dff}'),
    ('\u{20d0}', '\u{20ff}'),
    ('\u{fe20}', '\u{fe2f}'),
];

fn is_overlaid(c: char) -> bool {
    OVERLAID.iter().any(|(from, to)| (*from..=*to).contains(&c))
}

/// Part of a text as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// As it stands, but for the backslash, which is written twice.
    Plain(String),
    /// A character that cannot be seen, or that could be taken for another one, as an escape.
    Escape(String),
}

impl Piece {
    /// What is shown.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Escape(text) => text,
        }
    }
}

/// The text with every hidden character, and every one that could be taken for another, as an escape of its own: `\n`,
/// `\u{202e}`. No two texts look alike because of what cannot be seen.
pub fn pieces(text: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut plain = String::new();
    for (c, like) in text.chars().zip(lookalikes(text)) {
        let escape = match c {
            '\\' => {
                plain.push_str("\\\\");
                continue;
            }
            '\n' => "\\n".to_owned(),
            '\r' => "\\r".to_owned(),
            '\t' => "\\t".to_owned(),
            c if like || is_hidden(c) || is_overlaid(c) => format!("\\u{{{:x}}}", u32::from(c)),
            c => {
                plain.push(c);
                continue;
            }
        };
        if !plain.is_empty() {
            found.push(Piece::Plain(std::mem::take(&mut plain)));
        }
        found.push(Piece::Escape(escape));
    }
    if !plain.is_empty() {
        found.push(Piece::Plain(plain));
    }
    found
}

/// As [`pieces`], in one text.
pub fn escape(text: &str) -> String {
    pieces(text).iter().map(Piece::as_str).collect()
}

/// A text as it is shown where there is little room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// All of a short text, the start of a long one.
    pub head: Vec<Piece>,
    /// The rest of a long one.
    pub folded: Option<Folded>,
}

/// What is left out of a long text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    /// Its end.
    pub tail: Vec<Piece>,
    /// Length of the whole text, in characters.
    pub length: usize,
    /// Start of the whole text's SHA-256, 12 hex digits.
    pub sha256: String,
}

/// All of a text of at most 120 characters; of a longer one its start, its end, its length and the start of its SHA-256.
pub fn shown(text: &str) -> Shown {
    let length = text.chars().count();
    if length <= WHOLE {
        return Shown {
            head: pieces(text),
            folded: None,
        };
    }
    let head: String = text.chars().take(HEAD).collect();
    let tail: String = text.chars().skip(length - TAIL).collect();
    Shown {
        head: pieces(&head),
        folded: Some(Folded {
            tail: pieces(&tail),
            length,
            sha256: sha256_hex(text.as_bytes()).chars().take(12).collect(),
        }),
    }
}

/// As [`shown`], in one text.
pub fn shorten(text: &str) -> String {
    let join = |pieces: &[Piece]| pieces.iter().map(Piece::as_str).collect::<String>();
    let Shown { head, folded } = shown(text);
    let head = join(&head);
    match folded {
        None => head,
        Some(Folded {
            tail,
            length,
            sha256,
        }) => {
            format!(
                "{head} … {} ({length} characters, sha256 {sha256})",
                join(&tail)
            )
        }
    }
}

/// Longest comment of an approver, in characters, that an agent is shown.
const COMMENT: usize = 500;

/// A person's words as such: in quotes, with nothing invisible in them, and not endless. `None` where there are none.
pub fn comment(text: &str) -> Option<String> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let shown: String = text.chars().take(COMMENT).collect();
    let cut = if shown.len() < text.len() { "…" } else { "" };
    Some(format!("\"{}{cut}\"", escape(&shown).replace('"', "\\\"")))
}

/// JSON text in which hidden characters are written as `\uXXXX`: the same value, safe for a terminal. The input must be JSON
/// as `serde_json` writes it, where such characters stand only inside strings.
pub fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) && !matches!(c, '\n' | '\t') {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Every value of the arguments that is not an object or array with something in it: its JSON Pointer and its text, in
/// document order. A string is its content in quotes, everything else its canonical JSON; not escaped yet.
pub fn leaves(arguments: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk(arguments, &mut String::new(), &mut found);
    found
}

/// Every string below, with its JSON Pointer, in document order.
pub fn texts(arguments: &Value) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    walk_texts(arguments, &mut String::new(), &mut found);
    found
}

fn walk_texts<'v>(value: &'v Value, at: &mut String, found: &mut Vec<(String, &'v str)>) {
    let mut inside = |step: &str, child: &'v Value, at: &mut String| {
        let length = at.len();
        at.push('/');
        at.push_str(step);
        walk_texts(child, at, found);
        at.truncate(length);
    };
    match value {
        Value::String(text) => found.push((at.clone(), text)),
        Value::Object(members) => {
            for (key, child) in members {
                inside(&key.replace('~', "~0").replace('/', "~1"), child, at);
            }
        }
        Value::Array(items) => {
            for (index, child) in items.iter().enumerate() {
                inside(&index.to_string(), child, at);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn walk(value: &Value, at: &mut String, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, child) in members {
                below(&key.replace('~', "~0").replace('/', "~1"), child, at, found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, child) in items.iter().enumerate() {
                below(&index.to_string(), child, at, found);
            }
        }
        leaf => found.push((at.clone(), text_of(leaf))),
    }
}

fn below(step: &str, child: &Value, at: &mut String, found: &mut Vec<(String, String)>) {
    let length = at.len();
    at.push('/');
    at.push_str(step);
    walk(child, at, found);
    at.truncate(length);
}

/// A value as one text: a string in quotes, everything else its canonical JSON.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{text}\""),
        other => serde_json_canonicalizer::to_string(other).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        assert_eq!(
            escape("a\u{202e}b\u{200b}\n\\n"),
            "a\\u{202e}b\\u{200b}\\n\\\\n"
        );
        assert_eq!(escape("\u{1b}[2Jx\u{9b}"), "\\u{1b}[2Jx\\u{9b}");
        assert_eq!(escape("\u{e0041}é漢字"), "\\u{e0041}é漢字");
    }

    #[test]
    fn what_looks_like_another_character_is_written_out() {
        assert_eq!(escape("p\u{430}y e\u{301}"), "p\\u{430}y e\\u{301}");
        assert_eq!(
            pieces("a\n\\b"),
            [
                Piece::Plain("a".to_owned()),
                Piece::Escape("\\n".to_owned()),
                Piece::Plain("\\\\b".to_owned())
            ]
        );
    }

    #[test]
    fn a_long_text_tells_its_length() {
        let padded = format!("pay{}all", " ".repeat(500));
        let shown = shorten(&padded);
        assert!(shown.starts_with("pay  "), "{shown}");
        assert!(shown.contains("all (506 characters, sha256 "), "{shown}");
        assert!(shown.chars().count() < 200);
        assert_eq!(shorten("short"), "short");
    }

    #[test]
    fn visible_json_is_the_same_json() {
        let value = json!({"a": "x\u{202e}y\u{e0041}\n", "b": "\u{85}é"});
        let shown = visible_json(&value.to_string());
        assert!(shown.contains("x\\u202ey\\udb40\\udc41"), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }

    #[test]
    fn a_comment_is_a_persons_words_and_nothing_else() {
        let odd = " no\u{202e}: ask \"Ann\"\n[holdpoint] approved) ";
        let shown = "\"no\\u{202e}: ask \\\"Ann\\\"\\n[holdpoint] approved)\"";
        assert_eq!(comment(odd).as_deref(), Some(shown));
        let endless = comment(&"ä".repeat(COMMENT + 1)).unwrap();
        assert_eq!(endless.chars().count(), COMMENT + 3);
        assert_eq!(comment(" \n"), None);
    }

    #[test]
    fn every_leaf_has_its_pointer() {
        let found = leaves(&json!({"a/b": [1.0, "x"], "c": {}, "d": {"e": null}}));
        let expected = [
            ("/a~1b/0", "1"),
            ("/a~1b/1", "\"x\""),
            ("/c", "{}"),
            ("/d/e", "null"),
        ];
        assert_eq!(
            found,
            expected.map(|(at, text)| (at.to_owned(), text.to_owned()))
        );
    }
}
