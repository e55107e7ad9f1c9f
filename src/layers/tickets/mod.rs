//! The tickets layer: says which calls need a ticket, and settles them.
//!
//! The layer itself is pure. Tickets are asked for, claimed and replayed by the settler, which the guard calls only for a
//! call that takes effect where it stands, only after every other layer, and only where the layer is enforced.

mod admit;
mod authority;
mod facts;
mod lookalike;
pub mod reconcile;
mod settle;
pub mod show;
mod spend;
mod standing;
mod summary;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

pub use self::settle::settler;
use super::catalog::Conditions;
use super::support::Objections;
use super::{Context, Layer, LayerDef};
use crate::item::{Item, Located, ToolCall};
use crate::names::RuleId;
use crate::policy::{Gate, Policy};
use crate::source::Problems;
use crate::store::Stores;
use crate::store::tickets::digest::{NotBindable, bindable};
use crate::verdict::{Finding, Hold, LayerId, Reason, Undecided, Verdict};

/// The layer's entry in the registry.
pub const TICKETS: LayerDef = LayerDef {
    id: LayerId::Tickets,
    doc: "Calls that change something need a person's permission, for that exact call and once",
    build,
};

/// Who answers for a call that no ticket rule describes.
const DEFAULT_GATE: Gate = Gate::Approve;

/// How long such a request lives.
const DEFAULT_TTL: Duration = Duration::from_mins(15);

/// Rule id of calls to tools that the policy does not describe.
const UNDESCRIBED: &str = "undescribed";

struct Tickets {
    /// Where all of a rule's hold no ticket is needed.
    unless: Conditions,
}

fn build(policy: &Arc<Policy>, stores: &Stores) -> Result<Arc<dyn Layer>, Problems> {
    let mut problems = Vec::new();
    let unless = Conditions::new(
        LayerId::Tickets,
        |tool| tool.ticket.as_ref().map_or(&[], |ticket| &ticket.unless),
        (policy, stores),
        &mut problems,
    );
    if problems.is_empty() {
        Ok(Arc::new(Tickets { unless }))
    } else {
        Err(Problems(problems))
    }
}

/// The id of the rule that makes the call need a ticket; `None`: it needs none.
fn gating_rule(context: &Context<'_>) -> Option<RuleId> {
    match context.rule {
        Some(rule) => rule.ticket.as_ref().map(|ticket| ticket.id.clone()),
        None => Some(RuleId::from(UNDESCRIBED)),
    }
}

impl Layer for Tickets {
    fn id(&self) -> LayerId {
        LayerId::Tickets
    }

    /// A proposal is reached where it is executed, not where it is made.
    fn reaches(&self, item: &Located, context: &Context<'_>) -> bool {
        matches!(item.item, Item::ToolCall(_))
            && context.executes_here
            && gating_rule(context).is_some()
    }

    fn judge<'a>(
        &'a self,
        item: &'a Located,
        context: &'a Context<'a>,
    ) -> BoxFuture<'a, Result<Verdict, Undecided>> {
        Box::pin(async move {
            let (Item::ToolCall(call), Some(rule)) = (&item.item, gating_rule(context)) else {
                return Ok(Verdict::Allow);
            };
            if !self.is_needed(call, context).await? {
                return Ok(Verdict::Allow);
            }
            Ok(needed(call, rule))
        })
    }
}

impl Tickets {
    /// A condition that cannot be judged does not hold, so that the call needs its ticket.
    async fn is_needed(&self, call: &ToolCall, context: &Context<'_>) -> Result<bool, Undecided> {
        if !self.unless.reach(context) {
            return Ok(true);
        }
        let mut objections = Objections::default();
        self.unless.judge(call, context, &mut objections).await?;
        Ok(objections.verdict() != Verdict::Allow)
    }
}

fn needed(call: &ToolCall, rule: RuleId) -> Verdict {
    if let Err(obstacle) = bindable(&call.args) {
        return Verdict::Deny(not_bindable(rule, obstacle));
    }
    Verdict::Hold(Hold::new(Finding {
        layer: LayerId::Tickets,
        rule,
        reason: Reason::ApprovalRequired,
        argument: None,
        detail: Cow::Borrowed("the call needs a ticket"),
    }))
}

fn not_bindable(rule: RuleId, obstacle: NotBindable) -> Finding {
    Finding {
        layer: LayerId::Tickets,
        rule,
        reason: Reason::ArgumentsNotBindable,
        argument: None,
        detail: Cow::Owned(obstacle.to_string()),
    }
}
