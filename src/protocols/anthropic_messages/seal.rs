//! Turns that must stay as they came: the provider signs a model's reasoning, and takes the turn it stands in only unchanged.

use std::ops::Range;

use crate::protocols::strict::present;
use crate::protocols::texts::{Found, Slot};
use crate::wire::json::Node;

/// Whether a block is reasoning that the provider has signed.
pub(super) fn is_signed(block: &Node) -> bool {
    let filled = |key| {
        present(block, key)
            .and_then(Node::as_str)
            .is_some_and(|s| !s.is_empty())
    };
    match block.get("type").and_then(Node::as_str) {
        Some("thinking") => filled("signature"),
        Some("redacted_thinking") => true,
        _ => false,
    }
}

/// Whether a block is to be sent back to the provider as it came, signed as a whole.
fn is_closed(block: &Node) -> bool {
    let kind = block.get("type").and_then(Node::as_str);
    kind == Some("compaction")
        && ["signature", "encrypted_content"]
            .into_iter()
            .any(|key| present(block, key).is_some())
}

/// Bytes of a request that must not be edited: the model's messages with signed reasoning in its latest turn, which reaches
/// back over the results of its tools to the user's last message without any, and signed summaries.
pub(super) fn sealed(body: &Node) -> Vec<Range<usize>> {
    let messages = body.get("messages").map_or(&[][..], Node::elements);
    let mut sealed = Vec::new();
    let mut in_turn = false;
    let mut over = false;
    for message in messages.iter().rev() {
        let blocks = message.get("content").map_or(&[][..], Node::elements);
        let closed = blocks.iter().filter(|block| is_closed(block));
        sealed.extend(closed.map(|block| block.span.clone()));
        match message.get("role").and_then(Node::as_str) {
            Some("assistant") if !over => {
                in_turn = true;
                if blocks.iter().any(is_signed) {
                    sealed.push(message.span.clone());
                }
            }
            Some("user") if in_turn => over |= !blocks.iter().any(is_result),
            _ => {}
        }
    }
    sealed
}

fn is_result(block: &Node) -> bool {
    block.get("type").and_then(Node::as_str) == Some("tool_result")
}

/// Whether an edit of what was found would change sealed bytes.
pub(super) fn is_within(found: &Found<'_>, all: &[Found<'_>], sealed: &[Range<usize>]) -> bool {
    let within = |span: &Range<usize>| {
        sealed
            .iter()
            .any(|sealed| sealed.start <= span.start && span.end <= sealed.end)
    };
    match &found.slot {
        Slot::Text(node, _) | Slot::Arguments(node) => within(&node.span),
        Slot::Keys(spans) => spans.iter().any(within),
        Slot::Joined(parts) => parts.iter().any(|(part, _)| {
            all.get(*part).is_some_and(|part| match &part.slot {
                Slot::Text(node, _) => within(&node.span),
                _ => false,
            })
        }),
        Slot::Element(list, _) => within(&list.span),
        Slot::Whole => false,
    }
}
