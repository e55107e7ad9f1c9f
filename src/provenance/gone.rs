//! Sessions that gave way to others: who comes back is told from who is new.
//!
//! Bounded: two generations of hashes, and the older one goes as a whole once the younger one is full.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use super::sessions::Tie;

/// Most sessions of one generation.
const ROOM: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Gone {
    hasher: RandomState,
    young: HashSet<u64>,
    old: HashSet<u64>,
}

impl Gone {
    pub(super) fn add(&mut self, tie: &Tie) {
        if self.young.len() >= ROOM {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(self.hasher.hash_one(tie));
    }

    pub(super) fn has(&self, tie: &Tie) -> bool {
        let hash = self.hasher.hash_one(tie);
        self.young.contains(&hash) || self.old.contains(&hash)
    }

    /// Takes it out; whether it was there.
    pub(super) fn take(&mut self, tie: &Tie) -> bool {
        let hash = self.hasher.hash_one(tie);
        let young = self.young.remove(&hash);
        self.old.remove(&hash) || young
    }
}
