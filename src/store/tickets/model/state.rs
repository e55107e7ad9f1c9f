//! Where a ticket stands.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a ticket stands.
///
/// `requested → approved | denied | expired | cancelled`, `approved → redeeming | expired | revoked | cancelled`,
/// `redeeming → succeeded | failed | unknown | approved` (back only where provably no byte was sent; a call under a mandate is
/// `cancelled` then), `unknown → resolved_done | resolved_not_done`, or `redeeming` once more where the upstream honours an
/// idempotency key. The others are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketState {
    /// Waits for a person.
    Requested,
    /// The identical call goes through once.
    Approved,
    /// A person said no.
    Denied,
    /// A person took the approval back before it was used.
    Revoked,
    /// Ran out unanswered or unused.
    Expired,
    /// Withdrawn without an answer; the [`Cause`] says why.
    Cancelled,
    /// Claimed; the call is on its way.
    Redeeming,
    /// The upstream answered below 400.
    Succeeded,
    /// The upstream answered 400 or above.
    Failed,
    /// The call was sent and nobody knows what came of it.
    Unknown,
    /// It turned out to have been carried out.
    ResolvedDone,
    /// It turned out not to have been carried out.
    ResolvedNotDone,
}

impl TicketState {
    /// Every state.
    pub const ALL: [Self; 12] = [
        Self::Requested,
        Self::Approved,
        Self::Denied,
        Self::Revoked,
        Self::Expired,
        Self::Cancelled,
        Self::Redeeming,
        Self::Succeeded,
        Self::Failed,
        Self::Unknown,
        Self::ResolvedDone,
        Self::ResolvedNotDone,
    ];

    /// The name in the store, the API and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Redeeming => "redeeming",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::ResolvedDone => "resolved_done",
            Self::ResolvedNotDone => "resolved_not_done",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Whether nothing changes it any more.
    pub const fn is_final(self) -> bool {
        !matches!(
            self,
            Self::Requested | Self::Approved | Self::Redeeming | Self::Unknown
        )
    }
}

impl fmt::Display for TicketState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a ticket was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The policy now asks for another gate, other roles or another number of approvals.
    TermsChanged,
    /// An object's owner or state, or the tool's definition, is not what was shown.
    StateChanged,
    /// A vote no longer counts: its approver has lost the role.
    ApproverLost,
    /// Nobody asks for it any more, or a call under a mandate was provably not sent.
    Withdrawn,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 4] = [
        Self::TermsChanged,
        Self::StateChanged,
        Self::ApproverLost,
        Self::Withdrawn,
    ];

    /// The name in the store and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TermsChanged => "terms_changed",
            Self::StateChanged => "state_changed",
            Self::ApproverLost => "approver_lost",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// The cause of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == name)
    }
}
