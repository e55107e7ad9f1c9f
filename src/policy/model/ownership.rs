//! Resources that must belong to the principal.

use super::Selector;
use crate::names::{LookupName, RuleId};

/// The resource at this place must belong to the principal.
#[derive(Clone, Debug)]
pub struct OwnershipRule {
    /// `tools[3].ownership[0]`.
    pub id: RuleId,
    /// Where its id stands; every selected value must pass, and every branch must end in one.
    pub resource: Selector,
    /// Name of the look-up's parameter that gets the id, without colon.
    pub bind: String,
    /// Further parameters from other arguments: what the id belongs to, or what belongs to it.
    pub with: Vec<(String, Selector)>,
    /// A call without the resource passes.
    pub optional: bool,
    /// Who must be the principal where there are several owners.
    pub owners: Owners,
    /// Look-up that returns the owner's subject.
    pub owner: LookupName,
}

impl OwnershipRule {
    /// A rule with one parameter, for a resource that must be there and has one owner.
    pub fn new(
        id: impl Into<RuleId>,
        resource: Selector,
        bind: impl Into<String>,
        owner: impl Into<LookupName>,
    ) -> Self {
        Self {
            id: id.into(),
            resource,
            bind: bind.into(),
            with: Vec::new(),
            optional: false,
            owners: Owners::All,
            owner: owner.into(),
        }
    }

    /// Names of the parameters that arguments fill.
    pub fn binds(&self) -> Vec<&str> {
        let with = self.with.iter().map(|(name, _)| name.as_str());
        std::iter::once(self.bind.as_str()).chain(with).collect()
    }
}

/// Who must be the principal where a look-up returns several owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Owners {
    /// Each of them: several rows are several things.
    #[default]
    All,
    /// One of them: the resource is shared.
    Any,
}
