//! Tickets: requested, approved, redeemed once, and the receipt that repeats give back.
//!
//! A store owns the states of tickets and their transitions, each one transaction; what leads where is said once, in [`rules`]
//! and [`answer`], for every store. What needs a ticket and what the agent is
//! told belong to `layers::tickets`; who a person is belongs to the approver listener and the command line.

mod answer;
pub mod audit;
mod columns;
pub mod digest;
mod directory;
pub mod issued;
mod limits;
pub mod logins;
mod model;
mod open;

pub mod postgres;
pub mod rules;
pub mod sqlite;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use answer::{Answer, AnswerError, Counted, Resolution, Resolver};
pub use directory::{Authority, Directory, Nobody};
use futures_util::future::BoxFuture;
pub use limits::TicketLimits;
pub use model::{
    Bound, Cap, Cause, Channel, Claiming, Completed, Decider, Earlier, Given, Grants, Issued,
    Mandate, MandateFilter, MandateOffer, Mandated, NewMandate, Origin, Person, Presented,
    Resolved, Resource, Spend, Standing, Stands, Terms, Ticket, TicketState, Verdict, Vote, Voter,
};
pub use open::{Opened, existing, serve};
use uuid::Uuid;

use self::audit::{AuditRow, Head, Note};
use crate::names::{MandateId, TicketId};

/// Largest receipt body, in bytes, that is kept whole. Of a larger one the first [`RECEIPT_HEAD`] bytes, the length and the
/// SHA-256 are kept.
pub const RECEIPT_BODY: usize = 256 << 10;

/// See [`RECEIPT_BODY`].
pub const RECEIPT_HEAD: usize = 4 << 10;

/// How often a store that others write to is looked at by those who wait for a change.
pub const POLL: Duration = Duration::from_millis(250);

/// A new id, sortable by time.
pub fn new_ticket_id() -> TicketId {
    TicketId::new(format!("tkt_{}", Uuid::now_v7().simple()))
}

/// A new id, sortable by time.
pub fn new_mandate_id() -> MandateId {
    MandateId::new(format!("mdt_{}", Uuid::now_v7().simple()))
}

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
    /// The file was written by an older version, and only the process that serves it brings it up to date.
    #[error(
        "{path} has an older ticket schema ({found}); start `holdpoint serve` with it once, which brings it up to date"
    )]
    Older {
        /// Its path.
        path: String,
        /// Schema version of the file.
        found: i64,
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

/// Which tickets to list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Only these states; empty: every.
    pub states: Vec<TicketState>,
    /// Only these tenants'; `None`: every.
    pub tenants: Option<Vec<String>>,
    /// Only this issuer's users.
    pub issuer: Option<String>,
    /// Only this user's.
    pub subject: Option<String>,
    /// Only for this tool.
    pub tool: Option<String>,
    /// Only at this upstream.
    pub upstream: Option<String>,
    /// Only those asked for before the one with this [`Ticket::seq`]: the next page.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: u32,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            states: Vec::new(),
            tenants: None,
            issuer: None,
            subject: None,
            tool: None,
            upstream: None,
            before: None,
            limit: 100,
        }
    }
}

impl Filter {
    /// Tickets in one state.
    pub fn state(state: TicketState) -> Self {
        Self {
            states: vec![state],
            ..Self::default()
        }
    }
}

/// What a store says.
pub type Answering<'a, T, E = TicketError> = BoxFuture<'a, Result<T, E>>;

/// Where tickets live. Every call is one transaction; an error means that nothing changed.
pub trait TicketStore: Send + Sync {
    /// Looks the call up and says where it stands; makes a request where there is none. Claims nothing.
    fn present(&self, call: Presented) -> Answering<'_, Standing>;

    /// Claims the ticket for this one call; the claim is durable before this returns. A claim whose caller has gone is given
    /// back.
    fn claim(&self, call: Presented, ticket: TicketId) -> Answering<'_, Claiming>;

    /// Cancels a request or an approval; `false`: it is neither, and nothing changed.
    fn void(&self, ticket: TicketId, cause: Cause) -> Answering<'_, bool>;

    /// One person's answer.
    fn answer(&self, answer: Answer) -> Answering<'_, Ticket, AnswerError>;

    /// Says what became of a call whose outcome was unknown.
    fn resolve(&self, resolution: Resolution) -> Answering<'_, Ticket, AnswerError>;

    /// One ticket; `None`: there is none of that id.
    fn get(&self, ticket: TicketId) -> Answering<'_, Option<Ticket>>;

    /// Tickets, newest first; [`Ticket::earlier`] is left out.
    fn list(&self, filter: Filter) -> Answering<'_, Vec<Ticket>>;

    /// Tickets of unknown outcome, oldest first.
    fn unknown(&self, limit: u32) -> Answering<'_, Vec<Ticket>>;

    /// How many tickets are in each state; every state is named.
    fn counts(&self) -> Answering<'_, BTreeMap<TicketState, u64>>;

    /// Waits until the ticket is no longer as it was `seen`, for at most `within`; where it stands then. Another process's
    /// change is seen as well, within [`POLL`].
    fn changed(
        &self,
        ticket: TicketId,
        seen: TicketState,
        within: Duration,
    ) -> Answering<'_, TicketState>;

    /// Gives a mandate on a request.
    fn grant(&self, mandate: NewMandate) -> Answering<'_, Mandate, AnswerError>;

    /// Mandates, newest first.
    fn mandates(&self, filter: MandateFilter) -> Answering<'_, Vec<Mandate>>;

    /// Ends a mandate early; `None`: there is none of that id that this person may see.
    fn end_mandate(&self, mandate: MandateId, by: Decider) -> Answering<'_, Option<Mandate>>;

    /// Claims a call under a mandate that covers it, where the rule offers mandates. What it spends is reserved with the claim,
    /// and free again when provably nothing was sent or the upstream refused. A mandate that covers it and does not stand is
    /// ended for good.
    fn claim_under(
        &self,
        call: Presented,
        spend: Option<Spend>,
        stands: Stands,
    ) -> Answering<'_, Mandated>;

    /// Takes a verified ticket that an orchestrator signed: the call is approved, or has a mandate. `false`: the ticket was taken
    /// before, has run out, or does not count here; nothing changed.
    fn admit(&self, call: Presented, issued: Issued) -> Answering<'_, bool>;

    /// Writes an audit row that belongs to no transition.
    fn note(&self, note: Note) -> Answering<'_, ()>;

    /// The last row of the audit.
    fn head(&self) -> Answering<'_, Head>;

    /// Audit rows after number `after`, in order.
    fn audit(&self, after: u64, limit: u32) -> Answering<'_, Vec<AuditRow>>;

    /// How far a follower of the audit has come; 0 at first.
    fn cursor(&self, name: String) -> Answering<'_, u64>;

    /// Moves a follower on; `false`: it is no longer at `from`, and nothing changed.
    fn advance(&self, name: String, from: u64, to: u64) -> Answering<'_, bool>;

    /// Removes tickets and receipts that are older than the [`TicketLimits`] keep them; how many tickets. Audit rows stay.
    fn prune(&self) -> Answering<'_, u64>;

    /// How much the store takes and how long it remembers.
    fn limits(&self) -> &TicketLimits;

    /// Where log-ins of approvers are kept for every process that serves the store; `None`: each process keeps its own.
    fn log_ins(&self) -> Option<Arc<dyn logins::LogIns>> {
        None
    }
}
