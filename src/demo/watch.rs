//! Watches the guard's decisions for the demo: what each layer said of each item.

use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;

use crate::guard::{Decision, Observer};
use crate::item::{Exchange, Item};
use crate::verdict::{Mode, Opinion, Ruling};

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
            .enumerate()
            .filter_map(|(index, (located, ruling))| {
                let layers: Vec<String> = ruling
                    .opinions
                    .iter()
                    .filter(|opinion| opinion.mode != Mode::Off)
                    .map(said)
                    .collect();
                let item = item(&located.item)?;
                (!layers.is_empty()).then(|| {
                    format!(
                        "{item} on route {}: {} => {}",
                        exchange.route,
                        layers.join(", "),
                        outcome(index, ruling, decision)
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

fn said(opinion: &Opinion) -> String {
    let shadow = match opinion.mode {
        Mode::Shadow => " in shadow",
        Mode::Off | Mode::Enforce => "",
    };
    let verdict = opinion.verdict.label();
    match opinion.verdict.finding() {
        Some(finding) => format!("{} {verdict}{shadow} ({})", opinion.layer, finding.reason),
        None => format!("{} {verdict}{shadow}", opinion.layer),
    }
}

/// What holds in the end, and why where that is not the strongest of what the layers said.
fn outcome(index: usize, ruling: &Ruling, decision: &Decision) -> String {
    let verdict = ruling.verdict.label();
    let at = |known: usize| known == index;
    if decision.claims.iter().any(|(known, _)| at(*known)) {
        format!("{verdict}, once, by the approved ticket")
    } else if decision.receipts.iter().any(|(known, _)| at(*known)) {
        format!("{verdict}: the ticket is used, so its receipt comes back")
    } else {
        verdict.to_owned()
    }
}
