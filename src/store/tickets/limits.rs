//! How much a ticket store takes, and for how long it remembers.

use std::time::Duration;

/// How much a ticket store takes, and for how long it remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketLimits {
    /// How long a receipt is given back to the identical call.
    pub replay_window: Duration,
    /// A denied call is refused for this long without asking again.
    pub denied_for: Duration,
    /// Requests of one session that may wait for an answer at once.
    pub pending_per_session: u32,
    /// Requests that one user may make in [`Self::request_window`].
    pub requests_per_user: u32,
    /// See [`Self::requests_per_user`].
    pub request_window: Duration,
    /// Tickets that ended are removed after so long; those of unknown outcome stay.
    pub keep_tickets: Duration,
    /// Bodies of receipts are removed after so long, never before [`Self::replay_window`] has passed.
    pub keep_receipts: Duration,
}

impl Default for TicketLimits {
    fn default() -> Self {
        const DAY: Duration = Duration::from_hours(24);
        Self {
            replay_window: DAY,
            denied_for: Duration::from_mins(10),
            pending_per_session: 5,
            requests_per_user: 20,
            request_window: Duration::from_hours(1),
            keep_tickets: DAY.saturating_mul(90),
            keep_receipts: DAY.saturating_mul(30),
        }
    }
}

impl TicketLimits {
    /// The usual ones with another replay window.
    pub fn replaying(window: Duration) -> Self {
        Self {
            replay_window: window,
            ..Self::default()
        }
    }
}
