//! Secrets in what leaves.

use std::collections::BTreeSet;

use super::{Otherwise, Selector, ToolMatcher};
use crate::layers::egress::Class;
use crate::names::{RuleId, ToolName};
use crate::provenance::FieldPath;

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

/// What these fields of a tool's output give is private for the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateRule {
    /// `private[0]`.
    pub id: RuleId,
    /// Whose outputs.
    pub tool: ToolMatcher,
    /// Which of their fields.
    pub fields: Vec<FieldPath>,
    /// Tools that may get the values besides the tool itself.
    pub to: Vec<ToolMatcher>,
    /// What becomes of another call that carries one.
    pub otherwise: Otherwise,
}

impl PrivateRule {
    /// Whether calls of this tool may carry the values.
    pub fn lets(&self, tool: &ToolName) -> bool {
        std::iter::once(&self.tool)
            .chain(&self.to)
            .any(|matcher| matcher.matches(tool))
    }
}
