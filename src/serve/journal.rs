//! One log line for each verdict that is not `allow`: which layer, by which rule, for what reason, and what became of the
//! item. No text of a call or an output: only names from the policy and the config, and the tool's name.

use futures_util::future::BoxFuture;

use crate::guard::{Decision, Observer};
use crate::item::{Exchange, Item};
use crate::names::ToolName;
use crate::verdict::{LayerId, Mode, Ruling, Verdict};

/// A tool's name is the model's word: longer ones are cut.
const NAME: usize = 64;

/// Writes verdicts to the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Journal;

impl Observer for Journal {
    fn decided<'a>(
        &'a self,
        exchange: &'a Exchange,
        decision: &'a Decision,
    ) -> BoxFuture<'a, Result<(), String>> {
        for (index, ruling) in decision.rulings.iter().enumerate() {
            if let Some(located) = exchange.items.get(index) {
                record(
                    exchange,
                    &located.item,
                    ruling,
                    &Became::of(decision, index, ruling),
                );
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What became of an item after all layers and tickets.
struct Became {
    outcome: &'static str,
    ticket: Option<String>,
}

impl Became {
    fn of(decision: &Decision, index: usize, ruling: &Ruling) -> Self {
        let claim = decision.claims.iter().find(|claim| claim.0 == index);
        if let Some((_, claim)) = claim {
            return Self {
                outcome: "spent",
                ticket: Some(claim.ticket().to_string()),
            };
        }
        let receipt = decision.receipts.iter().find(|receipt| receipt.0 == index);
        if let Some((_, receipt)) = receipt {
            return Self {
                outcome: "replayed",
                ticket: Some(receipt.ticket.to_string()),
            };
        }
        Self {
            outcome: ruling.verdict.label(),
            ticket: match &ruling.verdict {
                Verdict::Hold(hold) => hold.ticket.as_ref().map(ToString::to_string),
                _ => None,
            },
        }
    }
}

fn record(exchange: &Exchange, item: &Item, ruling: &Ruling, became: &Became) {
    let (kind, tool) = named(item);
    let tool: String = tool
        .map(|tool| tool.chars().take(NAME).collect())
        .unwrap_or_default();
    let said = ruling
        .opinions
        .iter()
        .map(|o| (o.layer, o.mode, &o.verdict));
    // What the guard itself refused no layer has spoken of.
    let own = ruling
        .opinions
        .is_empty()
        .then(|| ruling.verdict.finding())
        .flatten()
        .map(|finding| (finding.layer, Mode::Enforce, &ruling.verdict));
    for (layer, mode, verdict) in said.chain(own) {
        line(
            exchange,
            kind,
            &tool,
            became,
            (layer, mode, verdict),
            ruling,
        );
    }
}

fn line(
    exchange: &Exchange,
    kind: &str,
    tool: &str,
    became: &Became,
    (layer, mode, verdict): (LayerId, Mode, &Verdict),
    ruling: &Ruling,
) {
    let Some(finding) = verdict.finding() else {
        return;
    };
    // A held call's reason is known once it is settled.
    let settled = ruling.verdict.finding().filter(|of| of.layer == layer);
    tracing::info!(
        route = exchange.route.as_str(),
        item = kind,
        tool = ?tool,
        layer = layer.as_str(),
        mode = mode.as_str(),
        verdict = verdict.label(),
        rule = finding.rule.as_str(),
        reason = settled.unwrap_or(finding).reason.as_str(),
        detail = &*finding.detail,
        outcome = became.outcome,
        ticket = became.ticket.as_deref(),
        "verdict"
    );
}

fn named<'i>(item: &'i Item) -> (&'static str, Option<&'i str>) {
    let tool = |tool: &'i ToolName| Some(tool.as_str());
    match item {
        Item::Definition(definition) => ("definition", tool(&definition.tool)),
        Item::ToolOutput(output) => ("tool_output", output.tool.as_ref().and_then(tool)),
        Item::ToolCall(call) => ("call", tool(&call.tool)),
        Item::Unreadable(call) => ("call", tool(&call.tool)),
        Item::ProviderTool(tool) => ("provider_tool", Some(&*tool.kind)),
        Item::ModelText(_) => ("model_text", None),
        Item::Egress(_) => ("egress", None),
    }
}
