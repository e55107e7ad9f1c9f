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

/// Somebody who is told.
pub(crate) trait Deliver: Send + Sync + 'static {
    /// Whether this row is for them.
    fn wants(&self, row: &AuditRow) -> bool;

    /// Tells them, once.
    fn deliver<'a>(&'a self, row: &'a AuditRow) -> BoxFuture<'a, Result<(), String>>;
}

/// Follows for ever. A row that is not taken is tried again before any later one: the order holds.
pub(crate) async fn follow(approvals: Arc<Approvals>, name: String, to: impl Deliver) {
    let mut wait = Wait::default();
    loop {
        match page(&approvals, &name, &to).await {
            Ok(true) => wait.reset(),
            Ok(false) => {
                wait.reset();
                tokio::time::sleep(POLL).await;
            }
            Err(error) => {
                tracing::error!(%error, follower = name, "the audit rows cannot be read");
                wait.turn().await;
            }
        }
    }
}

/// Whether there was anything.
async fn page(approvals: &Approvals, name: &str, to: &impl Deliver) -> Result<bool, TicketError> {
    let store = &approvals.store;
    let start = store.cursor(name.to_owned()).await?;
    let rows = store.audit(start, PAGE).await?;
    let oldest = approvals.clock.now() - FIRST_DAY;
    let (mut kept, mut at) = (start, start);
    for row in &rows {
        if to.wants(row) && (start > 0 || row.at >= oldest) {
            deliver(name, to, row).await;
            // Another process that follows under the same name was faster: it goes on from there.
            if !store.advance(name.to_owned(), kept, row.seq).await? {
                return Ok(true);
            }
            kept = row.seq;
        }
        at = row.seq;
    }
    if at > kept {
        store.advance(name.to_owned(), kept, at).await?;
    }
    Ok(!rows.is_empty())
}

async fn deliver(name: &str, to: &impl Deliver, row: &AuditRow) {
    let mut wait = Wait::default();
    while let Err(cause) = to.deliver(row).await {
        tracing::warn!(
            follower = name,
            seq = row.seq,
            cause,
            "an event was not taken; it is sent again"
        );
        wait.turn().await;
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
