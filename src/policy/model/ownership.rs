//! Resources that must belong to the principal.

use super::Selector;
use crate::names::{LookupName, RuleId};

/// The resource at this place must belong to the principal.
#[derive(Clone, Debug)]
pub struct OwnershipRule {
    /// `tools[3].ownership[0]`.
    pub id: RuleId,
    /// Where its id stands; every selected value must pass.
    pub resource: Selector,
    /// Name of the SQL parameter that gets the id, without colon.
    pub bind: String,
    /// Look-up that returns the owner's subject.
    pub owner: LookupName,
}
