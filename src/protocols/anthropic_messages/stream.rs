//! Streamed responses: text goes through at once, but for what of it is judged; a call is held until its block stops, then leaves in canonical form: one
//! start, one delta with all its arguments, one stop. Behind signed reasoning calls are held until the turn ends, and so is
//! what stands behind them: clients count blocks in the order in which they come.

mod said;

use std::iter;
use std::ops::Range;

use bytes::Bytes;
use said::Said;

use super::Reply;
use super::call::{BlockKind, Call, kind};
use super::events::{self, Piece, delta_fits};
use super::seal::is_signed;
use super::whole::names_calls;
use crate::guard::Decision;
use crate::protocols::calls::check_held;
use crate::protocols::fates::{Fate, fates, one_fate};
use crate::protocols::passed::passed;
use crate::protocols::rendered::Text;
use crate::protocols::strict::{
    array, exact_keys, invalid_response, misframed, must_be_object, present, whole_number,
};
use crate::protocols::{
    Event, Frame, Framing, Malformed, ResponseReader, Step, Unjudged, unwritable,
};
use crate::wire::json::{BODY_DEPTH, Document, Node};

/// Reads a stream of events.
pub(super) struct Reader {
    reply: Reply,
    phase: Phase,
    /// Blocks that the upstream has started.
    started: usize,
    /// The index of the last of them.
    index: Option<u64>,
    /// Blocks that have left.
    left: usize,
    open: Option<Open>,
    /// Signed reasoning has come.
    is_bound: bool,
    /// Calls that wait for the end of the turn, and the blocks behind them.
    held: Vec<Held>,
    /// Bytes of what is held, the open block included.
    bytes: usize,
    calls: usize,
    dropped: usize,
    pending: Option<Pending>,
    /// Text of the blocks, where a rule asks what clients would fetch or follow in it.
    text: Option<Text>,
    unjudged: Unjudged,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing has come.
    Before,
    /// The message has started.
    Blocks,
    /// It has a stop reason: no more blocks.
    Ending,
    /// It has stopped, or an error came: nothing goes through any more.
    Over,
}

/// The block whose events come now.
struct Open {
    index: u64,
    kind: BlockKind,
    call: Option<HeldCall>,
}

struct HeldCall {
    position: usize,
    start: Piece,
    call: Call,
}

enum Held {
    Call(Box<HeldCall>),
    Block(Vec<Piece>),
}

/// What waits for rulings.
enum Pending {
    Call(Box<HeldCall>),
    /// The event that ends the turn, for all that is held.
    End(Piece),
    Said(Box<Said>),
}

impl Reader {
    /// `renders`: a rule asks what clients would fetch or follow in the text.
    pub fn new(reply: Reply, renders: bool) -> Self {
        Self {
            reply,
            text: renders.then(Text::default),
            phase: Phase::Before,
            started: 0,
            index: None,
            left: 0,
            open: None,
            is_bound: false,
            held: Vec::new(),
            bytes: 0,
            calls: 0,
            dropped: 0,
            pending: None,
            unjudged: Unjudged::none(),
        }
    }

    fn piece(&mut self, piece: Piece) -> Result<Step, Malformed> {
        match piece.kind()? {
            "error" => self.failed(piece.whole()),
            "message_start" => self.message_start(piece),
            "content_block_start" => self.start(piece),
            "content_block_delta" => self.delta(piece),
            "content_block_stop" => self.stop(piece),
            "message_delta" => self.message_delta(piece),
            "message_stop" => self.message_stop(piece),
            _ => piece.passed(),
        }
    }

    /// An error ends the stream; what is held is dropped.
    fn failed(&mut self, event: Event) -> Result<Step, Malformed> {
        events::is_error(event.data.as_deref().unwrap_or_default())?;
        self.phase = Phase::Over;
        self.open = None;
        self.held.clear();
        passed(event)
    }

    fn message_start(&mut self, piece: Piece) -> Result<Step, Malformed> {
        if self.phase != Phase::Before {
            return Err(invalid_response("the stream starts a message twice"));
        }
        let message = present(piece.root(), "message")
            .ok_or_else(|| invalid_response("a message starts without one"))?;
        must_be_object(message)?;
        exact_keys(message, &["content", "stop_reason"])?;
        if !array(message, "content")?.is_empty() {
            return Err(invalid_response("a message starts with blocks in it"));
        }
        self.phase = Phase::Blocks;
        piece.passed()
    }

    fn start(&mut self, piece: Piece) -> Result<Step, Malformed> {
        let index = self.block_index(&piece)?;
        if self.open.is_some() {
            return Err(invalid_response("a block starts within another"));
        }
        if self.index.is_some_and(|last| index <= last) {
            return Err(invalid_response("two blocks have the same index"));
        }
        let block = present(piece.root(), "content_block")
            .ok_or_else(|| invalid_response("a block starts without one"))?;
        let kind = kind(block)?;
        self.is_bound |= is_signed(block);
        let position = self.started;
        self.index = Some(index);
        self.started += 1;
        let mut open = Open {
            index,
            kind,
            call: None,
        };
        if kind != BlockKind::Call {
            self.unjudged.extend(Unjudged::below(block, &[]));
            self.open = Some(open);
            if let Some(text) = self.text.as_mut().filter(|_| kind == BlockKind::Text) {
                text.another();
            }
            return self.text_piece(piece, kind, true);
        }
        self.calls += 1;
        let size = piece.size();
        let call = Call::new(piece.document(), block);
        open.call = Some(HeldCall {
            position,
            start: piece,
            call,
        });
        self.open = Some(open);
        self.hold(size)?;
        Ok(Step::default())
    }

    fn delta(&mut self, piece: Piece) -> Result<Step, Malformed> {
        let index = self.block_index(&piece)?;
        let delta = present(piece.root(), "delta")
            .ok_or_else(|| invalid_response("a delta comes without one"))?;
        let open = self.open.as_mut().filter(|open| open.index == index);
        let open = open.ok_or_else(|| invalid_response("a delta comes for no open block"))?;
        delta_fits(open.kind, delta)?;
        if let Some(held) = &mut open.call {
            let json = delta.get("partial_json").and_then(Node::as_str);
            let json = json
                .ok_or_else(|| invalid_response("a piece of a call's arguments is not a string"))?;
            held.call.extend(json);
            self.hold(json.len())?;
            return Ok(Step::default());
        }
        if open.kind != BlockKind::Text {
            self.unjudged.extend(Unjudged::below(delta, &[]));
        }
        let signature = present(delta, "signature").and_then(Node::as_str);
        self.is_bound |= signature.is_some_and(|signature| !signature.is_empty());
        let kind = open.kind;
        self.text_piece(piece, kind, false)
    }

    fn stop(&mut self, piece: Piece) -> Result<Step, Malformed> {
        let index = self.block_index(&piece)?;
        let open = self.open.take().filter(|open| open.index == index);
        let open = open.ok_or_else(|| invalid_response("a block stops that is not open"))?;
        let Some(held) = open.call else {
            return self.block_stop(piece, open.kind, index);
        };
        let held = Box::new(held);
        if self.is_bound {
            self.held.push(Held::Call(held));
            return Ok(Step::default());
        }
        let judge = vec![held.call.located(held.position, &self.reply)];
        self.pending = Some(Pending::Call(held));
        Ok(Step {
            send: Vec::new(),
            judge,
        })
    }

    /// A piece of a block without a call: it leaves at once, unless a call before it is held.
    fn block_piece(&mut self, piece: Piece, starts: bool) -> Result<Step, Malformed> {
        if self.held.is_empty() {
            return Ok(Step {
                send: vec![piece.at(self.left)?],
                judge: Vec::new(),
            });
        }
        self.hold(piece.size())?;
        match self.held.last_mut() {
            Some(Held::Block(pieces)) if !starts => pieces.push(piece),
            _ => self.held.push(Held::Block(vec![piece])),
        }
        Ok(Step::default())
    }

    fn block_index(&self, piece: &Piece) -> Result<u64, Malformed> {
        if self.phase != Phase::Blocks {
            return Err(invalid_response("a block comes where none can be"));
        }
        whole_number(piece.document(), piece.root(), "index")?
            .ok_or_else(|| invalid_response("a block has no index"))
    }

    fn message_delta(&mut self, piece: Piece) -> Result<Step, Malformed> {
        if matches!(self.phase, Phase::Before) || self.open.is_some() {
            return Err(invalid_response("a message ends where it cannot"));
        }
        let delta = present(piece.root(), "delta");
        if let Some(delta) = delta {
            must_be_object(delta)?;
            exact_keys(delta, &["stop_reason"])?;
        }
        // One without a reason only counts tokens.
        if delta
            .and_then(|delta| present(delta, "stop_reason"))
            .is_none()
        {
            return piece.passed();
        }
        self.phase = Phase::Ending;
        self.end(piece)
    }

    fn message_stop(&mut self, piece: Piece) -> Result<Step, Malformed> {
        if matches!(self.phase, Phase::Before) || self.open.is_some() {
            return Err(invalid_response("a message stops where it cannot"));
        }
        self.phase = Phase::Over;
        self.end(piece)
    }

    fn end(&mut self, piece: Piece) -> Result<Step, Malformed> {
        let judge: Vec<_> = self
            .held
            .iter()
            .filter_map(|held| match held {
                Held::Call(held) => Some(held.call.located(held.position, &self.reply)),
                Held::Block(_) => None,
            })
            .collect();
        if judge.is_empty() {
            return Ok(Step {
                send: vec![self.ending(piece)?],
                judge,
            });
        }
        self.pending = Some(Pending::End(piece));
        Ok(Step {
            send: Vec::new(),
            judge,
        })
    }

    /// The event that ends the turn, with a reason that fits what is left of it.
    fn ending(&self, piece: Piece) -> Result<Bytes, Malformed> {
        let emptied = self.calls > 0 && self.dropped == self.calls;
        let reason = piece
            .root()
            .get("delta")
            .and_then(|delta| delta.get("stop_reason"));
        match reason.filter(|reason| emptied && names_calls(reason)) {
            Some(reason) => {
                let span = reason.span.clone();
                piece.with(|splice| splice.replace_span(span, &b"\"end_turn\""[..]))
            }
            None => piece.bytes(),
        }
    }

    fn emit(
        &mut self,
        held: &HeldCall,
        fate: &Fate,
        send: &mut Vec<Bytes>,
    ) -> Result<(), Malformed> {
        match fate {
            Fate::Release(stored) => {
                let arguments = match stored {
                    Some(stored) => held
                        .call
                        .stored(stored, &self.reply)
                        .ok_or_else(unwritable)?,
                    None => held.call.arguments(),
                };
                send.push(events::call(&held.start, self.left, &arguments)?);
                self.left += 1;
            }
            Fate::Drop(note) => {
                self.dropped += 1;
                if self.reply.note {
                    send.push(events::text(self.left, note)?);
                    self.left += 1;
                }
            }
        }
        Ok(())
    }

    /// Counts what is held; too much is refused.
    fn hold(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.bytes += bytes;
        check_held(self.calls, self.bytes, self.reply.held)
    }
}

impl ResponseReader for Reader {
    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn push(&mut self, frame: Frame) -> Result<Step, Malformed> {
        let Frame::Event(mut event) = frame else {
            return Err(misframed());
        };
        if self.phase == Phase::Over {
            return Ok(Step::default());
        }
        if event.event.as_deref() == Some("error") {
            return self.failed(event);
        }
        match event.data.take() {
            // What some servers of other APIs end with; clients skip it.
            Some(data) if !matches!(data.trim(), "" | "[DONE]") => {
                let document = Document::read(data.into(), BODY_DEPTH).map_err(|error| {
                    invalid_response(format!("an event is not strict JSON: {error}"))
                })?;
                self.piece(Piece::new(event, document)?)
            }
            data => {
                event.data = data;
                passed(event)
            }
        }
    }

    fn resolve(&mut self, decision: &Decision) -> Result<Vec<Bytes>, Malformed> {
        let mut send = Vec::new();
        match self.pending.take().ok_or_else(unwritable)? {
            Pending::Said(said) => return Ok(self.said(*said, &decision.rulings)?.send),
            Pending::Call(held) => {
                self.bytes = 0;
                let fates = fates(1, decision)?;
                let fate = fates.first().ok_or_else(unwritable)?;
                self.emit(&held, fate, &mut send)?;
            }
            Pending::End(piece) => {
                self.bytes = 0;
                let held = std::mem::take(&mut self.held);
                let calls = held.iter().filter(|held| matches!(held, Held::Call(_)));
                let fates = fates(calls.count(), decision)?;
                one_fate(&fates)?;
                let mut fates = fates.iter();
                for held in held {
                    match held {
                        Held::Call(held) => {
                            let fate = fates.next().ok_or_else(unwritable)?;
                            self.emit(&held, fate, &mut send)?;
                        }
                        Held::Block(pieces) => {
                            for piece in pieces {
                                send.push(piece.at(self.left)?);
                            }
                            self.left += 1;
                        }
                    }
                }
                send.push(self.ending(piece)?);
            }
        }
        Ok(send)
    }

    fn finish(&mut self) -> Result<Step, Malformed> {
        let waits = self.open.as_ref().is_some_and(|open| open.call.is_some());
        if waits || !self.held.is_empty() {
            return Err(Malformed {
                code: "upstream_truncated",
                message: "the stream ended before its calls were whole".to_owned(),
            });
        }
        self.rest()
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(b"event: ping\ndata: {\"type\": \"ping\"}\n\n")
    }

    fn unjudged(&self) -> Unjudged {
        self.unjudged.clone()
    }

    fn held(&self) -> usize {
        let pending = match &self.pending {
            Some(Pending::Said(said)) => said.piece.size(),
            _ => 0,
        };
        self.bytes + pending + self.text.as_ref().map_or(0, Text::held)
    }

    fn together(&self) -> Vec<Range<usize>> {
        if !matches!(self.pending, Some(Pending::End(_))) {
            return Vec::new();
        }
        let calls = self
            .held
            .iter()
            .filter(|held| matches!(held, Held::Call(_)));
        iter::once(0..calls.count()).collect()
    }
}
