//! What the policy says of secrets, applied to calls and destinations.

use std::sync::Arc;

use super::{Class, Kind, PrivateValues, Scanner, is_ready};
use crate::item::{EgressTarget, Leg, RouteKind, ToolCall};
use crate::layers::Context;
use crate::layers::support::{Objections, finding};
use crate::names::RuleId;
use crate::policy::{Effect, Otherwise, Policy, Selector, ToolSecrets};
use crate::source::Problem;
use crate::store::Stores;
use crate::verdict::{Finding, LayerId, Reason};

/// The policy's rule, ready to run.
pub(in crate::layers::egress) struct Secrets {
    id: RuleId,
    scanner: Scanner,
    otherwise: Otherwise,
    reads: bool,
}

impl Secrets {
    /// Nothing where the policy switches it off.
    pub(in crate::layers::egress) fn new(
        policy: &Policy,
        stores: &Stores,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let rule = policy.secrets.as_ref()?;
        if !is_ready() {
            problems.push(Problem::new(
                "the patterns of credentials cannot be compiled",
            ));
        }
        Some(Self {
            id: rule.id.clone(),
            scanner: Scanner {
                classes: rule.classes.clone(),
                register: Arc::clone(&stores.register),
            },
            otherwise: rule.otherwise,
            reads: rule.reads,
        })
    }

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

    /// Every secret in the arguments.
    fn each(&self, call: &ToolCall, context: &Context<'_>, tell: impl FnMut(&str, Kind)) {
        if let Some(except) = self.applies(context) {
            let private = self.private(call, context);
            self.scanner
                .value(&call.args.value, except, private.as_ref(), tell);
        }
    }

    fn private(&self, _call: &ToolCall, _context: &Context<'_>) -> Option<PrivateValues> {
        self.scanner
            .classes
            .contains(&Class::Private)
            .then_some(None)
            .flatten()
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
        self.each(call, context, |at, kind| {
            objections.add(self.otherwise, self.objection(Some(at.to_owned()), kind));
        });
    }

    /// A destination carries data in its path and query.
    pub(in crate::layers::egress) fn target(
        &self,
        target: &EgressTarget,
        leg: Leg,
    ) -> Option<Finding> {
        let url = target.url.as_ref().filter(|_| leg == Leg::ToUpstream)?;
        let kind = self.scanner.text(url, None)?;
        Some(self.objection(None, kind))
    }

    fn objection(&self, at: Option<String>, kind: Kind) -> Finding {
        let reason = match kind.class() {
            Class::Private => Reason::PrivateValue,
            _ => Reason::SecretDetected,
        };
        finding(LayerId::Egress, &self.id, reason, at, kind.as_str())
    }
}
