//! People and accounts that a call may reach.

use super::{Allowed, Otherwise, Selector};
use crate::names::RuleId;

/// How a recipient is read and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecipientKind {
    /// A mailbox list (RFC 5322), every mailbox must pass.
    Email,
    /// A bank account or another opaque account id: spaces removed, ASCII upper-cased, compared exactly.
    Account,
    /// An IBAN: as `Account`, and its length and check digits must be right.
    Iban,
}

/// Recipients at these places must be allowed.
#[derive(Clone, Debug)]
pub struct RecipientRule {
    /// `tools[3].recipients[0]`.
    pub id: RuleId,
    /// Where they stand.
    pub at: Vec<Selector>,
    /// How they are read.
    pub kind: RecipientKind,
    /// Who passes.
    pub allow: Vec<Allowed>,
    /// What otherwise.
    pub otherwise: Otherwise,
}
