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

/// Ranges of a request's bytes, in order and apart from each other.
pub(super) struct Sealed(Vec<Range<usize>>);

impl Sealed {
    fn new(mut ranges: Vec<Range<usize>>) -> Self {
        ranges.sort_by_key(|range| range.start);
        let mut apart: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match apart.last_mut().filter(|last| range.start < last.end) {
                Some(last) => last.end = last.end.max(range.end),
                None => apart.push(range),
            }
        }
        Self(apart)
    }

    /// Whether all of the range is sealed.
    pub fn holds(&self, span: &Range<usize>) -> bool {
        let after = self.0.partition_point(|range| range.start <= span.start);
        after
            .checked_sub(1)
            .and_then(|index| self.0.get(index))
            .is_some_and(|range| span.end <= range.end)
    }
}

/// Bytes of a request that must not be edited: the model's messages with signed reasoning in its latest turn, which reaches
/// back over the results of its tools to the user's last message without any, and signed summaries.
pub(super) fn sealed(body: &Node) -> Sealed {
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
    Sealed::new(sealed)
}

fn is_result(block: &Node) -> bool {
    block.get("type").and_then(Node::as_str) == Some("tool_result")
}

/// Whether an edit of what was found would change sealed bytes.
pub(super) fn is_within(found: &Found<'_>, all: &[Found<'_>], sealed: &Sealed) -> bool {
    let within = |span: &Range<usize>| sealed.holds(span);
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
