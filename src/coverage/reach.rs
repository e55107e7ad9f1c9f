//! Which layers look at which kind of item under a policy.

use crate::item::RouteKind;
use crate::policy::{Policy, Thresholds, ToolRule};
use crate::protocols::canary::ItemKind;
use crate::verdict::{LayerId, Mode};

/// A layer that looks at items of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The layer.
    pub layer: LayerId,
    /// Whether its verdict holds.
    pub mode: Mode,
    /// Only where a rule for the item's tool says so; else at every item of the kind.
    pub some: bool,
}

/// The layers that are on and have work with items of this kind on a route of that kind, in judging order.
pub fn looks(policy: &Policy, route: RouteKind, kind: ItemKind) -> Vec<Look> {
    let looks = LayerId::ALL.into_iter().filter_map(|layer| {
        let mode = policy.modes.of(layer);
        let some = match (layer, kind) {
            (LayerId::Egress, ItemKind::Egress) => goes(policy, route)?,
            _ => work(policy, layer, kind)?,
        };
        (mode != Mode::Off).then_some(Look { layer, mode, some })
    });
    looks.collect()
}

/// Whether targets are judged: those of the forward proxy by its own section, redirects on other routes by the default.
fn goes(policy: &Policy, route: RouteKind) -> Option<bool> {
    let judged = match route {
        RouteKind::Forward => policy.forward.is_some(),
        _ => policy.egress.is_some(),
    };
    judged.then_some(false)
}

/// Whether there is an action for every tool, or for some.
fn scans(policy: &Policy) -> Option<bool> {
    if policy.injection.default.acts() {
        return Some(false);
    }
    policy.injection.all().any(Thresholds::acts).then_some(true)
}

/// Whether the layer has work with such items: with all (`false`), or where a rule says so (`true`).
fn work(policy: &Policy, layer: LayerId, kind: ItemKind) -> Option<bool> {
    let rules = |has: fn(&ToolRule) -> bool| policy.tools.iter().any(has).then_some(true);
    match (layer, kind) {
        (LayerId::Catalog, ItemKind::ProviderTool) => Some(false),
        (LayerId::Catalog, ItemKind::Definition) if policy.definitions.lowest().is_some() => {
            Some(false)
        }
        (LayerId::Catalog, ItemKind::Definition | ItemKind::ToolCall) => rules(|rule| rule.deny),
        (LayerId::Identity, ItemKind::ToolCall) => {
            rules(|rule| rule.own_session || !rule.scopes.is_empty() || !rule.agents.is_empty())
        }
        (LayerId::Identity, ItemKind::Definition) => {
            rules(|rule| !rule.scopes.is_empty() || !rule.agents.is_empty())
        }
        (LayerId::Egress, ItemKind::ToolCall) if policy.egress.is_some() => Some(false),
        (LayerId::Egress, ItemKind::ToolCall) => rules(|rule| !rule.egress.is_empty()),
        (LayerId::Egress, ItemKind::ModelText) => policy.rendered.is_some().then_some(false),
        (LayerId::Recipients, ItemKind::ToolCall) => {
            rules(|rule| !rule.recipients.is_empty() || !rule.arguments.is_empty())
        }
        (LayerId::Ownership, ItemKind::ToolCall) => rules(|rule| !rule.ownership.is_empty()),
        (LayerId::Injection, ItemKind::ToolOutput) => scans(policy),
        // A tool that no rule describes needs a ticket too.
        (LayerId::Tickets, ItemKind::ToolCall) => Some(true),
        _ => None,
    }
}
