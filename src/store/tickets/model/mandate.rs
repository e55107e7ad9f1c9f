//! Bounded mandates: permission for several calls of one tool, up to a sum and a number, for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Decider, Person, Standing};
use crate::guard::Claim;
use crate::names::{MandateId, RuleId, SessionKey, TicketId, ToolName, UpstreamName};
use crate::policy::Gate;

/// What an approver may widen a permission to, as a rule offers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MandateOffer {
    /// JSON Pointer of the amount; `None`: only calls are counted.
    pub amount: Option<String>,
    /// JSON Pointer of the currency; `None`: amounts have none.
    pub currency: Option<String>,
    /// What all amounts together may come to.
    #[serde(with = "rust_decimal::serde::str_option", default)]
    pub at_most: Option<Decimal>,
    /// How many calls.
    pub uses: u32,
    /// How long it lives.
    pub within: Duration,
    /// JSON Pointers of arguments that must be what they were when it was given, such as the payee.
    #[serde(default)]
    pub same: Vec<String>,
}

/// A mandate that an approver gives on a request. What is left out is as the rule offers it; nothing can be more.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMandate {
    /// The request whose offer is taken: the mandate is for its user, tool and upstream.
    pub ticket: TicketId,
    /// Who gives it: whoever may approve the request.
    pub by: Decider,
    /// Start of the digest that the person was shown.
    pub digest_prefix: Option<String>,
    /// Fewer calls than offered.
    pub uses: Option<u32>,
    /// A smaller sum than offered.
    pub at_most: Option<Decimal>,
    /// A shorter life than offered.
    pub within: Option<Duration>,
    /// For the record.
    pub comment: Option<String>,
}

/// What a call spends of a mandate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spend {
    /// How much: not negative.
    pub amount: Decimal,
    /// Of what.
    pub currency: Option<String>,
}

/// A mandate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mandate {
    /// Its id.
    pub id: MandateId,
    /// Whose calls: tenant.
    pub tenant: String,
    /// Issuer.
    pub issuer: String,
    /// End user.
    pub subject: String,
    /// Agent.
    pub agent: String,
    /// Session; `None`: any of the user's.
    pub session: Option<SessionKey>,
    /// Where to.
    pub upstream: UpstreamName,
    /// Which tool.
    pub tool: ToolName,
    /// Arguments that must be these.
    pub same: BTreeMap<String, Value>,
    /// What all amounts together may come to; `None`: only calls are counted.
    #[serde(with = "rust_decimal::serde::str_option")]
    pub at_most: Option<Decimal>,
    /// Of what.
    pub currency: Option<String>,
    /// How many calls.
    pub uses: u32,
    /// What its calls came to so far; those under way count.
    #[serde(with = "rust_decimal::serde::str")]
    pub spent: Decimal,
    /// How many calls were made under it.
    pub used: u32,
    /// The rule that offered it.
    pub rule: RuleId,
    /// The request on which it was given; `None`: an orchestrator signed it.
    pub ticket: Option<TicketId>,
    /// Who gave it.
    pub granted_by: Person,
    /// As whom they gave it; `None`: an orchestrator signed it.
    #[serde(skip)]
    pub given: Option<Given>,
    /// When.
    pub granted_at: Timestamp,
    /// What they wrote.
    pub comment: Option<String>,
    /// Until when.
    pub expires_at: Timestamp,
    /// Who ended it early.
    pub ended_by: Option<String>,
    /// When.
    pub ended_at: Option<Timestamp>,
}

/// As whom a person gave a mandate: what is asked about anew whenever it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The gate of the request.
    pub gate: Gate,
    /// Their roles.
    pub roles: Vec<String>,
    /// Whether they had just shown who they are.
    pub strong: bool,
}

/// Whether whoever gave a mandate may give it still.
pub type Stands = Arc<dyn Fn(&Mandate) -> bool + Send + Sync>;

/// Which mandates to list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MandateFilter {
    /// Only those under which a call may pass.
    pub live: bool,
    /// Only these tenants'; `None`: every.
    pub tenants: Option<Vec<String>>,
    /// Only this user's.
    pub subject: Option<String>,
    /// At most so many.
    pub limit: u32,
}

impl Default for MandateFilter {
    fn default() -> Self {
        Self {
            live: false,
            tenants: None,
            subject: None,
            limit: 100,
        }
    }
}

/// What became of a call that was brought to the mandates.
pub enum Mandated {
    /// No mandate covers it.
    NoMandate,
    /// The call would pass the limit of the mandate that covers it.
    Exceeded(MandateId),
    /// The identical call was made before, and stands so.
    Said(Standing),
    /// Reserved and claimed for this one call.
    Claimed(Box<dyn Claim>),
}

/// What a signed ticket of an orchestrator permits.
#[derive(Clone, Debug, PartialEq)]
pub enum Grants {
    /// The call that presents it.
    Call,
    /// A mandate for the tool and user of the call that presents it.
    Mandate {
        /// How many calls.
        uses: u32,
        /// What all amounts may come to.
        at_most: Option<Decimal>,
        /// Of what.
        currency: Option<String>,
        /// Arguments that must be these.
        same: BTreeMap<String, Value>,
        /// Only in the session of the call.
        session: bool,
    },
}

/// A verified ticket that an orchestrator signed.
#[derive(Clone, Debug, PartialEq)]
pub struct Issued {
    /// Its own id, unique for its issuer: taken once, ever.
    pub id: String,
    /// Issuer and key, for the record.
    pub key: String,
    /// On whose consent.
    pub by: Person,
    /// From then on it is no longer good.
    pub expires_at: Timestamp,
    /// What it permits.
    pub grants: Grants,
}
