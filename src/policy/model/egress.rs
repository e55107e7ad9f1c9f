//! Where URLs in arguments may lead.

use super::{Allowed, Otherwise, Selector};
use crate::names::RuleId;

/// URLs at these places may lead only to these hosts.
#[derive(Clone, Debug)]
pub struct EgressRule {
    /// `tools[3].egress[0]`, or `egress`.
    pub id: RuleId,
    /// Where to look; every string below a selected value is read.
    pub at: Vec<Selector>,
    /// Lists with hosts, and what else vouches for a URL.
    pub allow: Vec<Allowed>,
    /// What otherwise.
    pub otherwise: Otherwise,
}
