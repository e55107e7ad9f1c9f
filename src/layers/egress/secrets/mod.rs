//! Secrets in what leaves: credentials by their shape and proof, registered secrets by salted hashes, values that are private
//! for a session, card numbers and paths of credential files.
//!
//! One automaton looks for the marks and anchors of all kinds, and only where one stands its reader looks closer. Ids are no
//! secrets: a UUID, a hash or an order number has no mark, and nothing is told by its randomness alone. What only stands for a
//! secret (`sk-xxxx`, `<token>`, `AKIA…EXAMPLE`) is none. Pure: nothing here knows a policy or a session.

mod body;
mod cards;
mod check;
mod files;
mod formed;
mod forms;
mod judge;
mod kind;
mod marked;
mod private;
mod registered;
mod text;

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use http::{HeaderMap, HeaderName, header};
pub(super) use judge::Secrets;
pub use kind::{Class, Kind};
pub use private::PrivateValues;
pub use registered::{LONGEST, Register, Registered, SHORTEST, Unregistered};
use serde_json::Value;
pub(super) use text::entropy;

use self::formed::{FORMED, FORMED_LOWER};
use self::marked::MARKED;
use crate::policy::Selector;

/// How often a text is read in another form that stands in one: base64 within JSON within a string.
const NESTED: usize = 3;

/// Most strings of an array that are also read as one.
const MOST_JOINED: usize = 256;

static ANCHORS: LazyLock<Option<Anchors>> = LazyLock::new(Anchors::new);

/// Finds where a reader has to look closer.
struct Anchors {
    /// Marks, then forms.
    cased: AhoCorasick,
    lower: AhoCorasick,
}

impl Anchors {
    fn new() -> Option<Self> {
        let marks = MARKED.iter().map(|marked| marked.mark);
        let forms = FORMED.iter().map(|(anchor, _)| *anchor);
        Some(Self {
            cased: AhoCorasick::new(marks.chain(forms)).ok()?,
            lower: AhoCorasickBuilder::new()
                .ascii_case_insensitive(true)
                .build(FORMED_LOWER.iter().map(|(anchor, _)| *anchor))
                .ok()?,
        })
    }

    /// The first credential.
    fn find(&self, text: &str) -> Option<Kind> {
        let cased = self.cased.find_overlapping_iter(text).find_map(|found| {
            let (index, start, end) = (found.pattern().as_usize(), found.start(), found.end());
            if let Some(marked) = MARKED.get(index) {
                return marked.read(text, start, end).map(|_| marked.kind);
            }
            let (_, read) = FORMED.get(index.checked_sub(MARKED.len())?)?;
            read(text, start, end).map(|(kind, _)| kind)
        });
        cased.or_else(|| {
            self.lower.find_overlapping_iter(text).find_map(|found| {
                let (_, read) = FORMED_LOWER.get(found.pattern().as_usize())?;
                read(text, found.start(), found.end()).map(|(kind, _)| kind)
            })
        })
    }
}

/// The first credential in a text as it stands, in no other form.
pub fn credential(text: &str) -> Option<Kind> {
    ANCHORS.as_ref().and_then(|anchors| anchors.find(text))
}

/// Whether the readers of credentials could be made.
pub(super) fn is_ready() -> bool {
    ANCHORS.is_some()
}

/// Looks for secrets of some classes.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    /// Which.
    pub classes: BTreeSet<Class>,
    /// What is registered.
    pub register: Arc<Register>,
}

impl Scanner {
    /// The first secret in a text, in any form in which it is looked for. `private`: values of the session.
    pub fn text(&self, text: &str, private: Option<&PrivateValues>) -> Option<Kind> {
        self.nested(text, private, NESTED)
    }

    fn nested(&self, text: &str, private: Option<&PrivateValues>, left: usize) -> Option<Kind> {
        let found = self.plain(text, private);
        if found.is_some() || left == 0 {
            return found;
        }
        let mut found = None;
        forms::forms(text, &mut |form| {
            if found.is_none() {
                found = self.nested(form, private, left - 1);
            }
        });
        found
    }

    fn plain(&self, text: &str, private: Option<&PrivateValues>) -> Option<Kind> {
        let on = |class| self.classes.contains(&class);
        if on(Class::Registered) && self.register.is_in(text.as_bytes()) {
            return Some(Kind::Registered);
        }
        if private.is_some_and(|private| private.is_in(text)) {
            return Some(Kind::Private);
        }
        let mut found = on(Class::Credentials).then(|| credential(text)).flatten();
        if found.is_none() && on(Class::Cards) {
            cards::cards(text, &mut |_| found = Some(Kind::Card));
        }
        if found.is_none() && on(Class::CredentialFiles) {
            files::files(text, &mut |_| found = Some(Kind::CredentialFile));
        }
        found
    }

    /// Secrets in the arguments of a call: texts, keys, numbers, and texts that an array holds piece by piece. What stands at or
    /// below `except` is left out. Tells the JSON Pointer; ends where `tell` says so.
    pub fn value(
        &self,
        args: &Value,
        except: &[Selector],
        private: Option<&PrivateValues>,
        mut tell: impl FnMut(&str, Kind),
    ) {
        let mut left_out = HashSet::new();
        for selector in except {
            selector.each_below(args, |_, value| {
                left_out.insert(std::ptr::from_ref(value));
            });
        }
        Selector::everything().each_below(args, |at, value| {
            if left_out.contains(&std::ptr::from_ref(value)) {
                return;
            }
            let found = match value {
                Value::String(text) => self.text(text, private),
                Value::Number(number) => self.plain(&number.to_string(), private),
                Value::Object(members) => members.keys().find_map(|key| self.text(key, private)),
                Value::Array(elements) => {
                    pieces(elements).and_then(|joined| self.plain(&joined, private))
                }
                Value::Null | Value::Bool(_) => None,
            };
            if let Some(kind) = found {
                tell(&at.pointer, kind);
            }
        });
    }

    /// The first secret in the header fields of a request. Credentials are at home in some: there only what is registered is
    /// looked for.
    pub fn headers(
        &self,
        headers: &HeaderMap,
        private: Option<&PrivateValues>,
    ) -> Option<(HeaderName, Kind)> {
        headers.iter().find_map(|(name, value)| {
            let text = String::from_utf8_lossy(value.as_bytes());
            let found = self.text(&text, private)?;
            let at_home = HOMES.contains(name) && found.class() == Class::Credentials;
            let kind = if at_home {
                self.only(&[Class::Registered]).text(&text, None)?
            } else {
                found
            };
            Some((name.clone(), kind))
        })
    }

    fn only(&self, classes: &[Class]) -> Self {
        let own = self.classes.iter().copied();
        let classes = own.filter(|class| classes.contains(class));
        Self {
            classes: classes.collect(),
            register: Arc::clone(&self.register),
        }
    }
}

/// Fields in which a client says who it is.
const HOMES: [HeaderName; 6] = [
    HeaderName::from_static("mcp-session-id"),
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::COOKIE,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
];

/// The texts of an array one behind the other: a key that is sent in pieces.
fn pieces(elements: &[Value]) -> Option<String> {
    let texts: Vec<&str> = elements
        .iter()
        .take(MOST_JOINED)
        .filter_map(Value::as_str)
        .collect();
    (texts.len() > 1).then(|| texts.concat())
}

#[cfg(test)]
mod tests;
