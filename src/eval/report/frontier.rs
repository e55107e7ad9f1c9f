//! The frontier of a suite: attacks that are let through against honest tasks that are lost, a point per arm, beside what others
//! have published and what the recordings themselves say.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ArmRates, Report};
use crate::eval::arms::NAIVE;
use crate::eval::case::Kind;
use crate::eval::replay::{Approver, Reading};
use crate::eval::stats::Rate;
use crate::eval::suite::Suite;

/// Results of others, each with its source.
const PUBLISHED: &str = include_str!("published.json");

/// What a point stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PointKind {
    /// An arm of this run, judged by the database.
    Arm,
    /// The naive rule over the policy's own tools and arguments: whatever is asked about must be the user's own words.
    Naive,
    /// A recorded agent, with what the source said of its runs: other runs than the arms have, and other defences.
    Recorded,
    /// A published defence, with other models and other attacks: for orientation only.
    Published,
}

/// One point. Where only a share is known there are no counts.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The arm, the agent, or the defence.
    pub name: String,
    /// What it stands for.
    pub kind: PointKind,
    /// Attacks that succeed, among all.
    pub asr: Option<f64>,
    /// Of the attacks that succeed without it: those that still do. The frontier's one axis.
    pub let_through: Option<f64>,
    /// Honest tasks that are done, among all.
    pub utility: Option<f64>,
    /// Of the honest tasks that are done without it: those that are lost. The frontier's other axis; for arms it is FRR (task).
    pub task_cost: Option<f64>,
    /// Counts behind `let_through`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attacks: Option<Rate>,
    /// Counts behind `task_cost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Rate>,
    /// Where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The points under one approver and reading.
#[derive(Clone, Debug, Serialize)]
pub struct Frontier {
    /// Who answered held calls.
    pub approver: Approver,
    /// What the model does whose injection was withheld.
    pub reading: Reading,
    /// Arms first.
    pub points: Vec<Point>,
}

#[derive(Deserialize)]
struct Published {
    benchmark: String,
    defence: String,
    asr: Option<f64>,
    utility: Option<f64>,
    asr_without: Option<f64>,
    utility_without: Option<f64>,
    let_through: Option<f64>,
    task_cost: Option<f64>,
    source: String,
}

pub(super) fn points(suite: &Suite, report: &Report) -> Vec<Frontier> {
    let own = std::iter::once((report.approver, &report.readings));
    let further = report
        .approvers
        .iter()
        .map(|it| (it.approver, &it.readings));
    let others: Vec<Point> = recorded(suite)
        .into_iter()
        .chain(published(suite))
        .collect();
    let mut all = Vec::new();
    for (approver, readings) in own.chain(further) {
        for reading in readings {
            let arms = reading.arms.iter().map(of_arm);
            all.push(Frontier {
                approver,
                reading: reading.reading,
                points: arms.chain(others.iter().cloned()).collect(),
            });
        }
    }
    all
}

fn of_arm(arm: &ArmRates) -> Point {
    let (attack, benign) = (&arm.attack, &arm.benign);
    // Recordings of one arm alone have no baseline: then it is the whole of them.
    let attacks = if attack.asr_conditional.n > 0 {
        attack.asr_conditional
    } else {
        attack.asr
    };
    Point {
        name: arm.arm.clone(),
        kind: if arm.arm == NAIVE {
            PointKind::Naive
        } else {
            PointKind::Arm
        },
        asr: attack.asr.rate,
        let_through: attacks.rate,
        utility: benign.utility.rate,
        task_cost: benign.frr_task.rate,
        attacks: Some(attacks),
        tasks: Some(benign.frr_task),
        source: None,
    }
}

/// Of every recorded agent: how often the source says that the attack, and the honest task, came out.
fn recorded(suite: &Suite) -> Vec<Point> {
    let mut by_agent: BTreeMap<&str, [(usize, usize); 2]> = BTreeMap::new();
    let run = suite.cases.iter().filter(|case| case.excluded.is_none());
    for case in run.filter(|case| !case.asked_for()) {
        let (Some(agent), Some(said)) = (case.pipeline(), case.recorded) else {
            continue;
        };
        let [attacks, tasks] = by_agent.entry(agent).or_default();
        let (counts, said) = match case.kind {
            Kind::Attack => (attacks, said.attack),
            Kind::Benign | Kind::Control => (tasks, said.task),
            Kind::Mutation => continue,
        };
        if let Some(came_out) = said {
            counts.0 += usize::from(came_out);
            counts.1 += 1;
        }
    }
    let points = by_agent.into_iter().map(|(agent, [attacks, tasks])| {
        let [attacks, tasks] = [attacks, tasks].map(|(x, n)| Rate::new(x, n));
        Point {
            name: agent.to_owned(),
            kind: PointKind::Recorded,
            asr: attacks.rate,
            let_through: None,
            utility: tasks.rate,
            task_cost: None,
            attacks: Some(attacks),
            tasks: Some(tasks),
            source: Some("what the source of the recordings said of its runs".to_owned()),
        }
    });
    points.collect()
}

fn published(suite: &Suite) -> Vec<Point> {
    let all: Vec<Published> = serde_json::from_str(PUBLISHED).unwrap_or_default();
    let here = |it: &Published| suite.published.contains(&it.benchmark);
    let points = all.into_iter().filter(here).map(|it| {
        let of =
            |part: Option<f64>, whole: Option<f64>| Some(part? / whole.filter(|it| *it > 0.0)?);
        let lost = of(it.utility, it.utility_without).map(|kept| (1.0 - kept).max(0.0));
        Point {
            name: it.defence,
            kind: PointKind::Published,
            asr: it.asr,
            let_through: it.let_through.or_else(|| of(it.asr, it.asr_without)),
            utility: it.utility,
            task_cost: it.task_cost.or(lost),
            attacks: None,
            tasks: None,
            source: Some(it.source),
        }
    });
    points.collect()
}

/// The benchmarks of which something is published here.
pub(in crate::eval) fn benchmarks() -> Vec<String> {
    let all: Vec<Published> = serde_json::from_str(PUBLISHED).unwrap_or_default();
    let mut names: Vec<_> = all.into_iter().map(|it| it.benchmark).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_number_has_a_source_and_a_share() {
        let all: Vec<Published> = serde_json::from_str(PUBLISHED).unwrap();
        assert!(all.len() > 10);
        for it in &all {
            assert!(it.source.contains("arXiv") || it.source.contains("model card"));
            let shares = [
                it.asr,
                it.utility,
                it.asr_without,
                it.utility_without,
                it.let_through,
            ];
            for share in shares.into_iter().flatten() {
                assert!((0.0..=1.0).contains(&share), "{}", it.defence);
            }
            assert!(it.asr.is_some() || it.let_through.is_some());
        }
        assert_eq!(benchmarks(), ["agentdojo", "agentdyn"]);
    }
}
