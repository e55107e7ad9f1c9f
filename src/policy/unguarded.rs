//! Arguments that the config's descriptions of tools know, that look like recipients or URLs, and that no rule is for.

use serde_json::Value;

use super::{Checked, Effect, Policy, ToolRule, Undeclared};
use crate::layers::{egress, recipients};
use crate::settings::{HttpTool, RouteProtocol, Settings};
use crate::source::Problem;
use crate::verdict::{LayerId, Mode};

/// Most places of one tool that a message names.
const NAMED: usize = 6;

/// What the policy forgets of the tools that the config describes. In strict mode such an argument makes every call a refusal,
/// so it is an error there.
pub(super) fn unguarded(checked: &Checked, settings: &Settings) -> Vec<Problem> {
    let mut problems = Vec::new();
    for route in &settings.routes {
        let RouteProtocol::HttpTools(http) = &route.protocol else {
            continue;
        };
        for tool in &http.tools {
            problems.extend(of_tool(checked, tool));
        }
    }
    problems
}

fn of_tool(checked: &Checked, tool: &HttpTool) -> Vec<Problem> {
    let policy = &checked.policy;
    let Some(name) = &tool.tool else {
        return Vec::new();
    };
    let example = example(tool);
    let rule = policy.rule_for(name);
    if rule.is_some_and(|rule| rule.deny) {
        return Vec::new();
    }
    let at = |problem: Problem| {
        let path = rule.map_or("undeclared_recipients".to_owned(), |rule| {
            format!("{}.tool", rule.id)
        });
        match checked.tree.at(&path) {
            Some(node) => problem.at(node.spot.clone()),
            None => problem,
        }
    };
    let mut problems = Vec::new();
    if let Some((places, strict)) = recipients(policy, rule, &example) {
        let message = format!(
            "`{name}` has arguments that look like recipients, and no rule is for them: {places}"
        );
        let help = "name them in `recipients` or `arguments` of the tool's rule, so that nobody else is reached";
        problems.push(at(if strict {
            let refused = "with `undeclared_recipients: deny` a call that has one is refused";
            Problem::new(format!("{message}; {refused}")).help(help)
        } else {
            Problem::new(message).help(help).warning()
        }));
    }
    if let Some(places) = urls(policy, rule, &example) {
        let message = format!(
            "`{name}` has arguments that look like URLs, and no rule says where they may lead: {places}"
        );
        problems.push(at(Problem::new(message)
            .help("name them in `egress` of the tool's rule")
            .warning()));
    }
    problems
}

/// What is known of the tool's arguments: by its description, or where the config writes it out by its path and headers.
fn example(tool: &HttpTool) -> Value {
    if !tool.example.is_null() {
        return tool.example.clone();
    }
    let parts = tool.path.split('{').skip(1);
    let names = parts.filter_map(|part| part.split_once('}').map(|(name, _)| name));
    let names = names.chain(tool.headers.iter().map(String::as_str));
    let members = names.map(|name| (name.to_owned(), "x".into()));
    Value::Object(members.collect())
}

/// Whether a person sees every call of such a tool.
fn is_seen(policy: &Policy, rule: Option<&ToolRule>) -> bool {
    let enforced = policy.modes.of(LayerId::Tickets) == Mode::Enforce;
    enforced && rule.is_none_or(|rule| rule.ticket.is_some())
}

/// Undeclared recipients, and whether calls with them are refused.
fn recipients(policy: &Policy, rule: Option<&ToolRule>, example: &Value) -> Option<(String, bool)> {
    let reads = rule.is_some_and(|rule| rule.effect == Effect::Read);
    if reads || policy.modes.of(LayerId::Recipients) == Mode::Off {
        return None;
    }
    let said = rule.and_then(|rule| rule.undeclared_recipients);
    let strict = said.or(policy.undeclared_recipients) == Some(Undeclared::Deny);
    if !strict && is_seen(policy, rule) {
        return None;
    }
    named(&recipients::undeclared(rule, example)).map(|places| (places, strict))
}

fn urls(policy: &Policy, rule: Option<&ToolRule>, example: &Value) -> Option<String> {
    let own = rule.map(|rule| &rule.egress[..]).unwrap_or_default();
    let everywhere = own.is_empty() && policy.egress.is_some();
    if everywhere || is_seen(policy, rule) || policy.modes.of(LayerId::Egress) == Mode::Off {
        return None;
    }
    let arguments = rule.map(|rule| &rule.arguments[..]).unwrap_or_default();
    let egress = own.iter().flat_map(|rule| &rule.at);
    let judged: Vec<_> = egress
        .chain(arguments.iter().flat_map(|rule| &rule.at))
        .collect();
    named(&egress::undeclared(&judged, example))
}

fn named(places: &[String]) -> Option<String> {
    let more = places.len().saturating_sub(NAMED);
    let shown = places.iter().take(NAMED).map(|place| format!("`{place}`"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match (places.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(shown),
        (false, more) => Some(format!("{shown} and {more} more")),
    }
}
