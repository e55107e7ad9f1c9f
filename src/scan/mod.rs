//! `holdpoint scan`: the injection scanner over texts that are at hand, for pipelines and for measuring.
//!
//! JSON lines are read in batches of bounded size, judged on all cores, and answered in order, one line each.

mod files;
mod lines;

use std::ops::Range;

use serde::Serialize;

pub use files::{Report, files, report};
pub use lines::{Summary, lines};

use crate::layers::catalog;
use crate::layers::injection::{self, Kind, Place, Profile, Scan, Scanner, ToolNames};
use crate::names::ToolName;
use crate::policy::{DefinitionsPolicy, InjectionPolicy, Policy, Thresholds};

/// Score from which a place is told of, flagged or not.
const TOLD: f64 = 0.35;

/// From which score on a text is flagged, if nothing else is said: what is clearly an instruction.
pub const THRESHOLD: f64 = 0.6;

/// What becomes of texts where no policy says it.
const USUAL: Thresholds = Thresholds {
    annotate: Some(TOLD),
    redact: Some(THRESHOLD),
    block: Some(0.85),
    ..Thresholds::never()
};

/// How texts are judged.
#[derive(Debug)]
pub struct Judge {
    scanner: &'static Scanner,
    outputs: InjectionPolicy,
    definitions: DefinitionsPolicy,
    threshold: Option<f64>,
    explain: bool,
}

/// A text with what is known of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given<'a> {
    /// The text.
    pub text: &'a str,
    /// What it is.
    pub kind: Kind,
    /// The tool that gave it, or that it defines.
    pub tool: Option<&'a ToolName>,
    /// Names of the tools of the session.
    pub tools: &'a [String],
}

/// What becomes of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No place reaches the threshold.
    Allow,
    /// One does.
    Flag,
}

/// One place, as it is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    /// The heaviest rule of the place.
    pub rule: &'static str,
    /// Its family.
    pub family: &'static str,
    /// The score of the place.
    pub score: f64,
    /// First byte of what belongs to the instruction, on a character boundary of the text.
    pub start: usize,
    /// The byte behind the last.
    pub end: usize,
    /// How the text was read.
    pub view: &'static str,
}

/// What is said of a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Whether a place reaches the threshold.
    pub verdict: Verdict,
    /// The highest score of a place, 0..1.
    pub score: f64,
    /// What the layer does where it enforces: `none`, `clean`, `annotate`, `redact` or `block`; of a definition `none`, `remove` or
    /// `refuse`.
    pub action: &'static str,
    /// The places, by start.
    pub findings: Vec<Told>,
    /// Every phrase, with `--explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phrases: Option<Vec<Told>>,
}

impl Judge {
    /// With the scanner of this build. `threshold` is the score from which something is taken out, whatever the policy says.
    ///
    /// # Errors
    /// A scanner that cannot be made, or a threshold that is no score.
    pub fn new(
        policy: Option<&Policy>,
        threshold: Option<f64>,
        explain: bool,
    ) -> Result<Self, String> {
        if threshold.is_some_and(|threshold| !(threshold > 0.0 && threshold <= 1.0)) {
            return Err("`--threshold` is not a score above 0 and at most 1; 0.6 flags what is clearly an instruction".to_owned());
        }
        let usual = InjectionPolicy {
            default: USUAL,
            tools: Vec::new(),
        };
        Ok(Self {
            scanner: injection::scanner()?,
            outputs: policy.map_or(usual, |policy| policy.injection.clone()),
            definitions: policy.map_or_else(DefinitionsPolicy::default, |of| of.definitions),
            threshold,
            explain,
        })
    }

    /// Judges a text.
    pub fn judge(&self, given: &Given<'_>) -> Answer {
        let tools = ToolNames::new(given.tools.iter().map(String::as_str));
        let profile = Profile {
            kind: given.kind,
            tools: Some(&tools).filter(|tools| !tools.is_empty()),
        };
        let scan = self.scanner.scan(given.text, &profile);
        let mut answer = match given.kind {
            Kind::Definition => self.definition(given, &scan),
            Kind::ToolOutput | Kind::User => self.output(given, &scan),
        };
        answer.phrases = self.explain.then(|| phrases(&scan));
        answer
    }

    fn output(&self, given: &Given<'_>, scan: &Scan) -> Answer {
        let actions = self.actions(given.tool);
        let flagged = [actions.redact, actions.block, actions.annotate];
        let threshold = flagged.into_iter().flatten().next();
        let threshold = threshold.unwrap_or(f64::INFINITY);
        let action = injection::action(given.text, scan, &actions);
        answer(scan, scan.score(), threshold, action)
    }

    /// Which actions hold for a tool's texts.
    fn actions(&self, tool: Option<&ToolName>) -> Thresholds {
        let mut actions = self.outputs.for_tool(tool);
        if let Some(threshold) = self.threshold {
            actions.redact = Some(threshold);
            actions.annotate = actions.annotate.filter(|annotate| *annotate < threshold);
            actions.block = actions.block.map(|block| block.max(threshold));
        }
        actions
    }

    /// A definition goes as a whole, or takes its list with it; it has rules of its own.
    fn definition(&self, given: &Given<'_>, scan: &Scan) -> Answer {
        let others: Vec<&str> = given.tools.iter().map(String::as_str).collect();
        let own = given.tool.map_or("", ToolName::as_str);
        let (score, rules) = catalog::weigh(given.text, own, &others);
        let mut of = self.definitions;
        if let Some(threshold) = self.threshold {
            of.remove = Some(threshold);
            of.refuse = of.refuse.map(|refuse| refuse.max(threshold));
        }
        let reaches = |least: Option<f64>| least.is_some_and(|least| score >= least);
        let action = match (reaches(of.refuse), reaches(of.remove)) {
            (true, _) => "refuse",
            (false, true) => "remove",
            (false, false) => "none",
        };
        let threshold = of.lowest().unwrap_or(f64::INFINITY);
        let mut answer = answer(scan, score, threshold, action);
        if score >= TOLD.min(threshold)
            && let Some(rule) = rules.into_iter().find(|rule| *rule != catalog::SCANNED)
        {
            let whole = Told {
                rule,
                family: "definition",
                score: rounded(score),
                start: 0,
                end: given.text.len(),
                view: "text",
            };
            answer.findings.insert(0, whole);
        }
        answer
    }
}

fn answer(scan: &Scan, score: f64, threshold: f64, action: &'static str) -> Answer {
    Answer {
        verdict: if score >= threshold {
            Verdict::Flag
        } else {
            Verdict::Allow
        },
        score: rounded(score),
        action,
        findings: scan.places(TOLD.min(threshold)).iter().map(told).collect(),
        phrases: None,
    }
}

fn told(place: &Place) -> Told {
    let rule = place.rules.first().copied().unwrap_or("injection");
    Told {
        rule,
        family: family(rule),
        score: rounded(place.score),
        start: place.extent.start,
        end: place.extent.end,
        view: place.reading.as_str(),
    }
}

fn family(rule: &str) -> &'static str {
    injection::rules()
        .find(|known| known.id == rule)
        .map_or("injection", |rule| rule.family.as_str())
}

fn phrases(scan: &Scan) -> Vec<Told> {
    let told = |found: &injection::Phrase| Told {
        rule: found.rule,
        family: found.family.as_str(),
        score: rounded(found.score),
        start: found.start,
        end: found.end,
        view: found.view.as_str(),
    };
    scan.findings.iter().map(told).collect()
}

/// Four digits are more than the scores mean.
fn rounded(score: f64) -> f64 {
    (score * 10_000.0).round() / 10_000.0
}

/// Lines of a text, to name a place by: 1 for the first.
fn line_of(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before.matches('\n').count() + 1
}

/// Judges each of `items` on all cores; the answers are in the order of the items.
fn on_all_cores<T: Sync, A: Send>(items: &[T], judge: impl Fn(&T) -> A + Sync) -> Vec<A> {
    let workers = std::thread::available_parallelism()
        .map_or(1, std::num::NonZero::get)
        .min(items.len().max(1));
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut answers: Vec<(usize, A)> = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            while let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
                && let Some(item) = items.get(index)
            {
                done.push((index, judge(item)));
            }
            done
        };
        let threads: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for thread in threads {
            // A judge that panicked in one thread must not pass for one that found nothing.
            match thread.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// A part of a text for a person: one line, control characters shown.
fn excerpt(text: &str, range: &Range<usize>) -> String {
    const MOST: usize = 120;
    let part = text.get(range.clone()).unwrap_or_default();
    let cut = part
        .get(..part.floor_char_boundary(MOST))
        .unwrap_or_default();
    let shown: String = cut
        .chars()
        .flat_map(|c| {
            if c == '"' || c == '\'' {
                vec![c]
            } else {
                c.escape_debug().collect()
            }
        })
        .collect();
    if cut.len() < part.len() {
        format!("{shown}…")
    } else {
        shown
    }
}
