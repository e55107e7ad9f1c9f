//! What the guard says of an exchange, and the proof that it has.

use std::fmt;

use super::{Charges, Claim, Receipt};
use crate::policy::PolicyHash;
use crate::verdict::{Finding, Hold, Ruling, Verdict};

/// What the guard says of one exchange.
pub struct Decision {
    /// Under which policy.
    pub policy: PolicyHash,
    /// One per item, in the same order.
    pub rulings: Vec<Ruling>,
    /// Tickets claimed for items that now pass, by index of the item.
    pub claims: Vec<(usize, Box<dyn Claim>)>,
    /// Receipts for items that were done before, by index of the item: nothing is sent for these.
    pub receipts: Vec<(usize, Receipt)>,
    /// What tickets say of items that they refuse, by index of the item.
    pub told: Vec<(usize, Hold)>,
    /// What the calls that now pass were charged with.
    pub charges: Charges,
    /// What a model is told in its system prompt of the texts that are marked as data.
    pub preface: Option<String>,
}

impl Decision {
    /// One that claims, repeats and charges nothing.
    pub fn new(policy: PolicyHash, rulings: Vec<Ruling>) -> Self {
        Self {
            policy,
            rulings,
            claims: Vec::new(),
            receipts: Vec::new(),
            told: Vec::new(),
            charges: Charges::default(),
            preface: None,
        }
    }

    /// Why the item at `index` does not pass as it is, and the ticket that it is about, where there is one.
    pub fn objection<'a>(
        &'a self,
        index: usize,
        ruling: &'a Ruling,
    ) -> Option<(&'a Finding, Option<&'a Hold>)> {
        match &ruling.verdict {
            Verdict::Allow => None,
            Verdict::Hold(hold) => Some((&hold.finding, Some(hold))),
            Verdict::Rewrite(rewrite) => Some((&rewrite.finding, None)),
            Verdict::Deny(finding) => {
                let mut told = self.told.iter();
                let told = told.find(|(of, hold)| *of == index && hold.finding == *finding);
                Some((finding, told.map(|(_, hold)| hold)))
            }
        }
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("policy", &self.policy)
            .field("rulings", &self.rulings)
            .field("claims", &self.claims.len())
            .field("receipts", &self.receipts)
            .field("told", &self.told)
            .field("charges", &self.charges)
            .field("preface", &self.preface.is_some())
            .finish()
    }
}

/// Proof that the guard has judged this message. Only the guard's own rooms can make one, and an upstream takes nothing else.
#[derive(Debug)]
pub struct Cleared<M>(M);

impl<M> Cleared<M> {
    /// Seals a message that `decision` has been applied to.
    pub(crate) fn seal(message: M, _decision: &Decision) -> Self {
        Self(message)
    }

    /// The message.
    pub const fn message(&self) -> &M {
        &self.0
    }

    /// The message, to be sent.
    pub fn into_message(self) -> M {
        self.0
    }
}
