//! Unstreamed responses: one frame, edited in place.

use std::ops::Range;

use bytes::Bytes;

use super::Reply;
use super::call::{BlockKind, Call, has_call_beside, kind};
use super::read::Endpoint;
use super::render::said;
use super::seal::is_signed;
use crate::guard::Decision;
use crate::protocols::calls::check_held;
use crate::protocols::fates::{Fate, fates_before, one_fate};
use crate::protocols::rendered::{self, Part, Text, check_pieces};
use crate::protocols::strict::{
    array, exact_keys, invalid_response, misframed, must_be_object, present,
};
use crate::protocols::{Frame, Framing, Malformed, ResponseReader, Step, Unjudged, unwritable};
use crate::wire::json::{BODY_DEPTH, Document, Node};
use crate::wire::splice::Splice;

/// Reads the body of a response that is not a stream.
pub(super) struct Reader {
    reply: Reply,
    endpoint: Endpoint,
    judged: Option<Document>,
    /// The calls behind signed reasoning.
    bound: Option<Range<usize>>,
    /// A rule asks what clients would fetch or follow in the text.
    renders: bool,
    /// The parts of each block of text, where a rule asks.
    texts: Vec<Vec<Part>>,
    unjudged: Unjudged,
}

impl Reader {
    pub fn new(reply: Reply, endpoint: Endpoint, renders: bool) -> Self {
        Self {
            reply,
            endpoint,
            renders,
            texts: Vec::new(),
            judged: None,
            bound: None,
            unjudged: Unjudged::none(),
        }
    }
}

impl ResponseReader for Reader {
    fn framing(&self) -> Framing {
        Framing::Whole
    }

    fn push(&mut self, frame: Frame) -> Result<Step, Malformed> {
        let Frame::Whole(body) = frame else {
            return Err(misframed());
        };
        let document = Document::read(body, BODY_DEPTH).map_err(|error| {
            invalid_response(format!("the response is not strict JSON: {error}"))
        })?;
        let root = document.root();
        let content = content(root)?;
        let is_error = root.get("type").and_then(Node::as_str) == Some("error");
        if content.is_none() && self.endpoint == Endpoint::Messages && !is_error {
            return Err(invalid_response("the response has no `content`"));
        }
        if self.endpoint == Endpoint::Messages && has_call_beside(root, "content") {
            return Err(invalid_response(
                "a call stands outside of the response's `content`",
            ));
        }
        if let Some(content) = content {
            self.unjudged = Unjudged::below(content, &[]);
        }
        let proposals = proposals(&document, content)?;
        let bytes = proposals.iter().map(|proposal| proposal.call.size()).sum();
        check_held(proposals.len(), bytes, self.reply.held)?;
        let from = proposals.iter().position(|proposal| proposal.is_bound);
        self.bound = from.map(|from| from..proposals.len());
        let mut judge: Vec<_> = proposals
            .iter()
            .map(|proposal| proposal.call.located(proposal.position, &self.reply))
            .collect();
        if self.renders {
            let texts = texts(content)?;
            self.texts = parts(&texts);
            check_pieces(self.texts.iter().map(|parts| rendered::pieces(parts)).sum())?;
            for ((position, _), parts) in texts.iter().zip(&self.texts) {
                judge.extend(rendered::located(parts, &text_pointer(*position)));
            }
        }
        if judge.is_empty() {
            return Ok(Step {
                send: vec![document.bytes().clone()],
                judge,
            });
        }
        self.judged = Some(document);
        Ok(Step {
            send: Vec::new(),
            judge,
        })
    }

    fn resolve(&mut self, decision: &Decision) -> Result<Vec<Bytes>, Malformed> {
        let document = self.judged.take().ok_or_else(unwritable)?;
        let root = document.root();
        let content = content(root)?.ok_or_else(unwritable)?;
        let proposals = proposals(&document, Some(content))?;
        let (fates, rulings) = fates_before(proposals.len(), decision)?;
        let bound = self.bound.clone().and_then(|bound| fates.get(bound));
        one_fate(bound.unwrap_or_default())?;
        let mut splice = Splice::new(&document);
        let mut rulings = rulings.iter();
        for ((_, node), parts) in texts(Some(content))?.into_iter().zip(&self.texts) {
            let text = rendered::written(parts, &mut rulings)?;
            if node.as_str() != Some(&text) {
                splice.replace_text(node, &text);
            }
        }
        if rulings.next().is_some() {
            return Err(unwritable());
        }
        let mut dropped = Vec::new();
        for (proposal, fate) in proposals.iter().zip(&fates) {
            match fate {
                Fate::Release(None) => {}
                Fate::Release(Some(stored)) => proposal.bind(&mut splice, stored, &self.reply)?,
                Fate::Drop(note) => {
                    dropped.push(proposal.position);
                    if self.reply.note {
                        splice.replace(proposal.block, said(note));
                    }
                }
            }
        }
        if !self.reply.note && !dropped.is_empty() {
            splice.remove_elements(content, |position| dropped.contains(&position));
        }
        if !dropped.is_empty()
            && dropped.len() == proposals.len()
            && let Some(reason) = root.get("stop_reason").filter(|r| names_calls(r))
        {
            splice.replace_text(reason, "end_turn");
        }
        Ok(vec![splice.finish()])
    }

    fn unjudged(&self) -> Unjudged {
        self.unjudged.clone()
    }

    fn finish(&mut self) -> Result<Step, Malformed> {
        Ok(Step::default())
    }

    fn together(&self) -> Vec<Range<usize>> {
        self.bound.iter().cloned().collect()
    }
}

/// Whether a stop reason speaks of calls: the others say what became of the turn, and stay.
pub(super) fn names_calls(stop_reason: &Node) -> bool {
    stop_reason.as_str() == Some("tool_use")
}

/// Where the text of a block stands.
pub(super) fn text_pointer(position: usize) -> String {
    format!("/content/{position}/text")
}

/// The text of each block that has any, and the block's position.
fn texts(content: Option<&Node>) -> Result<Vec<(usize, &Node)>, Malformed> {
    let mut texts = Vec::new();
    let blocks = content.map_or(&[][..], Node::elements);
    for (position, block) in blocks.iter().enumerate() {
        let text = block.get("text").filter(|text| text.as_str().is_some());
        if let Some(text) = text
            && kind(block)? == BlockKind::Text
        {
            texts.push((position, text));
        }
    }
    Ok(texts)
}

fn parts(texts: &[(usize, &Node)]) -> Vec<Vec<Part>> {
    let mut text = Text::default();
    let parts = texts.iter().map(|(_, node)| {
        text.another();
        let mut parts = text.push(node.as_str().unwrap_or_default());
        parts.extend(text.end());
        parts
    });
    parts.collect()
}

struct Proposal<'d> {
    block: &'d Node,
    position: usize,
    call: Call,
    /// Behind signed reasoning.
    is_bound: bool,
}

impl Proposal<'_> {
    fn bind(
        &self,
        splice: &mut Splice<'_>,
        stored: &Bytes,
        reply: &Reply,
    ) -> Result<(), Malformed> {
        let stored = self.call.stored(stored, reply).ok_or_else(unwritable)?;
        match self.block.get("input") {
            Some(input) => splice.replace(input, stored),
            None => splice.add_member(self.block, "input", &stored),
        }
        Ok(())
    }
}

/// The blocks, where the body has any.
fn content(root: &Node) -> Result<Option<&Node>, Malformed> {
    must_be_object(root)?;
    exact_keys(root, &["type", "content", "stop_reason"])?;
    array(root, "content")?;
    Ok(present(root, "content"))
}

fn proposals<'d>(
    document: &'d Document,
    content: Option<&'d Node>,
) -> Result<Vec<Proposal<'d>>, Malformed> {
    let mut proposals = Vec::new();
    let mut is_bound = false;
    let blocks = content.map_or(&[][..], Node::elements);
    for (position, block) in blocks.iter().enumerate() {
        if kind(block)? == BlockKind::Call {
            proposals.push(Proposal {
                block,
                position,
                call: Call::new(document, block),
                is_bound,
            });
        }
        is_bound |= is_signed(block);
    }
    Ok(proposals)
}
