//! Instructions to the model in texts that should be data: tool outputs and tool definitions.
//!
//! A filter, not a boundary: it takes out the mass of plain attempts and says nothing about a polite request. What it lets
//! through must still pass the layers that judge calls.

mod actions;
mod compile;
mod cut;
mod decoded;
mod derived;
mod dictionary;
mod extent;
mod folding;
mod frequency;
mod letters;
mod lexicon;
mod look;
mod marks;
mod memory;
pub mod model;
mod pattern;
mod patterns;
mod places;
mod profile;
mod quotation;
mod readings;
mod rules;
mod runs;
mod scan;
mod seen;
mod sift;
#[cfg(test)]
#[expect(
    clippy::string_slice,
    clippy::format_collect,
    clippy::cast_precision_loss,
    reason = "small texts of the tests' own"
)]
mod tests;
mod tokens;
mod triggers;
mod turned;
mod view;

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;

use actions::Stretch;
pub use actions::{DATA, DATA_END, HIDDEN, MarkerKey, REMOVED};
pub(crate) use actions::{Marker, bare, tells_of_finding};
use look::Eye;
pub(in crate::layers) use look::Placed;
pub(in crate::layers) use memory::Recall;
pub use memory::Recalls;
pub use places::{Place, Reading};
pub use profile::{Kind, Profile, ToolNames};
pub use rules::{Family, Rule, WEAK_CAP, reference, rules};
pub use scan::{Corroborator, Finding as Phrase, Scan, Scanner, Skipped};

use super::support::finding;
use super::{Context, Layer, LayerDef};
use crate::item::{Exchange, Item, Located, Origin, RouteKind, ToolOutput};
use crate::names::{RuleId, ToolName};
use crate::policy::{Policy, Spotlight, Thresholds, Withhold};
use crate::principal::Session;
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

/// Most rules that a finding names.
const NAMED: usize = 4;

/// Where MCP has a server's own instructions.
const INSTRUCTIONS: &str = "/result/instructions";

struct Injection {
    policy: Arc<Policy>,
    scanner: &'static Scanner,
    key: MarkerKey,
}

/// The rules are the build's own, so they are compiled once for every guard of the process: eval makes one per trial.
/// The linear model is not asked: as measured it finds little that the rules do not, and more that is none.
static SCANNER: LazyLock<Result<Scanner, String>> = LazyLock::new(Scanner::new);

/// The scanner of this process.
///
/// # Errors
/// Rules or model of the build are broken, which tests rule out.
pub(crate) fn scanner() -> Result<&'static Scanner, String> {
    SCANNER.as_ref().map_err(Clone::clone)
}

fn build(policy: &Arc<Policy>, stores: &Stores) -> Result<Arc<dyn Layer>, Problems> {
    for thresholds in policy.injection.all() {
        for (name, value) in [
            ("annotate", thresholds.annotate),
            ("redact", thresholds.redact),
            ("block", thresholds.block),
        ] {
            if value.is_some_and(|value| !(value > 0.0 && value <= 1.0)) {
                return Err(Problem::new(format!(
                    "injection: `{name}` is not a score above 0 and at most 1"
                ))
                .help("0.6 redacts what is clearly an instruction; leave it out for never")
                .into());
            }
        }
    }
    actions::check().map_err(Problem::new)?;
    Ok(Arc::new(Injection {
        policy: Arc::clone(policy),
        scanner: scanner().map_err(Problem::new)?,
        key: stores.marker_key.clone(),
    }))
}

/// The line of the system prompt that says what the marker of this session means; `None`: nothing is spotlighted.
pub(crate) fn preface(policy: &Policy, key: &MarkerKey, session: &Session) -> Option<String> {
    let spotlights = policy.injection.spotlights();
    spotlights.then(|| key.marker(session).line())
}

impl Injection {
    fn judge(&self, located: &Located, output: &ToolOutput, context: &Context<'_>) -> Verdict {
        let actions = self.policy.injection.for_tool(output.tool.as_ref());
        let mut places = Vec::new();
        if let Some(least) = actions.lowest() {
            let profile = profile(located, output, context);
            let scan = look::look(self.scanner, &output.text, &profile);
            places = look::places(&scan, least);
            let redacted = actions.redact.unwrap_or(f64::INFINITY);
            let eye = Eye {
                scanner: self.scanner,
                profile: &profile,
                least,
            };
            let mut recall = context.memo.recall();
            let pointer = &located.place.pointer;
            if is_key(located) {
                recall.key(pointer, &output.text);
            } else {
                places.extend(recall.under(&eye, pointer, &output.text));
            }
            recall.hear(&eye, output, (&scan, &mut places), redacted);
        }
        if let Some(worst) = blocked(&places, &actions) {
            return Verdict::Deny(describe(worst));
        }
        if actions.withhold == Withhold::Result
            && let Some(worst) = self.sibling(output, actions, context)
        {
            return Verdict::Deny(describe(&worst));
        }
        let marker = self.marker(actions, located, context);
        let Some((kind, edits)) = rewritten(&output.text, &places, &actions, marker.as_ref())
        else {
            return Verdict::Allow;
        };
        let finding = match (kind, worst(&places)) {
            (RewriteKind::Redact | RewriteKind::Annotate, Some(worst)) => describe(worst),
            (RewriteKind::Spotlight, _) => cleaned("spotlight"),
            _ => cleaned("clean"),
        };
        Verdict::Rewrite(Rewrite {
            kind,
            edits,
            finding,
        })
    }

    /// The marker, where texts are spotlighted: only a model's own route can be told what it means.
    fn marker(
        &self,
        actions: Thresholds,
        located: &Located,
        context: &Context<'_>,
    ) -> Option<Marker> {
        let marks = actions.spotlight != Spotlight::Never
            && context.exchange.kind == RouteKind::Model
            && !is_key(located);
        marks.then(|| self.key.marker(&context.exchange.session))
    }

    /// What is blocked in another text of the same result.
    fn sibling(
        &self,
        output: &ToolOutput,
        actions: Thresholds,
        context: &Context<'_>,
    ) -> Option<Placed> {
        let block = actions.block?;
        context.memo.blocked(output.call_id.as_ref(), || {
            let items = context.exchange.items.iter();
            let same = items.filter_map(|located| match &located.item {
                Item::ToolOutput(other)
                    if other.call_id == output.call_id && other.tool == output.tool =>
                {
                    Some((located, other))
                }
                _ => None,
            });
            let found = same.flat_map(|(located, other)| {
                let profile = profile(located, other, context);
                let scan = look::look(self.scanner, &other.text, &profile);
                look::places(&scan, block)
            });
            found.max_by(|a, b| a.score.total_cmp(&b.score))
        })
    }
}

fn worst(places: &[Placed]) -> Option<&Placed> {
    places.iter().max_by(|a, b| a.score.total_cmp(&b.score))
}

/// The place for which the whole text is withheld.
fn blocked<'p>(places: &'p [Placed], actions: &Thresholds) -> Option<&'p Placed> {
    let block = actions.block?;
    worst(places).filter(|worst| worst.score >= block)
}

/// How a text that passes is changed.
fn rewritten(
    text: &str,
    places: &[Placed],
    actions: &Thresholds,
    marker: Option<&Marker>,
) -> Option<(RewriteKind, actions::Changes)> {
    let stretches: Vec<_> = places
        .iter()
        .map(|place| Stretch {
            range: place.extent.clone(),
            score: place.score,
        })
        .collect();
    actions::edits(text, &stretches, actions, marker)
}

/// What becomes of a text that stands alone, in one word. Whether it is spotlighted is the route's to say.
pub(crate) fn action(text: &str, scan: &Scan, actions: &Thresholds) -> &'static str {
    let places = actions.lowest().map(|least| look::places(scan, least));
    let places = places.unwrap_or_default();
    if blocked(&places, actions).is_some() {
        return "block";
    }
    match rewritten(text, &places, actions, None) {
        None => "none",
        Some((RewriteKind::Redact, _)) => "redact",
        Some((RewriteKind::Annotate, _)) => "annotate",
        Some((RewriteKind::Strip | RewriteKind::Spotlight, _)) => "clean",
    }
}

/// What is known of an output besides its text: a server's own instructions speak to the model by right, as a definition does.
fn profile<'a>(located: &Located, output: &ToolOutput, context: &'a Context<'_>) -> Profile<'a> {
    let kind = match output.origin {
        Origin::Turn => Kind::User,
        Origin::Tool if is_instructions(located, context.exchange) => Kind::Definition,
        Origin::Tool => Kind::ToolOutput,
    };
    Profile {
        kind,
        tools: context.memo.tools(context.exchange),
    }
}

/// Whether the text is what an MCP server tells of itself when a session begins.
pub(in crate::layers) fn is_instructions(located: &Located, exchange: &Exchange) -> bool {
    let Item::ToolOutput(output) = &located.item else {
        return false;
    };
    let method = output.tool.as_ref().map(ToolName::as_str);
    exchange.kind == RouteKind::Mcp
        && method == Some("initialize")
        && located.place.pointer.ends_with(INSTRUCTIONS)
}

/// Names of the tools that a message offers.
pub(in crate::layers) fn offered(exchange: &Exchange) -> impl Iterator<Item = &ToolName> {
    let items = exchange.items.iter();
    items.filter_map(|located| match &located.item {
        Item::Definition(definition) => Some(&definition.tool),
        _ => None,
    })
}

/// Whether the text is a key of an object, which stands where its value does.
fn is_key(located: &Located) -> bool {
    let last = located.place.pointer.rsplit('/').next().unwrap_or_default();
    match &located.item {
        Item::ToolOutput(output) if last.contains('~') => {
            last.replace("~1", "/").replace("~0", "~") == *output.text
        }
        Item::ToolOutput(output) => *last == *output.text,
        _ => false,
    }
}

fn describe(place: &Placed) -> Finding {
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

/// A text is changed in which no instruction was found.
fn cleaned(rule: &'static str) -> Finding {
    finding(
        LayerId::Injection,
        &RuleId::from(rule),
        Reason::TextCleaned,
        None,
        "no instruction was found",
    )
}

/// The highest score of any place of a text of this kind: what the layer compares with its thresholds, where no tool is known.
pub(crate) fn score(text: &str, kind: Kind) -> f64 {
    let profile = Profile { kind, tools: None };
    // A scanner that is not there lets no layer be made either.
    SCANNER
        .as_ref()
        .map_or(1.0, |scanner| look::look(scanner, text, &profile).score())
}

impl Layer for Injection {
    fn id(&self) -> LayerId {
        LayerId::Injection
    }

    fn reaches(&self, item: &Located, _context: &Context<'_>) -> bool {
        matches!(&item.item, Item::ToolOutput(output) if !output.text.is_empty())
    }

    fn judge<'a>(
        &'a self,
        item: &'a Located,
        context: &'a Context<'a>,
    ) -> BoxFuture<'a, Result<Verdict, Undecided>> {
        let verdict = match &item.item {
            Item::ToolOutput(output) => {
                offload(output.text.len(), || self.judge(item, output, context))
            }
            _ => Verdict::Allow,
        };
        Box::pin(std::future::ready(Ok(verdict)))
    }
}
