//! Which kind of recording a file is, told by its first line, and the runs of several files.

use std::path::{Path, PathBuf};

use super::read::{self, ReadError, Run};
use crate::eval::import::ImportError;
use crate::eval::import::agentdojo::record::RecordError;
use crate::eval::import::lines::{Line, Lines};
use crate::eval::import::logs::{self, Api};
use crate::eval::import::{injecagent, tau_bench};
use crate::record;

/// A kind of recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Runs of AgentDojo and AgentDyn.
    AgentDojo,
    /// Conversations of tau-bench.
    TauBench,
    /// Test cases of `InjecAgent`, and outputs of models.
    InjecAgent,
    /// A log of a model API.
    Log(Api),
    /// What `serve --record` wrote.
    Holdpoint,
}

impl Format {
    /// The kind of a file. `None`: it is empty.
    ///
    /// # Errors
    /// The file cannot be read, or its first line is of no kind that is known.
    pub fn of(file: &Path) -> Result<Option<Self>, RecordError> {
        let Some(line) = Lines::open(file)?.next().transpose()? else {
            return Ok(None);
        };
        Self::told(&line).map(Some).ok_or_else(|| {
            line.bad(
                "no recording that is known: a run of AgentDojo (`suite_name` or `metadata`), a conversation of tau-bench \
                 (`traj`), a case or output of InjecAgent, a log of a model API (`messages`, `input`, or `request` and \
                 `response`), or what `holdpoint serve --record` writes (`holdpoint_recording`)",
            )
        })
    }

    fn told(line: &Line) -> Option<Self> {
        let value = &line.value;
        if record::is(value) {
            return Some(Self::Holdpoint);
        }
        if value.get("suite_name").is_some() || value.get("metadata").is_some_and(|m| !m.is_null())
        {
            return Some(Self::AgentDojo);
        }
        if tau_bench::is(value) {
            return Some(Self::TauBench);
        }
        if injecagent::is_case(value) || injecagent::is_output(value) {
            return Some(Self::InjecAgent);
        }
        Api::of(value).map(Self::Log)
    }
}

/// Every run of the files, in order; those of `InjecAgent`, whose cases and outputs are files of their own, come last.
///
/// # Errors
/// A line that is no run, or labels that name a call which is not there.
pub fn read<P: AsRef<Path>>(files: &[P]) -> Result<Vec<Run>, ReadError> {
    let mut runs = Vec::new();
    let mut injecagent: Vec<PathBuf> = Vec::new();
    for file in files {
        let file = file.as_ref();
        match Format::of(file).map_err(ImportError::from)? {
            None => {}
            Some(Format::AgentDojo) => runs.extend(read::agentdojo(file)?),
            Some(Format::TauBench) => {
                runs.extend(tau_bench::runs(file).map_err(ImportError::from)?);
            }
            Some(Format::InjecAgent) => injecagent.push(file.to_owned()),
            Some(Format::Log(api)) => {
                let read = logs::runs(&[file.to_owned()], api);
                runs.extend(read.map_err(ImportError::from)?);
            }
            Some(Format::Holdpoint) => return Err(ReadError::Exchanges(file.to_owned())),
        }
    }
    if !injecagent.is_empty() {
        runs.extend(injecagent::runs(&injecagent)?);
    }
    Ok(runs)
}
