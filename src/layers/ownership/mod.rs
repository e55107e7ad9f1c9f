//! A resource that a call names must belong to the principal: a read-only look-up by its id returns the owner's subject.
//!
//! Fails closed: a call without the id, an id of another type, an unknown id and an owner that is NULL are all denied, and all with
//! one reason, so that nobody learns from a refusal what exists. Where the look-up answers for another id than was asked, as the
//! comparisons of databases do, it is a refusal too: to the backend the two may be different resources.

mod answer;
pub(super) mod resources;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use self::resources::{Naming, Resource, resources};
use super::support::{ByRule, ReadyLookup, applying, finding};
use super::{Context, Layer, LayerDef};
use crate::item::{Item, Located, ToolCall};
use crate::policy::{OwnershipRule, Policy};
use crate::source::Problems;
use crate::store::Stores;
use crate::verdict::{Finding, LayerId, Reason, Undecided, Verdict};

/// The entry of the registry.
pub const OWNERSHIP: LayerDef = LayerDef {
    id: LayerId::Ownership,
    doc: "resources in arguments belong to the principal",
    build,
};

struct Ownership {
    rules: ByRule<Ready>,
}

struct Ready {
    rule: OwnershipRule,
    owner: ReadyLookup,
}

/// Why a resource is not the principal's: where, and in words for the operator.
pub(super) struct Objection {
    pub(super) at: String,
    pub(super) detail: &'static str,
}

fn build(policy: &Arc<Policy>, stores: &Stores) -> Result<Arc<dyn Layer>, Problems> {
    let mut problems = Vec::new();
    let mut rules: ByRule<Ready> = ByRule::new();
    for tool in &policy.tools {
        for rule in &tool.ownership {
            let binds = rule.binds();
            match ReadyLookup::new(policy, stores, &rule.owner, &rule.id, Some(&binds)) {
                Ok(owner) => rules.entry(tool.id.clone()).or_default().push(Ready {
                    rule: rule.clone(),
                    owner,
                }),
                Err(problem) => problems.push(problem),
            }
        }
    }
    if problems.is_empty() {
        Ok(Arc::new(Ownership { rules }))
    } else {
        Err(Problems(problems))
    }
}

impl Ready {
    /// The first objection.
    async fn judge(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
    ) -> Result<Option<Finding>, Undecided> {
        let named = match resources(&Naming::from(&self.rule), &call.args.value) {
            Ok(named) => named,
            Err(objection) => return Ok(Some(self.finding(objection))),
        };
        let session = &context.exchange.session;
        for Resource { at, binds } in named {
            let asked = self
                .owner
                .ask(LayerId::Ownership, session, Some(context.memo), &binds);
            let said = asked.await?;
            let judged = answer::judge(&said, &binds, self.rule.owners, &session.principal);
            match judged {
                Ok(None) => {}
                Ok(Some(detail)) => return Ok(Some(self.finding(Objection { at, detail }))),
                Err(cause) => {
                    return Err(Undecided {
                        layer: LayerId::Ownership,
                        cause: format!("{}: {cause}", self.rule.id),
                    });
                }
            }
        }
        Ok(None)
    }

    fn finding(&self, objection: Objection) -> Finding {
        finding(
            LayerId::Ownership,
            &self.rule.id,
            Reason::NotOwner,
            Some(objection.at),
            objection.detail,
        )
    }
}

impl Layer for Ownership {
    fn id(&self) -> LayerId {
        LayerId::Ownership
    }

    fn reaches(&self, item: &Located, context: &Context<'_>) -> bool {
        matches!(item.item, Item::ToolCall(_)) && !applying(&self.rules, context).is_empty()
    }

    fn judge<'a>(
        &'a self,
        item: &'a Located,
        context: &'a Context<'a>,
    ) -> BoxFuture<'a, Result<Verdict, Undecided>> {
        Box::pin(async move {
            if let Item::ToolCall(call) = &item.item {
                for ready in applying(&self.rules, context) {
                    if let Some(finding) = ready.judge(call, context).await? {
                        return Ok(Verdict::Deny(finding));
                    }
                }
            }
            Ok(Verdict::Allow)
        })
    }
}
