//! Tickets: requested, approved, redeemed once, and the receipt that repeats give back.
//!
//! A store owns the states of tickets and their transitions, each one transaction. What needs a ticket and what the agent is
//! told belong to `layers::tickets`; who a person is belongs to the approver listener and the command line.

mod answer;
pub mod digest;
mod model;
pub mod sqlite;

use std::collections::BTreeMap;
use std::time::Duration;

pub use answer::{Answer, AnswerError, Decider};
use futures_util::future::BoxFuture;
pub use model::{
    Answered, Cap, Completed, Earlier, Presented, Standing, Terms, Ticket, TicketState,
};

use crate::names::TicketId;

/// A denied call is refused for this long without asking again.
pub const DENIED_FOR: Duration = Duration::from_mins(10);

/// Requests of one session that may wait for an answer at once.
pub const PENDING_PER_SESSION: u32 = 5;

/// Requests that one user may make in [`REQUEST_WINDOW`].
pub const REQUESTS_PER_USER: u32 = 20;

/// See [`REQUESTS_PER_USER`].
pub const REQUEST_WINDOW: Duration = Duration::from_hours(1);

/// Largest receipt body, in bytes, that is kept whole. Of a larger one the first [`RECEIPT_HEAD`] bytes, the length and the
/// SHA-256 are kept.
pub const RECEIPT_BODY: usize = 256 << 10;

/// See [`RECEIPT_BODY`].
pub const RECEIPT_HEAD: usize = 4 << 10;

/// Why a store cannot be opened or did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum TicketError {
    /// The file cannot be opened or made.
    #[error("cannot open the ticket store {path}: {cause}")]
    Open {
        /// Its path.
        path: String,
        /// Why, and what to do.
        cause: String,
    },
    /// The file is something else.
    #[error("{path} is not a ticket store; name the file that `tickets.store` in the config names")]
    NotATicketStore {
        /// Its path.
        path: String,
    },
    /// The file was written by a newer version.
    #[error(
        "{path} has ticket schema {found}, this holdpoint knows {known}; use the newer version"
    )]
    Newer {
        /// Its path.
        path: String,
        /// Schema version of the file.
        found: i64,
        /// Schema version of this build.
        known: i64,
    },
    /// Another process serves it: two would take each other's calls for lost.
    #[error(
        "the ticket store {path} is served by another process; stop that one first or give each its own store"
    )]
    Served {
        /// Its path.
        path: String,
    },
    /// The store failed; nothing was decided.
    #[error("the ticket store failed: {cause}")]
    Unavailable {
        /// Why, without payload text.
        cause: String,
    },
    /// The claim ended before its outcome came: the ticket's state stands.
    #[error("ticket {ticket} is no longer being redeemed")]
    Lost {
        /// Which.
        ticket: TicketId,
    },
}

/// Which tickets to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Only these; `None`: all.
    pub state: Option<TicketState>,
    /// At most so many.
    pub limit: u32,
}

/// Where tickets live. Every call is one transaction; an error means that nothing changed.
pub trait TicketStore: Send + Sync {
    /// Looks the call up and does what its newest ticket says: claims it where it is approved, gives its receipt back where
    /// it is done, asks for a new one where there is none. A claim is durable before this returns.
    fn present(&self, call: Presented) -> BoxFuture<'_, Result<Standing, TicketError>>;

    /// Approves or denies.
    fn answer(&self, answer: Answer) -> BoxFuture<'_, Result<Ticket, AnswerError>>;

    /// One ticket; `None`: there is none of that id.
    fn get(&self, ticket: TicketId) -> BoxFuture<'_, Result<Option<Ticket>, TicketError>>;

    /// Temporary.
    fn changed(
        &self,
        ticket: TicketId,
        seen: TicketState,
        within: Duration,
    ) -> BoxFuture<'_, Result<TicketState, TicketError>> {
        Box::pin(async move {
            let until = tokio::time::Instant::now() + within;
            loop {
                let state = self.get(ticket.clone()).await?.map_or(seen, |t| t.state);
                if state != seen || tokio::time::Instant::now() >= until {
                    return Ok(state);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
    }

    /// Tickets, newest first.
    fn list(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Ticket>, TicketError>>;

    /// How many tickets are in each state; every state is named.
    fn counts(&self) -> BoxFuture<'_, Result<BTreeMap<TicketState, u64>, TicketError>>;
}
