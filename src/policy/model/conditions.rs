//! Typed conditions on a call: `when` of a tool's rule.

use super::{Otherwise, Selector};
use crate::names::RuleId;

/// What must hold for the call to pass.
#[derive(Clone, Debug)]
pub struct Condition {
    /// `tools[3].when[0]`.
    pub id: RuleId,
    /// The arguments it is about.
    pub at: Vec<Selector>,
    /// What otherwise: `else` in the policy.
    pub otherwise: Otherwise,
}
