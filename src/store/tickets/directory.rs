//! Who may approve now: asked again when an approval is used.

use std::fmt;

/// What somebody may approve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authority {
    /// Roles that ticket rules ask for.
    pub roles: Vec<String>,
    /// Tenants whose tickets they may answer; `None`: of every tenant.
    pub tenants: Option<Vec<String>>,
}

/// Knows who is an approver. Not asked for people at the store's own file: who can write it needs no role.
pub trait Directory: Send + Sync + fmt::Debug {
    /// What this person may approve now; `None`: they are no approver any more, and their vote does not count. `voted`: their
    /// roles when they voted, for people whose roles are known only while they are logged in.
    fn authority(&self, issuer: &str, subject: &str, voted: &[String]) -> Option<Authority>;
}

/// Knows nobody: for deployments without approvers, where no vote of a person can be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Directory for Nobody {
    fn authority(&self, _issuer: &str, _subject: &str, _voted: &[String]) -> Option<Authority> {
        None
    }
}
