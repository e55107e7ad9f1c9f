//! The time, handed in so that tests can set it.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Now, UTC.
    fn now(&self) -> Timestamp;

    /// How long it has been running: never set, and never steps back.
    fn running(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
}

/// The time for whatever runs out: the clock's, or what has passed since the start where the clock was set back.
pub struct Watermark {
    clock: Arc<dyn Clock>,
    start: Timestamp,
    running: Duration,
}

impl Watermark {
    /// From now on.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            start: clock.now(),
            running: clock.running(),
            clock,
        }
    }

    /// Now: never earlier than the time that has passed.
    pub fn now(&self) -> Timestamp {
        let passed = self.clock.running().saturating_sub(self.running);
        let passed = SignedDuration::try_from(passed).unwrap_or_default();
        let at_least = self.start.saturating_add(passed);
        self.clock.now().max(at_least.unwrap_or(self.start))
    }
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    /// As a shared clock.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
