//! Tickets as the guard sees them: a held call is settled, a claim carries the call to its outcome.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::item::{Exchange, ToolCall, ToolDefinition};
use crate::layers::Context;
use crate::names::TicketId;
use crate::verdict::{Finding, Hold, Undecided};

/// The stored outcome of a ticketed call, given back when the same call is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The ticket that was spent.
    pub ticket: TicketId,
    /// The upstream's status; 200 for a call released to the agent.
    pub status: u16,
    /// The upstream's content type.
    pub content_type: Option<String>,
    /// The body as the agent got it, after the guard's rewrites.
    #[serde(with = "as_text")]
    pub body: Bytes,
    /// When the outcome was stored.
    pub completed_at: Timestamp,
}

mod as_text {
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(body: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&String::from_utf8_lossy(body))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        String::deserialize(from).map(Bytes::from)
    }
}

/// What came of a claimed call.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Provably no byte of the request left: the ticket is approved again.
    NotSent,
    /// The upstream answered, whatever the status: the ticket is spent.
    Answered(Receipt),
    /// The upstream answered, and its answer cannot be given: the receipt is what the agent gets in its place.
    Withheld(Receipt),
    /// Sent, and no whole answer came: the ticket is `unknown` and never sent again by itself.
    Unknown,
}

impl Outcome {
    /// What repeats of the call get.
    pub const fn receipt(&self) -> Option<&Receipt> {
        match self {
            Self::Answered(receipt) | Self::Withheld(receipt) => Some(receipt),
            Self::NotSent | Self::Unknown => None,
        }
    }
}

/// A ticket that is being redeemed for exactly one call. Dropped without an outcome it ends as `unknown`.
pub trait Claim: Send + Sync {
    /// The ticket.
    fn ticket(&self) -> &TicketId;

    /// The arguments as stored when the ticket was asked for (RFC 8785): these are sent, not the fresh ones.
    fn arguments(&self) -> &Bytes;

    /// Stores the outcome durably, before the agent is answered.
    fn finish(self: Box<Self>, outcome: Outcome) -> BoxFuture<'static, Result<(), Undecided>>;
}

/// What the tickets say of a held call.
pub enum Settlement {
    /// Approved and claimed: send the stored call once.
    Redeem(Box<dyn Claim>),
    /// Done before: give the receipt back, send nothing.
    Replay(Receipt),
    /// Waits for a person.
    Hold(Hold),
    /// Refused for what became of the ticket that it names: denied, run out, under way, of unknown outcome.
    Refuse(Hold),
    /// Refused: no approver, too many requests, arguments that cannot be bound.
    Deny(Finding),
}

/// Settles calls that every other layer allows or holds. Implemented by the tickets layer.
pub trait Settler: Send + Sync {
    /// Looks the call up by (tenant, principal, session, digest), asks for a ticket where there is none, claims it where
    /// it is approved. `hold` is what the layers asked for.
    fn settle<'a>(
        &'a self,
        call: &'a ToolCall,
        context: &'a Context<'a>,
        hold: Hold,
    ) -> BoxFuture<'a, Result<Settlement, Undecided>>;

    /// A definition of a tool that the agent is offered, and that no layer refuses: approvals are bound to it.
    fn offered(&self, _exchange: &Exchange, _definition: &ToolDefinition) {}

    /// Waits until the ticket is no longer as the call was told, at most `within`; whether it has changed.
    fn changed<'a>(
        &'a self,
        told: &'a Hold,
        within: Duration,
    ) -> BoxFuture<'a, Result<bool, Undecided>>;
}
