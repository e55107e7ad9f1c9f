//! Log-ins of approvers, where the store keeps them for every process that serves it.

use std::time::Duration;

use jiff::Timestamp;

use super::Answering;

/// The SHA-256 of a log-in's name, which only its browser has.
pub type LogInName = [u8; 32];

/// One log-in, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogIn {
    /// Whose: one text for each human.
    pub human: String,
    /// What is known of it, as JSON.
    pub facts: String,
    /// When it began.
    pub since: Timestamp,
    /// When it was last used.
    pub used: Timestamp,
}

/// How long log-ins live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogInLife {
    /// Without a use.
    pub idle: Duration,
    /// In all.
    pub absolute: Duration,
    /// How many one human may have; the longest unused ends.
    pub each: u32,
}

/// Keeps log-ins. Times of a log-in are those of the caller's clock.
pub trait LogIns: Send + Sync {
    /// Begins one, and ends another in its place.
    fn begin(
        &self,
        name: LogInName,
        log_in: LogIn,
        instead_of: Option<LogInName>,
        life: LogInLife,
    ) -> Answering<'_, ()>;

    /// The log-in of that name, if it has not ended by `now`. It counts as used, to the minute.
    fn get(&self, name: LogInName, now: Timestamp, life: LogInLife)
    -> Answering<'_, Option<LogIn>>;

    /// Ends it.
    fn end(&self, name: LogInName) -> Answering<'_, ()>;
}
