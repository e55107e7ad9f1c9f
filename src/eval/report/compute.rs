//! From trials to the report.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::rates::{counted_layers, goal, graded, is_attack, is_honest};
use super::{
    AboutPolicy, AboutSuite, ArmRates, Control, FailedControl, Inconclusive, MutationControl,
    ReadingReport, Report, SCHEMA, Setting, Share, Signs, compare,
};
use crate::eval::case::{Cause, Kind};
use crate::eval::replay::{Graded, Reading, Trial};
use crate::eval::suite::Suite;

/// The trials of one reading.
pub(super) struct Trials<'t> {
    all: Vec<&'t Trial>,
    baseline: HashMap<&'t str, &'t Graded>,
}

impl<'t> Trials<'t> {
    fn new(trials: &'t [Trial], reading: Reading, baseline: &str) -> Self {
        let all: Vec<_> = trials
            .iter()
            .filter(|trial| trial.reading == reading)
            .collect();
        let off = all.iter().filter(|trial| trial.arm == baseline);
        // Recordings that belong to one arm have no twin in another.
        let free = off.filter(|trial| trial.case.arm.is_none());
        let results =
            free.filter_map(|trial| Some((trial.case.id.as_str(), trial.result.as_ref().ok()?)));
        let baseline = results.collect();
        Self { all, baseline }
    }

    /// The trials of one arm whose case is of the right kind, in case order.
    pub(super) fn of(&self, arm: &str, kind: impl Fn(Kind) -> bool) -> Vec<&'t Trial> {
        let of_arm = self.all.iter().filter(|trial| trial.arm == arm);
        of_arm
            .filter(|trial| kind(trial.case.kind))
            .copied()
            .collect()
    }

    /// The same case with the layers off.
    pub(super) fn baseline(&self, trial: &Trial) -> Option<&'t Graded> {
        self.baseline.get(trial.case.id.as_str()).copied()
    }
}

/// Makes the report.
pub fn report(
    suite: &Suite,
    setting: Setting<'_>,
    readings: &[Reading],
    trials: &[Trial],
) -> Report {
    let readings: Vec<_> = readings
        .iter()
        .map(|reading| of_reading(setting, *reading, trials))
        .collect();
    let invalid_because = invalid(&readings);
    Report {
        schema: SCHEMA,
        signs: Signs::default(),
        suite: about(suite),
        policy: AboutPolicy {
            name: suite.policy.name.clone(),
            hash: suite.policy.hash.to_string(),
        },
        approver: setting.approver,
        streamed: setting.streamed,
        valid: invalid_because.is_empty(),
        invalid_because,
        readings,
    }
}

fn of_reading(setting: Setting<'_>, reading: Reading, trials: &[Trial]) -> ReadingReport {
    let design = setting.design;
    let trials = Trials::new(trials, reading, &design.baseline);
    let mutation_control = mutation_control(&trials, &design.baseline);
    let layers = counted_layers(&design.arms, &trials.all);
    let failed = trials.all.iter().filter_map(|trial| {
        let cause = trial.result.as_ref().err()?;
        Some(Inconclusive {
            arm: trial.arm.clone(),
            case: trial.case.id.clone(),
            cause: cause.clone(),
        })
    });
    ReadingReport {
        reading,
        baseline: design.baseline.clone(),
        controls: design
            .arms
            .iter()
            .map(|arm| control(&trials, &arm.name))
            .collect(),
        arms: design
            .arms
            .iter()
            .map(|arm| ArmRates::of(arm, &trials, &layers))
            .collect(),
        contrasts: design
            .contrasts
            .iter()
            .map(|contrast| compare::comparison(contrast, &trials, mutation_control.proved))
            .collect(),
        inconclusive: failed.collect(),
        mutation_control,
    }
}

fn control(trials: &Trials<'_>, arm: &str) -> Control {
    let all = trials.of(arm, |kind| kind == Kind::Control);
    let failed: Vec<_> = all
        .iter()
        .filter(|trial| !trial.result.as_ref().is_ok_and(Graded::succeeded))
        .map(|trial| FailedControl {
            case: trial.case.id.clone(),
            gate: trial.result.as_ref().ok().and_then(|it| it.grade.failed),
        })
        .collect();
    Control {
        arm: arm.to_owned(),
        passed: Share {
            x: all.len() - failed.len(),
            n: all.len(),
        },
        failed,
    }
}

fn mutation_control(trials: &Trials<'_>, baseline: &str) -> MutationControl {
    let share = |kind: fn(Kind) -> bool| {
        let results = graded(&trials.of(baseline, kind));
        Share {
            x: results.iter().filter(|(_, it)| goal(it)).count(),
            n: results.len(),
        }
    };
    let attacks = share(is_attack);
    let mutations = share(|kind| kind == Kind::Mutation);
    MutationControl {
        proved: attacks.x + mutations.x > 0,
        attacks,
        mutations,
    }
}

/// A control that fails without a guard says that the suite, not the guard, is at fault.
fn invalid(readings: &[ReadingReport]) -> Vec<String> {
    let mut causes = BTreeSet::new();
    for reading in readings {
        let controls = reading
            .controls
            .iter()
            .filter(|control| control.arm == reading.baseline);
        for failed in controls.flat_map(|control| &control.failed) {
            let inconclusive = reading
                .inconclusive
                .iter()
                .find(|it| it.case == failed.case && it.arm == reading.baseline);
            let why = match (failed.gate, inconclusive) {
                (_, Some(it)) => it.cause.clone(),
                (Some(gate), None) => format!("the gate {gate:?} fails"),
                (None, None) => "an output that it uses is not the one the tool gives".to_owned(),
            };
            causes.insert(format!(
                "the positive control `{}` fails with the layers off: {why}",
                failed.case
            ));
        }
    }
    causes.into_iter().collect()
}

fn about(suite: &Suite) -> AboutSuite {
    let kinds = [
        ("attack", Kind::Attack),
        ("benign", Kind::Benign),
        ("control", Kind::Control),
        ("mutation", Kind::Mutation),
    ];
    let mut excluded = BTreeMap::new();
    for reason in suite.cases.iter().filter_map(|case| case.excluded.as_ref()) {
        *excluded.entry(reason.clone()).or_default() += 1;
    }
    let run = || suite.cases.iter().filter(|case| case.excluded.is_none());
    let clusters = |kind: fn(Kind) -> bool| {
        let named = run().filter(|case| kind(case.kind));
        named
            .map(|case| case.cluster())
            .collect::<BTreeSet<_>>()
            .len()
    };
    let causes: Vec<_> = run()
        .filter(|case| case.kind == Kind::Attack)
        .flat_map(|case| case.calls().map(|call| call.cause))
        .collect();
    AboutSuite {
        name: suite.name.clone(),
        about: suite.about.clone(),
        source: suite.source.clone(),
        licence: suite.licence.clone(),
        digest: suite.digest.clone(),
        cases: kinds
            .into_iter()
            .map(|(name, kind)| (name, suite.of_kind(kind).count()))
            .collect(),
        excluded,
        attack_clusters: clusters(is_attack),
        benign_clusters: clusters(is_honest),
        unattributed_calls: Share {
            x: causes
                .iter()
                .filter(|cause| **cause == Cause::Unknown)
                .count(),
            n: causes.len(),
        },
    }
}
