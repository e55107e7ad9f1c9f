//! A held call, brought to the store, and what the store says of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MandateOffer, Ticket};
use crate::guard::{Claim, Receipt};
use crate::names::{RouteName, RuleId, SessionKey, TicketId, ToolName, UpstreamName};
use crate::policy::{Gate, PolicyHash};
use crate::principal::Principal;
use crate::store::tickets::digest::BoundCall;
use crate::store::tickets::limits::TicketLimits;
use crate::verdict::{LayerId, Reason};

/// On what terms a call is held.
#[derive(Clone, Debug, PartialEq)]
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
    /// With one of which roles; empty: any approver.
    pub roles: Vec<String>,
    /// How many different people must approve: 1 or more.
    pub approvals: u32,
    /// An approval counts only with a security key or a log-in moments ago.
    pub fresh: bool,
    /// How long the request and its approval live.
    pub ttl: Duration,
    /// What the approver is asked; escaped.
    pub summary: String,
    /// The rule whose recipe finds out what became of an unknown call.
    pub reconcile: Option<RuleId>,
    /// What an approver may widen the permission to.
    pub mandate: Option<MandateOffer>,
    /// The upstream honours an `Idempotency-Key` for so long: within it an unknown call may be sent once more.
    pub idempotent: Option<Duration>,
}

/// A held call, brought to the store.
#[derive(Clone, Debug)]
pub struct Presented {
    /// Digest and canonical arguments.
    pub call: BoundCall,
    /// On whose behalf.
    pub principal: Arc<Principal>,
    /// In which session; `None` also where the rule widens to the principal.
    pub session: Option<SessionKey>,
    /// The route that carries it.
    pub route: RouteName,
    /// Where to.
    pub upstream: UpstreamName,
    /// What to run.
    pub tool: ToolName,
    /// A second identical act is wanted: a receipt is not given back.
    pub again: bool,
    /// A ticket that the caller named; never authority.
    pub hint: Option<TicketId>,
    /// The agent's own reason: text of the agent, shown as such.
    pub said: Option<String>,
    /// Facts at this moment.
    pub bound: Bound,
    /// For a new request.
    pub terms: Terms,
}

/// Facts that an approval relies on, beside the arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bound {
    /// SHA-256 of the tool's definition, hex; `None`: it has none that Holdpoint has seen.
    pub definition: Option<String>,
    /// Objects that the call names.
    pub resources: Vec<Resource>,
    /// JSON Pointers of arguments with a recipient, payee or host that the user has never used.
    pub first_time: Vec<String>,
    /// Where values of the arguments first appeared.
    pub origins: Vec<Origin>,
    /// JSON Pointers of the arguments that matter most, the most important first.
    pub key: Vec<String>,
}

impl Bound {
    /// Whether the facts that an approval relies on are the same: the tool's definition, and owner and state of each object.
    pub fn holds(&self, now: &Self) -> bool {
        let definition = match (&self.definition, &now.definition) {
            (Some(then), Some(now)) => then == now,
            // What nobody has seen has not changed: after a restart no definition is known until one passes again.
            _ => true,
        };
        definition && self.resources == now.resources
    }
}

/// An object that a call names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// JSON Pointer of the argument that names it.
    pub at: String,
    /// Its id there.
    pub id: String,
    /// The look-up that found it.
    pub lookup: String,
    /// Whose it is; `None`: nobody's, or not asked.
    pub owner: Option<String>,
    /// The columns that the rule binds; `None`: null.
    pub state: BTreeMap<String, Option<String>>,
}

/// Where a value of the arguments first appeared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// JSON Pointer of the argument.
    pub at: String,
    /// Who said it: `user`, or the tool in whose output it stood.
    pub from: String,
    /// What kind of source that is.
    pub source: String,
}

/// A limit on requests that a new one would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// [`TicketLimits::pending_per_session`].
    PendingPerSession,
    /// [`TicketLimits::requests_per_user`].
    RequestsPerUser,
}

impl Cap {
    /// One line for the operator.
    pub fn detail(self, limits: &TicketLimits) -> String {
        match self {
            Self::PendingPerSession => format!(
                "{} requests of this session wait for an answer; no more are taken until one is answered",
                limits.pending_per_session
            ),
            Self::RequestsPerUser => format!(
                "this user made {} requests within {} minutes; no more are taken",
                limits.requests_per_user,
                limits.request_window.as_secs() / 60
            ),
        }
    }
}

/// What the store says of a presented call.
#[derive(Debug)]
pub enum Standing {
    /// Approved and not claimed: it is to be claimed if what it relies on still holds.
    Approved(Box<Ticket>),
    /// Done before.
    Done(Receipt),
    /// Found to have been done before; what it answered is not known.
    ResolvedDone(TicketId),
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
    /// Refused by a person less than [`TicketLimits::denied_for`] ago.
    Denied {
        /// Which.
        ticket: TicketId,
        /// What the person wrote.
        comment: Option<String>,
    },
    /// The ticket ran out; said once, the next call makes a new request.
    Expired(TicketId),
    /// What the approval relied on is no longer so; said once, the next call makes a new request.
    StateChanged(TicketId),
    /// The caller named a ticket of another call, which is spent or under way.
    Mismatch(TicketId),
    /// No request was made.
    Capped(Cap),
}

/// What became of a claim.
pub enum Claiming {
    /// Claimed for this one call.
    Claimed(Box<dyn Claim>),
    /// The ticket is no longer to be had; this is where the call stands now.
    Lost(Standing),
}
