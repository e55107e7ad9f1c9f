//! tau-bench: recorded conversations of a customer, played by a model, with an agent. Nobody attacks, so whatever is refused is
//! refused wrongly.
//!
//! A record is one conversation: `task_id`, `trial`, `reward` (1: the database ended as it should) and `traj`, messages of Chat
//! Completions.

pub mod desk;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::agentdojo::record::{Kind, RecordError, Trajectory};
use super::chat;
use super::lines::{Line, Lines};
use crate::eval::recorded::Run;

/// Whether a line is such a record.
pub fn is(value: &Value) -> bool {
    value.get("traj").is_some() && value.get("task_id").is_some()
}

/// The conversation of a line, as a run of the suite.
///
/// # Errors
/// A line that is no record; its field is named.
pub fn run(line: &Line, suite: &str) -> Result<Run, RecordError> {
    let value = &line.value;
    let task = value
        .get("task_id")
        .and_then(Value::as_u64)
        .ok_or_else(|| line.bad("`task_id` is not a whole number"))?;
    let reward = value.get("reward").and_then(Value::as_f64);
    let reward = reward.ok_or_else(|| line.bad("`reward` is not a number"))?;
    let traj = value.get("traj").unwrap_or(&Value::Null);
    let messages = chat::messages(traj, "traj").map_err(|what| line.bad(what))?;
    Ok(Run {
        trajectory: Trajectory {
            line: line.number,
            suite: suite.to_owned(),
            pipeline: "recorded".to_owned(),
            user_task: format!("task_{task}"),
            injection_task: None,
            attack: None,
            kind: Kind::Benign,
            messages,
            utility: Some((reward - 1.0).abs() < 1e-9),
            security: None,
            injections: BTreeMap::new(),
            error: None,
        },
        attack_calls: HashSet::new(),
        judged_from: 0,
    })
}

/// Which domain the tools belong to: those that tau-bench has.
pub fn domain(runs: &[Line]) -> &'static str {
    let text_of = |line: &Line| {
        let first = line.value.pointer("/traj/0/content");
        first.and_then(Value::as_str).map(str::to_lowercase)
    };
    let said = runs.iter().find_map(text_of).unwrap_or_default();
    if said.contains("airline") {
        "airline"
    } else if said.contains("retail") {
        "retail"
    } else {
        "tau_bench"
    }
}

/// Every conversation of a file.
///
/// # Errors
/// A line that is no record; its field is named.
pub fn runs(file: &Path) -> Result<Vec<Run>, RecordError> {
    let lines = lines(&[file.to_owned()])?;
    let suite = domain(&lines);
    lines.iter().map(|line| run(line, suite)).collect()
}

/// The records of several files.
///
/// # Errors
/// A line that is none.
pub fn lines(files: &[PathBuf]) -> Result<Vec<Line>, RecordError> {
    let mut lines = Vec::new();
    for file in files {
        for line in Lines::open(file)? {
            let line = line?;
            if !is(&line.value) {
                let what = "no record of tau-bench (an object with `task_id`, `reward` and `traj`)";
                return Err(line.bad(what));
            }
            lines.push(line);
        }
    }
    Ok(lines)
}
