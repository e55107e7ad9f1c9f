//! Calls that the conversation shows, with what came of them.

use std::collections::HashSet;

use bytes::Bytes;

use crate::protocols::calls::Made;
use crate::wire::json::{Document, Node};

/// What a request's messages say that was called. A call without an id has no output that could be told from another's.
pub(in crate::protocols::openai_chat) fn made(document: &Document) -> Made<'_> {
    let mut calls = Vec::new();
    let mut answered = HashSet::new();
    let messages = document.root().get("messages");
    for message in messages.map_or(&[][..], Node::elements) {
        let text = |key: &str| message.get(key).and_then(Node::as_str);
        match text("role") {
            Some("assistant") => {
                let made = message.get("tool_calls").map_or(&[][..], Node::elements);
                calls.extend(made.iter().filter_map(|call| {
                    let id = call.get("id")?.as_str()?;
                    let function = call.get("function")?;
                    let name = function.get("name")?.as_str()?;
                    let arguments = function.get("arguments")?.as_str()?;
                    Some((id, name, Bytes::copy_from_slice(arguments.as_bytes())))
                }));
            }
            Some("tool") => answered.extend(text("tool_call_id")),
            _ => {}
        }
    }
    Made { calls, answered }
}
