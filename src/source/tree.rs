//! A document whose every key and value knows its bytes.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Number, Value};

use super::{SourceFile, Spot};

/// A document.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The file it came from.
    pub file: Arc<SourceFile>,
    /// Its only value.
    pub root: Node,
}

/// A value.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it stands. An empty value stands at its key.
    pub spot: Spot,
    /// What it is.
    pub kind: Kind,
}

/// What a value is. Types are as written: `123` is a number and `"123"` is text.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false` (not `yes`, `on`: these are text).
    Bool(bool),
    /// Decimal, hexadecimal `0x`, octal `0o`, or a decimal fraction.
    Number(Number),
    /// Text.
    Text(String),
    /// Text whose type is up to who reads it: from the environment or the command line.
    Loose(String),
    /// A list.
    List(Vec<Node>),
    /// A map in file order, each key once.
    Map(Vec<Entry>),
}

/// One entry of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_spot: Spot,
    /// Its value.
    pub value: Node,
}

/// Places do not count.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Kind {
    /// For messages: "must be text, not a number".
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Null => "empty",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) | Self::Loose(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl Tree {
    /// The value at a path as [`super::Field::path`] gives it, such as `tools[2].ticket.ttl`.
    pub fn at(&self, path: &str) -> Option<&Node> {
        let steps = path.split(['.', '[']).filter(|step| !step.is_empty());
        let mut node = &self.root;
        for step in steps {
            node = match (&node.kind, step.strip_suffix(']')) {
                (Kind::List(items), Some(index)) => items.get(index.parse::<usize>().ok()?)?,
                _ => node.get(step)?,
            };
        }
        Some(node)
    }

    /// The same with stars in the shown text for every single value that `is_secret` by its key: whatever problem points at
    /// such a line later, the value is not shown. The values themselves stay.
    #[must_use]
    pub fn masked(mut self, is_secret: &dyn Fn(&str, &str) -> bool) -> Self {
        let mut text = self.file.text.clone();
        self.root.mask("", is_secret, &mut text);
        self.file = Arc::new(SourceFile {
            path: self.file.path.clone(),
            text,
        });
        self.root.refile(&self.file);
        self
    }
}

impl Node {
    fn mask(&self, key: &str, is_secret: &dyn Fn(&str, &str) -> bool, text: &mut String) {
        match &self.kind {
            Kind::List(items) => items
                .iter()
                .for_each(|item| item.mask(key, is_secret, text)),
            Kind::Map(entries) => entries
                .iter()
                .for_each(|entry| entry.value.mask(&entry.key, is_secret, text)),
            Kind::Null => {}
            _ => {
                if is_secret(key, self.as_text().unwrap_or_else(|| self.source())) {
                    let stars = |c: char| {
                        if c == '\n' {
                            c.into()
                        } else {
                            "*".repeat(c.len_utf8())
                        }
                    };
                    let stars: String = self.source().chars().map(stars).collect();
                    text.replace_range(self.bytes(), &stars);
                }
            }
        }
    }

    fn refile(&mut self, file: &Arc<SourceFile>) {
        self.spot.0 = Arc::clone(file);
        match &mut self.kind {
            Kind::List(items) => items.iter_mut().for_each(|item| item.refile(file)),
            Kind::Map(entries) => {
                for entry in entries {
                    entry.key_spot.0 = Arc::clone(file);
                    entry.value.refile(file);
                }
            }
            _ => {}
        }
    }

    /// The text of the value as it stands in the file, quotes included.
    pub fn source(&self) -> &str {
        let (file, bytes) = &self.spot;
        file.text.get(bytes.clone()).unwrap_or_default()
    }

    /// The bytes.
    pub fn bytes(&self) -> Range<usize> {
        self.spot.1.clone()
    }

    /// The value under a key of a map.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|e| e.key == key).map(|e| &e.value),
            _ => None,
        }
    }

    /// The text, if the value is text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) | Kind::Loose(text) => Some(text),
            _ => None,
        }
    }

    /// The same as JSON, order kept.
    pub fn json(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Number(number) => Value::Number(number.clone()),
            Kind::Text(text) | Kind::Loose(text) => Value::String(text.clone()),
            Kind::List(items) => items.iter().map(Self::json).collect(),
            Kind::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}
