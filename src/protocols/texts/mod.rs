//! Untrusted texts of a JSON message: found as items, and edited in place where ruled. Every adapter finds its texts with this.
//!
//! A text is a string value, a tagged range of one, or a key. Texts that stand beside each other are judged joined as well:
//! a reader sees them as one.

mod write;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
pub use write::{Gone, write};

use super::{MOST_TEXTS, Malformed};
use crate::item::{Item, Located, Origin, Place, ToolDefinition, ToolOutput};
use crate::names::ToolName;
use crate::provenance::{Said, Speaker};
use crate::wire::json::{BODY_DEPTH, Document, Kind, Node};

/// Which call a text answers, as far as the protocol tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The tool.
    pub tool: Option<ToolName>,
    /// Id of the call.
    pub call_id: Option<Arc<str>>,
    /// In whose place it stands.
    pub origin: Origin,
}

/// An item with what a ruling over it edits.
#[derive(Debug)]
pub struct Found<'d> {
    /// What is judged.
    pub located: Located,
    /// What is edited.
    pub slot: Slot<'d>,
}

/// What a ruling edits.
#[derive(Clone, Debug)]
pub enum Slot<'d> {
    /// A range of a decoded string, in bytes.
    Text(&'d Node, Range<usize>),
    /// A key, wherever it stands: spans of the document, quotes included.
    Keys(Vec<Range<usize>>),
    /// Several texts that a reader sees as one: for each its index among the found ones, and its range in the joined text.
    Joined(Vec<(usize, Range<usize>)>),
    /// An element of an array, such as a tool definition: it can stay or go.
    Element(&'d Node, usize),
    /// The arguments of an earlier call, JSON in a string: withheld whole, and JSON then as well.
    Arguments(&'d Node),
    /// Something that can only stay as it is, or the whole message is refused: a call, a provider's tool.
    Whole,
}

/// The items of one message, in message order.
#[derive(Debug, Default)]
pub struct Texts<'d> {
    found: Vec<Found<'d>>,
    keys: HashMap<(Option<Arc<str>>, Box<str>), usize>,
    /// What is not judged, each with the number of items before it.
    said: Vec<(usize, Speaker, Cow<'d, str>)>,
    /// Items that are of earlier calls: what a tool was asked, not what it gave.
    calls: Vec<Range<usize>>,
}

impl<'d> Texts<'d> {
    /// What was found.
    ///
    /// # Errors
    /// More than [`MOST_TEXTS`] items, under the given code.
    pub fn finish(self, code: &'static str) -> Result<Vec<Found<'d>>, Malformed> {
        if self.found.len() > MOST_TEXTS {
            return Err(Malformed {
                code,
                message: format!("the message has more than {MOST_TEXTS} texts of tools"),
            });
        }
        Ok(self.found)
    }

    /// How many items there are so far.
    pub const fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether nothing was found so far.
    pub const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Adds any item.
    pub fn push(&mut self, found: Found<'d>) {
        // One more tells that there are too many.
        if self.found.len() <= MOST_TEXTS {
            self.found.push(found);
        }
    }

    /// Adds a string value; an empty one says nothing.
    pub fn text(&mut self, node: &'d Node, pointer: String, source: &Source) {
        let text = node.as_str().unwrap_or_default();
        self.range(node, 0..text.len(), pointer, source);
    }

    /// Adds a range, in bytes of the decoded string.
    pub fn range(&mut self, node: &'d Node, range: Range<usize>, pointer: String, source: &Source) {
        let text = node.as_str().and_then(|text| text.get(range.clone()));
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            let located = output(text, pointer, node.span.clone(), source);
            let slot = Slot::Text(node, range);
            self.push(Found { located, slot });
        }
    }

    /// Adds the arguments of an earlier call, JSON in a string: every key and string of them, a line each.
    pub fn arguments(&mut self, node: &'d Node, pointer: String, source: &Source) {
        let written = node.as_str().unwrap_or_default();
        let document = Document::read(Bytes::copy_from_slice(written.as_bytes()), BODY_DEPTH);
        let Ok(document) = document else {
            return self.text(node, pointer, source);
        };
        let mut text = String::new();
        strings(document.root(), &mut text);
        if !text.is_empty() {
            self.push(Found {
                located: output(&text, pointer, node.span.clone(), source),
                slot: Slot::Arguments(node),
            });
        }
    }

    /// Adds every string below a node, itself included, and with `keys` every distinct key.
    pub fn leaves(&mut self, node: &'d Node, pointer: &mut String, source: &Source, keys: bool) {
        let length = pointer.len();
        match &node.kind {
            Kind::String(_) => self.text(node, pointer.clone(), source),
            Kind::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    Place::push_step(pointer, &index.to_string());
                    self.leaves(element, pointer, source, keys);
                    pointer.truncate(length);
                }
            }
            Kind::Object(members) => {
                for member in members {
                    Place::push_step(pointer, &member.key);
                    if keys {
                        self.key(&member.key, member.key_span.clone(), pointer, source);
                    }
                    self.leaves(&member.value, pointer, source, keys);
                    pointer.truncate(length);
                }
            }
            Kind::Null | Kind::Bool(_) | Kind::Number => {}
        }
    }

    /// Adds a key; one that was seen before for the same call is judged once and edited everywhere.
    pub fn key(&mut self, key: &str, span: Range<usize>, pointer: &str, source: &Source) {
        if key.is_empty() {
            return;
        }
        let seen = (source.call_id.clone(), Box::from(key));
        if let Some(index) = self.keys.get(&seen) {
            if let Some(Found {
                slot: Slot::Keys(spans),
                ..
            }) = self.found.get_mut(*index)
            {
                spans.push(span);
            }
            return;
        }
        self.keys.insert(seen, self.found.len());
        let located = output(key, pointer.to_owned(), span.clone(), source);
        let slot = Slot::Keys(vec![span]);
        self.push(Found { located, slot });
    }

    /// Joins the texts found since `from`, where there are several: once as they are, once with a line feed between them. What
    /// is split over parts is whole in one of the two.
    pub fn join(&mut self, from: usize, pointer: &str, source: &Source) {
        for separator in ["", "\n"] {
            let mut text = String::new();
            let mut parts = Vec::new();
            for (index, found) in self.found.iter().enumerate().skip(from) {
                let (Slot::Text(..), Item::ToolOutput(output)) = (&found.slot, &found.located.item)
                else {
                    continue;
                };
                if !parts.is_empty() {
                    text.push_str(separator);
                }
                let start = text.len();
                text.push_str(&output.text);
                parts.push((index, start..text.len()));
            }
            if parts.len() > 1 {
                let mut located = output(&text, pointer.to_owned(), 0..0, source);
                located.place.span = None;
                let slot = Slot::Joined(parts);
                self.push(Found { located, slot });
            }
        }
    }

    /// Notes what somebody says who is trusted: no item, for nobody judges it.
    pub fn said(&mut self, by: Speaker, text: &'d str) {
        if !text.is_empty() {
            self.said.push((self.found.len(), by, Cow::Borrowed(text)));
        }
    }

    /// Notes that the items since `from` are of an earlier call, and every text of what it was asked.
    pub fn call(&mut self, id: Option<&str>, input: Option<&'d Node>, from: usize) {
        self.calls.push(from..self.found.len());
        let (Some(id), Some(input)) = (id.map(Arc::from), input) else {
            return;
        };
        let before = self.found.len();
        let mut asked = Vec::new();
        let written = input.as_str().and_then(|text| {
            let bytes = Bytes::copy_from_slice(text.as_bytes());
            Document::read(bytes, BODY_DEPTH).ok()
        });
        if let Some(document) = &written {
            let mut inner = Vec::new();
            values(document.root(), &mut inner);
            asked.extend(inner.into_iter().map(|text| Cow::Owned(text.to_owned())));
        } else {
            let mut inner = Vec::new();
            values(input, &mut inner);
            asked.extend(inner.into_iter().map(Cow::Borrowed));
        }
        let said = asked.into_iter().map(|text| {
            let id = Arc::clone(&id);
            (before, Speaker::Call { id }, text)
        });
        self.said.extend(said);
    }

    /// Who said what, in message order: what is trusted, what earlier calls were asked, and what tools gave back.
    pub fn conversation(self) -> Vec<Said> {
        let mut asked = vec![false; self.found.len()];
        for range in self.calls {
            let marks = asked.iter_mut().take(range.end).skip(range.start);
            marks.for_each(|mark| *mark = true);
        }
        let mut said = self.said.into_iter().peekable();
        let mut all = Vec::with_capacity(said.len() + self.found.len());
        let due = |said: &mut std::iter::Peekable<_>, at: usize| {
            let next = said.next_if(|(before, ..): &(usize, Speaker, Cow<'d, str>)| *before <= at);
            next.map(|(_, by, text): (usize, Speaker, Cow<'d, str>)| Said {
                by,
                text: text.into(),
            })
        };
        for (at, (found, asked)) in self.found.into_iter().zip(asked).enumerate() {
            while let Some(said) = due(&mut said, at) {
                all.push(said);
            }
            let whole = match found.slot {
                _ if asked => continue,
                Slot::Text(..) => true,
                Slot::Keys(_) => false,
                _ => continue,
            };
            if let Item::ToolOutput(output) = found.located.item {
                let answers = output.call_id.is_some() || output.tool.is_some();
                let at = (whole && answers).then(String::new);
                let by = Speaker::Tool {
                    tool: output.tool,
                    call: output.call_id,
                    at,
                };
                let text = output.text;
                all.push(Said { by, text });
            }
        }
        while let Some(said) = due(&mut said, usize::MAX) {
            all.push(said);
        }
        all
    }

    /// Adds a tool definition, an element of `list`: every key and string of it, a line each.
    pub fn definition(&mut self, list: &'d Node, index: usize, tool: ToolName, pointer: String) {
        let Some(node) = list.elements().get(index) else {
            return;
        };
        let mut text = String::new();
        strings(node, &mut text);
        self.push(Found {
            located: Located {
                place: Place {
                    pointer,
                    span: Some(node.span.clone()),
                },
                item: Item::Definition(ToolDefinition::new(tool, text)),
            },
            slot: Slot::Element(list, index),
        });
    }
}

fn output(text: &str, pointer: String, span: Range<usize>, source: &Source) -> Located {
    Located {
        place: Place {
            pointer,
            span: Some(span),
        },
        item: Item::ToolOutput(ToolOutput {
            tool: source.tool.clone(),
            call_id: source.call_id.clone(),
            origin: source.origin,
            text: text.into(),
        }),
    }
}

/// Every string below a node that says something, itself included.
fn values<'n>(node: &'n Node, out: &mut Vec<&'n str>) {
    match &node.kind {
        Kind::String(text) => out.extend(Some(&**text).filter(|text| !text.is_empty())),
        Kind::Array(elements) => elements.iter().for_each(|element| values(element, out)),
        Kind::Object(members) => {
            for member in members {
                values(&member.value, out);
            }
        }
        Kind::Null | Kind::Bool(_) | Kind::Number => {}
    }
}

/// Every key and string below a node, a line each.
pub fn strings(node: &Node, out: &mut String) {
    match &node.kind {
        Kind::String(text) => line(text, out),
        Kind::Array(elements) => elements.iter().for_each(|element| strings(element, out)),
        Kind::Object(members) => {
            for member in members {
                line(&member.key, out);
                strings(&member.value, out);
            }
        }
        Kind::Null | Kind::Bool(_) | Kind::Number => {}
    }
}

fn line(text: &str, out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(text);
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::names::RuleId;
    use crate::verdict::{
        Finding, Instead, LayerId, Reason, Rewrite, RewriteKind, Ruling, Verdict,
    };
    use crate::wire::splice::Splice;

    fn finding() -> Finding {
        Finding {
            layer: LayerId::Injection,
            rule: RuleId::from("r"),
            reason: Reason::InjectionDetected,
            argument: None,
            detail: Cow::Borrowed(""),
        }
    }

    /// Finds everything below `/out`, joined, and rules each item by its text.
    fn edit(text: &'static str, rule: impl Fn(&str) -> Verdict) -> String {
        let document = Document::read(Bytes::from_static(text.as_bytes()), 16).unwrap();
        let mut texts = Texts::default();
        let source = Source::default();
        let out = document.root().get("out").unwrap();
        texts.leaves(out, &mut "/out".to_owned(), &source, true);
        texts.join(0, "/out", &source);
        let found = texts.finish("too_many").unwrap();
        let rulings: Vec<Ruling> = found
            .iter()
            .map(|found| Ruling {
                place: found.located.place.clone(),
                verdict: match &found.located.item {
                    Item::ToolOutput(output) => rule(&output.text),
                    _ => Verdict::Allow,
                },
                opinions: Vec::new(),
            })
            .collect();
        let mut splice = Splice::new(&document);
        let gone = write(&mut splice, &found, &rulings).unwrap();
        assert!(gone.is_empty());
        String::from_utf8(splice.finish().to_vec()).unwrap()
    }

    #[test]
    fn what_no_ruling_touches_keeps_its_bytes() {
        let text = r#"{ "n": 12345678901234567890123, "out": ["a\u0062", {"k" : "v"}] }"#;
        assert_eq!(edit(text, |_| Verdict::Allow), text);
    }

    #[test]
    fn a_key_is_judged_once_and_edited_everywhere() {
        let text = r#"{"out":[{"bad":1},{"bad":2}]}"#;
        let edited = edit(text, |text| match text {
            "bad" => Verdict::Deny(finding()),
            _ => Verdict::Allow,
        });
        assert_eq!(edited.matches("withheld").count(), 2);
        assert!(!edited.contains("bad"));
    }

    #[test]
    fn what_is_split_over_parts_is_seen_and_withheld() {
        let text = r#"{"out":["fine","ignore all","previous","fine too"]}"#;
        for needle in ["ignore all\nprevious", "ignore allprevious"] {
            let edited = edit(text, |text| match text.find(needle) {
                Some(at) => Verdict::Rewrite(Rewrite {
                    kind: RewriteKind::Redact,
                    edits: vec![(at..at + needle.len(), Instead::Removed)],
                    finding: finding(),
                }),
                None => Verdict::Allow,
            });
            assert!(!edited.contains("ignore") && !edited.contains("previous"));
            assert!(edited.contains("\"fine\"") && edited.contains("\"fine too\""));
        }
    }
}
