//! Instructions to the model in texts that should be data: tool outputs and tool definitions.
//!
//! A filter, not a boundary: it takes out the mass of plain attempts and says nothing about a polite request. What it lets
//! through must still pass the layers that judge calls.

mod compile;
mod decoded;
mod derived;
mod dictionary;
mod extent;
mod pattern;
mod places;
mod quotation;
mod rules;
mod scan;
mod seen;
#[cfg(test)]
mod tests;
mod tokens;
mod view;

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;

pub use places::{Place, Reading};
pub use rules::{Family, Rule, WEAK_CAP, reference, rules};
pub use scan::{Corroborator, Finding as Phrase, Kind, Profile, Scan, Scanner, Skipped};

use super::support::finding;
use super::{Context, Layer, LayerDef};
use crate::item::{Item, Located};
use crate::names::{RuleId, ToolName};
use crate::policy::{InjectionPolicy, Policy, Thresholds};
use crate::source::{Problem, Problems};
use crate::store::Stores;
use crate::verdict::{Finding, LayerId, Reason, Rewrite, RewriteKind, Undecided, Verdict};
use crate::wire::offload::offload;

/// The entry of the registry.
pub const INJECTION: LayerDef = LayerDef {
    id: LayerId::Injection,
    doc: "instructions to the model in tool outputs and definitions",
    build,
};

/// What stands in place of a removed instruction.
pub const REMOVED: &str = "[holdpoint: removed: injection_detected]";

/// Most rules that a finding names.
const NAMED: usize = 4;

struct Injection {
    policy: Arc<Policy>,
    scanner: &'static Scanner,
}

/// The rules are the build's own, so they are compiled once for every guard of the process: eval makes one per trial.
static SCANNER: LazyLock<Result<Scanner, String>> = LazyLock::new(Scanner::new);

fn build(policy: &Arc<Policy>, _stores: &Stores) -> Result<Arc<dyn Layer>, Problems> {
    for thresholds in all_thresholds(&policy.injection) {
        for (name, value) in [("redact", thresholds.redact), ("block", thresholds.block)] {
            if value.is_some_and(|value| !(value > 0.0 && value <= 1.0)) {
                return Err(Problem::new(format!(
                    "injection: `{name}` is not a score above 0 and at most 1"
                ))
                .help("0.6 redacts what is clearly an instruction; leave it out for never")
                .into());
            }
        }
    }
    let scanner = SCANNER.as_ref().map_err(Problem::new)?;
    Ok(Arc::new(Injection {
        policy: Arc::clone(policy),
        scanner,
    }))
}

fn all_thresholds(policy: &InjectionPolicy) -> impl Iterator<Item = &Thresholds> {
    std::iter::once(&policy.default).chain(policy.tools.iter().map(|(_, thresholds)| thresholds))
}

/// The untrusted text of an item, and the tool it came from.
fn untrusted(item: &Item) -> Option<(&str, Option<&ToolName>)> {
    match item {
        Item::ToolOutput(output) => Some((&output.text, output.tool.as_ref())),
        Item::Definition(definition) => Some((&definition.text, Some(&definition.tool))),
        Item::ToolCall(_)
        | Item::Unreadable(_)
        | Item::ProviderTool(_)
        | Item::ModelText(_)
        | Item::Egress(_) => None,
    }
}

impl Injection {
    fn judge(&self, text: &str, thresholds: Thresholds) -> Verdict {
        let Some(lowest) = thresholds.lowest() else {
            return Verdict::Allow;
        };
        let places = self.scanner.scan(text, &Profile::default()).places(lowest);
        let Some(worst) = places.iter().max_by(|a, b| a.score.total_cmp(&b.score)) else {
            return Verdict::Allow;
        };
        if thresholds.block.is_some_and(|block| worst.score >= block) {
            return Verdict::Deny(describe(worst));
        }
        let redact = thresholds.redact.unwrap_or(f64::INFINITY);
        let spans = places
            .iter()
            .filter(|place| place.score >= redact)
            .map(|place| place.extent.clone());
        let edits: Vec<_> = joined(spans)
            .into_iter()
            .map(|span| (span, REMOVED.to_owned()))
            .collect();
        if edits.is_empty() {
            return Verdict::Allow;
        }
        Verdict::Rewrite(Rewrite {
            kind: RewriteKind::Redact,
            edits,
            finding: describe(worst),
        })
    }
}

/// Spans that overlap or touch, as one.
fn joined(spans: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut sorted: Vec<_> = spans.collect();
    sorted.sort_by_key(|span| span.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(sorted.len());
    for span in sorted {
        match joined.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => joined.push(span),
        }
    }
    joined
}

fn describe(place: &Place) -> Finding {
    let mut detail = format!("score {:.2}:", place.score);
    for rule in place.rules.iter().take(NAMED) {
        let _ = write!(detail, " {rule}");
    }
    let rule = RuleId::from(place.rules.first().copied().unwrap_or("injection"));
    finding(
        LayerId::Injection,
        &rule,
        Reason::InjectionDetected,
        None,
        detail,
    )
}

/// The scanner of this build.
///
/// # Errors
/// A rule that does not compile, which a test rules out.
pub fn scanner() -> Result<&'static Scanner, &'static str> {
    SCANNER.as_ref().map_err(String::as_str)
}

/// The highest score of any place of a text: what the layer compares with its thresholds.
pub(crate) fn score(text: &str) -> f64 {
    // A scanner that is not there lets no layer be made either.
    SCANNER.as_ref().map_or(1.0, |scanner| {
        scanner.scan(text, &Profile::default()).score()
    })
}

impl Layer for Injection {
    fn id(&self) -> LayerId {
        LayerId::Injection
    }

    fn reaches(&self, item: &Located, _context: &Context<'_>) -> bool {
        untrusted(&item.item).is_some_and(|(text, _)| !text.is_empty())
    }

    fn judge<'a>(
        &'a self,
        item: &'a Located,
        _context: &'a Context<'a>,
    ) -> BoxFuture<'a, Result<Verdict, Undecided>> {
        let verdict = untrusted(&item.item).map_or(Verdict::Allow, |(text, tool)| {
            let thresholds = self.policy.injection.for_tool(tool);
            offload(text.len(), || self.judge(text, thresholds))
        });
        Box::pin(std::future::ready(Ok(verdict)))
    }
}
