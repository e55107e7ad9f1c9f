//! What the policy says of secrets, applied to calls and destinations.

use std::sync::Arc;

use http::HeaderName;

use super::{Class, Kind, PrivateValues, Scanner, is_ready};
use crate::item::{EgressTarget, Exchange, Leg, RouteKind, ToolCall};
use crate::layers::Context;
use crate::layers::support::{Objections, finding};
use crate::names::RuleId;
use crate::policy::{Effect, Otherwise, Policy, PrivateRule, SecretsRule, Selector, ToolSecrets};
use crate::source::Problem;
use crate::store::Stores;
use crate::verdict::{Finding, LayerId, Reason};
use crate::wire::offload::offload;

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

    /// Whether any rule looks for some.
    pub(in crate::layers::egress) const fn are_looked_for(&self) -> bool {
        self.scanned.is_some() || !self.private.is_empty()
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
            && let Some((name, kind)) = scanner.headers(headers, None)
        {
            tell(&field(&name), Found::by(rule, kind));
        }
        let rules = self.private.iter().filter(|rule| !rule.lets(&call.tool));
        for (rule, values) in given(rules, context.exchange) {
            let found = |kind| Found {
                rule: &rule.id,
                otherwise: rule.otherwise,
                kind,
            };
            let scanner = Scanner::default();
            scanner.value(args, &[], Some(&values), |at, kind| tell(at, found(kind)));
            let headers = context.exchange.headers.as_deref();
            if let Some((name, kind)) = headers.and_then(|h| scanner.headers(h, Some(&values))) {
                tell(&field(&name), found(kind));
            }
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

    /// A destination carries data in its name, path and query, with the header fields of a plain request, and in its body,
    /// which is judged by itself.
    pub(in crate::layers::egress) fn target(
        &self,
        target: &EgressTarget,
        exchange: &Exchange,
    ) -> Option<Finding> {
        if exchange.leg != Leg::ToUpstream {
            return None;
        }
        if let Some(Scanned { rule, scanner }) = &self.scanned
            && let Some((at, kind)) = sent(scanner, None, target, exchange)
        {
            return Some(objection(&Found::by(rule, kind), at));
        }
        // No destination of the forward proxy is a tool that may get the values.
        given(self.private.iter(), exchange).find_map(|(rule, values)| {
            let (at, kind) = sent(&Scanner::default(), Some(&values), target, exchange)?;
            let found = Found {
                rule: &rule.id,
                otherwise: rule.otherwise,
                kind,
            };
            Some(objection(&found, at))
        })
    }
}

/// The rules whose tools have given something in this session, with the values.
fn given<'r>(
    rules: impl Iterator<Item = &'r PrivateRule>,
    exchange: &Exchange,
) -> impl Iterator<Item = (&'r PrivateRule, PrivateValues)> {
    let evidence = exchange.evidence.as_deref();
    rules.filter_map(move |rule| {
        let values = evidence?.values_in(&rule.tool, &rule.fields);
        Some((rule, PrivateValues::new(values)?))
    })
}

/// The first secret in what is sent to a destination, and where it stands.
fn sent(
    scanner: &Scanner,
    private: Option<&PrivateValues>,
    target: &EgressTarget,
    exchange: &Exchange,
) -> Option<(Option<String>, Kind)> {
    if let Some(body) = &target.body {
        let read = || scanner.body(body.media.as_deref(), &body.bytes, private);
        let kind = offload(body.bytes.len(), read)?;
        return Some((Some("body".to_owned()), kind));
    }
    let url = target.url.as_ref().unwrap_or(&target.authority);
    if let Some(kind) = scanner.url(url, private) {
        return Some((None, kind));
    }
    let (name, kind) = scanner.headers(exchange.headers.as_ref()?, private)?;
    Some((Some(field(&name)), kind))
}

fn field(name: &HeaderName) -> String {
    format!("header {name}")
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
