//! The three suites of AgentDyn, whose people have accounts in many places at once: one world for all. Recordings are replayed
//! without a proxy; what the proxy makes of them is measured by `eval run`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use holdpoint::eval::case::{Case, Kind};
use holdpoint::eval::import::agentdojo::{Options, import};
use holdpoint::eval::suite::Suite;

use super::replay::{carried_out, flag, load};

fn data() -> Option<PathBuf> {
    let data = std::env::var_os("HOLDPOINT_TEST_DATA").map(PathBuf::from);
    if data.is_none() {
        println!("skipped: HOLDPOINT_TEST_DATA is not set");
    }
    data
}

/// Every `step`th run of a suite, imported.
fn sample(data: &Path, suite: &str, step: usize) -> Suite {
    let folder = tempfile::tempdir().unwrap();
    let packed = fs::read(data.join(format!("agentdyn_traces/{suite}.jsonl.gz"))).unwrap();
    let mut text = String::new();
    let mut packed = MultiGzDecoder::new(&packed[..]);
    packed.read_to_string(&mut text).unwrap();
    let kept: Vec<_> = text.lines().step_by(step).collect();
    let recording = folder.path().join("runs.jsonl");
    fs::write(&recording, kept.join("\n")).unwrap();
    let options = Options {
        files: vec![recording],
        env: Some(data.join("agentdojo_env")),
        out: folder.path().join(suite),
    };
    let summary = import(&options).unwrap();
    println!("{summary}");
    assert_eq!(summary.records, kept.len());
    load(&options.out)
}

/// Of the cases of one kind: how many are graded as the recording was, and all of them.
fn agreement(suite: &Suite, kind: Kind, recorded: fn(&Case) -> Option<bool>) -> (usize, usize) {
    let cases = suite.cases.iter().filter(|case| case.kind == kind);
    let cases = cases.filter(|case| case.excluded.is_none());
    let (mut same, mut all) = (0, 0);
    for case in cases {
        let Some(recorded) = recorded(case) else {
            continue;
        };
        let (grade, _) = carried_out(suite, case);
        all += 1;
        if flag(case, &grade) == recorded {
            same += 1;
        } else {
            println!("{}: recorded {recorded}, {:?}", case.id, grade.failed);
        }
    }
    (same, all)
}

fn the_database_agrees(name: &str) {
    let Some(data) = data() else { return };
    let suite = sample(&data, name, 7);
    let mutations = suite
        .cases
        .iter()
        .filter(|case| case.kind == Kind::Mutation);
    for case in mutations {
        let (grade, _) = carried_out(&suite, case);
        assert_eq!(grade.goal, Some(true), "{}", case.id);
    }
    let (same, all) = agreement(&suite, Kind::Attack, |case| case.recorded?.attack);
    println!("attacks: {same} of {all} graded as recorded");
    assert!(all > 70 && same * 100 >= all * 95, "{same} of {all}");
}

#[test]
fn purchases_and_passwords_are_graded_as_recorded() {
    the_database_agrees("shopping");
}

#[test]
fn repositories_and_keys_are_graded_as_recorded() {
    the_database_agrees("github");
}

#[test]
fn payments_files_and_forms_are_graded_as_recorded() {
    the_database_agrees("dailylife");
}

/// A tool that the world does not have would be replayed without any effect.
#[test]
fn the_world_has_every_tool_of_the_three_suites() {
    let Some(data) = data() else { return };
    let tools = fs::read_to_string(data.join("agentdojo_env/tools.json")).unwrap();
    let tools: serde_json::Value = serde_json::from_str(&tools).unwrap();
    for name in ["shopping", "github", "dailylife"] {
        let suite = sample(&data, name, 400);
        let named = tools[name].as_array().unwrap().iter();
        let missing: BTreeSet<_> = named
            .map(|tool| tool["name"].as_str().unwrap())
            .filter(|tool| !suite.tools.contains_key(*tool))
            .collect();
        assert_eq!(missing, BTreeSet::new(), "{name}");
    }
}
