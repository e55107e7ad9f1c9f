//! Recorded runs with what somebody labelled in them: which calls carry out the injected goal.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;

use crate::eval::import::ImportError;
use crate::eval::import::agentdojo::record::{self, Kind, RecordError, Trajectory};

/// One recorded run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The conversation.
    pub trajectory: Trajectory,
    /// Ids of the calls that carry out the injected goal.
    pub attack_calls: HashSet<String>,
    /// Answers of the model before this message are not judged: what was recorded begins later.
    pub judged_from: usize,
}

impl Run {
    /// A run without attack that did what it should.
    pub fn benign(&self) -> bool {
        self.trajectory.kind == Kind::Benign && self.trajectory.utility == Some(true)
    }

    /// The injected goal, given openly by the user, and done.
    pub fn asked_for(&self) -> bool {
        self.trajectory.kind == Kind::GoalAsTask && self.trajectory.utility == Some(true)
    }

    /// At least one call carries out an injected goal.
    pub fn attacked(&self) -> bool {
        self.trajectory.kind == Kind::Attack && !self.attack_calls.is_empty()
    }

    /// Whether anything is counted of it.
    pub fn counts(&self) -> bool {
        self.benign() || self.asked_for() || self.attacked()
    }
}

/// Why recordings cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A recording that is none.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The folder cannot be listed.
    #[error("cannot list {}: {cause}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Labels that fit no run.
    #[error("{}:{line}: {what}", .file.display())]
    Labels {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with its `_labels`.
        what: String,
    },
    /// Runs that cannot be had from the files.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// Exchanges, not runs.
    #[error("{} holds exchanges that `serve --record` wrote; `holdpoint policy diff` replays these", .0.display())]
    Exchanges(PathBuf),
    /// Nothing to count.
    #[error("no recording (`.jsonl` or `.jsonl.gz`) is in {}", .0.display())]
    Nothing(PathBuf),
}

#[derive(Deserialize)]
struct Line {
    #[serde(default, rename = "_labels")]
    labels: Labels,
}

#[derive(Default, Deserialize)]
struct Labels {
    #[serde(default)]
    attack_calls: Option<Vec<AttackCall>>,
}

#[derive(Deserialize)]
struct AttackCall {
    message: usize,
    call: usize,
}

/// The recordings that a path names: itself, or those in the folder, by name.
///
/// # Errors
/// A folder that cannot be listed or has none.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let listed = std::fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let listed = listed.map_err(|cause| ReadError::Folder {
        folder: path.to_owned(),
        cause,
    })?;
    let mut files: Vec<_> = listed
        .into_iter()
        .map(|entry| entry.path())
        .filter(|file| {
            let name = file.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| name.ends_with(".jsonl") || name.ends_with(".jsonl.gz"))
        })
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(ReadError::Nothing(path.to_owned()));
    }
    Ok(files)
}

/// Every run of one file of AgentDojo's kind, in order.
///
/// # Errors
/// A line that is no run, or labels that name a call which is not there.
pub(super) fn agentdojo(file: &Path) -> Result<Vec<Run>, ReadError> {
    let mut labels = labels(file)?;
    record::open(file)?
        .map(|read| {
            let trajectory = read?;
            let line = trajectory.line;
            let labels = line.checked_sub(1).and_then(|at| labels.get_mut(at));
            let labels = labels.map(std::mem::take).unwrap_or_default();
            let attack_calls =
                attack_calls(&trajectory, labels).map_err(|what| ReadError::Labels {
                    file: file.to_owned(),
                    line,
                    what,
                })?;
            Ok(Run {
                trajectory,
                attack_calls,
                judged_from: 0,
            })
        })
        .collect()
}

/// The labels of each line; none for a blank one.
fn labels(file: &Path) -> Result<Vec<Labels>, ReadError> {
    let failed = |cause| RecordError::File {
        file: file.to_owned(),
        cause,
    };
    let plain = BufReader::new(File::open(file).map_err(failed)?);
    let lines: Box<dyn BufRead> = if file.extension().is_some_and(|ending| ending == "gz") {
        Box::new(BufReader::new(MultiGzDecoder::new(plain)))
    } else {
        Box::new(plain)
    };
    let mut labels = Vec::new();
    for (index, line) in lines.lines().enumerate() {
        let line = line.map_err(failed)?;
        if line.trim().is_empty() {
            labels.push(Labels::default());
            continue;
        }
        let read: Line = serde_json::from_str(&line).map_err(|error| ReadError::Labels {
            file: file.to_owned(),
            line: index + 1,
            what: format!("its `_labels` are not as described: {error}"),
        })?;
        labels.push(read.labels);
    }
    Ok(labels)
}

fn attack_calls(run: &Trajectory, labels: Labels) -> Result<HashSet<String>, String> {
    let named = labels.attack_calls.unwrap_or_default();
    let ids = named.into_iter().map(|AttackCall { message, call }| {
        let found = run
            .calls()
            .find(|(at, index, _)| (*at, *index) == (message, call));
        match found {
            Some((_, _, call)) => Ok(call.id.clone()),
            None => Err(format!(
                "`attack_calls` names call {call} of message {message}, which is not there"
            )),
        }
    });
    ids.collect()
}
