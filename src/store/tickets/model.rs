//! The words of the ticket store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use super::digest::{BoundCall, CallDigest};
use super::{PENDING_PER_SESSION, REQUEST_WINDOW, REQUESTS_PER_USER};
use crate::guard::{Claim, Receipt};
use crate::names::{RouteName, RuleId, SessionKey, TicketId, ToolName, UpstreamName};
use crate::policy::{Gate, PolicyHash};
use crate::principal::Principal;
use crate::verdict::{LayerId, Reason};

/// Where a ticket stands.
///
/// `requested → approved | denied | expired | cancelled`, `approved → redeeming | denied | expired | cancelled`,
/// `redeeming → succeeded | failed | unknown | approved` (back only where provably no byte was sent). The others are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TicketState {
    /// Waits for a person.
    Requested,
    /// The identical call goes through once.
    Approved,
    /// A person said no.
    Denied,
    /// Ran out unanswered or unused.
    Expired,
    /// Replaced: the policy now asks for another gate or role.
    Cancelled,
    /// Claimed; the call is on its way.
    Redeeming,
    /// The upstream answered below 400.
    Succeeded,
    /// The upstream answered 400 or above.
    Failed,
    /// The call was sent and nobody knows what came of it.
    Unknown,
}

impl TicketState {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Requested,
        Self::Approved,
        Self::Denied,
        Self::Expired,
        Self::Cancelled,
        Self::Redeeming,
        Self::Succeeded,
        Self::Failed,
        Self::Unknown,
    ];

    /// The name in the store, the API and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Redeeming => "redeeming",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

impl fmt::Display for TicketState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// On what terms a call is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Under which policy.
    pub policy: PolicyHash,
    /// Which layer asked for the ticket.
    pub layer: LayerId,
    /// By which rule.
    pub rule: RuleId,
    /// Why.
    pub reason: Reason,
    /// Who must answer.
    pub gate: Gate,
    /// With which role.
    pub role: Option<String>,
    /// How long the request and its approval live.
    pub ttl: Duration,
    /// What the approver is asked; escaped.
    pub summary: String,
}

/// A held call, brought to the store.
#[derive(Clone, Debug)]
pub struct Presented {
    /// Digest and canonical arguments.
    pub call: BoundCall,
    /// On whose behalf.
    pub principal: Arc<Principal>,
    /// In which session.
    pub session: Option<SessionKey>,
    /// The route that carries it.
    pub route: RouteName,
    /// Where to.
    pub upstream: UpstreamName,
    /// What to run.
    pub tool: ToolName,
    /// A second identical act is wanted: a receipt is not given back.
    pub again: bool,
    /// For a new request.
    pub terms: Terms,
}

/// A limit on requests that a new one would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// [`super::PENDING_PER_SESSION`].
    PendingPerSession,
    /// [`super::REQUESTS_PER_USER`].
    RequestsPerUser,
}

impl Cap {
    /// One line for the operator.
    pub fn detail(self) -> String {
        match self {
            Self::PendingPerSession => format!(
                "{PENDING_PER_SESSION} requests of this session wait for an answer; no more are taken until one is answered"
            ),
            Self::RequestsPerUser => format!(
                "this user made {REQUESTS_PER_USER} requests within {} minutes; no more are taken",
                REQUEST_WINDOW.as_secs() / 60
            ),
        }
    }
}

/// What the store says of a presented call.
pub enum Standing {
    /// Approved, and claimed for this one call.
    Claimed(Box<dyn Claim>),
    /// Done before.
    Done(Receipt),
    /// Waits for a person.
    Waiting {
        /// The request.
        ticket: Box<Ticket>,
        /// It was made just now.
        new: bool,
    },
    /// Another call is redeeming the ticket.
    Redeeming(TicketId),
    /// Sent before with unknown outcome.
    Unknown(TicketId),
    /// Refused by a person less than [`super::DENIED_FOR`] ago.
    Denied(TicketId),
    /// The ticket ran out; said once, the next call makes a new request.
    Expired(TicketId),
    /// No request was made.
    Capped(Cap),
}

/// Who answered a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// `api:` and the approver's subject, or `local:` and the name of an operating system user.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// What they wrote.
    pub comment: Option<String>,
}

/// The stored outcome, without its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Completed {
    /// The upstream's status.
    pub status: u16,
    /// The upstream's content type.
    pub content_type: Option<String>,
    /// Length of the body in bytes.
    pub length: u64,
    /// SHA-256 of the body, lower-case hex.
    pub sha256: String,
    /// Whether the whole body is kept.
    pub whole: bool,
    /// When it was stored.
    pub at: Timestamp,
}

/// An earlier ticket of the identical call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Earlier {
    /// Which.
    pub id: TicketId,
    /// How it ended.
    pub state: TicketState,
    /// When it was asked for.
    pub created_at: Timestamp,
}

/// A ticket as approvers see it. The API and `--json` write it as it stands here.
#[derive(Clone, Debug, Serialize)]
pub struct Ticket {
    /// Its id.
    pub id: TicketId,
    /// Where it stands.
    pub state: TicketState,
    /// What it is bound to.
    pub digest: CallDigest,
    /// What the approver is asked; escaped.
    pub summary: String,
    /// What to run.
    pub tool: ToolName,
    /// Where to.
    pub upstream: UpstreamName,
    /// The route that carried the request.
    pub route: RouteName,
    /// Every argument, canonical: these bytes are sent.
    pub arguments: Box<RawValue>,
    /// On whose behalf; scopes are not kept.
    pub principal: Principal,
    /// In which session.
    pub session: Option<SessionKey>,
    /// Who must answer.
    pub gate: Gate,
    /// With which role.
    pub role: Option<String>,
    /// Policy at the time of the request.
    pub policy: PolicyHash,
    /// Name of the layer that asked.
    pub layer: String,
    /// Its rule.
    pub rule: RuleId,
    /// Its reason code.
    pub reason: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// Until when it may be answered and used.
    pub expires_at: Timestamp,
    /// The answer.
    pub answered: Option<Answered>,
    /// How often it was claimed.
    pub attempts: u32,
    /// What came of it.
    pub completed: Option<Completed>,
    /// The newest earlier ticket of the identical call that was sent.
    pub earlier: Option<Earlier>,
}
