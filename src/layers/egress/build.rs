//! Rules of a policy, ready to run.

use super::args::Reading;
use super::code::{Code, Denied};
use super::head::{Head, connect};
use super::rendered::Rendered;
use super::rules::Rule;
use super::target::Url;
use crate::item::EgressTarget;
use crate::layers::support::list;
use crate::layers::vouch::Vouchers;
use crate::names::{ListName, RuleId};
use crate::policy::{Budget, EgressRule, List, Otherwise, Policy, Reach, Selector, lists};
use crate::source::{Problem, Problems};
use crate::store::Stores;
use crate::verdict::LayerId;

/// A rule for arguments.
pub(super) struct Ready {
    pub(super) id: RuleId,
    pub(super) at: Vec<Selector>,
    pub(super) reading: Reading,
    pub(super) matcher: Rule,
    pub(super) vouchers: Vouchers,
    /// How much a session may send to one host, and what otherwise: a budget asks nobody who said what.
    pub(super) budget: Option<Budget>,
    pub(super) otherwise: Otherwise,
    /// Something besides lists may vouch.
    pub(super) asks: bool,
}

impl Ready {
    pub(super) fn new(
        rule: &EgressRule,
        policy: &Policy,
        stores: &Stores,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let named = named(lists(&rule.allow), &rule.id, policy, problems);
        let vouchers = Vouchers::new(
            LayerId::Egress,
            &rule.id,
            (&rule.allow, rule.otherwise),
            (policy, stores),
            problems,
        );
        Self {
            id: rule.id.clone(),
            at: rule.at.clone(),
            reading: rule.reading,
            matcher: of_lists(&rule.reach, named),
            vouchers,
            budget: rule.budget.clone(),
            otherwise: rule.otherwise.strictest(),
            asks: lists(&rule.allow).count() < rule.allow.len(),
        }
    }
}

/// The matcher for what lists allow.
pub fn of_lists<'l>(reach: &Reach, lists: impl IntoIterator<Item = &'l List>) -> Rule {
    let mut rule = Rule::new();
    rule.schemes.clone_from(&reach.schemes);
    rule.ports.clone_from(&reach.ports);
    rule.max_query = reach.max_query;
    rule.max_path = reach.max_path;
    rule.max_label = reach.max_label;
    rule.deny_random_labels = reach.deny_random_labels;
    for entry in lists.into_iter().flat_map(|list| &list.hosts) {
        rule.allow(entry.clone());
    }
    rule
}

/// What the forward proxy lets pass: the very rule that the layer judges by.
#[derive(Clone, Debug)]
pub struct ForwardMatcher {
    /// `forward`.
    pub id: RuleId,
    /// The matcher.
    pub rule: Rule,
    /// How much a session may send to one host; `None`: any amount.
    pub budget: Option<Budget>,
}

/// The rule of the policy's `forward`, ready to run; nothing where it has none.
///
/// # Errors
/// Lists that are not there.
pub fn forward_matcher(policy: &Policy) -> Result<Option<ForwardMatcher>, Problems> {
    let mut problems = Vec::new();
    let matcher = forward(policy, &mut problems);
    if problems.is_empty() {
        Ok(matcher)
    } else {
        Err(Problems(problems))
    }
}

pub(super) fn forward(policy: &Policy, problems: &mut Vec<Problem>) -> Option<ForwardMatcher> {
    let given = policy.forward.as_ref()?;
    let named = named(&given.allow, &given.id, policy, problems);
    let mut rule = of_lists(&given.reach, named);
    rule.methods.clone_from(&given.methods);
    rule.require_sni = given.require_sni;
    Some(ForwardMatcher {
        id: given.id.clone(),
        rule,
        budget: given.budget.clone(),
    })
}

pub(super) fn rendered(policy: &Policy, problems: &mut Vec<Problem>) -> Option<(RuleId, Rendered)> {
    let given = policy.rendered.as_ref()?;
    let images = named(&given.images, &given.id, policy, problems);
    let links = named(&given.links, &given.id, policy, problems);
    let rendered = Rendered {
        images: of_lists(&given.reach, images),
        links: of_lists(&given.reach, links),
    };
    Some((given.id.clone(), rendered))
}

fn named<'p>(
    names: impl IntoIterator<Item = &'p ListName>,
    rule: &RuleId,
    policy: &'p Policy,
    problems: &mut Vec<Problem>,
) -> Vec<&'p List> {
    let mut found = Vec::new();
    for name in names {
        match list(policy, name, rule) {
            Ok(list) => found.push(list),
            Err(problem) => problems.push(problem),
        }
    }
    found
}

/// Judges a destination before any look-up. `sent`: the method is what is asked now, and must be allowed.
pub(super) fn target(rule: &Rule, target: &EgressTarget, sent: bool) -> Result<(), Denied> {
    let Some(url) = &target.url else {
        let head = Head {
            method: &target.method,
            target: &target.authority,
            headers: Vec::new(),
        };
        return connect(rule, &head).map(drop);
    };
    if target.method.as_ref() == "CONNECT" {
        return Err(Denied::new(
            Code::MalformedRequest,
            "CONNECT with a whole URL",
        ));
    }
    rule.judge(&Url::read(url)?)?;
    if sent {
        rule.method(&target.method)?;
    }
    Ok(())
}
