//! Permissions that people give.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::names::RuleId;

/// Who gives the permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// The same end user, outside the model's reach.
    Confirm,
    /// Somebody else with the role.
    Approve,
}

/// The call needs a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketRule {
    /// `tools[3].ticket`.
    pub id: RuleId,
    /// Who.
    pub gate: Gate,
    /// Which role the approver must have; `None`: any approver.
    pub role: Option<String>,
    /// How long a request and its approval live.
    pub ttl: Duration,
    /// How long a call waits for an answer before its agent gets one; `None`: it gets one at once.
    pub hold: Option<Duration>,
    /// Template for the approver: `{/json/pointer}` is replaced by the stored argument.
    pub summary: Option<String>,
}
