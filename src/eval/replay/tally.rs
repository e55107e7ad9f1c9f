//! Counts what the guard decides while a trial runs. It only listens: nothing is judged outside the pipeline.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::stage::Stage;
use crate::guard::{Decision, Observer};
use crate::item::{Exchange, Item, RouteKind};
use crate::verdict::{LayerId, Ruling, Verdict};

/// Listens to one trial.
pub(super) struct Tally {
    stage: Stage,
    keep: bool,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    reached: BTreeSet<LayerId>,
    /// The last verdict over a call, by its id and the kind of route.
    calls: HashMap<(String, RouteKind), Verdict>,
    /// What the layers said since it was last asked for. The same again is not repeated.
    said: Vec<Value>,
    known: BTreeSet<String>,
    elapsed: Duration,
}

impl Tally {
    /// `keep`: somebody wants to read what was said.
    pub(super) fn new(stage: Stage, keep: bool) -> Self {
        Self {
            stage,
            keep,
            heard: Mutex::default(),
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reached(&self) -> BTreeSet<LayerId> {
        self.heard().reached.clone()
    }

    /// The last verdict over a call on a route of this kind.
    pub(super) fn verdict(&self, call: &str, kind: RouteKind) -> Option<Verdict> {
        self.heard().calls.get(&(call.to_owned(), kind)).cloned()
    }

    /// How long the layers took.
    pub(super) fn elapsed(&self) -> Duration {
        self.heard().elapsed
    }

    /// What was said since the last time, as JSON.
    pub(super) fn said(&self) -> Vec<Value> {
        std::mem::take(&mut self.heard().said)
    }
}

impl Observer for Tally {
    fn decided<'a>(
        &'a self,
        exchange: &'a Exchange,
        decision: &'a Decision,
    ) -> BoxFuture<'a, Result<(), String>> {
        let mut heard = self.heard();
        for (located, ruling) in exchange.items.iter().zip(&decision.rulings) {
            let reached = ruling.opinions.iter().filter(|opinion| opinion.reached);
            heard.reached.extend(reached.map(|opinion| opinion.layer));
            let took = ruling.opinions.iter().map(|opinion| opinion.elapsed);
            heard.elapsed += took.sum::<Duration>();
            let (what, call) = match &located.item {
                Item::ToolCall(call) => ("call", call.call_id.as_deref()),
                Item::Unreadable(call) => ("call", call.call_id.as_deref()),
                Item::ToolOutput(output) => ("output", output.call_id.as_deref()),
                Item::Definition(_) => ("definition", None),
                Item::ProviderTool(_) => ("provider_tool", None),
                Item::ModelText(_) => ("text", None),
                Item::Egress(_) => ("egress", None),
            };
            let call = match exchange.kind {
                RouteKind::Model => call.map(str::to_owned),
                _ => self.stage.current(),
            };
            if what == "call"
                && let Some(call) = &call
            {
                let key = (call.clone(), exchange.kind);
                heard.calls.insert(key, ruling.verdict.clone());
            }
            if self.keep && !ruling.opinions.is_empty() {
                let said = said(exchange, what, call.as_deref(), ruling);
                if heard.known.insert(said.to_string()) {
                    heard.said.push(said);
                }
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

fn said(exchange: &Exchange, what: &str, call: Option<&str>, ruling: &Ruling) -> Value {
    let opinions: Vec<_> = ruling
        .opinions
        .iter()
        .map(|opinion| {
            let finding = opinion.verdict.finding();
            json!({
                "layer": opinion.layer,
                "mode": opinion.mode,
                "reached": opinion.reached,
                "verdict": opinion.verdict.label(),
                "rule": finding.map(|finding| &finding.rule),
                "reason": finding.map(|finding| finding.reason),
            })
        })
        .collect();
    json!({
        "route": exchange.route,
        "item": what,
        "call": call,
        "verdict": ruling.verdict.label(),
        "layers": opinions,
    })
}
