//! What several layers need: named lists, look-ups, and one verdict from many findings.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Context;
pub(super) use super::lookup::{Answer, Binds, ReadyLookup, Row};
use crate::names::{ListName, RuleId};
use crate::policy::{List, Otherwise, Policy};
use crate::source::Problem;
use crate::verdict::{Finding, Hold, LayerId, Reason, Verdict};

/// The list of that name, or a problem for the rule that asks for it.
pub(super) fn list<'p>(
    policy: &'p Policy,
    name: &ListName,
    rule: &RuleId,
) -> Result<&'p List, Problem> {
    policy.lists.get(name).ok_or_else(|| {
        Problem::new(format!("{rule}: there is no list `{name}`")).help(format!(
            "add `{name}` under `lists`, or name one of: {}",
            names(policy.lists.keys())
        ))
    })
}

pub(super) fn names(given: impl Iterator<Item = impl std::fmt::Display>) -> String {
    let mut sorted: Vec<String> = given.map(|name| name.to_string()).collect();
    sorted.sort();
    if sorted.is_empty() {
        "(none)".to_owned()
    } else {
        sorted.join(", ")
    }
}

/// A layer's rules, ready to run, by the tool rule of the policy that they stand in.
pub(super) type ByRule<R> = HashMap<RuleId, Vec<R>>;

/// The rules for the call that is judged; none for a tool that nobody described.
pub(super) fn applying<'r, R>(rules: &'r ByRule<R>, context: &Context<'_>) -> &'r [R] {
    context
        .rule
        .and_then(|rule| rules.get(&rule.id))
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// One objection of a layer.
pub(super) fn finding(
    layer: LayerId,
    rule: &RuleId,
    reason: Reason,
    argument: Option<String>,
    detail: impl Into<Cow<'static, str>>,
) -> Finding {
    Finding {
        layer,
        rule: rule.clone(),
        reason,
        argument,
        detail: detail.into(),
    }
}

/// Collects objections; the first denial stands, else the first that waits for a ticket.
#[derive(Default)]
pub(super) struct Objections {
    deny: Option<Finding>,
    hold: Option<Finding>,
}

impl Objections {
    /// Adds one.
    pub(super) fn add(&mut self, otherwise: Otherwise, finding: Finding) {
        let place = match otherwise {
            Otherwise::Deny => &mut self.deny,
            Otherwise::Hold => &mut self.hold,
        };
        place.get_or_insert(finding);
    }

    /// Whether nothing can change the verdict any more.
    pub(super) const fn is_denied(&self) -> bool {
        self.deny.is_some()
    }

    /// What they come to.
    pub(super) fn verdict(self) -> Verdict {
        match (self.deny, self.hold) {
            (Some(finding), _) => Verdict::Deny(finding),
            (None, Some(finding)) => Verdict::Hold(Hold::new(finding)),
            (None, None) => Verdict::Allow,
        }
    }
}
