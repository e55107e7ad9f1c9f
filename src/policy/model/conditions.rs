//! Typed conditions on a call: `when` of a tool's rule.

use std::collections::BTreeSet;
use std::time::Duration;

use ipnet::IpNet;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use regex::Regex;
use rust_decimal::Decimal;

use super::{Allowed, Otherwise, Selector};
use crate::names::RuleId;

/// What must hold for the call to pass.
#[derive(Clone, Debug)]
pub struct Condition {
    /// `tools[3].when[0]`.
    pub id: RuleId,
    /// What it is about, and what must be true of it.
    pub claim: Claim,
    /// What otherwise: `else` in the policy.
    pub otherwise: Otherwise,
}

impl Condition {
    /// Where the arguments stand that it is about.
    pub fn places(&self) -> Vec<&Selector> {
        match &self.claim {
            Claim::Argument { at, .. } => at.iter().collect(),
            Claim::Limit(limit) => limit.sum.iter().collect(),
            Claim::Principal { .. } | Claim::Between(_) | Claim::Untainted => Vec::new(),
        }
    }

    /// What must vouch for its arguments, where something must.
    pub const fn allow(&self) -> Option<&Vec<Allowed>> {
        match &self.claim {
            Claim::Argument { allow, .. } => Some(allow),
            Claim::Principal { .. } | Claim::Between(_) | Claim::Limit(_) | Claim::Untainted => {
                None
            }
        }
    }
}

/// What a condition is about.
#[derive(Clone, Debug)]
pub enum Claim {
    /// Arguments: each selected value passes every test.
    Argument {
        /// Where they stand.
        at: Vec<Selector>,
        /// What must be true of each.
        tests: Vec<Test>,
        /// What must vouch for each; empty: nothing needs to.
        allow: Vec<Allowed>,
        /// Whether it holds where there are none.
        optional: bool,
    },
    /// The principal of the call; of several scopes one must pass.
    Principal {
        /// Which part of it.
        part: PrincipalPart,
        /// What must be true of it.
        tests: Vec<Test>,
    },
    /// The time of the call.
    Between(Hours),
    /// What calls come to together.
    Limit(Limit),
    /// No text that looks like an instruction has come into the session.
    Untainted,
}

/// What must be true of one value.
#[derive(Clone, Debug)]
pub enum Test {
    /// A number, not below.
    AtLeast(Decimal),
    /// A number, not above.
    AtMost(Decimal),
    /// One of these.
    OneOf(BTreeSet<Scalar>),
    /// A text that the whole pattern matches.
    Matches(Regex),
    /// The address of a host in one of these networks.
    InCidr(Vec<IpNet>),
}

/// A value that is compared exactly; numbers by what they are worth.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scalar {
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Decimal),
    /// A text.
    Text(String),
}

/// A part of the principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrincipalPart {
    /// The tenant.
    Tenant,
    /// Who vouches for the subject.
    Issuer,
    /// The end user.
    Subject,
    /// The agent.
    Agent,
    /// The scopes.
    Scopes,
}

impl PrincipalPart {
    /// Every part.
    pub const ALL: [Self; 5] = [
        Self::Tenant,
        Self::Issuer,
        Self::Subject,
        Self::Agent,
        Self::Scopes,
    ];

    /// The word in policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Issuer => "issuer",
            Self::Subject => "subject",
            Self::Agent => "agent",
            Self::Scopes => "scopes",
        }
    }
}

/// Hours of the day on days of the week. Where `from` is after `until` they go past midnight, and the day is the one on which
/// they begin.
#[derive(Clone, Debug)]
pub struct Hours {
    /// The first minute of the day.
    pub from: u16,
    /// The first minute after; 1440 is the end of the day.
    pub until: u16,
    /// Whose clock.
    pub zone: TimeZone,
    /// On which days.
    pub days: Vec<Weekday>,
}

/// Whose calls are taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Per {
    /// Those of one session.
    Session,
    /// Those of one end user, in all sessions.
    Principal,
}

/// What calls that this rule decides may come to together.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Whose.
    pub per: Per,
    /// `None`: calls are counted; otherwise the argument that is added up.
    pub sum: Option<Selector>,
    /// How long a call counts; `None`: as long as it is remembered.
    pub window: Option<Duration>,
    /// What may be reached and not passed.
    pub at_most: Decimal,
    /// Whether a call without the argument adds nothing, and passes.
    pub optional: bool,
}
