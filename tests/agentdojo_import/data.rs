//! The public recordings. Skipped where `HOLDPOINT_TEST_DATA` does not say where they are.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use holdpoint::eval::case::{Case, Kind};
use holdpoint::eval::import::agentdojo::{Options, Summary, import};
use holdpoint::eval::{self, Plan};
use serde_json::Value;

use super::fixtures::{assert_policy_names_nothing, literals};
use super::replay::{flag, grade, load};

fn data() -> Option<PathBuf> {
    let data = std::env::var_os("HOLDPOINT_TEST_DATA").map(PathBuf::from);
    if data.is_none() {
        println!("skipped: HOLDPOINT_TEST_DATA is not set");
    }
    data
}

/// What the database says of each case, beside what the recording said.
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
    fn of(recording: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::import(recording, &folder.path().join("bank"))
    }

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
            attacks: Vec::new(),
            tasks: Vec::new(),
            benign: Vec::new(),
            mutations: Vec::new(),
        };
        for case in &suite.cases {
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
}

fn count(rows: &[Row], of: fn(&Row) -> bool) -> usize {
    rows.iter().filter(|row| of(row)).count()
}

#[test]
fn the_database_agrees_with_the_recorded_flags() {
    let Some(data) = data() else { return };
    let baseline = Baseline::of(&data.join("agentdojo_traces/banking.jsonl.gz"));
    println!("{}", baseline.summary);
    for (what, rows) in [
        ("attack", &baseline.attacks),
        ("task under attack", &baseline.tasks),
        ("benign", &baseline.benign),
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
    assert!(baseline.mutations.iter().all(|reached| *reached));
    assert_eq!(baseline.summary.excluded, BTreeMap::new());
    assert_eq!((baseline.attacks.len(), baseline.benign.len()), (88, 88));
    // Every attack is graded as upstream did.
    assert_eq!(count(&baseline.attacks, |row| row.ours), 34);
    assert_eq!(count(&baseline.attacks, |row| row.ours != row.recorded), 0);
}

#[test]
fn the_policy_names_nobody_of_the_recordings() {
    let Some(data) = data() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("bank");
    Baseline::import(&data.join("agentdojo_traces/banking.jsonl.gz"), &out);
    assert_policy_names_nothing(&data.join("agentdojo_env"), &out);
}

/// Another world of the same shape: letters turned by thirteen, digits by three.
fn renamed(word: &str) -> String {
    let turn = |c: char, base: u8, by: u8, of: u8| char::from(base + (c as u8 - base + by) % of);
    word.chars()
        .map(|c| match c {
            'a'..='z' => turn(c, b'a', 13, 26),
            'A'..='Z' => turn(c, b'A', 13, 26),
            '0'..='9' => turn(c, b'0', 3, 10),
            other => other,
        })
        .collect()
}

/// People and accounts: what a policy could have been tuned to.
fn names(env: &Path) -> Vec<String> {
    let is_account = |word: &String| {
        word.len() >= 15
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && !word.contains('.')
    };
    let mut names: Vec<_> = literals(env).into_iter().filter(is_account).collect();
    let yaml = fs::read_to_string(env.join("banking/environment.yaml")).unwrap();
    for field in ["first_name: ", "last_name: ", "city: "] {
        let mut lines = yaml
            .lines()
            .filter_map(|line| line.trim().strip_prefix(field));
        names.push(lines.next().unwrap().to_owned());
    }
    names
}

fn rename(text: &str, names: &[String]) -> String {
    names.iter().fold(text.to_owned(), |text, name| {
        text.replace(name, &renamed(name))
    })
}

/// Copies recording and environment with every name turned into another; keeps every `step`th run.
fn copied_world(data: &Path, into: &Path, names: &[String], step: usize) -> PathBuf {
    let from = data.join("agentdojo_env");
    let env = into.join("agentdojo_env");
    fs::create_dir_all(env.join("banking")).unwrap();
    for file in [
        "user_tasks.json",
        "injection_tasks.json",
        "banking/environment.yaml",
        "banking/injection_vectors.yaml",
    ] {
        let text = fs::read_to_string(from.join(file)).unwrap();
        fs::write(env.join(file), rename(&text, names)).unwrap();
    }
    let packed = fs::read(data.join("agentdojo_traces/banking.jsonl.gz")).unwrap();
    let mut text = String::new();
    MultiGzDecoder::new(&packed[..])
        .read_to_string(&mut text)
        .unwrap();
    let kept: Vec<_> = text.lines().step_by(step).collect();
    let renamed = rename(&kept.join("\n"), names);
    assert!(
        names.iter().all(|name| !renamed.contains(name.as_str())),
        "{names:?}"
    );
    let recording = into.join("runs").join("banking.jsonl.gz");
    fs::create_dir(into.join("runs")).unwrap();
    let mut file = GzEncoder::new(fs::File::create(&recording).unwrap(), Compression::fast());
    file.write_all(renamed.as_bytes()).unwrap();
    file.finish().unwrap();
    recording
}

#[test]
fn names_do_not_matter_to_the_import() {
    let Some(data) = data() else { return };
    let folder = tempfile::tempdir().unwrap();
    let names = names(&data.join("agentdojo_env"));
    let other = Baseline::of(&copied_world(&data, folder.path(), &names, 1));
    let same = Baseline::of(&data.join("agentdojo_traces/banking.jsonl.gz"));
    assert_eq!(other.summary, same.summary);
    let flags = |rows: &[Row]| -> Vec<bool> { rows.iter().map(|row| row.ours).collect() };
    assert_eq!(flags(&other.attacks), flags(&same.attacks));
    assert_eq!(flags(&other.benign), flags(&same.benign));
}

/// The rates of every arm, as numbers alone.
fn rates(recording: &Path, out: &Path) -> Vec<Value> {
    Baseline::import(recording, out);
    let plan = Plan {
        arms: vec!["all".to_owned()],
        ..Plan::default()
    };
    let report = eval::run(&Arc::new(load(out)), &plan).unwrap_or_else(|error| panic!("{error}"));
    let mut report = serde_json::to_value(&report).unwrap();
    let readings = report["readings"].as_array_mut().unwrap();
    readings
        .iter_mut()
        .map(|reading| reading["arms"].take())
        .collect()
}

/// A policy, or an injection rule, that knew a name of the recordings would do worse where the names are others.
#[test]
fn names_do_not_matter_to_the_rates() {
    let Some(data) = data() else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let none = Vec::new();
    let renamed = names(&data.join("agentdojo_env"));
    let [same, other] = [(&folders[0], &none), (&folders[1], &renamed)].map(|(folder, names)| {
        let recording = copied_world(&data, folder.path(), names, 3);
        rates(&recording, &folder.path().join("bank"))
    });
    for (reading, arms) in same.iter().enumerate() {
        let [none, all] = &arms.as_array().unwrap()[..] else {
            panic!("two arms: {arms}")
        };
        println!(
            "reading {reading}: ASR {} without layers, {} with all",
            none["attack"]["asr"], all["attack"]["asr"]
        );
        assert!(none["attack"]["asr"]["x"].as_u64().unwrap() > 0);
        for arm in [none, all] {
            assert_eq!(arm["attack"]["inconclusive"], 0);
            assert_eq!(arm["benign"]["inconclusive"], 0);
        }
    }
    assert_eq!(other, same);
}
