//! A resource that a call names must belong to the principal: a read-only look-up by its id returns the owner's subject.
//!
//! Fails closed: a call without the id, an id of another type, an unknown id and an owner that is NULL are all denied.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::support::{ByRule, ReadyLookup, applying, finding};
use super::{Context, Layer, LayerDef};
use crate::item::{Item, Located, ToolCall};
use crate::policy::{OwnershipRule, Policy};
use crate::source::Problems;
use crate::store::Stores;
use crate::store::sql::SqlValue;
use crate::verdict::{Finding, LayerId, Reason, Undecided, Verdict};
use crate::wire::json::MAX_SAFE_INTEGER;

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

fn build(policy: &Arc<Policy>, stores: &Stores) -> Result<Arc<dyn Layer>, Problems> {
    let mut problems = Vec::new();
    let mut rules: ByRule<Ready> = ByRule::new();
    for tool in &policy.tools {
        for rule in &tool.ownership {
            match ReadyLookup::new(policy, stores, &rule.owner, &rule.id, Some(&rule.bind)) {
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
        let selected = self.rule.resource.select(&call.args.value);
        if selected.is_empty() {
            let argument = Some(self.rule.resource.to_string());
            return Ok(Some(self.unknown(argument, "the call names no resource")));
        }
        for (at, value) in selected {
            let Some(id) = resource_id(value) else {
                return Ok(Some(self.unknown(
                    Some(at),
                    "the resource id is neither a plain string nor an exact integer",
                )));
            };
            if let Some(found) = self.judge_one(at, id, context).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn judge_one(
        &self,
        at: String,
        id: SqlValue,
        context: &Context<'_>,
    ) -> Result<Option<Finding>, Undecided> {
        let session = &context.exchange.session;
        let bind = Some((self.rule.bind.as_str(), id));
        let owners = self.owner.values(LayerId::Ownership, session, bind).await?;
        if owners.is_empty() {
            return Ok(Some(self.unknown(Some(at), "the look-up returned no row")));
        }
        for owner in owners {
            let owner = match owner {
                SqlValue::Text(text) => text,
                SqlValue::Integer(number) => number.to_string(),
                SqlValue::Null => {
                    return Ok(Some(self.unknown(Some(at), "the resource has no owner")));
                }
                SqlValue::Real(_) | SqlValue::Blob(_) => {
                    return Err(Undecided {
                        layer: LayerId::Ownership,
                        cause: format!(
                            "{}: the owner is neither text nor an integer",
                            self.rule.id
                        ),
                    });
                }
            };
            if owner != *session.principal.subject {
                let detail = "the resource belongs to another subject";
                return Ok(Some(self.finding(Reason::NotOwner, Some(at), detail)));
            }
        }
        Ok(None)
    }

    fn unknown(&self, argument: Option<String>, detail: &'static str) -> Finding {
        self.finding(Reason::ResourceUnknown, argument, detail)
    }

    fn finding(&self, reason: Reason, argument: Option<String>, detail: &'static str) -> Finding {
        finding(LayerId::Ownership, &self.rule.id, reason, argument, detail)
    }
}

/// An integer that every JSON reader takes for the same number, or a string that stands for itself: the database and the
/// backend may each trim blanks and cut at control characters in their own way, and then speak of two resources.
fn resource_id(value: &Value) -> Option<SqlValue> {
    match value {
        Value::String(text) if text.trim() != text || text.contains(char::is_control) => None,
        Value::String(text) => Some(SqlValue::Text(text.clone())),
        Value::Number(number) => number
            .as_i64()
            .filter(|id| id.unsigned_abs() <= MAX_SAFE_INTEGER)
            .map(SqlValue::Integer),
        _ => None,
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
