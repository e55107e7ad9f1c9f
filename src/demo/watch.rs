//! Watches the guard's decisions for the demo: what each layer said of each item.

use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;

use crate::guard::{Decision, Observer};
use crate::item::{Exchange, Item};
use crate::verdict::{Mode, Verdict};

/// Collects one line per judged item that a layer had something to say of.
#[derive(Debug, Default)]
pub struct Watch(Mutex<Vec<String>>);

impl Watch {
    /// The lines since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Watch {
    fn decided<'a>(
        &'a self,
        exchange: &'a Exchange,
        decision: &'a Decision,
    ) -> BoxFuture<'a, Result<(), String>> {
        let lines = exchange
            .items
            .iter()
            .zip(&decision.rulings)
            .filter_map(|(located, ruling)| {
                let layers: Vec<String> = ruling
                    .opinions
                    .iter()
                    .filter(|opinion| opinion.mode != Mode::Off)
                    .map(|opinion| format!("{} {}", opinion.layer, said(&opinion.verdict)))
                    .collect();
                let item = item(&located.item)?;
                (!layers.is_empty()).then(|| {
                    format!(
                        "{item} on route {}: {} => {}",
                        exchange.route,
                        layers.join(", "),
                        ruling.verdict.label()
                    )
                })
            });
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(lines);
        Box::pin(async { Ok(()) })
    }
}

fn item(item: &Item) -> Option<String> {
    match item {
        Item::ToolCall(call) => Some(format!("call {}", call.tool)),
        Item::ToolOutput(_) => Some("tool output".to_owned()),
        _ => None,
    }
}

fn said(verdict: &Verdict) -> String {
    match verdict.finding() {
        Some(finding) => format!("{} ({})", verdict.label(), finding.reason),
        None => verdict.label().to_owned(),
    }
}
