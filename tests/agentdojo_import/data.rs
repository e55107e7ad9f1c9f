//! The public recordings. Skipped where `HOLDPOINT_TEST_DATA` does not say where they are.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use holdpoint::eval::case::{Case, Kind};
use holdpoint::eval::import::agentdojo::{Options, Summary, import};

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
        let out = folder.path().join("bank");
        let options = Options {
            files: vec![recording.to_owned()],
            env: None,
            out: out.clone(),
        };
        let summary = import(&options).unwrap();
        let suite = load(&out);
        let mut baseline = Self {
            summary,
            attacks: Vec::new(),
            benign: Vec::new(),
            mutations: Vec::new(),
        };
        for case in &suite.cases {
            let grade = grade(&suite, case);
            let ours = flag(case, &grade);
            let row = |recorded: fn(&Case) -> Option<bool>| Row {
                id: case.id.clone(),
                ours,
                recorded: recorded(case).unwrap(),
                why: format!("{:?}, must {:?}", grade.failed, grade.must),
            };
            match case.kind {
                Kind::Attack => baseline.attacks.push(row(|c| c.recorded?.attack)),
                Kind::Benign => baseline.benign.push(row(|c| c.recorded?.task)),
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
    for (what, rows) in [("attack", &baseline.attacks), ("benign", &baseline.benign)] {
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
