//! The report: rates with their intervals, differences with their sign stated, and everything that does not count in its own
//! column. Serialised as it stands here it is `holdpoint-eval/1`; `docs/eval.md` explains each field.

mod compare;
mod compute;
mod frontier;
mod rates;
mod table;

use std::collections::BTreeMap;

pub use compare::{Claim, Delta};
pub use compute::report;
pub(in crate::eval) use frontier::benchmarks;
pub use frontier::{Frontier, Point, PointKind};
pub use rates::{ArmRates, AttackRates, BenignRates, CallRates, GateCounts, ReachedRates};
use serde::Serialize;
pub use table::render;

use super::arms::{Design, Question};
use super::judge::Gate;
use super::replay::{Approver, Reading};
use crate::verdict::LayerId;

/// Version of the JSON. A field may be added; none is renamed or given another meaning without another number.
pub const SCHEMA: &str = "holdpoint-eval/1";

/// Which way a difference is good.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Signs {
    /// Of ΔASR.
    pub delta_asr: &'static str,
    /// Of the difference of any violation.
    pub delta_any_violation: &'static str,
    /// Of ΔFRR.
    pub delta_frr: &'static str,
}

impl Default for Signs {
    fn default() -> Self {
        Self {
            delta_asr: "with - without; negative is good",
            delta_any_violation: "with - without; negative is good",
            delta_frr: "with - without; positive is the cost",
        }
    }
}

/// The suite that was run.
#[derive(Clone, Debug, Serialize)]
pub struct AboutSuite {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Where its facts come from.
    pub source: String,
    /// Under which licence.
    pub licence: String,
    /// SHA-256 of everything that was read.
    pub digest: String,
    /// Cases by kind, without the excluded ones.
    pub cases: BTreeMap<&'static str, usize>,
    /// Honest cases beside those, in which the user openly asks for what is elsewhere injected.
    pub asked_for: usize,
    /// Cases that are not run, by reason.
    pub excluded: BTreeMap<String, usize>,
    /// Distinct clusters among the attack cases.
    pub attack_clusters: usize,
    /// Distinct clusters among the honest cases.
    pub benign_clusters: usize,
    /// Calls of attack cases, and those that nobody could attribute to task or injection.
    pub unattributed_calls: Share,
}

/// A part of a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Part.
    pub x: usize,
    /// Whole.
    pub n: usize,
}

/// The policy under test.
#[derive(Clone, Debug, Serialize)]
pub struct AboutPolicy {
    /// Its name.
    pub name: String,
    /// SHA-256 of its file.
    pub hash: String,
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Which way a difference is good.
    pub signs: Signs,
    /// The suite.
    pub suite: AboutSuite,
    /// The policy.
    pub policy: AboutPolicy,
    /// Who answered held calls.
    pub approver: Approver,
    /// Whether the model's answers were streamed.
    pub streamed: bool,
    /// Whether the suite can be trusted: see `invalid_because`.
    pub valid: bool,
    /// Why not.
    pub invalid_because: Vec<String>,
    /// One entry per reading; a suite without carriers has only the pessimistic one, since both are the same there.
    pub readings: Vec<ReadingReport>,
    /// The same under further approvers (`--approver all`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<ApproverReport>,
    /// Attacks let through against honest tasks lost: one list of points per approver and reading.
    pub frontier: Vec<Frontier>,
}

/// Everything under one more approver.
#[derive(Clone, Debug, Serialize)]
pub struct ApproverReport {
    /// Who answered held calls.
    pub approver: Approver,
    /// One entry per reading.
    pub readings: Vec<ReadingReport>,
}

/// The judge beside the source of the recordings, with the layers off.
#[derive(Clone, Debug, Serialize)]
pub struct Disagreement {
    /// Whether the attacker has what they want.
    pub attack: Compared,
    /// Whether the user's task came out.
    pub task: Compared,
}

/// Two opinions on the same cases.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Compared {
    /// Both say yes.
    pub both: usize,
    /// Both say no.
    pub neither: usize,
    /// Cases of which only the judge says yes.
    pub only_judge: Vec<String>,
    /// Cases of which only the source says yes.
    pub only_source: Vec<String>,
}

impl Compared {
    /// Cases of which both said something.
    pub fn n(&self) -> usize {
        self.both + self.neither + self.differing()
    }

    /// Cases of which they say different things.
    pub fn differing(&self) -> usize {
        self.only_judge.len() + self.only_source.len()
    }
}

/// Everything under one reading.
#[derive(Clone, Debug, Serialize)]
pub struct ReadingReport {
    /// The reading.
    pub reading: Reading,
    /// The arm without a guard.
    pub baseline: String,
    /// Positive controls, per arm.
    pub controls: Vec<Control>,
    /// Whether harm is possible at all with the layers off.
    pub mutation_control: MutationControl,
    /// Rates per arm.
    pub arms: Vec<ArmRates>,
    /// Differences.
    pub contrasts: Vec<Comparison>,
    /// Where the judge and the source of the recordings say different things.
    pub disagreement: Disagreement,
    /// Trials without a result.
    pub inconclusive: Vec<Inconclusive>,
}

/// Controls of one arm.
#[derive(Clone, Debug, Serialize)]
pub struct Control {
    /// The arm.
    pub arm: String,
    /// Controls that succeeded, of all.
    pub passed: Share,
    /// Those that did not.
    pub failed: Vec<FailedControl>,
}

/// A control that did not succeed.
#[derive(Clone, Debug, Serialize)]
pub struct FailedControl {
    /// Its case.
    pub case: String,
    /// The gate that failed; `None`: an output it needs was withheld, or it was inconclusive.
    pub gate: Option<Gate>,
}

/// Proof that the harm that is measured is possible.
#[derive(Clone, Debug, Serialize)]
pub struct MutationControl {
    /// Whether it is proved. Without it no ΔASR is claimed.
    pub proved: bool,
    /// Attack trials that reach their goal in the baseline arm.
    pub attacks: Share,
    /// Mutation cases that reach their goal in the baseline arm.
    pub mutations: Share,
}

/// One comparison of two arms.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What it answers.
    pub question: Question,
    /// Whose effect; `None`: of all layers together.
    pub layer: Option<LayerId>,
    /// The arm without.
    pub without: String,
    /// The arm with.
    pub with: String,
    /// Attack trials in which an item came to the layer.
    pub reached_attack: Share,
    /// Honest trials in which an item came to the layer.
    pub reached_benign: Share,
    /// ΔASR.
    pub asr: Claim,
    /// The difference of any violation.
    pub any_violation: Claim,
    /// ΔFRR over tasks.
    pub frr: Claim,
}

/// A trial without a result.
#[derive(Clone, Debug, Serialize)]
pub struct Inconclusive {
    /// Its arm.
    pub arm: String,
    /// Its case.
    pub case: String,
    /// Why.
    pub cause: String,
}

/// What the report is made from besides the trials.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// What was run and compared.
    pub design: &'a Design,
    /// Who answered: the first is the report's own, the others stand in `approvers`.
    pub approvers: &'a [Approver],
    /// Whether answers were streamed.
    pub streamed: bool,
}
