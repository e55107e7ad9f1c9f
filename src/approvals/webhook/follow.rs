//! A follower of the audit rows: each row in order, at least once, until it is taken.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use futures_util::future::BoxFuture;
use jiff::SignedDuration;

use crate::approvals::Approvals;
use crate::store::tickets::TicketError;
use crate::store::tickets::audit::AuditRow;

/// Rows that are read at once.
const PAGE: u32 = 100;
/// Between two looks at a store in which nothing is new.
const POLL: Duration = Duration::from_millis(500);
/// After a failure, doubled with each one more.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// Who begins to follow a store that is there already is told of what happened in the last day.
const FIRST_DAY: SignedDuration = SignedDuration::from_hours(24);
/// Of several processes that follow under one name one has the turn, for so long after it last showed a sign of life.
const TURN: SignedDuration = SignedDuration::from_secs(20);

/// Somebody who is told.
pub(crate) trait Deliver: Send + Sync + 'static {
    /// Whether this row is for them.
    fn wants(&self, row: &AuditRow) -> bool;

    /// Tells them, once.
    fn deliver<'a>(&'a self, row: &'a AuditRow) -> BoxFuture<'a, Result<(), String>>;
}

/// Follows for ever. A row that is not taken is tried again before any later one: the order holds.
pub(crate) async fn follow(approvals: Arc<Approvals>, name: String, to: impl Deliver) {
    let mut follower = Follower {
        turn_name: format!("{name}:turn"),
        approvals,
        name,
        to,
        turn: 0,
    };
    let mut wait = Wait::default();
    loop {
        match follower.page().await {
            Ok(true) => wait.reset(),
            Ok(false) => {
                wait.reset();
                tokio::time::sleep(POLL).await;
            }
            Err(error) => {
                tracing::error!(%error, follower = follower.name, "the audit rows cannot be followed");
                wait.turn().await;
            }
        }
    }
}

struct Follower<T> {
    approvals: Arc<Approvals>,
    /// Of the cursor that says how far it has come, and of the one that says until when somebody has the turn.
    name: String,
    turn_name: String,
    to: T,
    /// Until when this process has it, milliseconds since 1970; 0: it has not.
    turn: u64,
}

impl<T: Deliver> Follower<T> {
    /// Whether there was anything to do for this process.
    async fn page(&mut self) -> Result<bool, TicketError> {
        let store = Arc::clone(&self.approvals.store);
        let start = store.cursor(self.name.clone()).await?;
        let rows = store.audit(start, PAGE).await?;
        let oldest = self.approvals.clock.now() - FIRST_DAY;
        let (mut kept, mut at) = (start, start);
        for row in &rows {
            if self.to.wants(row) && (start > 0 || row.at >= oldest) {
                if !self.deliver(row).await? {
                    return Ok(false);
                }
                // Another process had the turn in the meantime: it goes on from where that one is.
                if !store.advance(self.name.clone(), kept, row.seq).await? {
                    return Ok(true);
                }
                kept = row.seq;
            }
            at = row.seq;
        }
        if at > kept {
            store.advance(self.name.clone(), kept, at).await?;
        }
        Ok(!rows.is_empty())
    }

    /// Tries until it is taken; `false`: another process has the turn.
    async fn deliver(&mut self, row: &AuditRow) -> Result<bool, TicketError> {
        let mut wait = Wait::default();
        loop {
            if !self.has_turn().await? {
                return Ok(false);
            }
            let Err(cause) = self.to.deliver(row).await else {
                return Ok(true);
            };
            let follower = &self.name;
            tracing::warn!(
                follower,
                seq = row.seq,
                cause,
                "an event was not taken; it is sent again"
            );
            wait.turn().await;
        }
    }

    /// Keeps the turn, or takes it where nobody has it.
    async fn has_turn(&mut self) -> Result<bool, TicketError> {
        let now = self.approvals.clock.now();
        let millis = |at: jiff::Timestamp| u64::try_from(at.as_millisecond()).unwrap_or(0);
        let half = millis(now + TURN / 2);
        if self.turn > half {
            return Ok(true);
        }
        let store = &self.approvals.store;
        let found = store.cursor(self.turn_name.clone()).await?;
        if found != self.turn && found > millis(now) {
            self.turn = 0;
            return Ok(false);
        }
        let until = millis(now + TURN);
        let taken = store.advance(self.turn_name.clone(), found, until).await?;
        self.turn = if taken { until } else { 0 };
        Ok(taken)
    }
}

/// How long to wait before the next try.
struct Wait(Duration);

impl Default for Wait {
    fn default() -> Self {
        Self(FIRST_WAIT)
    }
}

impl Wait {
    const fn reset(&mut self) {
        self.0 = FIRST_WAIT;
    }

    /// Waits for half to all of it, so that many do not come at once.
    async fn turn(&mut self) {
        let mut byte = [0];
        let _ = rand::fill(&mut byte);
        let [byte] = byte;
        let half = self.0 / 2;
        tokio::time::sleep(half + half.mul_f64(f64::from(byte) / 255.0)).await;
        self.0 = (self.0 * 2).min(LONGEST_WAIT);
    }
}
