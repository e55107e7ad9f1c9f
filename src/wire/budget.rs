//! The memory that bodies may take together. A body that is held whole has its share for as long as its bytes live.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes per permit: a semaphore counts in 32 bits when it gives.
const UNIT: usize = 1 << 10;

/// Units that a share which changes keeps: events come and go.
const SPARE: usize = 16;

/// A number of bytes that shares are taken from.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Semaphore>);

impl Budget {
    /// A budget of so many bytes, rounded up to a KiB.
    pub fn new(bytes: usize) -> Self {
        let units = bytes.div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(units)))
    }

    /// An empty share.
    pub fn share(&self) -> Share {
        Share {
            budget: Arc::clone(&self.0),
            taken: None,
            bytes: 0,
        }
    }
}

/// What one body takes. Dropped, it is given back.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl Share {
    /// Takes so many bytes more; `false` where they are not left.
    pub fn grow(&mut self, by: usize) -> bool {
        self.bytes = self.bytes.saturating_add(by);
        let taken = self.taken.as_ref();
        let there = taken.map_or(0, OwnedSemaphorePermit::num_permits);
        let lacking = self.bytes.div_ceil(UNIT).saturating_sub(there);
        if lacking == 0 {
            return true;
        }
        let Ok(lacking) = u32::try_from(lacking) else {
            return false;
        };
        let Ok(more) = Arc::clone(&self.budget).try_acquire_many_owned(lacking) else {
            return false;
        };
        match &mut self.taken {
            Some(taken) => taken.merge(more),
            None => self.taken = Some(more),
        }
        true
    }

    /// Takes as much as so many bytes need in all, and gives back what is more than a little over it; `false` where they are not
    /// left.
    pub fn hold(&mut self, bytes: usize) -> bool {
        if let Some(by) = bytes.checked_sub(self.bytes) {
            return self.grow(by);
        }
        self.bytes = bytes;
        let needed = bytes.div_ceil(UNIT);
        if let Some(taken) = &mut self.taken {
            let spare = taken.num_permits().saturating_sub(needed);
            if spare > SPARE {
                drop(taken.split(spare));
            }
        }
        true
    }

    /// The same bytes, which now hold this share.
    pub fn over(self, bytes: Bytes) -> Bytes {
        if self.taken.is_none() {
            return bytes;
        }
        Bytes::from_owner(Held {
            bytes,
            _share: self,
        })
    }
}

struct Held {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_lives_as_long_as_any_of_its_bytes() {
        let budget = Budget::new(4 * UNIT);
        let mut share = budget.share();
        for _ in 0..3 {
            assert!(share.grow(UNIT));
        }
        let held = share.over(Bytes::from(vec![7; 3 * UNIT]));
        assert!(!budget.share().grow(2 * UNIT));
        let part = held.slice(10..20);
        drop(held);
        assert!(!budget.share().grow(2 * UNIT));
        assert_eq!(&part[..], [7; 10]);
        drop(part);
        assert!(budget.share().grow(4 * UNIT));
    }

    #[test]
    fn a_share_that_holds_less_gives_back() {
        let budget = Budget::new(100 * UNIT);
        let mut share = budget.share();
        assert!(share.hold(90 * UNIT));
        assert!(!budget.share().grow(20 * UNIT));
        assert!(share.hold(10 * UNIT));
        assert!(budget.share().grow(80 * UNIT));
        assert!(share.hold(0) && share.hold(100 * UNIT));
        assert!(!share.hold(101 * UNIT));
        drop(share);
        assert!(budget.share().grow(100 * UNIT));
    }

    #[test]
    fn what_is_refused_takes_nothing() {
        let budget = Budget::new(2 * UNIT);
        let mut share = budget.share();
        assert!(!share.grow(2 * UNIT + 1));
        drop(share);
        let mut share = budget.share();
        assert!(share.grow(1) && share.grow(UNIT) && share.grow(UNIT - 1));
        assert!(!budget.share().grow(1));
        assert!(!share.grow(usize::MAX));
    }
}
