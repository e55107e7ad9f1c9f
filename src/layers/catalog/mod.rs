//! Which tools there are and how they may be called: those that the policy denies, those whose definitions speak to the model
//! for another purpose, those that a model's provider runs by itself, and the conditions that calls must meet.
//!
//! A denied tool disappears from what is offered, and a call of it is refused wherever it comes from. What a provider runs
//! never passes the proxy, so it is allowed only where the policy lists it, and judged in the request that asks for it.

mod conditions;
mod definitions;

use std::borrow::Cow;
use std::sync::Arc;

pub(in crate::layers) use conditions::Conditions;
pub(crate) use conditions::{amount, number, passes};
use definitions::Definitions;
pub(in crate::layers) use definitions::Worst;
pub use definitions::{DefinitionRule, RULES as DEFINITION_RULES, SHADOW as DEFINITION_SHADOW};
pub(crate) use definitions::{SCANNED, weigh};

use futures_util::future::BoxFuture;

use super::egress::Location;
use super::support::{Objections, finding};
use super::{Context, Layer, LayerDef};
use crate::item::{Item, Located, ProviderTool, ToolDefinition, ToolOutput};
use crate::ledger::Entry;
use crate::names::{RuleId, ToolName};
use crate::policy::{Otherwise, Policy, ToolRule};
use crate::source::Problems;
use crate::store::Stores;
use crate::verdict::{LayerId, Reason, Undecided, Verdict};
use crate::wire::offload::offload;

/// The entry of the registry.
pub const CATALOG: LayerDef = LayerDef {
    id: LayerId::Catalog,
    doc: "denied tools, definitions that speak to the model, tools that a model's provider runs, conditions on calls",
    build,
};

fn build(policy: &Arc<Policy>, stores: &Stores) -> Result<Arc<dyn Layer>, Problems> {
    let mut problems = Vec::new();
    let conditions = Conditions::new(
        LayerId::Catalog,
        |tool| &tool.when,
        (policy, stores),
        &mut problems,
    );
    match Definitions::new(policy.definitions) {
        Ok(definitions) if problems.is_empty() => Ok(Arc::new(Catalog {
            policy: Arc::clone(policy),
            conditions,
            definitions,
        })),
        Ok(_) => Err(Problems(problems)),
        Err(problem) => {
            problems.push(problem);
            Err(Problems(problems))
        }
    }
}

/// Rule id of a provider's tool that no entry lists.
const UNLISTED: &str = "provider_tools";

struct Catalog {
    policy: Arc<Policy>,
    conditions: Conditions,
    definitions: Definitions,
}

impl Catalog {
    /// The rule that denies the tool, where its rule does.
    fn denies(&self, tool: &ToolName) -> Option<&ToolRule> {
        self.policy.rule_for(tool).filter(|rule| rule.deny)
    }

    /// The rule that denies the item, which is a definition or a call.
    fn denied(&self, item: &Item) -> Option<&ToolRule> {
        match item {
            Item::Definition(definition) => self.denies(&definition.tool),
            Item::ToolCall(call) => self.denies(&call.tool),
            Item::ToolOutput(_)
            | Item::Unreadable(_)
            | Item::ProviderTool(_)
            | Item::ModelText(_)
            | Item::Egress(_) => None,
        }
    }

    fn provider_tool(&self, tool: &ProviderTool) -> Verdict {
        let kind = ToolName::new(Arc::clone(&tool.kind));
        let mut of_kind = self
            .policy
            .provider_tools
            .iter()
            .filter(|rule| rule.kind.matches(&kind))
            .peekable();
        let Some(first) = of_kind.peek() else {
            return unlisted(
                &RuleId::from(UNLISTED),
                "no entry of `provider_tools` has this type",
            );
        };
        let id = first.id.clone();
        let asked = match tool.server.as_deref().map(Location::read) {
            None => None,
            Some(Ok(asked)) => Some(asked),
            Some(Err(why)) => {
                return unlisted(&id, format!("the server's URL cannot be read: {why}"));
            }
        };
        let allowed = of_kind.any(|rule| match (&rule.servers, &asked) {
            (None, None) => true,
            (Some(servers), Some(asked)) => servers.iter().any(|server| server.covers(asked)),
            // An entry with servers is for those alone, and a server needs an entry that names it.
            (None, Some(_)) | (Some(_), None) => false,
        });
        if allowed {
            return Verdict::Allow;
        }
        match asked {
            Some(asked) => unlisted(
                &id,
                format!(
                    "the server at {} is on none of the type's `servers`",
                    asked.target.host
                ),
            ),
            None => unlisted(
                &id,
                "the type is listed with `servers`, and the request names none",
            ),
        }
    }
}

fn unlisted(rule: &RuleId, detail: impl Into<Cow<'static, str>>) -> Verdict {
    Verdict::Deny(finding(
        LayerId::Catalog,
        rule,
        Reason::ProviderToolUnlisted,
        None,
        detail,
    ))
}

impl Layer for Catalog {
    fn id(&self) -> LayerId {
        LayerId::Catalog
    }

    fn reaches(&self, item: &Located, context: &Context<'_>) -> bool {
        match &item.item {
            Item::ProviderTool(_) => true,
            Item::ToolCall(_) if self.conditions.reach(context) => true,
            _ => self.denied(&item.item).is_some() || self.definitions.reaches(item, context),
        }
    }

    fn judge<'a>(
        &'a self,
        item: &'a Located,
        context: &'a Context<'a>,
    ) -> BoxFuture<'a, Result<Verdict, Undecided>> {
        Box::pin(async move {
            if let Some(rule) = self.denied(&item.item) {
                return Ok(Verdict::Deny(finding(
                    LayerId::Catalog,
                    &rule.id,
                    Reason::ToolDenied,
                    None,
                    "the policy denies the tool",
                )));
            }
            match &item.item {
                Item::ProviderTool(tool) => Ok(self.provider_tool(tool)),
                Item::ToolCall(call) => {
                    let mut objections = Objections::default();
                    self.conditions
                        .judge(call, context, &mut objections)
                        .await?;
                    Ok(objections.verdict())
                }
                Item::Definition(ToolDefinition { text, .. })
                | Item::ToolOutput(ToolOutput { text, .. }) => {
                    let judge = || self.definitions.judge(item, context);
                    Ok(offload(text.len(), judge))
                }
                _ => Ok(Verdict::Allow),
            }
        })
    }

    fn charges(
        &self,
        item: &Located,
        context: &Context<'_>,
    ) -> Result<Vec<(Entry, Otherwise)>, Undecided> {
        match &item.item {
            Item::ToolCall(call) => self.conditions.charges(call, context),
            _ => Ok(Vec::new()),
        }
    }
}
