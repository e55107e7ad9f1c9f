//! A claimed ticket on its way to an outcome.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::Store;
use super::calls::finish;
use super::db::Db;
use crate::guard::{Claim, Outcome};
use crate::names::TicketId;
use crate::store::tickets::TicketError;
use crate::verdict::{LayerId, Undecided};

/// Between two tries to write how a lost claim ended, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// One claim of a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) ticket: TicketId,
    pub(super) number: u32,
    /// No other claim, of whichever process, has it.
    pub(super) token: String,
}

/// How far a claim has come, which tells what its loss means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nobody has seen it yet: nothing was sent.
    Kept,
    /// The guard has it: the call may be sent at any moment.
    HandedOver,
    /// Its outcome is stored.
    Finished,
}

/// A claim on a row; see [`Claim`].
pub(super) struct PostgresClaim {
    db: Arc<Db>,
    attempt: Attempt,
    arguments: Bytes,
    stage: Stage,
}

impl PostgresClaim {
    pub(super) fn new(store: &Store, attempt: Attempt, arguments: Bytes) -> Self {
        Self {
            db: Arc::clone(&store.0),
            attempt,
            arguments,
            stage: Stage::Kept,
        }
    }

    pub(super) fn hand_over(mut self) -> Box<dyn Claim> {
        self.stage = Stage::HandedOver;
        Box::new(self)
    }
}

async fn end(db: &Arc<Db>, attempt: Attempt, outcome: Outcome) -> Result<bool, TicketError> {
    let ended = Arc::new((attempt, outcome));
    db.step(move |tx| {
        let ended = Arc::clone(&ended);
        Box::pin(async move { finish(tx, &ended.0, &ended.1).await })
    })
    .await
}

impl Claim for PostgresClaim {
    fn ticket(&self) -> &TicketId {
        &self.attempt.ticket
    }

    fn arguments(&self) -> &Bytes {
        &self.arguments
    }

    fn finish(mut self: Box<Self>, outcome: Outcome) -> BoxFuture<'static, Result<(), Undecided>> {
        Box::pin(async move {
            // A failed write leaves the claim unfinished: its drop makes the ticket `unknown` as soon as the store is back.
            let under_way = end(&self.db, self.attempt.clone(), outcome)
                .await
                .map_err(|error| undecided(&error))?;
            self.stage = Stage::Finished;
            if under_way {
                return Ok(());
            }
            let ticket = self.attempt.ticket.clone();
            Err(undecided(&TicketError::Lost { ticket }))
        })
    }
}

fn undecided(error: &TicketError) -> Undecided {
    Undecided {
        layer: LayerId::Tickets,
        cause: error.to_string(),
    }
}

impl Drop for PostgresClaim {
    fn drop(&mut self) {
        let outcome = match self.stage {
            Stage::Finished => return,
            Stage::Kept => Outcome::NotSent,
            Stage::HandedOver => {
                tracing::error!(ticket = %self.attempt.ticket, "a claimed call ended without an outcome");
                Outcome::Unknown
            }
        };
        let (db, attempt) = (Arc::downgrade(&self.db), self.attempt.clone());
        // Until it is written, the ticket is under way; where it never is, the lease of this process ends and it is unknown.
        self.db.spawn(async move {
            let (mut pause, longest) = RETRY;
            while let Some(db) = db.upgrade() {
                match end(&db, attempt.clone(), outcome.clone()).await {
                    Ok(_) => return,
                    Err(error) => tracing::error!(%error, "a lost claim is not written yet"),
                }
                drop(db);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
        });
    }
}
