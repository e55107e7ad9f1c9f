//! URLs in the arguments of a call: strings that are URLs, and strings, keys and JSON in strings that are searched for them.

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::Value;

use super::code::{Code, Denied};
use super::field::{names_a_url, whole};
use super::find::find;
use super::rules::Rule;
use super::run::Found;
use super::target::Url;
use crate::policy::{At, Selector};
use crate::wire::json::{Document, Kind, Node};

/// Levels of JSON inside strings that are read.
const NESTED: usize = 3;

/// Nesting of JSON inside a string.
const DEPTH: usize = 64;

const NO_TEXT: Denied = Denied::new(Code::MalformedUrl, "not a text where a URL is expected");

/// How strings are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Reading {
    /// Each is searched for URLs; under a key that says so (`url`, `host`) it is one, and its scheme may be missing.
    #[default]
    ByKey,
    /// Each is searched, whatever its key.
    Search,
    /// Each is one absolute URL, and there are only strings.
    Whole,
}

impl Reading {
    /// Tells of every URL in a value; what is below it is not read. `tell` gets a JSON Pointer.
    pub(super) fn value(self, at: &At<'_>, value: &Value, tell: &mut dyn FnMut(&str, Found)) {
        match value {
            Value::String(text) => self.text(&at.pointer, at.key, text, tell),
            Value::Object(members) => {
                for key in members.keys() {
                    tell_all(&at.pointer, find(key), tell);
                }
            }
            Value::Number(_) | Value::Bool(_) if self == Self::Whole => {
                tell(&at.pointer, Found::refused(0..0, NO_TEXT));
            }
            _ => {}
        }
    }

    /// The same for a string under a key.
    pub(super) fn text(self, at: &str, key: &str, text: &str, tell: &mut dyn FnMut(&str, Found)) {
        if self == Self::Whole {
            let url = Url::read(text);
            let found = Found {
                span: 0..text.len(),
                bare: false,
                url,
            };
            return tell(at, found);
        }
        self.nested(at, key, text, NESTED, tell);
    }

    fn nested(
        self,
        at: &str,
        key: &str,
        text: &str,
        left: usize,
        tell: &mut dyn FnMut(&str, Found),
    ) {
        if left > 0
            && text.trim_start().starts_with(['{', '[', '"'])
            && let Ok(document) = Document::read(Bytes::copy_from_slice(text.as_bytes()), DEPTH)
        {
            return self.node(at, key, document.root(), left - 1, tell);
        }
        if self == Self::ByKey && names_a_url(key) {
            tell_all(at, whole(text), tell);
        } else {
            tell_all(at, find(text), tell);
        }
        // Some reader may take it for JSON or code all the same: look behind its escapes.
        if text.contains("\\/") || text.contains("\\u00") || text.contains("\\x") {
            tell_all(at, find(&unescaped(text)), tell);
        }
    }

    fn node(
        self,
        at: &str,
        key: &str,
        node: &Node,
        left: usize,
        tell: &mut dyn FnMut(&str, Found),
    ) {
        match &node.kind {
            Kind::String(text) => self.nested(at, key, text, left, tell),
            Kind::Array(elements) => {
                for element in elements {
                    self.node(at, key, element, left, tell);
                }
            }
            Kind::Object(members) => {
                for member in members {
                    tell_all(at, find(&member.key), tell);
                    self.node(at, &member.key, &member.value, left, tell);
                }
            }
            Kind::Null | Kind::Bool(_) | Kind::Number => {}
        }
    }
}

fn tell_all(at: &str, found: Vec<Found>, tell: &mut dyn FnMut(&str, Found)) {
    for found in found {
        tell(at, found);
    }
}

/// JSON's and C's escapes for ASCII characters, undone; the rest stays.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let (digits, skip) = match after.bytes().next() {
            Some(b'u') => (after.get(1..5), 5),
            Some(b'x') => (after.get(1..3), 3),
            Some(b'/') => (Some("2f"), 1),
            _ => (None, 0),
        };
        let decoded = digits
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .and_then(char::from_u32);
        plain.push(decoded.unwrap_or('\\'));
        let skip = if decoded.is_some() { skip } else { 0 };
        rest = after.get(skip..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

/// Which arguments are read, and how.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// Each string at or below these is one URL.
    pub whole: Vec<Selector>,
    /// Each string at or below these, as long as it is not among the former, is searched.
    pub search: Vec<Selector>,
    /// A searched string under a key that says so is a URL or a host, and its scheme may be missing.
    pub by_key: bool,
}

/// A URL that a rule does not let pass, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {denied}")]
pub struct Objection {
    /// JSON Pointer in the arguments.
    pub at: String,
    /// Why not.
    pub denied: Denied,
}

/// Judges every URL in a call's arguments.
///
/// # Errors
/// The first that the rule does not let pass, in the order of `fields`.
pub fn arguments(rule: &Rule, args: &Value, fields: &Fields) -> Result<(), Objection> {
    let mut first = None;
    let mut tell = |at: &str, found: Found| {
        if first.is_none()
            && let Err(denied) = judged(rule, &found)
        {
            let at = at.to_owned();
            first = Some(Objection { at, denied });
        }
    };
    let mut wholes = HashSet::new();
    for selector in &fields.whole {
        selector.each_below(args, |at, value| {
            if wholes.insert(std::ptr::from_ref(value)) {
                Reading::Whole.value(at, value, &mut tell);
            }
        });
    }
    let reading = if fields.by_key {
        Reading::ByKey
    } else {
        Reading::Search
    };
    for selector in &fields.search {
        selector.each_below(args, |at, value| {
            if !wholes.contains(&std::ptr::from_ref(value)) {
                reading.value(at, value, &mut tell);
            }
        });
    }
    first.map_or(Ok(()), Err)
}

/// What a rule says of a URL that was found.
pub(super) fn judged(rule: &Rule, found: &Found) -> Result<(), Denied> {
    match &found.url {
        Ok(url) if found.bare => rule.judge_bare(url),
        Ok(url) => rule.judge(url),
        Err(denied) => Err(*denied),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::entry::Entry;
    use super::*;

    #[test]
    fn escapes_are_undone() {
        assert_eq!(
            unescaped(r"\u0068ttps:\/\/a\x2eexample \n \u12 \"),
            r"https://a.example \n \u12 \"
        );
    }

    #[test]
    fn named_places_hold_urls_and_the_rest_is_searched() {
        let mut rule = Rule::new();
        rule.allow(Entry::read("a.example").unwrap());
        let select = |text| vec![Selector::parse(text).unwrap()];
        let fields = Fields {
            whole: select("/links"),
            search: select("/**"),
            by_key: false,
        };
        for args in [
            json!({"links": ["https://a.example/x"], "note": "see https://a.example."}),
            json!({"links": null, "host": "evil.example", "note": "evil.example"}),
            json!({"links": "https://a.example/?next=https://evil.example"}),
        ] {
            assert_eq!(arguments(&rule, &args, &fields), Ok(()), "{args}");
        }
        for (args, at, code) in [
            (
                json!({"links": ["https://a.example", "x"]}),
                "/links/1",
                Code::MalformedUrl,
            ),
            (
                json!({"links": "//a.example"}),
                "/links",
                Code::MalformedUrl,
            ),
            (json!({"links": [7]}), "/links/0", Code::MalformedUrl),
            (
                json!({"a": {"b": "x https://evil.example"}}),
                "/a/b",
                Code::HostNotAllowed,
            ),
            (json!({"https://evil.example": 1}), "", Code::HostNotAllowed),
            (
                json!({"a": "[\"https:\\/\\/evil.example\"]"}),
                "/a",
                Code::HostNotAllowed,
            ),
            (
                json!({"a": "\"\\u0068ttps://evil.example\""}),
                "/a",
                Code::HostNotAllowed,
            ),
            (
                json!({"a": "https%3A%2F%2Fevil.example%2Fx"}),
                "/a",
                Code::HostNotAllowed,
            ),
            (
                json!({"a": "u=https%253A%252F%252Fevil.example"}),
                "/a",
                Code::HostNotAllowed,
            ),
        ] {
            let objection = arguments(&rule, &args, &fields).unwrap_err();
            assert_eq!(
                (objection.at.as_str(), objection.denied.code),
                (at, code),
                "{args}"
            );
        }
        let by_key = Fields {
            by_key: true,
            ..fields
        };
        let args = json!({"host": "evil.example"});
        assert!(arguments(&rule, &args, &by_key).is_err());
    }

    proptest! {
        #[test]
        fn undoing_escapes_never_panics(text in "\\PC{0,40}") {
            unescaped(&text);
        }
    }
}
