//! Text of a stream: what of it a rule asks about waits, and leaves by the rulings over it.

use super::super::call::BlockKind;
use super::super::events::Piece;
use super::super::whole::text_pointer;
use super::{Pending, Phase, Reader};
use crate::protocols::rendered::{self, Part, Text};
use crate::protocols::{Malformed, Step, unwritable};
use crate::verdict::Ruling;

/// An event with text that is judged.
pub(super) struct Said {
    pub piece: Piece,
    parts: Vec<Part>,
    /// It starts its block.
    starts: bool,
    /// The event that ends it, behind this one.
    stop: Option<Piece>,
}

impl Reader {
    /// The end of a block without a call.
    pub(super) fn block_stop(
        &mut self,
        piece: Piece,
        kind: BlockKind,
        index: u64,
    ) -> Result<Step, Malformed> {
        let text = self.text.as_mut().filter(|_| kind == BlockKind::Text);
        let parts = text.map(Text::end).unwrap_or_default();
        if parts.is_empty() {
            return self.stopped(piece);
        }
        self.judged(Said {
            piece: Piece::delta(index)?,
            parts,
            starts: false,
            stop: Some(piece),
        })
    }

    fn stopped(&mut self, piece: Piece) -> Result<Step, Malformed> {
        let step = self.block_piece(piece, false)?;
        if self.held.is_empty() {
            self.left += 1;
        }
        Ok(step)
    }

    /// A piece of a block without a call: what of its text is to be judged waits.
    pub(super) fn text_piece(
        &mut self,
        piece: Piece,
        kind: BlockKind,
        starts: bool,
    ) -> Result<Step, Malformed> {
        let text = self.text.as_mut().filter(|_| kind == BlockKind::Text);
        let (Some(text), Some(words)) = (text, piece.text()) else {
            return self.block_piece(piece, starts);
        };
        let parts = text.push(words);
        self.judged(Said {
            piece,
            parts,
            starts,
            stop: None,
        })
    }

    fn judged(&mut self, said: Said) -> Result<Step, Malformed> {
        let position = self.started.saturating_sub(1);
        let judge: Vec<_> = rendered::located(&said.parts, &text_pointer(position)).collect();
        if judge.is_empty() {
            return self.said(said, &[]);
        }
        self.pending = Some(Pending::Said(Box::new(said)));
        Ok(Step {
            send: Vec::new(),
            judge,
        })
    }

    /// Text by the rulings over it.
    pub(super) fn said(&mut self, said: Said, rulings: &[Ruling]) -> Result<Step, Malformed> {
        let mut rulings = rulings.iter();
        let text = rendered::written(&said.parts, &mut rulings)?;
        if rulings.next().is_some() {
            return Err(unwritable());
        }
        let waits = text.is_empty() && !said.piece.text().unwrap_or_default().is_empty();
        let mut step = Step::default();
        if said.starts || !waits {
            step = self.block_piece(said.piece.saying(&text)?, said.starts)?;
        }
        if let Some(stop) = said.stop {
            step.send.extend(self.stopped(stop)?.send);
        }
        Ok(step)
    }

    /// What waits where the stream ends within its block.
    pub(super) fn rest(&mut self) -> Result<Step, Malformed> {
        let text = self.text.as_mut().filter(|text| text.held() > 0);
        match (text, &self.open) {
            (Some(text), Some(open)) if self.phase == Phase::Blocks => {
                let said = Said {
                    parts: text.end(),
                    piece: Piece::delta(open.index)?,
                    starts: false,
                    stop: None,
                };
                self.judged(said)
            }
            _ => Ok(Step::default()),
        }
    }
}
