//! Content blocks of a request: which texts in them are untrusted, in whatever depth.

use std::sync::Arc;

use data_encoding::{BASE64, BASE64URL};

use super::read::Finder;
use crate::item::Place;
use crate::names::ToolName;
use crate::protocols::Malformed;
use crate::protocols::strict::{exact_keys_in_request as check, invalid_request, list, present};
use crate::protocols::texts::Source;
use crate::protocols::unjudged::is_sealed;
use crate::wire::json::{Kind, Node};

/// Keys that a block is read by.
const READ: [&str; 11] = [
    "type",
    "id",
    "name",
    "input",
    "text",
    "content",
    "source",
    "tool",
    "tools",
    "tool_use_id",
    "citations",
];

/// Members of a block of an unknown type that hold no words.
const UNJUDGED: [&str; 2] = ["type", "cache_control"];

/// Members of a summary that are read, or that only the provider can.
const SUMMARY: [&str; 6] = [
    "type",
    "content",
    "tool_changes",
    "signature",
    "encrypted_content",
    "cache_control",
];

/// The blocks of one message.
pub(super) struct Message<'d> {
    /// The array.
    pub content: &'d Node,
    /// The model said it.
    pub is_model: bool,
    /// Its plain texts and images are not a tool's.
    pub is_trusted: bool,
}

impl<'d> Finder<'d, '_> {
    /// Adds what is untrusted of the blocks. What the speaker says himself goes to `said`.
    pub fn blocks(
        &mut self,
        message: &Message<'d>,
        pointer: &str,
        said: &mut Vec<(&'d Node, String)>,
    ) -> Result<(), Malformed> {
        for (index, block) in message.content.elements().iter().enumerate() {
            let pointer = format!("{pointer}/{index}");
            let kind = kind(block, &pointer)?;
            if kind == "text" {
                if let Some(text) = block.get("text") {
                    said.push((text, format!("{pointer}/text")));
                }
                if let Some(citations) = present(block, "citations") {
                    self.walk(
                        citations,
                        &mut format!("{pointer}/citations"),
                        &Source::default(),
                    );
                }
                self.extras(
                    block,
                    &["type", "text", "citations", "cache_control"],
                    &pointer,
                );
                continue;
            }
            self.block(message, index, kind, pointer)?;
        }
        Ok(())
    }

    fn block(
        &mut self,
        message: &Message<'d>,
        index: usize,
        kind: &str,
        mut pointer: String,
    ) -> Result<(), Malformed> {
        let Some(block) = message.content.elements().get(index) else {
            return Ok(());
        };
        match kind {
            "thinking" | "redacted_thinking" if message.is_model => {}
            "image" if message.is_trusted => {}
            "tool_use" | "server_tool_use" | "mcp_tool_use" => self.past_call(block, &mut pointer),
            "tool_addition" => self.addition(message.content, index, &pointer)?,
            "tool_removal" => self.extras(block, &UNJUDGED, &pointer),
            "mcp_tool_listing" => {
                self.definitions(block, &pointer)?;
                self.extras(block, &["type", "tools", "cache_control"], &pointer);
            }
            "compaction" => self.compaction(block, &pointer)?,
            _ => self.result(block, kind, &mut pointer)?,
        }
        Ok(())
    }

    /// A call of an earlier turn. Its arguments are untrusted: whoever made up the conversation wrote them. In a sealed turn
    /// they stay as they came: they are the model's own words there, and were judged as a call on their way out.
    fn past_call(&mut self, block: &'d Node, pointer: &mut String) {
        let name = block.get("name").and_then(Node::as_str);
        let id = block.get("id").and_then(Node::as_str);
        if let (Some(id), Some(name)) = (id, name) {
            self.tools.insert(id, name.into());
        }
        self.extras(
            block,
            &["type", "id", "name", "input", "cache_control"],
            pointer,
        );
        let is_sealed = self.sealed.holds(&block.span);
        let input = present(block, "input");
        let from = self.texts.len();
        let Some(input) = input.filter(|_| !is_sealed) else {
            return self.texts.call(id, input, from);
        };
        // No call id: this is not the answer to the call.
        let source = Source {
            tool: name.map(ToolName::from),
            ..Source::default()
        };
        Place::push_step(pointer, "input");
        self.texts.leaves(input, pointer, &source, true);
        self.texts.join(from, pointer, &source);
        self.texts.call(id, Some(input), from);
    }

    /// What a tool gave back, a document, or a block of a type that nobody here knows.
    fn result(
        &mut self,
        block: &'d Node,
        kind: &str,
        pointer: &mut String,
    ) -> Result<(), Malformed> {
        let id = block.get("tool_use_id").and_then(Node::as_str);
        let source = Source {
            tool: id.and_then(|id| self.tools.get(id).cloned()),
            call_id: id.map(Arc::from),
            ..Source::default()
        };
        if kind == "container_upload" {
            self.run_by_provider(kind, None, block, pointer.clone());
        }
        let from = self.texts.len();
        match kind {
            "tool_result" => self.answer(block, pointer, &source)?,
            kind if is_known(kind) => self.walk(block, pointer, &source),
            _ => self.others(block, &UNJUDGED, pointer, &source),
        }
        self.texts.join(from, pointer, &source);
        Ok(())
    }

    /// What stands in a client's own result is of any type; the provider's results are as the provider made them.
    fn answer(
        &mut self,
        block: &'d Node,
        pointer: &mut String,
        source: &Source,
    ) -> Result<(), Malformed> {
        let length = pointer.len();
        for member in block.members() {
            let key = &*member.key;
            Place::push_step(pointer, key);
            if key == "content" && matches!(member.value.kind, Kind::Array(_)) {
                let length = pointer.len();
                for (index, element) in member.value.elements().iter().enumerate() {
                    Place::push_step(pointer, &index.to_string());
                    check(element, pointer, &READ)?;
                    match element.get("type").and_then(Node::as_str) {
                        Some(kind) if is_known(kind) => self.walk(element, pointer, source),
                        Some(_) => self.others(element, &UNJUDGED, pointer, source),
                        None => self.texts.leaves(element, pointer, source, true),
                    }
                    pointer.truncate(length);
                }
            } else if key == "content" {
                self.texts.leaves(&member.value, pointer, source, true);
            } else if !is_skipped(key) {
                self.walk(&member.value, pointer, source);
            }
            pointer.truncate(length);
        }
        Ok(())
    }

    /// Members of an object that nobody here reads: whoever wrote the conversation may have put words there.
    pub fn extras(&mut self, object: &'d Node, read: &[&str], pointer: &str) {
        let (from, source) = (self.texts.len(), Source::default());
        self.others(object, read, &mut pointer.to_owned(), &source);
        self.texts.join(from, pointer, &source);
    }

    /// Every string and key of the members but for those that are read otherwise.
    fn others(&mut self, object: &'d Node, read: &[&str], pointer: &mut String, source: &Source) {
        let length = pointer.len();
        for member in object.members() {
            if read.contains(&&*member.key) {
                continue;
            }
            Place::push_step(pointer, &member.key);
            let span = member.key_span.clone();
            self.texts.key(&member.key, span, pointer, source);
            self.texts.leaves(&member.value, pointer, source, true);
            pointer.truncate(length);
        }
    }

    /// Every string with words for the model.
    fn walk(&mut self, node: &'d Node, pointer: &mut String, source: &Source) {
        let length = pointer.len();
        match &node.kind {
            Kind::String(_) => self.texts.text(node, pointer.clone(), source),
            Kind::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    Place::push_step(pointer, &index.to_string());
                    self.walk(element, pointer, source);
                    pointer.truncate(length);
                }
            }
            Kind::Object(members) => {
                self.fetched(node, pointer);
                for member in members {
                    let key = &*member.key;
                    if is_skipped(key) || self.has_no_words(node, key, &member.value) {
                        continue;
                    }
                    Place::push_step(pointer, key);
                    self.walk(&member.value, pointer, source);
                    pointer.truncate(length);
                }
            }
            Kind::Null | Kind::Bool(_) | Kind::Number => {}
        }
    }

    /// Bytes of a picture or a file, and the name of a tool that is judged with its definition.
    fn has_no_words(&self, object: &Node, key: &str, value: &Node) -> bool {
        let kind = object.get("type").and_then(Node::as_str);
        let text = value.as_str().unwrap_or_default();
        match (kind, key) {
            (Some("base64"), "data") => is_binary(text),
            (Some("tool_reference"), "tool_name") => self.defined.contains(text),
            _ => false,
        }
    }

    /// A document or picture that the provider gets by itself, so that nobody here sees it.
    fn fetched(&mut self, node: &'d Node, pointer: &str) {
        let kind = node.get("type").and_then(Node::as_str).unwrap_or_default();
        let Some(source) = node.get("source") else {
            return;
        };
        let server = match source.get("type").and_then(Node::as_str) {
            Some("url") => source.get("url").and_then(Node::as_str).map(Arc::from),
            Some("file") => None,
            _ => return,
        };
        let way = if server.is_some() { "url" } else { "file" };
        let pointer = format!("{pointer}/source");
        self.run_by_provider(&format!("{kind}.{way}"), server, source, pointer);
    }

    /// A summary of the conversation, with the tools that its turns had added.
    fn compaction(&mut self, block: &'d Node, pointer: &str) -> Result<(), Malformed> {
        if let Some(content) = present(block, "content") {
            let source = Source::default();
            self.walk(content, &mut format!("{pointer}/content"), &source);
        }
        let changes = list(block, pointer, "tool_changes")?;
        for (index, change) in changes.iter().enumerate() {
            let pointer = format!("{pointer}/tool_changes/{index}");
            match (block.get("tool_changes"), kind(change, &pointer)?) {
                (Some(list), "tool_addition") => self.addition(list, index, &pointer)?,
                _ => self.extras(change, &UNJUDGED, &pointer),
            }
        }
        self.extras(block, &SUMMARY, pointer);
        Ok(())
    }
}

/// Whether a member has no words for the model: names of types, ids, and what only the provider can open.
fn is_skipped(key: &str) -> bool {
    matches!(key, "type" | "cache_control" | "tool_use_id") || is_sealed(key)
}

/// Shortest base64 of which it can be told whether a text stands behind it.
const LEAST: usize = 64;

/// Longest run of letters that says nothing.
const WORD: usize = 12;

/// How much of it is decoded to tell.
const HEAD: usize = 4_096;

/// Whether base64 is a picture or a file: letters alone are words without spaces, and a text that is encoded is one once decoded.
fn is_binary(text: &str) -> bool {
    let coded = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_');
    if !text.bytes().all(coded) {
        return false;
    }
    let letters = text.bytes().all(|b| b.is_ascii_alphabetic());
    if text.len() < LEAST {
        return !letters || text.len() < WORD;
    }
    let head = text.get(..text.len().min(HEAD)).unwrap_or_default();
    let head = head.get(..head.len() / 4 * 4).unwrap_or_default();
    let decoded = BASE64.decode(head.as_bytes());
    let Ok(bytes) = decoded.or_else(|_| BASE64URL.decode(head.as_bytes())) else {
        return false;
    };
    // A character may be cut at the end of what is decoded.
    let read = match std::str::from_utf8(&bytes) {
        Ok(_) => bytes.len(),
        Err(error) => error.valid_up_to(),
    };
    !letters && read + 4 <= bytes.len()
}

/// Whether a block's type says in which members its words are.
fn is_known(kind: &str) -> bool {
    matches!(
        kind,
        "text"
            | "image"
            | "document"
            | "search_result"
            | "tool_reference"
            | "browser_state"
            | "container_upload"
            | "fallback"
    ) || kind.ends_with("_tool_result")
}

/// The type of a block.
fn kind<'d>(block: &'d Node, pointer: &str) -> Result<&'d str, Malformed> {
    check(block, pointer, &READ)?;
    block
        .get("type")
        .and_then(Node::as_str)
        .ok_or_else(|| invalid_request(&format!("{pointer}/type"), "must be a string"))
}
