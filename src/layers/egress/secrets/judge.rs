//! What the policy says of secrets, applied to calls and destinations.

use std::sync::Arc;

use http::HeaderMap;

use super::{Class, Kind, PrivateValues, Scanner, is_ready};
use crate::item::{EgressTarget, Exchange, Leg, RouteKind, ToolCall};
use crate::layers::Context;
use crate::layers::support::{Objections, finding};
use crate::names::RuleId;
use crate::policy::{Effect, Otherwise, Policy, PrivateRule, SecretsRule, Selector, ToolSecrets};
use crate::source::Problem;
use crate::store::Stores;
use crate::verdict::{Finding, LayerId, Reason};

/// The policy's rules, ready to run.
#[derive(Default)]
pub(in crate::layers::egress) struct Secrets {
    scanned: Option<Scanned>,
    private: Vec<PrivateRule>,
}

/// What is told from the text alone.
struct Scanned {
    rule: SecretsRule,
    scanner: Scanner,
}

/// A secret that was found: by which rule, and what becomes of the call.
struct Found<'s> {
    rule: &'s RuleId,
    otherwise: Otherwise,
    kind: Kind,
}

impl Secrets {
    pub(in crate::layers::egress) fn new(
        policy: &Policy,
        stores: &Stores,
        problems: &mut Vec<Problem>,
    ) -> Self {
        if !is_ready() {
            problems.push(Problem::new(
                "the patterns of credentials cannot be compiled",
            ));
        }
        let scanned = policy.secrets.as_ref().map(|rule| Scanned {
            rule: rule.clone(),
            scanner: Scanner {
                classes: rule.classes.clone(),
                register: Arc::clone(&stores.register),
            },
        });
        Self {
            scanned,
            private: policy.private.clone(),
        }
    }

    /// Every secret in the arguments.
    fn each<'s>(
        &'s self,
        call: &ToolCall,
        context: &Context<'_>,
        mut tell: impl FnMut(&str, Found<'s>),
    ) {
        let args = &call.args.value;
        if let Some(Scanned { rule, scanner }) = &self.scanned
            && let Some(except) = rule.applies(context)
        {
            scanner.value(args, except, None, |at, kind| {
                tell(at, Found::by(rule, kind));
            });
        }
        if let Some(Scanned { rule, scanner }) = &self.scanned
            && rule.applies(context).is_some()
            && let Some(headers) = &context.exchange.headers
            && let Some((at, found)) = in_headers(rule, scanner, headers)
        {
            tell(&at, found);
        }
        let Some(evidence) = context.exchange.evidence.as_deref() else {
            return;
        };
        for rule in self.private.iter().filter(|rule| !rule.lets(&call.tool)) {
            let values = evidence.values_in(&rule.tool, &rule.fields);
            let values = PrivateValues::new(values);
            if values.is_none() {
                continue;
            }
            Scanner::default().value(args, &[], values.as_ref(), |at, kind| {
                let found = Found {
                    rule: &rule.id,
                    otherwise: rule.otherwise,
                    kind,
                };
                tell(at, found);
            });
        }
    }

    /// Whether the call carries one.
    pub(in crate::layers::egress) fn reaches(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
    ) -> bool {
        let mut found = false;
        self.each(call, context, |_, _| found = true);
        found
    }

    pub(in crate::layers::egress) fn call(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
        objections: &mut Objections,
    ) {
        self.each(call, context, |at, found| {
            objections.add(found.otherwise, objection(&found, Some(at.to_owned())));
        });
    }

    /// A destination carries data in its path and query, and with the header fields of a plain request.
    pub(in crate::layers::egress) fn target(
        &self,
        target: &EgressTarget,
        exchange: &Exchange,
    ) -> Option<Finding> {
        let Scanned { rule, scanner } = self.scanned.as_ref()?;
        if exchange.leg != Leg::ToUpstream {
            return None;
        }
        let url = target.url.as_ref();
        if let Some(kind) = url.and_then(|url| scanner.text(url, None)) {
            return Some(objection(&Found::by(rule, kind), None));
        }
        let headers = exchange.headers.as_ref()?;
        let (at, found) = in_headers(rule, scanner, headers)?;
        Some(objection(&found, Some(at)))
    }
}

fn in_headers<'s>(
    rule: &'s SecretsRule,
    scanner: &Scanner,
    headers: &HeaderMap,
) -> Option<(String, Found<'s>)> {
    let (name, kind) = scanner.headers(headers)?;
    Some((format!("header {name}"), Found::by(rule, kind)))
}

impl<'s> Found<'s> {
    fn by(rule: &'s SecretsRule, kind: Kind) -> Self {
        Self {
            rule: &rule.id,
            otherwise: rule.otherwise,
            kind,
        }
    }
}

impl SecretsRule {
    /// Whether a call is looked at, and what of it is not. What nobody described is a write.
    fn applies<'c>(&self, context: &Context<'c>) -> Option<&'c [Selector]> {
        let Some(rule) = context.rule else {
            return Some(&[]);
        };
        match &rule.secrets {
            ToolSecrets::Allow => None,
            ToolSecrets::AllowAt(selectors) => Some(selectors),
            ToolSecrets::Check => Some(&[]),
            ToolSecrets::Usual => {
                let leaves = rule.effect == Effect::Write
                    || !rule.egress.is_empty()
                    || context.exchange.kind == RouteKind::Http;
                (leaves || self.reads).then_some(&[])
            }
        }
    }
}

/// Names the kind, never the value.
fn objection(found: &Found<'_>, at: Option<String>) -> Finding {
    let reason = match found.kind.class() {
        Class::Private => Reason::PrivateValue,
        _ => Reason::SecretDetected,
    };
    finding(LayerId::Egress, found.rule, reason, at, found.kind.as_str())
}
