//! Every text of a server's message. Whatever its kind, each key and string of it is judged; what the protocol says of a
//! result only adds which tool it is from, which texts stand beside each other, what is binary, and what is a definition.

use std::collections::HashMap;
use std::ops::Range;

use super::super::asked::Question;
use super::super::message::{ENVELOPE, id_text};
use super::coded::{self, Read, Spot};
use crate::item::{Item, Located, Place, ToolOutput};
use crate::names::ToolName;
use crate::protocols::Malformed;
use crate::protocols::strict::{exact_keys, invalid_response};
use crate::protocols::texts::{Found, Slot, Source, Texts};
use crate::wire::json::{Document, Kind, Node};

/// Members of a result that decide how it is read.
const RESULT: [&str; 6] = [
    "content",
    "structuredContent",
    "isError",
    "tools",
    "resultType",
    "cacheScope",
];

/// Members of a tool's definition.
const TOOL: [&str; 6] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
];

/// The request of a server for what a model says to messages.
const SAMPLE: &str = "sampling/createMessage";

/// Text in base64: it can be read, so it is judged as what it says, and as it is written.
#[derive(Debug)]
pub(super) struct Coded<'d> {
    /// Which of the found items.
    pub(super) items: Range<usize>,
    /// The base64.
    pub(super) node: &'d Node,
}

/// A result that a model reads, or a list of tools.
#[derive(Debug)]
pub(super) struct Outcome<'d> {
    /// `result`.
    pub(super) node: &'d Node,
    /// Which message of the document.
    pub(super) message: usize,
    /// Bytes of `structuredContent`.
    pub(super) structured: Option<Range<usize>>,
    /// The found texts of `content`.
    pub(super) content: Range<usize>,
    /// Whether the revision is stateless.
    pub(super) modern: bool,
}

/// What a document holds.
#[derive(Debug, Default)]
pub(super) struct Finder<'d> {
    pub(super) texts: Texts<'d>,
    pub(super) coded: Vec<Coded<'d>>,
    pub(super) outcomes: Vec<Outcome<'d>>,
    /// Bytes of base64 that no text can be made of.
    pub(super) binary: usize,
    /// Which found item a string is, by where it stands.
    at: HashMap<usize, usize>,
}

/// Whether this is a JSON-RPC message of a server.
pub(super) fn is_message(node: &Node) -> bool {
    node.get("jsonrpc").and_then(Node::as_str) == Some("2.0")
        && (node.get("method").is_some() || is_response(node))
}

/// Whether this answers a request.
pub(in crate::protocols::mcp) fn is_response(node: &Node) -> bool {
    node.get("id").is_some()
        && node.get("method").is_none()
        && (node.get("result").is_some() || node.get("error").is_some())
}

impl<'d> Finder<'d> {
    /// Everything below a node that is no JSON-RPC message.
    pub(super) fn plain(&mut self, node: &'d Node) {
        self.leaves(node, Spot::Other, &mut String::new(), &Source::default());
    }

    /// One message. `question`: what it answers, where that is known.
    pub(super) fn message(
        &mut self,
        document: &Document,
        index: usize,
        node: &'d Node,
        question: Option<&Question>,
        pointer: &mut String,
    ) -> Result<(), Malformed> {
        if !is_message(node) {
            return Err(invalid_response("the server sent no JSON-RPC message"));
        }
        exact_keys(node, &ENVELOPE)?;
        let method = node.get("method").and_then(Node::as_str);
        let asked = question.map(|question| {
            let method = || ToolName::from(&*question.method);
            question.tool.clone().unwrap_or_else(method)
        });
        let source = Source {
            tool: asked.or_else(|| method.map(ToolName::from)),
            call_id: node.get("id").and_then(|id| id_text(document, id)),
            ..Source::default()
        };
        let length = pointer.len();
        for member in node.members() {
            Place::push_step(pointer, &member.key);
            match &*member.key {
                "jsonrpc" | "id" => {}
                "result" => self.result(index, &member.value, question, pointer, &source)?,
                "params" if method == Some(SAMPLE) => {
                    self.leaves(&member.value, Spot::Root, pointer, &source);
                }
                key if ENVELOPE.contains(&key) => {
                    self.leaves(&member.value, Spot::Other, pointer, &source);
                }
                key => {
                    self.texts
                        .key(key, member.key_span.clone(), pointer, &source);
                    self.leaves(&member.value, Spot::Other, pointer, &source);
                }
            }
            pointer.truncate(length);
        }
        Ok(())
    }

    fn result(
        &mut self,
        message: usize,
        node: &'d Node,
        question: Option<&Question>,
        pointer: &mut String,
        source: &Source,
    ) -> Result<(), Malformed> {
        exact_keys(node, &RESULT)?;
        let lists = question.is_none_or(|question| &*question.method == "tools/list");
        let modern =
            question.is_some_and(|question| question.modern) || node.get("resultType").is_some();
        let mut outcome = Outcome {
            node,
            message,
            structured: node.get("structuredContent").map(|node| node.span.clone()),
            content: 0..0,
            modern,
        };
        let length = pointer.len();
        if !matches!(node.kind, Kind::Object(_)) {
            self.leaves(node, Spot::Other, pointer, source);
            return Ok(());
        }
        for member in node.members() {
            Place::push_step(pointer, &member.key);
            let before = self.texts.len();
            self.texts
                .key(&member.key, member.key_span.clone(), pointer, source);
            let spot = Spot::Root.member(node, &member.key);
            match &*member.key {
                "tools" if lists && is_list_of_tools(&member.value) => {
                    self.definitions(&member.value, pointer)?;
                }
                "content" => {
                    self.leaves(&member.value, spot, pointer, source);
                    outcome.content = before..self.texts.len();
                }
                _ => self.leaves(&member.value, spot, pointer, source),
            }
            pointer.truncate(length);
        }
        self.outcomes.push(outcome);
        Ok(())
    }

    fn definitions(&mut self, list: &'d Node, pointer: &str) -> Result<(), Malformed> {
        for (index, tool) in list.elements().iter().enumerate() {
            exact_keys(tool, &TOOL)?;
            let name = tool.get("name").and_then(Node::as_str).unwrap_or_default();
            self.texts
                .definition(list, index, name.into(), format!("{pointer}/{index}"));
        }
        Ok(())
    }

    /// Every key and string below a node. Texts of the elements of one array are judged joined as well.
    fn leaves(&mut self, node: &'d Node, spot: Spot, pointer: &mut String, source: &Source) {
        let length = pointer.len();
        match &node.kind {
            Kind::String(_) => self.text(node, pointer, source),
            Kind::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    Place::push_step(pointer, &index.to_string());
                    self.leaves(element, spot.element(), pointer, source);
                    pointer.truncate(length);
                }
                let mut parts = Vec::new();
                for element in elements {
                    parts_of(element, &mut parts);
                }
                self.join(&parts, pointer, source);
            }
            Kind::Object(members) => {
                for member in members {
                    Place::push_step(pointer, &member.key);
                    self.texts
                        .key(&member.key, member.key_span.clone(), pointer, source);
                    let value = &member.value;
                    match coded::read(spot, node, &member.key, value) {
                        Read::Plain => {
                            let spot = spot.member(node, &member.key);
                            self.leaves(value, spot, pointer, source);
                        }
                        Read::Text(text) => self.coded(value, text, pointer, source),
                        Read::Binary => self.binary += value.span.len(),
                    }
                    pointer.truncate(length);
                }
            }
            Kind::Null | Kind::Bool(_) | Kind::Number => {}
        }
    }

    fn text(&mut self, node: &'d Node, pointer: &str, source: &Source) {
        self.at.insert(node.span.start, self.texts.len());
        self.texts.text(node, pointer.to_owned(), source);
    }

    /// A string that may also be read as base64 of this text.
    fn coded(&mut self, node: &'d Node, text: String, pointer: &str, source: &Source) {
        let written = node.as_str().unwrap_or_default().to_owned();
        let first = self.texts.len();
        for text in [written, text] {
            self.texts.push(Found {
                located: located(text, pointer, Some(node.span.clone()), source),
                slot: Slot::Whole,
            });
        }
        self.coded.push(Coded {
            items: first..self.texts.len(),
            node,
        });
    }

    /// What is split over parts is whole in one of two joined texts: with nothing or a line feed between.
    fn join(&mut self, nodes: &[&'d Node], pointer: &str, source: &Source) {
        let parts: Vec<_> = nodes
            .iter()
            .filter_map(|node| Some((*self.at.get(&node.span.start)?, node.as_str()?)))
            .filter(|(_, text)| !text.is_empty())
            .collect();
        if parts.len() < 2 {
            return;
        }
        for separator in ["", "\n"] {
            let mut text = String::new();
            let mut ranges = Vec::with_capacity(parts.len());
            for (item, part) in &parts {
                if !text.is_empty() {
                    text.push_str(separator);
                }
                let start = text.len();
                text.push_str(part);
                ranges.push((*item, start..text.len()));
            }
            self.texts.push(Found {
                located: located(text, pointer, None, source),
                slot: Slot::Joined(ranges),
            });
        }
    }
}

fn located(text: String, pointer: &str, span: Option<Range<usize>>, source: &Source) -> Located {
    Located {
        place: Place {
            pointer: pointer.to_owned(),
            span,
        },
        item: Item::ToolOutput(ToolOutput {
            tool: source.tool.clone(),
            call_id: source.call_id.clone(),
            origin: source.origin,
            text: text.into(),
        }),
    }
}

fn is_list_of_tools(node: &Node) -> bool {
    let object = |node: &Node| matches!(node.kind, Kind::Object(_));
    matches!(node.kind, Kind::Array(_)) && node.elements().iter().all(object)
}

/// The strings that a reader shows of a part: its text, that of what is embedded in it, or its content.
fn parts_of<'d>(part: &'d Node, out: &mut Vec<&'d Node>) {
    if !matches!(part.kind, Kind::Object(_)) {
        return;
    }
    let text = |node: &'d Node| {
        let text = node.get("text")?;
        text.as_str().map(|_| text)
    };
    out.extend(text(part));
    out.extend(part.get("resource").and_then(text));
    match part.get("content") {
        Some(content) if content.as_str().is_some() => out.push(content),
        Some(content) => {
            out.extend(text(content));
            for element in content.elements() {
                parts_of(element, out);
            }
        }
        None => {}
    }
}
