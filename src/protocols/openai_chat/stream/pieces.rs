//! Calls in members that nobody knows, in pieces: a client that puts the deltas of such a member together gets a call out of
//! chunks that hold none. Nobody can tell how it does so, so no such call is put together here: the stream is refused.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::super::invalid_response;
use super::super::stray::{self, Shape};
use crate::protocols::Malformed;
use crate::wire::json::{Kind, Node};

/// Most places in one choice that show something of a call.
const MOST: usize = 1024;

/// What the deltas of one choice have shown so far.
#[derive(Default)]
pub(super) struct Pieces {
    /// By the hash of the path: the same for all elements of an array, as clients put these together by position, by an
    /// index or not at all.
    shown: HashMap<u64, Shape>,
}

impl Pieces {
    /// Takes a delta.
    ///
    /// # Errors
    /// It adds to what an earlier one had of a call.
    pub fn take(&mut self, delta: &Node) -> Result<(), Malformed> {
        stray::none_as(delta)?;
        // Also of the message itself.
        if let Some(shape) = Shape::of(delta) {
            self.show(0, shape)?;
        }
        stray::places(delta).try_for_each(|m| self.below(&m.value, step(0, &m.key)))
    }

    fn below(&mut self, node: &Node, path: u64) -> Result<(), Malformed> {
        match &node.kind {
            Kind::Array(elements) => elements.iter().try_for_each(|e| self.below(e, path)),
            Kind::Object(members) => {
                let shape = Shape::of(node);
                if let Some(shape) = shape {
                    self.show(path, shape)?;
                }
                if shape == Some(Shape::Call) {
                    return Ok(());
                }
                let mut members = members.iter();
                members.try_for_each(|m| self.below(&m.value, step(path, &m.key)))
            }
            _ => Ok(()),
        }
    }

    fn show(&mut self, path: u64, shape: Shape) -> Result<(), Malformed> {
        if *self.shown.entry(path).or_insert(shape) != shape {
            return Err(invalid_response(
                "a call comes in pieces where none is expected",
            ));
        }
        if self.shown.len() > MOST {
            return Err(invalid_response(
                "the stream has too many members that look like parts of calls",
            ));
        }
        Ok(())
    }
}

fn step(path: u64, key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (path, key).hash(&mut hasher);
    hasher.finish()
}
