//! Permissions that people give.

use std::collections::BTreeSet;
use std::time::Duration;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use super::{Condition, Scalar, Selector};
use crate::names::{LookupName, RuleId};

/// Who gives the permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// The same end user, outside the model's reach.
    Confirm,
    /// Somebody else with the role.
    Approve,
}

/// Where an approval holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scope {
    /// In the session in which it was asked for.
    #[default]
    Session,
    /// For the principal, in whichever session the identical call comes.
    Principal,
}

/// The call needs a ticket.
#[derive(Clone, Debug)]
pub struct TicketRule {
    /// `tools[3].ticket`.
    pub id: RuleId,
    /// Who.
    pub gate: Gate,
    /// How many different people must approve; 1 with [`Gate::Confirm`].
    pub approvals: u32,
    /// Roles of which an approver must have one; empty: any approver.
    pub roles: Vec<String>,
    /// An approver must have logged in just now, or approve with a key of their own device.
    pub fresh_login: bool,
    /// How long a request and its approval live.
    pub ttl: Duration,
    /// How long a held call waits for the answer before it is told to come again; `None`: not at all.
    pub hold: Option<Duration>,
    /// Where an approval holds.
    pub scope: Scope,
    /// JSON Pointers of scalars that may differ from call to call, such as trace ids: the stored ones are sent.
    pub volatile: Vec<String>,
    /// Template for the approver: `{/json/pointer}` is replaced by the stored argument.
    pub summary: Option<String>,
    /// Where all of these hold no ticket is needed; empty: it always is.
    pub unless: Vec<Condition>,
    /// What must be as it was when the approval was asked for.
    pub state: Vec<StateRule>,
    /// How to find out what became of a call whose outcome is unknown.
    pub reconcile: Option<Reconcile>,
    /// How long the upstream honours an `Idempotency-Key`: so long a call whose outcome is unknown may be sent once more.
    pub idempotent: Option<Duration>,
    /// While an outcome is unknown, other calls that need a ticket and name the same resource are refused.
    pub freeze: bool,
    /// To what an approver may widen an approval.
    pub mandate: Option<MandateRule>,
    /// Issuers of the config whose signed tickets stand for an approval.
    pub issuers: Vec<String>,
}

impl TicketRule {
    /// A rule for one approval, bound to the session, with nothing else.
    pub fn new(id: impl Into<RuleId>, gate: Gate, ttl: Duration) -> Self {
        Self {
            id: id.into(),
            gate,
            approvals: 1,
            roles: Vec::new(),
            fresh_login: false,
            ttl,
            hold: None,
            scope: Scope::default(),
            volatile: Vec::new(),
            summary: None,
            unless: Vec::new(),
            state: Vec::new(),
            reconcile: None,
            idempotent: None,
            freeze: false,
            mandate: None,
            issuers: Vec::new(),
        }
    }

    /// Look-ups that it asks.
    pub fn lookups(&self) -> impl Iterator<Item = &LookupName> {
        let state = self.state.iter().map(|rule| &rule.lookup);
        state.chain(self.reconcile.iter().map(|rule| &rule.lookup))
    }
}

/// Fields of a resource that must be as they were when the approval was asked for.
#[derive(Clone, Debug)]
pub struct StateRule {
    /// `tools[3].ticket.state[0]`.
    pub id: RuleId,
    /// Where the resource's id stands.
    pub resource: Selector,
    /// Name of the look-up's parameter that gets the id, without colon.
    pub bind: String,
    /// Further parameters from other arguments.
    pub with: Vec<(String, Selector)>,
    /// A call without the resource has no state to compare.
    pub optional: bool,
    /// What tells the state.
    pub lookup: LookupName,
    /// Its columns that are compared, in the order of the file.
    pub columns: Vec<String>,
}

impl StateRule {
    /// Names of the parameters that arguments fill.
    pub fn binds(&self) -> Vec<&str> {
        let with = self.with.iter().map(|(name, _)| name.as_str());
        std::iter::once(self.bind.as_str()).chain(with).collect()
    }
}

/// A question to the upstream's own books: whether a call took effect.
#[derive(Clone, Debug)]
pub struct Reconcile {
    /// `tools[3].ticket.reconcile`.
    pub id: RuleId,
    /// What is asked. `:ticket`, the id that went along as `Idempotency-Key`, is always bound.
    pub lookup: LookupName,
    /// Parameters from the stored arguments.
    pub with: Vec<(String, Selector)>,
    /// What says that the call took effect.
    pub done: Sign,
    /// What says that it did not, and never will.
    pub not_done: Sign,
    /// So long after the call was sent the answer `not_done` counts: until then it may still be on its way.
    pub after: Duration,
}

impl Reconcile {
    /// Names of the parameters that arguments fill.
    pub fn binds(&self) -> Vec<&str> {
        self.with.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Columns that it reads.
    pub fn columns(&self) -> Vec<&str> {
        let signs = [&self.done, &self.not_done].into_iter();
        let columns = signs.filter_map(|sign| match sign {
            Sign::Column { column, .. } => Some(column.as_str()),
            Sign::Row | Sign::NoRow => None,
        });
        columns.collect()
    }
}

/// What an answer must say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// There is a row; by HTTP: the answer is 200.
    Row,
    /// There is none; by HTTP: the answer is 404.
    NoRow,
    /// There are rows, and each has one of these values in the column.
    Column {
        /// Which.
        column: String,
        /// Compared as text and numbers, exactly.
        one_of: BTreeSet<Scalar>,
    },
}

/// To what an approver may widen an approval: further calls of the tool by the same principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MandateRule {
    /// JSON Pointer of the amount; `None`: only uses are counted.
    pub amount: Option<String>,
    /// JSON Pointer of the amount's currency.
    pub currency: Option<String>,
    /// Most that all calls together may come to.
    pub at_most: Option<Decimal>,
    /// Most calls.
    pub uses: u32,
    /// How long it may hold.
    pub within: Duration,
    /// JSON Pointers of arguments that must be what they were when it was given, such as the payee.
    pub same: Vec<String>,
}
