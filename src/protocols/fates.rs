//! What becomes of each call that a model proposes: the same for every model protocol.

use bytes::Bytes;

use super::{Malformed, Refusal, note, unwritable};
use crate::guard::Decision;
use crate::verdict::Ruling;

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Released, with these arguments in place of its own where a ticket binds it to the stored form (RFC 8785 JSON).
    Release(Option<Bytes>),
    /// Not released, with words for the agent.
    Drop(String),
}

impl Fate {
    /// Whether the client never sees the call.
    pub const fn is_dropped(&self) -> bool {
        matches!(self, Self::Drop(_))
    }
}

/// What becomes of each of `count` calls, which are the items of this decision.
///
/// # Errors
/// A decision over another number of items.
pub fn fates(count: usize, decision: &Decision) -> Result<Vec<Fate>, Malformed> {
    match fates_before(count, decision)? {
        (fates, []) => Ok(fates),
        _ => Err(unwritable()),
    }
}

/// The same where other items follow the calls; also gives the rulings over these.
///
/// # Errors
/// A decision over fewer items.
pub fn fates_before(
    count: usize,
    decision: &Decision,
) -> Result<(Vec<Fate>, &[Ruling]), Malformed> {
    let (calls, others) = decision
        .rulings
        .split_at_checked(count)
        .ok_or_else(unwritable)?;
    let rulings = calls.iter().enumerate();
    let fates = rulings
        .map(|(index, ruling)| {
            if let Some((_, receipt)) = decision.receipts.iter().find(|r| r.0 == index) {
                return Fate::Drop(note::done_before(receipt));
            }
            if let Some((finding, hold)) = decision.objection(index, ruling) {
                return Fate::Drop(Refusal::of(finding, hold).words());
            }
            let claim = decision.claims.iter().find(|claim| claim.0 == index);
            Fate::Release(claim.map(|(_, claim)| claim.arguments().clone()))
        })
        .collect();
    Ok((fates, others))
}

/// Refuses fates that differ, where calls stand or fall together.
///
/// # Errors
/// One is released and another is not.
pub fn one_fate(fates: &[Fate]) -> Result<(), Malformed> {
    let dropped = fates.iter().filter(|fate| fate.is_dropped()).count();
    if dropped == 0 || dropped == fates.len() {
        Ok(())
    } else {
        Err(unwritable())
    }
}

/// What is said in place of the calls that are dropped.
pub fn notes<'f>(fates: impl IntoIterator<Item = &'f Fate>) -> Option<String> {
    note::joined(fates.into_iter().filter_map(|fate| match fate {
        Fate::Drop(note) => Some(note.clone()),
        Fate::Release(_) => None,
    }))
}
