//! The public recordings. Skipped where `HOLDPOINT_TEST_DATA` does not say where they are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdpoint::eval::case::{Case, Kind};
use holdpoint::eval::import::agentdojo::{Options, Summary, import};
use holdpoint::eval::{self, Plan};
use serde_json::Value;

use super::renamed::World;
use super::replay::{flag, grade, load};

fn data() -> Option<PathBuf> {
    let data = std::env::var_os("HOLDPOINT_TEST_DATA").map(PathBuf::from);
    if data.is_none() {
        println!("skipped: HOLDPOINT_TEST_DATA is not set");
    }
    data
}

/// What the database says of each case, beside what the recording said.
#[derive(Default)]
struct Baseline {
    summary: Summary,
    attacks: Vec<Row>,
    /// The user's task in attack runs.
    tasks: Vec<Row>,
    benign: Vec<Row>,
    mutations: Vec<bool>,
}

struct Row {
    id: String,
    ours: bool,
    recorded: bool,
    why: String,
}

impl Baseline {
    fn import(recording: &Path, out: &Path) -> Self {
        let options = Options {
            files: vec![recording.to_owned()],
            env: None,
            out: out.to_owned(),
        };
        let summary = import(&options).unwrap();
        let suite = load(out);
        let mut baseline = Self {
            summary,
            ..Self::default()
        };
        for case in suite.cases.iter().filter(|case| case.excluded.is_none()) {
            let grade = grade(&suite, case);
            let ours = flag(case, &grade);
            let row = |ours: bool, recorded: fn(&Case) -> Option<bool>| Row {
                id: case.id.clone(),
                ours,
                recorded: recorded(case).unwrap(),
                why: format!("{:?}, must {:?}", grade.failed, grade.must),
            };
            match case.kind {
                Kind::Attack => {
                    baseline.attacks.push(row(ours, |c| c.recorded?.attack));
                    let task = row(grade.task_done(), |c| c.recorded?.task);
                    baseline.tasks.push(task);
                }
                Kind::Benign => baseline.benign.push(row(ours, |c| c.recorded?.task)),
                Kind::Mutation => baseline.mutations.push(ours),
                Kind::Control => panic!("no controls are imported"),
            }
        }
        baseline
    }

    fn print(&self) {
        println!("{}", self.summary);
        for (what, rows) in [
            ("attack", &self.attacks),
            ("task under attack", &self.tasks),
            ("benign", &self.benign),
        ] {
            println!(
                "{what}: {} by SQL, {} recorded, of {}",
                count(rows, |row| row.ours),
                count(rows, |row| row.recorded),
                rows.len()
            );
            for row in rows.iter().filter(|row| row.ours != row.recorded) {
                println!(
                    "  {}: SQL {}, recorded {}: {}",
                    row.id, row.ours, row.recorded, row.why
                );
            }
        }
    }
}

fn count(rows: &[Row], of: fn(&Row) -> bool) -> usize {
    rows.iter().filter(|row| of(row)).count()
}

/// How often SQL and the recorded flag say that an attack, or an honest task, succeeded.
#[derive(Debug, PartialEq)]
struct Agreement {
    both: usize,
    sql_alone: usize,
    flag_alone: usize,
    neither: usize,
}

impl Agreement {
    fn of(rows: &[Row]) -> Self {
        Self {
            both: count(rows, |row| row.ours && row.recorded),
            sql_alone: count(rows, |row| row.ours && !row.recorded),
            flag_alone: count(rows, |row| !row.ours && row.recorded),
            neither: count(rows, |row| !row.ours && !row.recorded),
        }
    }
}

const fn agreement(both: usize, sql_alone: usize, flag_alone: usize, neither: usize) -> Agreement {
    Agreement {
        both,
        sql_alone,
        flag_alone,
        neither,
    }
}

/// Every `step`th run of a suite, graded; every difference is one that the documentation explains.
fn agrees(suite: &'static str, step: usize, attacks: &Agreement, benign: &Agreement) {
    let Some(data) = data() else { return };
    let folder = tempfile::tempdir().unwrap();
    let recording = World::of(suite, &data).copy(folder.path(), step, false);
    let baseline = Baseline::import(&recording, &folder.path().join("suite"));
    baseline.print();
    assert!(baseline.mutations.iter().all(|reached| *reached));
    assert!(!baseline.mutations.is_empty());
    assert_eq!(&Agreement::of(&baseline.attacks), attacks, "attacks");
    assert_eq!(&Agreement::of(&baseline.benign), benign, "benign");
}

/// A policy, an importer or an injection rule that knew a name of the recordings would do otherwise where the names are others.
fn names_do_not_matter(suite: &'static str, step: usize) {
    let Some(data) = data() else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [same, other] = [(&folders[0], false), (&folders[1], true)].map(|(folder, rename)| {
        let recording = World::of(suite, &data).copy(folder.path(), step, rename);
        let out = folder.path().join("suite");
        let baseline = Baseline::import(&recording, &out);
        let flags = |rows: &[Row]| -> Vec<bool> { rows.iter().map(|row| row.ours).collect() };
        let flags = (flags(&baseline.attacks), flags(&baseline.benign));
        (baseline.summary, flags, rates(&out))
    });
    for arms in &same.2 {
        let [none, all] = &arms.as_array().unwrap()[..] else {
            panic!("two arms: {arms}")
        };
        println!(
            "{}: {} without layers, {} with all",
            suite, none["attack"]["asr"], all["attack"]["asr"]
        );
        for arm in [none, all] {
            assert_eq!(arm["attack"]["inconclusive"], 0);
            assert_eq!(arm["benign"]["inconclusive"], 0);
        }
    }
    let (attacks, benign) = &same.1;
    assert!(attacks.iter().chain(benign).any(|done| *done));
    assert_eq!(other, same);
}

/// The rates of both arms and readings, as numbers alone.
fn rates(suite: &Path) -> Vec<Value> {
    let plan = Plan {
        arms: vec!["all".to_owned()],
        ..Plan::default()
    };
    let report = eval::run(&Arc::new(load(suite)), &plan).unwrap_or_else(|error| panic!("{error}"));
    let mut report = serde_json::to_value(&report).unwrap();
    let readings = report["readings"].as_array_mut().unwrap();
    readings
        .iter_mut()
        .map(|reading| reading["arms"].take())
        .collect()
}

#[test]
fn banking_is_graded_as_upstream_graded_it() {
    agrees(
        "banking",
        1,
        &agreement(34, 0, 0, 54),
        &agreement(54, 1, 3, 30),
    );
}

#[test]
fn slack_is_graded_as_upstream_graded_it() {
    agrees(
        "slack",
        2,
        &agreement(30, 0, 0, 25),
        &agreement(40, 3, 1, 22),
    );
}

#[test]
fn travel_is_graded_as_upstream_graded_it() {
    agrees(
        "travel",
        2,
        &agreement(0, 1, 0, 54),
        &agreement(27, 26, 0, 2),
    );
}

#[test]
fn workspace_is_graded_as_upstream_graded_it() {
    agrees(
        "workspace",
        4,
        &agreement(1, 4, 0, 50),
        &agreement(25, 12, 3, 15),
    );
}

#[test]
fn names_do_not_matter_in_banking() {
    names_do_not_matter("banking", 5);
}

#[test]
fn names_do_not_matter_in_slack() {
    names_do_not_matter("slack", 9);
}

#[test]
fn names_do_not_matter_in_travel() {
    names_do_not_matter("travel", 9);
}

#[test]
fn names_do_not_matter_in_workspace() {
    names_do_not_matter("workspace", 13);
}
