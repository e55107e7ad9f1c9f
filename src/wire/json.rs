//! Strict JSON with positions: one reader for every body and for JSON inside strings.
//!
//! Refused: duplicate keys, lone surrogates, NaN and infinities, a byte order mark, invalid UTF-8, bytes after the value,
//! nesting beyond a limit. Every value keeps its byte range, so that an edit is spliced into the original bytes and the rest
//! is forwarded as it came.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use jiter::{Jiter, JiterError, Peek};
use serde_json::{Map, Number, Value};

use crate::unicode::is_ignorable;

/// Deepest nesting in a body.
pub const BODY_DEPTH: usize = 256;

/// Largest integer that every JSON reader keeps exactly (RFC 8259 section 6): 2^53 − 1.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Why bytes are not strict JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at line {line} column {column}")]
pub struct JsonError {
    /// What is wrong.
    pub what: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1.
    pub column: usize,
    /// Whether the value is strict JSON up to the limit of nesting.
    pub too_deep: bool,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its bytes in the document, quotes and brackets included.
    pub span: Range<usize>,
    /// What it is.
    pub kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number; its text is in the document's bytes.
    Number,
    /// A string, decoded.
    String(Box<str>),
    /// An array.
    Array(Vec<Node>),
    /// An object in source order; keys are unique.
    Object(Vec<Member>),
}

/// One member of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Key, decoded.
    pub key: Box<str>,
    /// The key's bytes, quotes included.
    pub key_span: Range<usize>,
    /// Value.
    pub value: Node,
}

impl Node {
    /// The member's value, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.members()
            .iter()
            .find(|member| &*member.key == key)
            .map(|member| &member.value)
    }

    /// The decoded text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            Kind::String(text) => Some(text),
            _ => None,
        }
    }

    /// The elements; empty if this is no array.
    pub fn elements(&self) -> &[Self] {
        match &self.kind {
            Kind::Array(elements) => elements,
            _ => &[],
        }
    }

    /// The members; empty if this is no object.
    pub fn members(&self) -> &[Member] {
        match &self.kind {
            Kind::Object(members) => members,
            _ => &[],
        }
    }

    /// Whether this is `null`.
    pub const fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }
}

/// Bytes and the tree over them.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    bytes: Bytes,
    root: Node,
}

impl Document {
    /// Reads one JSON value that fills `bytes`.
    ///
    /// # Errors
    /// The first thing that is not strict JSON, with its position.
    pub fn read(bytes: Bytes, depth: usize) -> Result<Self, JsonError> {
        let mut reader = Reader {
            jiter: Jiter::new(&bytes),
            bytes: &bytes,
        };
        let peek = reader.jiter.peek().map_err(|e| reader.error(&e))?;
        let root = reader.value(peek, depth)?;
        reader.jiter.finish().map_err(|e| reader.error(&e))?;
        Ok(Self { bytes, root })
    }

    /// The bytes as they came.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The whole value.
    pub const fn root(&self) -> &Node {
        &self.root
    }

    /// The bytes of one value.
    pub fn raw(&self, node: &Node) -> Bytes {
        self.bytes.slice(node.span.clone())
    }

    /// The value as a tree of `serde_json`, and whether every integer in it is exact in every reader
    /// (within ±[`MAX_SAFE_INTEGER`]).
    ///
    /// # Errors
    /// A number that no double can hold, such as `1e400`.
    pub fn value(&self, node: &Node) -> Result<(Value, bool), JsonError> {
        let mut exact = true;
        let value = self.convert(node, &mut exact)?;
        Ok((value, exact))
    }

    fn convert(&self, node: &Node, exact: &mut bool) -> Result<Value, JsonError> {
        Ok(match &node.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::String(text) => Value::String(text.to_string()),
            Kind::Number => {
                let text = self.bytes.get(node.span.clone()).unwrap_or_default();
                let number = number(text).ok_or_else(|| {
                    position(
                        &self.bytes,
                        node.span.start,
                        "number out of range".to_owned(),
                    )
                })?;
                *exact &= is_exact(&number, text);
                Value::Number(number)
            }
            Kind::Array(elements) => Value::Array(
                elements
                    .iter()
                    .map(|element| self.convert(element, exact))
                    .collect::<Result<_, _>>()?,
            ),
            Kind::Object(members) => {
                let mut map = Map::with_capacity(members.len());
                for member in members {
                    map.insert(member.key.to_string(), self.convert(&member.value, exact)?);
                }
                Value::Object(map)
            }
        })
    }
}

fn number(text: &[u8]) -> Option<Number> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn is_exact(number: &Number, text: &[u8]) -> bool {
    let integer = !text.iter().any(|b| matches!(b, b'.' | b'e' | b'E'));
    if !integer {
        return true;
    }
    number
        .as_i64()
        .is_some_and(|n| n.unsigned_abs() <= MAX_SAFE_INTEGER)
}

fn position(bytes: &[u8], index: usize, what: String) -> JsonError {
    let before = bytes.get(..index.min(bytes.len())).unwrap_or_default();
    let line = before.split(|b| *b == b'\n').count();
    let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
    JsonError {
        what,
        line,
        column,
        too_deep: false,
    }
}

struct Reader<'j> {
    jiter: Jiter<'j>,
    bytes: &'j [u8],
}

impl Reader<'_> {
    fn error(&self, error: &JiterError) -> JsonError {
        position(self.bytes, error.index, error.error_type.to_string())
    }

    fn error_at(&self, index: usize, what: impl fmt::Display) -> JsonError {
        position(self.bytes, index, what.to_string())
    }

    fn value(&mut self, peek: Peek, depth: usize) -> Result<Node, JsonError> {
        let start = self.jiter.current_index();
        let kind = match peek {
            Peek::Null => {
                self.jiter.known_null().map_err(|e| self.error(&e))?;
                Kind::Null
            }
            Peek::True | Peek::False => {
                Kind::Bool(self.jiter.known_bool(peek).map_err(|e| self.error(&e))?)
            }
            Peek::String => Kind::String(match self.jiter.known_str() {
                Ok(text) => text.into(),
                Err(error) => return Err(self.error(&error)),
            }),
            Peek::Array => self.array(start, depth)?,
            Peek::Object => self.object(start, depth)?,
            _ => {
                match self.jiter.known_number_bytes(peek) {
                    Ok(_) => {}
                    Err(error) => return Err(self.error(&error)),
                }
                Kind::Number
            }
        };
        Ok(Node {
            span: start..self.jiter.current_index(),
            kind,
        })
    }

    fn deeper(&self, at: usize, depth: usize) -> Result<usize, JsonError> {
        depth.checked_sub(1).ok_or_else(|| JsonError {
            too_deep: true,
            ..self.error_at(at, "nested too deep")
        })
    }

    fn array(&mut self, start: usize, depth: usize) -> Result<Kind, JsonError> {
        let depth = self.deeper(start, depth)?;
        let mut elements = Vec::new();
        let mut next = self.jiter.known_array().map_err(|e| self.error(&e))?;
        while let Some(peek) = next {
            elements.push(self.value(peek, depth)?);
            next = self.jiter.array_step().map_err(|e| self.error(&e))?;
        }
        Ok(Kind::Array(elements))
    }

    fn object(&mut self, start: usize, depth: usize) -> Result<Kind, JsonError> {
        let depth = self.deeper(start, depth)?;
        let mut members: Vec<Member> = Vec::new();
        let mut seen = HashSet::new();
        let mut key_end = start + 1;
        let mut key = match self.jiter.known_object() {
            Ok(key) => key.map(Box::<str>::from),
            Err(error) => return Err(self.error(&error)),
        };
        while let Some(name) = key {
            let key_start = self.key_start(key_end);
            let key_span = key_start..self.key_stop(key_start);
            if is_duplicate(&members, &mut seen, &name) {
                // The key is not echoed: it may be a secret or an attack.
                return Err(self.error_at(key_start, "duplicate key"));
            }
            let peek = self.jiter.peek().map_err(|e| self.error(&e))?;
            let value = self.value(peek, depth)?;
            key_end = value.span.end;
            members.push(Member {
                key: name,
                key_span,
                value,
            });
            key = match self.jiter.next_key() {
                Ok(key) => key.map(Box::<str>::from),
                Err(error) => return Err(self.error(&error)),
            };
        }
        Ok(Kind::Object(members))
    }

    /// First byte of the key's opening quote: white space and a comma may stand before it.
    fn key_start(&self, from: usize) -> usize {
        let rest = self.bytes.get(from..).unwrap_or_default();
        from + rest.iter().position(|b| *b == b'"').unwrap_or(0)
    }

    /// One past the key's closing quote; the reader has already checked the string.
    fn key_stop(&self, start: usize) -> usize {
        let mut escaped = false;
        let rest = self.bytes.get(start + 1..).unwrap_or_default();
        let length = rest.iter().position(|b| {
            let closes = *b == b'"' && !escaped;
            escaped = *b == b'\\' && !escaped;
            closes
        });
        start + 2 + length.unwrap_or(0)
    }
}

/// What a reader that ignores case, NULs and invisible characters makes of a name.
pub fn folded(name: &str) -> String {
    name.chars()
        .filter(|c| !c.is_control() && !is_ignorable(*c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

/// Up to a few members a walk is faster than a set.
const FEW: usize = 12;

fn is_duplicate(members: &[Member], seen: &mut HashSet<Box<str>>, key: &str) -> bool {
    if members.len() < FEW {
        return members.iter().any(|member| &*member.key == key);
    }
    if seen.is_empty() {
        seen.extend(members.iter().map(|member| member.key.clone()));
    }
    !seen.insert(key.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Document, JsonError> {
        Document::read(Bytes::copy_from_slice(text.as_bytes()), 8)
    }

    #[test]
    fn every_value_knows_its_bytes() {
        let text = r#" {"a": [1, "x\n", {"b\"": null}] , "n":12345678901234567890123 }"#;
        let document = read(text).unwrap();
        let root = document.root();
        let a = root.get("a").unwrap();
        assert_eq!(&document.raw(a)[..], br#"[1, "x\n", {"b\"": null}]"#);
        assert_eq!(a.elements()[1].as_str(), Some("x\n"));
        let member = &a.elements()[2].members()[0];
        assert_eq!(&document.bytes()[member.key_span.clone()], br#""b\"""#);
        let n = root.get("n").unwrap();
        assert_eq!(&document.raw(n)[..], b"12345678901234567890123");
        let (_, exact) = document.value(n).unwrap();
        assert!(!exact);
    }

    #[test]
    fn what_other_readers_let_through_is_refused() {
        for bad in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#""\ud800""#,
            "NaN",
            "[1e]",
            "\u{feff}{}",
            "{} {}",
            "[1,]",
            "// c\n1",
            "[[[[[[[[[]]]]]]]]]",
            "",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(Document::read(Bytes::from_static(b"\"\xff\""), 8).is_err());
        let many: Vec<_> = (0..40).map(|i| format!("\"k{}\":0", i % 39)).collect();
        let error = read(&format!("{{{}}}", many.join(","))).unwrap_err();
        assert_eq!(error.what, "duplicate key");
    }

    #[test]
    fn an_error_names_line_and_column() {
        let error = read("{\n  \"a\": x\n}").unwrap_err();
        assert_eq!((error.line, error.column), (2, 8));
    }
}
