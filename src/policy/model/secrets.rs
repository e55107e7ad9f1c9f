//! Secrets in what leaves.

use std::collections::BTreeSet;

use super::{Otherwise, Selector};
use crate::layers::egress::Class;
use crate::names::RuleId;

/// What must not leave with a call.
#[derive(Clone, Debug)]
pub struct SecretsRule {
    /// `secrets`.
    pub id: RuleId,
    /// What is looked for.
    pub classes: BTreeSet<Class>,
    /// What otherwise.
    pub otherwise: Otherwise,
    /// Also in calls of tools that only read.
    pub reads: bool,
    /// The policy says so itself.
    pub written: bool,
}

impl SecretsRule {
    /// What holds where the policy says nothing: writes carry no credentials and no registered secrets.
    pub fn usual() -> Self {
        Self {
            id: RuleId::from("secrets"),
            classes: BTreeSet::from([Class::Credentials, Class::Registered]),
            otherwise: Otherwise::Deny,
            reads: false,
            written: false,
        }
    }
}

/// What a tool's rule says of secrets in its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolSecrets {
    /// As the policy says: looked for in writes, on HTTP routes and where the rule has `egress`.
    #[default]
    Usual,
    /// Looked for, whatever the tool's effect.
    Check,
    /// The tool may take them.
    Allow,
    /// It may take them there.
    AllowAt(Vec<Selector>),
}
