//! Conversations in which nobody is known to attack become a suite over the table of calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::ImportError;
use super::calls::{self, Guess, Rows, Suite, guess, honest};
use super::logs::{self, Api};
use super::{recording, tau_bench};
use crate::eval::case::Case;
use crate::eval::import::agentdojo::record::Message;
use crate::eval::recorded::Run;

/// What was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Conversations.
    pub conversations: usize,
    /// Of these: that reached what they should, where the source says so.
    pub succeeded: Option<usize>,
    /// Their calls.
    pub calls: usize,
    /// Tools that seem to read.
    pub reads: BTreeSet<String>,
    /// Tools that seem to write.
    pub writes: BTreeSet<String>,
    /// Exchanges of recordings that are part of no conversation, by reason.
    pub left_out: BTreeMap<&'static str, usize>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} conversations, {} calls",
            self.conversations, self.calls
        )?;
        if let Some(succeeded) = self.succeeded {
            write!(f, "; {succeeded} reached what they should")?;
        }
        let tools = |tools: &BTreeSet<String>| tools.iter().cloned().collect::<Vec<_>>().join(", ");
        write!(
            f,
            "\nguessed from their names, to be checked:\n  read   {}\n  write  {}",
            tools(&self.reads),
            tools(&self.writes)
        )?;
        for (why, count) in &self.left_out {
            write!(f, "\n{count} exchanges left out: {why}")?;
        }
        Ok(())
    }
}

/// Imports recorded conversations of tau-bench.
///
/// # Errors
/// One line that names the file, the line and what to do. Nothing is written then.
pub fn tau_bench(files: &[PathBuf], out: &Path) -> Result<Summary, ImportError> {
    super::folder::name(out)?;
    let lines = tau_bench::lines(files)?;
    let suite = tau_bench::domain(&lines);
    let runs = lines.iter().map(|line| tau_bench::run(line, suite));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    // What its tools say of a call that they did not take.
    let failed = |output: &str| output.trim_start().starts_with("Error");
    let about = "Recorded conversations of customers with a service agent; nobody attacks.";
    write(&runs, (files, about), failed, out)
}

/// Imports logs of a model API.
///
/// # Errors
/// As [`tau_bench()`].
pub fn log(files: &[PathBuf], api: Api, out: &Path) -> Result<Summary, ImportError> {
    super::folder::name(out)?;
    let runs = logs::runs(files, api)?;
    let about = "Logged conversations; nobody is known to attack.";
    write(&runs, (files, about), |_| false, out)
}

/// Imports what `serve --record` wrote.
///
/// # Errors
/// As [`tau_bench()`].
pub fn recorded(files: &[PathBuf], out: &Path) -> Result<Summary, ImportError> {
    super::folder::name(out)?;
    let read = recording::read(files)?;
    let about = "Recorded conversations; nobody is known to attack.";
    let summary = write(&read.runs, (files, about), |_| false, out)?;
    Ok(Summary {
        left_out: read.left_out,
        ..summary
    })
}

/// Writes the suite of the runs.
pub(super) fn write(
    runs: &[Run],
    (files, about): (&[PathBuf], &str),
    failed: fn(&str) -> bool,
    out: &Path,
) -> Result<Summary, ImportError> {
    if runs.is_empty() {
        return Err(ImportError::Empty(super::names(files)));
    }
    let cases: Vec<Case> = runs
        .iter()
        .enumerate()
        .map(|(index, run)| {
            honest(
                run,
                format!("{}.{}", run.trajectory.user_task, index + 1),
                failed,
            )
        })
        .collect();
    let tools: BTreeSet<String> = runs
        .iter()
        .flat_map(|run| run.trajectory.calls().map(|(_, _, call)| call.tool.clone()))
        .collect();
    let (reads, writes) = tools
        .iter()
        .cloned()
        .partition(|tool| guess(tool) == Guess::Read);
    let system = runs
        .iter()
        .flat_map(|run| &run.trajectory.messages)
        .find_map(|message| match message {
            Message::System(text) if !text.trim().is_empty() => Some(text.as_str()),
            _ => None,
        });
    let suite = Suite {
        about,
        source: &super::names(files),
        system,
        tools: &tools,
        rows: Rows::Writes,
        assertions: &[calls::MADE],
        changes: &[calls::RECORDED],
        policy: None,
        cases: &cases,
    };
    suite.write(out)?;
    let said: Vec<bool> = runs
        .iter()
        .filter_map(|run| run.trajectory.utility)
        .collect();
    Ok(Summary {
        conversations: runs.len(),
        succeeded: (!said.is_empty()).then(|| said.iter().filter(|done| **done).count()),
        calls: runs.iter().map(|run| run.trajectory.calls().count()).sum(),
        reads,
        writes,
        left_out: BTreeMap::new(),
    })
}
