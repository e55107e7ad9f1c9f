//! A clock that moves only when told to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdpoint::clock::Clock;
use jiff::{SignedDuration, Timestamp};

/// A clock that moves only when told to.
pub struct StillClock {
    now: Mutex<Timestamp>,
    running: Mutex<Duration>,
}

impl StillClock {
    pub fn new() -> Arc<Self> {
        Self::at("2026-11-30T12:00:00Z")
    }

    pub fn at(now: &str) -> Arc<Self> {
        Arc::new(Self {
            now: Mutex::new(now.parse().unwrap()),
            running: Mutex::default(),
        })
    }

    /// Time passes.
    pub fn forward(&self, by: Duration) {
        *self.running.lock().unwrap() += by;
        let mut now = self.now.lock().unwrap();
        *now = now
            .checked_add(SignedDuration::try_from(by).unwrap())
            .unwrap();
    }

    /// Somebody sets the clock back.
    pub fn back(&self, by: Duration) {
        let mut now = self.now.lock().unwrap();
        *now = now
            .checked_sub(SignedDuration::try_from(by).unwrap())
            .unwrap();
    }
}

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        *self.now.lock().unwrap()
    }

    fn running(&self) -> Duration {
        *self.running.lock().unwrap()
    }
}
