//! Calls that the conversation shows, with what came of them.

use std::collections::HashSet;

use crate::protocols::calls::Made;
use crate::wire::json::{Document, Node};

/// What a request's messages say that was called.
pub(super) fn made(document: &Document) -> Made<'_> {
    let mut calls = Vec::new();
    let mut answered = HashSet::new();
    let messages = document.root().get("messages");
    for message in messages.map_or(&[][..], Node::elements) {
        let is_model = message.get("role").and_then(Node::as_str) == Some("assistant");
        for block in message.get("content").map_or(&[][..], Node::elements) {
            let text = |key: &str| block.get(key).and_then(Node::as_str);
            match (text("type"), is_model) {
                (Some("tool_use"), true) => calls.extend(
                    text("id")
                        .zip(text("name"))
                        .zip(block.get("input"))
                        .map(|((id, name), input)| (id, name, document.raw(input))),
                ),
                (Some("tool_result"), false) => answered.extend(text("tool_use_id")),
                _ => {}
            }
        }
    }
    Made { calls, answered }
}
