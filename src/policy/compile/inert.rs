//! Controls that are written down and never run: the commonest fault of a guardrail.

use super::vouchers;
use crate::policy::{self, Effect, Otherwise, Policy, Thresholds, ToolMatcher, ToolRule};
use crate::source::{Field, Problem};
use crate::verdict::{LayerId, Mode};

/// Reports what can have no effect.
pub(super) fn warn(root: &Field<'_>, policy: &Policy) {
    let layers = root.peek("layers");
    let tools = root.peek("tools");
    sections_of_layers_that_are_off(root, policy);
    if let Some(layers) = &layers {
        layers_without_rules(layers, policy);
    }
    holds_without_tickets(root, policy);
    sites_of_no_urls(root);
    vouchers::warn(root, policy);
    taints(root, policy);
    unused(root, policy);
    preparations(root, policy);
    let any = |rule: &ToolRule| rule.matcher == ToolMatcher::Any;
    if !policy.tools.iter().any(any) {
        let message = match policy.modes.of(LayerId::Tickets) {
            Mode::Enforce => {
                "there is no rule for `*`: a tool that no rule names is a write that needs an approval"
            }
            _ => {
                "there is no rule for `*`: a tool that no rule names is not held, since the layer `tickets` is not enforced"
            }
        };
        let at = tools.as_ref().unwrap_or(root);
        at.report(
            at.problem(message)
                .help("say it: end `tools` with a rule `tool: \"*\"`")
                .warning(),
        );
    }
}

const SECTIONS: [(&str, LayerId); 12] = [
    ("deny", LayerId::Catalog),
    ("scopes", LayerId::Identity),
    ("agents", LayerId::Identity),
    ("session", LayerId::Identity),
    ("egress", LayerId::Egress),
    ("secrets", LayerId::Egress),
    ("recipients", LayerId::Recipients),
    ("arguments", LayerId::Recipients),
    ("undeclared_recipients", LayerId::Recipients),
    ("when", LayerId::Catalog),
    ("ownership", LayerId::Ownership),
    ("ticket", LayerId::Tickets),
];

fn sections_of_layers_that_are_off(root: &Field<'_>, policy: &Policy) {
    let off = |layer| policy.modes.of(layer) == Mode::Off;
    let say = |field: &Field<'_>, layer: LayerId| {
        field.warn(
            format!("this has no effect: the layer `{layer}` is off"),
            format!("set `layers.{layer}` to `shadow` or `enforce`, or remove this"),
        );
    };
    for (key, layer) in [
        ("provider_tools", LayerId::Catalog),
        ("definitions", LayerId::Catalog),
        ("egress", LayerId::Egress),
        ("undeclared_recipients", LayerId::Recipients),
        ("forward", LayerId::Egress),
        ("rendered", LayerId::Egress),
        ("secrets", LayerId::Egress),
        ("private", LayerId::Egress),
        ("injection", LayerId::Injection),
    ] {
        if let Some(field) = root.peek(key)
            && off(layer)
        {
            say(&field, layer);
        }
    }
    for rule in rules(root) {
        for (key, layer) in SECTIONS {
            if let Some(field) = rule.peek(key)
                && off(layer)
            {
                say(&field, layer);
            }
        }
    }
}

pub(super) fn rules<'r>(root: &Field<'r>) -> Vec<Field<'r>> {
    let tools = root.peek("tools");
    tools.and_then(|tools| tools.list()).unwrap_or_default()
}

fn layers_without_rules(layers: &Field<'_>, policy: &Policy) {
    let any = |has: fn(&ToolRule) -> bool| policy.tools.iter().any(has);
    let acts = policy.injection.all().any(Thresholds::acts);
    for (layer, has, help) in [
        (
            LayerId::Identity,
            any(|rule| rule.own_session || !rule.scopes.is_empty() || !rule.agents.is_empty()),
            "add `scopes`, `agents` or `session` to the rule of a tool",
        ),
        (
            LayerId::Egress,
            policy.egress.is_some()
                || policy.forward.is_some()
                || policy.rendered.is_some()
                || policy.secrets.as_ref().is_some_and(|rule| rule.written)
                || !policy.private.is_empty()
                || any(|rule| !rule.egress.is_empty()),
            "add `egress: {allow: [...]}` for every tool, or `egress` to a rule",
        ),
        (
            LayerId::Recipients,
            policy.undeclared_recipients.is_some()
                || any(|rule| {
                    !rule.recipients.is_empty()
                        || !rule.arguments.is_empty()
                        || rule.undeclared_recipients.is_some()
                }),
            "add `recipients` to the rule of a tool that sends or pays",
        ),
        (
            LayerId::Ownership,
            any(|rule| !rule.ownership.is_empty()),
            "add `ownership` to the rule of a tool that names somebody's resource",
        ),
        (
            LayerId::Injection,
            acts,
            "add `injection: {annotate: 0.35, redact: 0.6, block: 0.85}`",
        ),
    ] {
        if let Some(field) = layers.peek(layer.as_str())
            && policy.modes.of(layer) != Mode::Off
            && !has
        {
            field.warn(
                format!("the layer `{layer}` is on and nothing in this policy gives it work"),
                help,
            );
        }
    }
}

/// Conditions about what the injection layer finds, where it can find nothing.
fn taints(root: &Field<'_>, policy: &Policy) {
    let mode = policy.modes.of(LayerId::Injection);
    if mode == Mode::Enforce && policy.injection.finds() {
        return;
    }
    for rule in rules(root) {
        let unless = rule.peek("ticket").and_then(|ticket| ticket.peek("unless"));
        let sections = [rule.peek("when"), unless].into_iter().flatten();
        let conditions = sections.filter_map(|section| section.list()).flatten();
        for tainted in conditions.filter_map(|condition| condition.peek("tainted")) {
            let (message, help) = if mode == Mode::Enforce {
                (
                    "this condition always holds: the section `injection` finds no instruction, so nothing taints a session",
                    "add `annotate`, `redact` or `block` with a score to `injection`, or remove this",
                )
            } else {
                (
                    "this condition always holds: the layer `injection` is not enforced, so nothing taints a session",
                    "set `layers.injection: enforce`, or remove this",
                )
            };
            if mode == Mode::Shadow {
                tainted.warn(message, help);
            } else {
                tainted.error(message, help);
            }
        }
    }
}

/// First words of tools that prepare what another call carries out.
const PREPARES: [&str; 5] = ["prepare", "draft", "stage", "propose", "initiate"];

/// A refusal of the second call leaves what the first has written: it needs a ticket too, unless somebody says that it does no
/// harm.
fn preparations(root: &Field<'_>, policy: &Policy) {
    for (field, rule) in rules(root).iter().zip(&policy.tools) {
        let prepare = field.peek("prepare");
        let gated = rule.ticket.is_some() || rule.effect == Effect::Read;
        if let Some(prepare) = &prepare
            && gated
        {
            prepare.warn(
                "`prepare` has no meaning for a tool that reads or needs a ticket",
                "remove it",
            );
        }
        let words = match &rule.matcher {
            ToolMatcher::Exact(name) => name.as_str(),
            ToolMatcher::Prefix(prefix) => prefix,
            ToolMatcher::Any => continue,
        };
        let first = words.split(['_', '-', '.']).next().unwrap_or_default();
        let prepares = PREPARES.contains(&first.to_ascii_lowercase().as_str());
        if policy.modes.of(LayerId::Tickets) == Mode::Enforce
            && prepares
            && !gated
            && !rule.deny
            && !rule.harmless
            && let Some(tool) = field.peek("tool")
        {
            tool.warn(
                format!("`{words}` seems to prepare a write and waits for nobody: what it leaves behind stays where the write is refused"),
                "add a `ticket`, or say `prepare: harmless` or `effect: read`",
            );
        }
    }
}

fn held<'r>(rule: &Field<'r>) -> Option<Field<'r>> {
    let word = rule.peek("otherwise").or_else(|| rule.peek("else"));
    let holds = |field: &Field<'_>| field.node().as_text() == Some("hold");
    word.filter(|word| {
        if word.is_map() {
            let words = word.entries().unwrap_or_default();
            return words.iter().any(|(_, field)| holds(field));
        }
        holds(word)
    })
}

/// `site` is about URLs.
fn sites_of_no_urls(root: &Field<'_>) {
    for rule in rules(root) {
        let sections = ["recipients", "arguments"].into_iter();
        let sections = sections.filter_map(|key| rule.peek(key)?.list());
        let allow = sections
            .flatten()
            .filter_map(|entry| entry.peek("allow")?.list());
        for entry in allow.flatten().filter(Field::is_map) {
            if let Some(site) = entry.peek("site") {
                site.warn(
                    "`site` is about URLs: here it vouches for nothing more",
                    "remove it, or move the rule to `egress`",
                );
            }
        }
    }
}

/// A hold needs somebody who can lift it.
fn holds_without_tickets(root: &Field<'_>, policy: &Policy) {
    if policy.modes.of(LayerId::Tickets) == Mode::Enforce {
        return;
    }
    let say = |field: &Field<'_>| {
        let key = field.path().rsplit('.').next().unwrap_or_default();
        field.warn(
            format!("`{key}: hold` refuses like `deny`: the layer `tickets` is not enforced"),
            "set `layers.tickets: enforce`, or write `deny`",
        );
    };
    if policy
        .egress
        .as_ref()
        .is_some_and(|e| e.otherwise.can_hold())
        && let Some(field) = root.peek("egress").and_then(|egress| held(&egress))
    {
        say(&field);
    }
    if policy
        .secrets
        .as_ref()
        .is_some_and(|rule| rule.otherwise == Otherwise::Hold)
        && policy.modes.of(LayerId::Egress) == Mode::Enforce
        && let Some(field) = root.peek("secrets").and_then(|secrets| held(&secrets))
    {
        say(&field);
    }
    if policy.modes.of(LayerId::Egress) == Mode::Enforce {
        let private = root.peek("private").and_then(|private| private.list());
        for field in private.unwrap_or_default().iter().filter_map(held) {
            say(&field);
        }
    }
    for rule in rules(root) {
        for (key, layer) in SECTIONS {
            let enforced = policy.modes.of(layer) == Mode::Enforce;
            let section = rule
                .peek(key)
                .filter(|_| enforced && matches!(key, "egress" | "recipients" | "ownership"));
            for entry in section
                .and_then(|section| section.list())
                .unwrap_or_default()
            {
                if let Some(field) = held(&entry) {
                    say(&field);
                }
            }
        }
    }
}

fn unused(root: &Field<'_>, policy: &Policy) {
    let rules = || policy.tools.iter();
    let allow = || policy.allows().map(|(_, allow)| allow);
    let forward = policy.forward.iter().flat_map(|rule| &rule.allow);
    let rendered = policy.rendered.iter();
    let shown = rendered.flat_map(|rule| rule.images.iter().chain(&rule.links));
    let elsewhere: Vec<_> = forward.chain(shown).collect();
    let list_used = |name: &str| {
        allow().any(|allow| policy::lists(allow).any(|list| list.as_str() == name))
            || elsewhere.iter().any(|list| list.as_str() == name)
    };
    let lookup_used = |name: &str| {
        let owners = rules().flat_map(|rule| rule.ownership.iter().map(|rule| &rule.owner));
        let allowed = allow().flat_map(policy::lookups);
        let tickets = rules().filter_map(|rule| rule.ticket.as_ref());
        let tickets = tickets.flat_map(policy::TicketRule::lookups);
        owners
            .chain(allowed)
            .chain(tickets)
            .any(|lookup| lookup.as_str() == name)
    };
    let say = |section, what, used: &dyn Fn(&str) -> bool| {
        let entries = root.peek(section).and_then(|field| field.entries());
        for (key, field) in entries.unwrap_or_default() {
            if !used(key.text()) {
                let problem = Problem::new(format!("no rule uses the {what} `{}`", key.text()))
                    .help("name it in a rule, or remove it")
                    .at(key.spot())
                    .warning();
                field.report(problem);
            }
        }
    };
    say("lists", "list", &list_used);
    say("lookups", "look-up", &lookup_used);
}
