//! Entries of `allow` that can vouch for nothing.

use super::inert::rules;
use crate::policy::{self, Allowed, EgressRule, Fallback, Policy, RecipientRule};
use crate::source::Field;
use crate::verdict::{LayerId, Mode};

/// An entry that is a map, with the section and the rule that it stands in.
struct Vouching<'r> {
    section: &'static str,
    rule: Field<'r>,
    entry: Field<'r>,
}

/// Reports them.
pub(super) fn warn(root: &Field<'_>, policy: &Policy) {
    let scans = policy.modes.of(LayerId::Injection) == Mode::Enforce;
    for Vouching {
        section,
        rule,
        entry,
    } in entries(root)
    {
        let kind = rule.peek("kind");
        let chat = kind.is_some_and(|kind| kind.node().as_text() == Some("chat"));
        if let Some(sole) = entry.peek("sole")
            && (chat || matches!(section, "arguments" | "when"))
        {
            sole.error(
                "`sole` can never hold here: of plain texts nobody can tell what another one would be",
                "remove it; it is for addresses, numbers, accounts and URLs",
            );
        }
        if let Some(site) = entry.peek("site_of").filter(|_| section != "egress") {
            site.error(
                "`site_of` can never hold here: it is about URLs",
                "remove it; write it in `egress`",
            );
        }
        if let Some(clean) = entry.peek("clean").filter(|_| !scans) {
            clean.warn(
                "this has no effect: the layer `injection` is not enforced, so it finds nothing",
                "set `layers.injection: enforce`, or remove this",
            );
        }
    }
    for (path, kind) in strangers(policy) {
        if let Some(field) = at(root, &path) {
            field.warn(
                format!("nobody is ever known here: a first {kind} is always refused, so there is no second one"),
                "write `otherwise: hold` with the layer `tickets`, or allow some by a list or by where they come from",
            );
        }
    }
}

fn entries<'r>(root: &Field<'r>) -> Vec<Vouching<'r>> {
    let mut found = Vec::new();
    let mut add = |section, rule: &Field<'r>| {
        let allow = rule.peek("allow").and_then(|allow| allow.list());
        let maps = allow.unwrap_or_default().into_iter().filter(Field::is_map);
        found.extend(maps.map(|entry| Vouching {
            section,
            rule: rule.clone(),
            entry,
        }));
    };
    for rule in rules(root) {
        for section in ["egress", "recipients", "arguments", "when"] {
            let all = rule.peek(section).and_then(|section| section.list());
            all.unwrap_or_default()
                .iter()
                .for_each(|one| add(section, one));
        }
    }
    if let Some(all) = root.peek("egress") {
        add("egress", &all);
    }
    found
}

/// Rules that let only what is known pass, where nothing of the kind can ever become known.
fn strangers(policy: &Policy) -> Vec<(String, &'static str)> {
    let tickets = policy.modes.of(LayerId::Tickets) == Mode::Enforce;
    let opens = |allow: &[Allowed], fallback: &Fallback| {
        let first = |entry: &Allowed| !matches!(entry, Allowed::Known(_));
        allow.iter().any(first) || (tickets && fallback.can_hold())
    };
    let mut found = Vec::new();
    let recipients = || policy.tools.iter().flat_map(|tool| &tool.recipients);
    for rule in recipients().filter(|rule| policy::asks_known(&rule.allow)) {
        let same = |other: &&RecipientRule| other.kind.class() == rule.kind.class();
        let mut same = recipients().filter(same);
        if !same.any(|rule| opens(&rule.allow, &rule.otherwise)) {
            found.push((rule.id.to_string(), "recipient"));
        }
    }
    let tools = policy.tools.iter().flat_map(|tool| &tool.egress);
    let urls: Vec<&EgressRule> = tools.chain(&policy.egress).collect();
    if !urls.iter().any(|rule| opens(&rule.allow, &rule.otherwise)) {
        let asking = urls.iter().filter(|rule| policy::asks_known(&rule.allow));
        found.extend(asking.map(|rule| (rule.id.to_string(), "host")));
    }
    // Other values are known to their own tool alone.
    for tool in &policy.tools {
        let mut rules = tool.arguments.iter();
        if !rules.any(|rule| opens(&rule.allow, &rule.otherwise)) {
            let rules = tool.arguments.iter();
            let asking = rules.filter(|rule| policy::asks_known(&rule.allow));
            found.extend(asking.map(|rule| (rule.id.to_string(), "value")));
        }
    }
    found
}

/// The field at a path such as `tools[3].recipients[0]`.
fn at<'r>(root: &Field<'r>, path: &str) -> Option<Field<'r>> {
    path.split('.').try_fold(root.clone(), |field, step| {
        let (key, index) = match step.split_once('[') {
            Some((key, index)) => (key, Some(index.trim_end_matches(']'))),
            None => (step, None),
        };
        let field = field.peek(key)?;
        match index {
            Some(index) => field.list()?.into_iter().nth(index.parse().ok()?),
            None => Some(field),
        }
    })
}
