//! Calls in responses: in a whole response a block, in a stream the events from a block's start to its stop. One reader for
//! both, so that both are judged alike.

use bytes::Bytes;

use super::Reply;
use crate::item::{Arguments, Located, Place};
use crate::names::ToolName;
use crate::protocols::calls::proposed;
use crate::protocols::strict::{exact_keys, invalid_response, must_be_object, present};
use crate::protocols::{Malformed, wrapped};
use crate::wire::json::{Document, Kind, Node};

/// What a block of a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// What the model says.
    Text,
    /// What the model thinks.
    Thinking,
    /// A summary of the conversation.
    Compaction,
    /// A call that the provider runs by itself: nobody behind the proxy does.
    ProviderCall,
    /// A call for the client to run.
    Call,
    /// Anything else that has no call in it.
    Inert,
}

/// Keys that a block is read by.
const READ: [&str; 7] = [
    "type",
    "id",
    "name",
    "input",
    "text",
    "thinking",
    "signature",
];

/// What a call of an unknown type could have its arguments under.
const ARGUMENTS: [&str; 6] = [
    "input",
    "arguments",
    "action",
    "args",
    "parameters",
    "params",
];

/// What a call of an unknown type could have its name under.
const NAMES: [&str; 5] = ["name", "tool_name", "function_name", "tool", "function"];

/// Reads what a block is.
pub(super) fn kind(block: &Node) -> Result<BlockKind, Malformed> {
    must_be_object(block)?;
    exact_keys(block, &READ)?;
    let kind = block
        .get("type")
        .and_then(Node::as_str)
        .ok_or_else(|| invalid_response("a block of the response has no type"))?;
    if holds_call(block, kind) {
        return Err(invalid_response("a call stands in a block that is none"));
    }
    Ok(match kind {
        "text" => BlockKind::Text,
        "thinking" => BlockKind::Thinking,
        "compaction" => BlockKind::Compaction,
        "server_tool_use" | "mcp_tool_use" => BlockKind::ProviderCall,
        "tool_use" => BlockKind::Call,
        "redacted_thinking" | "container_upload" | "fallback" | "mcp_tool_listing" => {
            BlockKind::Inert
        }
        kind if kind.ends_with("_tool_result") => BlockKind::Inert,
        _ if is_like_call(block) || has_call(block) || is_named(block) => BlockKind::Call,
        _ => BlockKind::Inert,
    })
}

/// Whether a block of a type that is known not to be the client's call holds one: a client that knows the member acts on it.
/// What such a block is there for, the results and definitions of tools that the provider runs, is not looked at.
fn holds_call(block: &Node, kind: &str) -> bool {
    match kind {
        "text" | "thinking" | "redacted_thinking" | "container_upload" | "fallback" => {
            has_call(block)
        }
        "server_tool_use" | "mcp_tool_use" => has_second(block),
        "compaction" => has_call_beside(block, "tool_changes"),
        "mcp_tool_listing" => has_call_beside(block, "tools"),
        kind if kind.ends_with("_tool_result") => has_call_beside(block, "content"),
        // Taken for one, and ruled.
        _ => false,
    }
}

/// Whether a client could take this object for a call.
fn is_like_call(node: &Node) -> bool {
    ARGUMENTS
        .into_iter()
        .any(|key| present(node, key).is_some())
}

/// Whether a block of an unknown type could be a call whose arguments are still to come: it has a name, and no text.
fn is_named(block: &Node) -> bool {
    let is_text = ["text", "content"].into_iter().any(|key| {
        present(block, key)
            .is_some_and(|node| matches!(node.kind, Kind::String(_) | Kind::Array(_)))
    });
    !is_text && NAMES.into_iter().any(|key| present(block, key).is_some())
}

/// Whether a delta could bring a part of a call under any key but this one: its name, or arguments, at any depth.
pub(super) fn has_part_of_call(delta: &Node, but: &str) -> bool {
    let is_part =
        |key: &str| key == "partial_json" || NAMES.contains(&key) || ARGUMENTS.contains(&key);
    delta
        .elements()
        .iter()
        .any(|node| has_part_of_call(node, ""))
        || delta
            .members()
            .iter()
            .filter(|m| &*m.key != but)
            .any(|m| is_part(&m.key) && !m.value.is_null() || has_part_of_call(&m.value, ""))
}

/// Whether anything below this node could be taken for a call.
pub(super) fn has_call(node: &Node) -> bool {
    node.elements().iter().any(has_call) || has_call_beside(node, "")
}

/// Whether this object, or anything below it but what stands under this key, could be taken for a call.
pub(super) fn has_call_beside(object: &Node, key: &str) -> bool {
    let here = object.get("type").and_then(Node::as_str) == Some("tool_use")
        || present(object, "name").is_some() && is_like_call(object);
    here || object
        .members()
        .iter()
        .any(|member| &*member.key != key && has_call(&member.value))
}

/// Whether a call's block has a second name, or another call beside its arguments: a client could run that one.
fn has_second(block: &Node) -> bool {
    block.members().iter().any(|member| {
        let key = &*member.key;
        let is_name = key != "name" && NAMES.contains(&key) && !member.value.is_null();
        is_name || key != "input" && has_call(&member.value)
    })
}

/// A call as far as it is known.
#[derive(Debug)]
pub(super) struct Call {
    id: Option<String>,
    name: Option<String>,
    /// JSON text of the arguments.
    text: String,
    /// The arguments came with the block's start.
    is_given: bool,
    fault: Option<&'static str>,
}

impl Call {
    /// A call as its block tells.
    pub fn new(document: &Document, block: &Node) -> Self {
        let mut call = Self {
            id: None,
            name: None,
            text: String::new(),
            is_given: false,
            fault: None,
        };
        call.id = call.string(block, "id");
        call.name = call.string(block, "name");
        let mut others = ARGUMENTS.into_iter().filter(|key| *key != "input");
        if others.any(|key| present(block, key).is_some()) {
            call.fault = Some("the call has arguments of an unknown form");
        }
        match present(block, "input") {
            None => {
                let kind = block.get("type").and_then(Node::as_str);
                if kind != Some("tool_use") {
                    call.fault = Some("the call is of an unknown type");
                }
            }
            Some(input) => match &input.kind {
                Kind::Object(members) if members.is_empty() => {}
                Kind::Object(_) => {
                    call.is_given = true;
                    call.text = String::from_utf8_lossy(&document.raw(input)).into_owned();
                }
                _ => call.fault = Some("the call's input is not an object"),
            },
        }
        if call.name.is_none() {
            call.fault = Some("the call has no name");
        }
        if has_second(block) {
            call.fault = Some("the call holds another one");
        }
        call
    }

    fn string(&mut self, block: &Node, key: &str) -> Option<String> {
        let value = present(block, key)?;
        let text = value.as_str();
        if text.is_none() {
            self.fault = Some("a field of the call is not a string");
        }
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Takes one more piece of the arguments.
    pub fn extend(&mut self, piece: &str) {
        if self.is_given && !piece.is_empty() {
            self.fault = Some("the call has its arguments twice");
        }
        self.text.push_str(piece);
    }

    /// Bytes that it holds back.
    pub const fn size(&self) -> usize {
        self.text.len()
    }

    /// The call as an item, at this place among the blocks.
    pub fn located(&self, position: usize, reply: &Reply) -> Located {
        let arguments = match self.fault {
            Some(fault) => Err(fault.to_owned()),
            None => Arguments::read(self.arguments()).map_err(|error| error.to_string()),
        };
        Located {
            place: Place {
                pointer: format!("/content/{position}"),
                span: None,
            },
            item: proposed(&reply.wrapped, self.tool(), self.id.as_deref(), arguments),
        }
    }

    fn tool(&self) -> ToolName {
        ToolName::from(self.name.as_deref().unwrap_or_default())
    }

    /// Its arguments as JSON text: an object without members where none came.
    pub fn arguments(&self) -> Bytes {
        if self.text.is_empty() {
            Bytes::from_static(b"{}")
        } else {
            Bytes::copy_from_slice(self.text.as_bytes())
        }
    }

    /// The arguments to write when these stored ones take the place of the proposed ones.
    pub fn stored(&self, stored: &Bytes, reply: &Reply) -> Option<Bytes> {
        wrapped::rewrapped(&reply.wrapped, &self.tool(), &self.arguments(), stored)
    }
}
