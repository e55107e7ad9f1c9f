//! A claimed ticket on its way to an outcome.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::calls::{Attempt, finish};
use super::writer::Writer;
use crate::guard::{Claim, Outcome};
use crate::names::TicketId;
use crate::store::tickets::TicketError;
use crate::verdict::{LayerId, Undecided};

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
pub(super) struct SqliteClaim {
    writer: Arc<Writer>,
    attempt: Attempt,
    arguments: Bytes,
    stage: Stage,
}

impl SqliteClaim {
    pub(super) const fn new(writer: Arc<Writer>, attempt: Attempt, arguments: Bytes) -> Self {
        Self {
            writer,
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

impl Claim for SqliteClaim {
    fn ticket(&self) -> &TicketId {
        &self.attempt.ticket
    }

    fn arguments(&self) -> &Bytes {
        &self.arguments
    }

    fn finish(mut self: Box<Self>, outcome: Outcome) -> BoxFuture<'static, Result<(), Undecided>> {
        Box::pin(async move {
            let attempt = self.attempt.clone();
            let stored = self
                .writer
                .run(move |tx| finish(tx, &attempt, &outcome))
                .await;
            // A failed write leaves the claim unfinished: its drop makes the ticket `unknown` as soon as the store is back.
            let under_way = stored.map_err(|error| undecided(&error))?;
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

impl Drop for SqliteClaim {
    fn drop(&mut self) {
        let outcome = match self.stage {
            Stage::Finished => return,
            Stage::Kept => Outcome::NotSent,
            Stage::HandedOver => {
                tracing::error!(ticket = %self.attempt.ticket, "a claimed call ended without an outcome");
                Outcome::Unknown
            }
        };
        self.writer.abandon(self.attempt.clone(), outcome);
    }
}
