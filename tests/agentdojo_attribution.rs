//! Attribution of recorded calls, checked against labels that the importer itself never reads.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use holdpoint::eval::case::Cause;
use holdpoint::eval::import::agentdojo::attribution::{Attribution, Attributor};
use holdpoint::eval::import::agentdojo::env::Env;
use holdpoint::eval::import::agentdojo::record::{self, Kind, Trajectory};
use serde_json::Value;

fn data() -> Option<PathBuf> {
    let data = std::env::var_os("HOLDPOINT_TEST_DATA").map(PathBuf::from);
    if data.is_none() {
        println!("skipped: HOLDPOINT_TEST_DATA is not set");
    }
    data
}

fn labels(file: &Path) -> Vec<Value> {
    let file = std::fs::File::open(file).unwrap();
    BufReader::new(MultiGzDecoder::new(BufReader::new(file)))
        .lines()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()["_labels"].take())
        .collect()
}

#[derive(Debug, Default)]
struct Agreement {
    attacks: usize,
    carriers: usize,
    both: usize,
    ours_only: usize,
    theirs_only: usize,
    calls: usize,
    preparing: usize,
    unknown: usize,
}

impl Agreement {
    fn precision(&self) -> f64 {
        rate(self.both, self.both + self.ours_only)
    }

    fn recall(&self) -> f64 {
        rate(self.both, self.both + self.theirs_only)
    }
}

fn rate(of: usize, all: usize) -> f64 {
    let count = |n: usize| f64::from(u32::try_from(n).unwrap());
    if all == 0 {
        1.0
    } else {
        count(of) / count(all)
    }
}

/// The labels name the calls that carry out the goal; a call that only prepares it is counted apart.
fn compare(sum: &mut Agreement, env: &Env, run: &Trajectory, ours: &Attribution, label: &Value) {
    sum.attacks += 1;
    let first = label["first_payload_message"].as_u64();
    sum.carriers += usize::from(ours.carriers.first().map(|c| c.message as u64) == first);
    let theirs: BTreeSet<(usize, usize)> = label["attack_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| {
            let at = |key: &str| usize::try_from(call[key].as_u64().unwrap()).unwrap();
            (at("message"), at("call"))
        })
        .collect();
    let task = env
        .injection_task(&run.suite, run.injection_task.as_deref().unwrap())
        .unwrap();
    for (message, index, call) in run.calls() {
        let found = ours.of(message, index) == Cause::Injection;
        sum.calls += 1;
        sum.unknown += usize::from(ours.of(message, index) == Cause::Unknown);
        match (found, theirs.contains(&(message, index))) {
            (true, true) => sum.both += 1,
            (false, true) => sum.theirs_only += 1,
            (true, false) if task.uses(&call.tool) => sum.ours_only += 1,
            (true, false) => sum.preparing += 1,
            (false, false) => {}
        }
    }
}

#[test]
fn attribution_agrees_with_labels_it_never_saw() {
    let Some(data) = data() else { return };
    let env = Env::open(&data.join("agentdojo_env")).unwrap();
    let mut attributor = Attributor::new(&env);
    let files = [
        "agentdojo_traces/banking",
        "agentdojo_traces/slack",
        "agentdojo_traces/travel",
        "agentdojo_traces/workspace",
        "agentdojo_traces/workspace_reruns",
        "agentdyn_traces/dailylife",
        "agentdyn_traces/github",
        "agentdyn_traces/shopping",
    ];
    let mut all = BTreeMap::new();
    for name in files {
        let file = data.join(format!("{name}.jsonl.gz"));
        let mut sum = Agreement::default();
        for (run, label) in record::open(&file).unwrap().zip(labels(&file)) {
            let run = run.unwrap();
            let kind = match run.kind {
                Kind::Attack => "attack",
                Kind::Benign => "benign",
                Kind::GoalAsTask => "injection_as_user_task",
            };
            assert_eq!(label["kind"], kind, "{name}:{}", run.line);
            let ours = attributor.attribute(&run).unwrap();
            if run.kind == Kind::Attack {
                compare(&mut sum, &env, &run, &ours, &label);
            } else {
                assert!(ours.carriers.is_empty());
            }
        }
        println!(
            "{name}: first carrier {}/{}, calls that carry out the goal: precision {:.3} recall {:.3} \
             (both {}, ours only {}, labels only {}), preparing {}, unknown {} of {} calls",
            sum.carriers,
            sum.attacks,
            sum.precision(),
            sum.recall(),
            sum.both,
            sum.ours_only,
            sum.theirs_only,
            sum.preparing,
            sum.unknown,
            sum.calls,
        );
        all.insert(name, sum);
    }
    for (name, sum) in &all {
        assert!(rate(sum.carriers, sum.attacks) >= 0.99, "{name}: carriers");
        assert!(sum.precision() >= 0.95, "{name}: precision");
        assert!(sum.recall() >= 0.90, "{name}: recall");
    }
    let banking = &all["agentdojo_traces/banking"];
    assert!(banking.both >= 30 && banking.recall() >= 0.95);
}
