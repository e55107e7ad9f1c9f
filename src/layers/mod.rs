//! The guards. A layer judges one item and never acts; the guard orders them, times them and turns failure into refusal.

mod arguments;
pub mod catalog;
pub mod egress;
pub mod identity;
pub mod injection;
mod lookup;
mod memo;
pub mod ownership;
mod reached;
mod reading;
pub mod recipients;
mod support;
pub mod tickets;
mod vouch;

use std::sync::Arc;

use futures_util::future::BoxFuture;
pub use memo::Memo;
pub use reached::{Came, Reached};

use crate::item::{Exchange, Located};
use crate::ledger::Entry;
use crate::policy::{Otherwise, Policy, ToolRule};
use crate::source::Problems;
use crate::store::Stores;
use crate::verdict::{LayerId, Undecided, Verdict};

/// What a layer may know besides the item.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The message the item came in.
    pub exchange: &'a Exchange,
    /// The policy's rule for the call's tool; `None` for other items and for tools nobody described.
    pub rule: Option<&'a ToolRule>,
    /// The call takes effect when this message is released; elsewhere it is a proposal.
    pub executes_here: bool,
    /// Whether a text that looks like an instruction has come into the conversation or session; `None`: nobody can know.
    pub tainted: Option<bool>,
    /// What other items of the message came to.
    pub memo: &'a Memo,
}

/// One guard.
pub trait Layer: Send + Sync {
    /// Which one.
    fn id(&self) -> LayerId;

    /// Whether one of the layer's rules matches the item. Cheap: called even while the layer is off, for eval's
    /// `reached`. An item that is not reached is allowed without `judge`.
    fn reaches(&self, item: &Located, context: &Context<'_>) -> bool;

    /// Judges an item that the layer reaches. Must not change anything anywhere.
    fn judge<'a>(
        &'a self,
        item: &'a Located,
        context: &'a Context<'a>,
    ) -> BoxFuture<'a, Result<Verdict, Undecided>>;

    /// Whether a call has a text that looks like a recipient and that no rule is for. Asked of layers that are on, after `judge`.
    fn has_undeclared(&self, _item: &Located, _context: &Context<'_>) -> bool {
        false
    }

    /// What a call that is carried out is charged with, and what becomes of it where that passes a limit. Asked of layers that
    /// enforce, for a call that all of them let pass.
    ///
    /// # Errors
    /// A call of which that cannot be told.
    fn charges(
        &self,
        _item: &Located,
        _context: &Context<'_>,
    ) -> Result<Vec<(Entry, Otherwise)>, Undecided> {
        Ok(Vec::new())
    }
}

/// Makes a layer from the policy; what cannot run is a start-up error.
pub type Build = fn(&Arc<Policy>, &Stores) -> Result<Arc<dyn Layer>, Problems>;

/// One entry of the registry.
pub struct LayerDef {
    /// Which layer.
    pub id: LayerId,
    /// One line for `--help` and docs.
    pub doc: &'static str,
    /// How it is made.
    pub build: Build,
}

/// The layers that exist, in judging order. A layer that a policy switches on and that is not here is a start-up error.
pub const LAYERS: &[LayerDef] = &[
    catalog::CATALOG,
    identity::IDENTITY,
    egress::EGRESS,
    recipients::RECIPIENTS,
    ownership::OWNERSHIP,
    injection::INJECTION,
    tickets::TICKETS,
];
