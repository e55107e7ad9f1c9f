//! What the caller's identity must have for a call: scopes, an agent that may use the tool, the token's own session, and a token
//! that is still good.
//!
//! Who calls is verified before anything is judged, at the proxy's door. This layer asks whether that caller may make this call.
//! A tool that the caller may never use is not offered to it either.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::support::finding;
use super::{Context, Layer, LayerDef};
use crate::clock::Clock;
use crate::item::{Item, Located};
use crate::names::RuleId;
use crate::policy::{Policy, ToolRule};
use crate::principal::{Principal, Session};
use crate::verdict::{Finding, LayerId, Reason, Undecided, Verdict};

/// The entry of the registry.
pub const IDENTITY: LayerDef = LayerDef {
    id: LayerId::Identity,
    doc: "scopes, agents, sessions and expiry of the caller's identity",
    build: |policy, stores| {
        Ok(Arc::new(Identity {
            policy: Arc::clone(policy),
            clock: Arc::clone(&stores.clock),
        }))
    },
};

/// Rule id of a token that ran out while a call was on its way.
const EXPIRY: &str = "identity.expiry";

struct Identity {
    policy: Arc<Policy>,
    clock: Arc<dyn Clock>,
}

impl Identity {
    /// The rule for an offered tool that the caller may not use, if so.
    fn offered(&self, item: &Item) -> Option<&ToolRule> {
        let Item::Definition(definition) = item else {
            return None;
        };
        let rule = self.policy.rule_for(&definition.tool)?;
        (!rule.scopes.is_empty() || !rule.agents.is_empty()).then_some(rule)
    }

    /// A token may run out during a long answer, or while a message waits: what it asked for is then nobody's wish.
    fn is_expired(&self, session: &Session) -> bool {
        let until = session.grant.as_ref().map(|grant| grant.until);
        until.is_some_and(|until| until <= self.clock.now())
    }

    fn call(&self, context: &Context<'_>) -> Option<Finding> {
        let session = &context.exchange.session;
        if self.is_expired(session) {
            return Some(finding(
                LayerId::Identity,
                &RuleId::from(EXPIRY),
                Reason::GrantExpired,
                None,
                "the caller's token ran out",
            ));
        }
        let rule = context.rule?;
        foreign_session(rule, session).or_else(|| unfit(rule, &session.principal))
    }
}

fn asks(rule: &ToolRule) -> bool {
    rule.own_session || !rule.scopes.is_empty() || !rule.agents.is_empty()
}

/// A call that needs the token's own session and comes in another.
fn foreign_session(rule: &ToolRule, session: &Session) -> Option<Finding> {
    if !rule.own_session {
        return None;
    }
    let bound = session
        .grant
        .as_ref()
        .and_then(|grant| grant.session.as_ref());
    let detail = match bound {
        None => "the caller's token names no session",
        Some(_) if bound == session.key.as_ref() => return None,
        Some(_) => "the caller's token is for another session",
    };
    Some(at(
        rule,
        "session",
        Reason::SessionMismatch,
        detail.to_owned(),
    ))
}

/// Why the principal may not use the tool.
fn unfit(rule: &ToolRule, principal: &Principal) -> Option<Finding> {
    if !rule.agents.is_empty() && !rule.agents.contains(&principal.agent) {
        let detail = "the agent is not one that may use the tool".to_owned();
        return Some(at(rule, "agents", Reason::AgentNotAllowed, detail));
    }
    let mut scopes = rule.scopes.iter();
    let missing = scopes.find(|scope| !principal.scopes.contains(*scope))?;
    let detail = format!("the caller lacks the scope `{missing}`");
    Some(at(rule, "scopes", Reason::ScopeMissing, detail))
}

fn at(rule: &ToolRule, key: &str, reason: Reason, detail: String) -> Finding {
    let id = RuleId::from(format!("{}.{key}", rule.id));
    finding(LayerId::Identity, &id, reason, None, detail)
}

impl Layer for Identity {
    fn id(&self) -> LayerId {
        LayerId::Identity
    }

    fn reaches(&self, item: &Located, context: &Context<'_>) -> bool {
        match item.item {
            Item::ToolCall(_) => {
                context.rule.is_some_and(asks) || self.is_expired(&context.exchange.session)
            }
            _ => self.offered(&item.item).is_some(),
        }
    }

    fn judge<'a>(
        &'a self,
        item: &'a Located,
        context: &'a Context<'a>,
    ) -> BoxFuture<'a, Result<Verdict, Undecided>> {
        let found = match (&item.item, self.offered(&item.item)) {
            (Item::ToolCall(_), _) => self.call(context),
            (_, Some(rule)) => unfit(rule, &context.exchange.session.principal),
            (_, None) => None,
        };
        let verdict = found.map_or(Verdict::Allow, Verdict::Deny);
        Box::pin(std::future::ready(Ok(verdict)))
    }
}
