//! From trials to the report.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::rates::{counted_layers, goal, graded, is_attack, is_honest};
use super::{
    AboutPolicy, AboutSuite, ApproverReport, ArmRates, Compared, Control, Disagreement,
    FailedControl, Inconclusive, MutationControl, ReadingReport, Report, SCHEMA, Setting, Share,
    Signs, compare, frontier,
};
use crate::eval::case::{Cause, Kind};
use crate::eval::record::{Record, Seen};
use crate::eval::replay::{Approver, Reading};
use crate::eval::suite::Suite;

/// The trials of one reading.
pub(super) struct Trials<'t> {
    all: Vec<&'t Record>,
    baseline: HashMap<&'t str, &'t Seen>,
}

impl<'t> Trials<'t> {
    fn new(trials: &'t [Record], (approver, reading): (Approver, Reading), baseline: &str) -> Self {
        let here = |trial: &&Record| trial.approver == approver && trial.reading == reading;
        let all: Vec<_> = trials.iter().filter(here).collect();
        let off = all.iter().filter(|trial| *trial.arm == *baseline);
        // Recordings that belong to one arm have no twin in another.
        let free = off.filter(|trial| trial.case.arm.is_none());
        let results =
            free.filter_map(|trial| Some((trial.case.id.as_str(), trial.result.as_ref().ok()?)));
        let baseline = results.collect();
        Self { all, baseline }
    }

    /// The trials of one arm whose case is of the right kind, in case order; not those in which the user asks for what is elsewhere
    /// injected.
    pub(super) fn of(&self, arm: &str, kind: impl Fn(Kind) -> bool) -> Vec<&'t Record> {
        let of_arm = self.of_arm(arm);
        of_arm
            .filter(|trial| kind(trial.case.kind) && !trial.case.asked_for())
            .collect()
    }

    /// Those.
    pub(super) fn asked_for(&self, arm: &str) -> Vec<&'t Record> {
        let asked = |trial: &&Record| is_honest(trial.case.kind) && trial.case.asked_for();
        self.of_arm(arm).filter(asked).collect()
    }

    fn of_arm(&self, arm: &str) -> impl Iterator<Item = &'t Record> {
        let of_arm = self.all.iter().filter(move |trial| *trial.arm == *arm);
        of_arm.copied()
    }

    /// The same case with the layers off.
    pub(super) fn baseline(&self, trial: &Record) -> Option<&'t Seen> {
        self.baseline.get(trial.case.id.as_str()).copied()
    }
}

/// Makes the report.
pub fn report(
    suite: &Suite,
    setting: Setting<'_>,
    readings: &[Reading],
    trials: &[Record],
) -> Report {
    let of = |approver: Approver| -> Vec<ReadingReport> {
        readings
            .iter()
            .map(|reading| of_reading(setting, (approver, *reading), trials))
            .collect()
    };
    let mut approvers = setting.approvers.iter().copied();
    let approver = approvers.next().unwrap_or_default();
    let readings = of(approver);
    let further = approvers.map(|approver| ApproverReport {
        approver,
        readings: of(approver),
    });
    let invalid_because = invalid(&readings);
    let mut report = Report {
        schema: SCHEMA,
        signs: Signs::default(),
        suite: about(suite),
        policy: AboutPolicy {
            name: suite.policy.name.clone(),
            hash: suite.policy.hash.to_string(),
        },
        approver,
        streamed: setting.streamed,
        valid: invalid_because.is_empty(),
        invalid_because,
        readings,
        approvers: further.collect(),
        frontier: Vec::new(),
    };
    report.frontier = frontier::points(suite, &report);
    report
}

fn of_reading(
    setting: Setting<'_>,
    which: (Approver, Reading),
    trials: &[Record],
) -> ReadingReport {
    let design = setting.design;
    let trials = Trials::new(trials, which, &design.baseline);
    let mutation_control = mutation_control(&trials, &design.baseline);
    let layers = counted_layers(&design.arms, &trials.all);
    let failed = trials.all.iter().filter_map(|trial| {
        let cause = trial.result.as_ref().err()?;
        Some(Inconclusive {
            arm: trial.arm.to_string(),
            case: trial.case.id.clone(),
            cause: cause.clone(),
        })
    });
    ReadingReport {
        reading: which.1,
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
        disagreement: Disagreement::of(&trials, &design.baseline),
        inconclusive: failed.collect(),
        mutation_control,
    }
}

impl Disagreement {
    /// What the judge finds with the layers off, beside what the source said.
    fn of(trials: &Trials<'_>, baseline: &str) -> Self {
        let mut attack = Compared::default();
        let mut task = Compared::default();
        for (trial, it) in graded(&trials.of(baseline, is_attack)) {
            let said = trial.case.recorded.unwrap_or_default();
            attack.add(&trial.case.id, said.attack, it.goal);
            task.add(&trial.case.id, said.task, it.task_done);
        }
        let honest = trials.of(baseline, is_honest).into_iter();
        let honest: Vec<_> = honest.chain(trials.asked_for(baseline)).collect();
        for (trial, it) in graded(&honest) {
            let said = trial.case.recorded.unwrap_or_default();
            task.add(&trial.case.id, said.task, it.succeeded);
        }
        Self { attack, task }
    }
}

impl Compared {
    fn add(&mut self, case: &str, said: Option<bool>, found: bool) {
        match (said, found) {
            (None, _) => {}
            (Some(true), true) => self.both += 1,
            (Some(false), false) => self.neither += 1,
            (Some(false), true) => self.only_judge.push(case.to_owned()),
            (Some(true), false) => self.only_source.push(case.to_owned()),
        }
    }
}

fn control(trials: &Trials<'_>, arm: &str) -> Control {
    let all = trials.of(arm, |kind| kind == Kind::Control);
    let failed: Vec<_> = all
        .iter()
        .filter(|trial| !trial.result.as_ref().is_ok_and(|it| it.succeeded))
        .map(|trial| FailedControl {
            case: trial.case.id.clone(),
            gate: trial.result.as_ref().ok().and_then(|it| it.failed),
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
        let named = run().filter(|case| kind(case.kind) && !case.asked_for());
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
            .map(|(name, kind)| {
                let mut of_kind = suite.of_kind(kind);
                let count = of_kind.by_ref().filter(|case| !case.asked_for()).count();
                (name, count)
            })
            .collect(),
        asked_for: run().filter(|case| case.asked_for()).count(),
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
