//! AgentDojo and its relatives: recorded runs of real models become a suite.
//!
//! Records are read ([`record`]), each call is attributed to the task or to the injection ([`attribution`]), and what a run
//! must and must not leave behind is written as SQL over the suite's world ([`world`]). A suite without a world is refused.

pub mod attribution;
mod case;
pub mod env;
pub mod record;
pub(super) mod suite;
mod text;
mod uses;
pub mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use self::attribution::{Attribution, Attributor};
use self::case::Cases;
use self::env::{Env, EnvError};
use self::record::{Kind, Message, RecordError, Trajectory};
use self::suite::Suite;
use self::world::{Source, World};
use crate::eval::case::{Case, Cause};

/// What to import.
#[derive(Clone, Debug)]
pub struct Options {
    /// Recordings: `.jsonl` or `.jsonl.gz`, all of one suite.
    pub files: Vec<PathBuf>,
    /// The environment folder; `None`: `agentdojo_env` beside the folder of the first file.
    pub env: Option<PathBuf>,
    /// The suite's folder, which must not be there yet.
    pub out: PathBuf,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A recording cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The environment folder cannot be used.
    #[error(transparent)]
    Env(#[from] EnvError),
    /// The folder for the suite is there already.
    #[error("{} is there already; give `--out` a new folder", .0.display())]
    Exists(PathBuf),
    /// The suite's folder has no name, or cannot be written.
    #[error("cannot write {}: {cause}", .folder.display())]
    Write {
        /// The folder.
        folder: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The records are of a suite that nobody has built a world for.
    #[error(
        "{}:{line}: there is no world for the suite `{suite}`; worlds that exist: {}",
        .file.display(),
        world::names()
    )]
    NoWorld {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Its suite.
        suite: String,
    },
    /// Records of two suites.
    #[error(
        "{}:{line}: a record of the suite `{suite}` among records of `{first}`; import one suite at a time",
        .file.display()
    )]
    Mixed {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Its suite.
        suite: String,
        /// The suite of the records before.
        first: String,
    },
    /// The files hold no record.
    #[error("no record in {0}; expected one JSON object per line")]
    Empty(String),
}

/// What was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The suite that was recorded.
    pub suite: String,
    /// Records read.
    pub records: usize,
    /// Of these: runs with an injection.
    pub attacks: usize,
    /// Of these: runs without.
    pub benign: usize,
    /// Of these: runs whose goal the user gave openly.
    pub goals_as_task: usize,
    /// Of the attacks: runs in which the agent read the injection.
    pub read_by_agent: usize,
    /// Records that cannot be graded, by reason.
    pub excluded: BTreeMap<String, usize>,
    /// Calls in attack runs.
    pub calls: usize,
    /// Of these: caused by the injection.
    pub injected: usize,
    /// Of these: neither the task's nor the injection's for certain.
    pub unattributed: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "suite          {}", self.suite)?;
        writeln!(
            f,
            "records        {}: {} attack, {} benign, {} with the goal given by the user",
            self.records, self.attacks, self.benign, self.goals_as_task
        )?;
        writeln!(
            f,
            "injection read {} of {}",
            self.read_by_agent, self.attacks
        )?;
        let excluded: usize = self.excluded.values().sum();
        write!(f, "excluded       {excluded}")?;
        for (reason, count) in &self.excluded {
            write!(f, "; {count} {reason}")?;
        }
        write!(
            f,
            "\ncalls          {} in attack runs: {} caused by the injection, {} not attributed ({:.1} %), which count as \
             the task's in the optimistic reading",
            self.calls,
            self.injected,
            self.unattributed,
            percent(self.unattributed, self.calls)
        )
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    if whole == 0 {
        0.0
    } else {
        100.0 * count(part) / count(whole)
    }
}

/// Imports recordings and writes a suite's folder.
///
/// # Errors
/// One line that names the file, the line and what to do. Nothing is written then, unless writing itself failed.
pub fn import(options: &Options) -> Result<Summary, ImportError> {
    if options.out.exists() {
        return Err(ImportError::Exists(options.out.clone()));
    }
    let (suite, runs) = read(&options.files)?;
    let env = Env::open(&env_folder(options))?;
    let world = World::build(suite, &env)?;
    let mut attributor = Attributor::new(&env);
    let mut cases = Cases::new(&env, &world, &env.benign_text(suite.suite)?);
    let mut summary = Summary {
        suite: suite.suite.to_owned(),
        ..Summary::default()
    };
    let mut written = Vec::with_capacity(runs.len());
    for run in &runs {
        let attribution = attributor.attribute(run)?;
        let case = cases.case(run, &attribution);
        summary.add(run, &attribution, &case);
        written.push(case);
    }
    let goals: BTreeSet<&str> = runs
        .iter()
        .filter_map(|run| run.injection_task.as_deref())
        .collect();
    if goals.len() > 1 {
        cluster_by_goal(&mut written, &runs);
    }
    for id in goals {
        let task = env.injection_task(suite.suite, id);
        written.extend(task.and_then(|task| cases.mutation(id, task)));
    }
    let unknown_tools = runs
        .iter()
        .flat_map(|run| run.calls().map(|(_, _, call)| call.tool.clone()))
        .filter(|tool| !world.has(tool))
        .collect();
    let cannot_write = |cause| ImportError::Write {
        folder: options.out.clone(),
        cause,
    };
    let name = options.out.file_name().and_then(|name| name.to_str());
    let suite = Suite {
        name: name.ok_or_else(|| cannot_write(io::Error::other("the folder has no name")))?,
        source: &source(&options.files),
        system: system(&runs),
        world: &world,
        customers: &BTreeSet::new(),
        unknown_tools: &unknown_tools,
        statements: &cases.statements,
        cases: &written,
    };
    suite.write(&options.out).map_err(cannot_write)?;
    Ok(summary)
}

impl Summary {
    fn add(&mut self, run: &Trajectory, attribution: &Attribution, case: &Case) {
        self.records += 1;
        match run.kind {
            Kind::Attack => {
                self.attacks += 1;
                self.read_by_agent += usize::from(!attribution.carriers.is_empty());
                self.calls += attribution.calls.len();
                self.injected += attribution.count(Cause::Injection);
                self.unattributed += attribution.count(Cause::Unknown);
            }
            Kind::Benign => self.benign += 1,
            Kind::GoalAsTask => self.goals_as_task += 1,
        }
        if let Some(reason) = &case.excluded {
            *self.excluded.entry(reason.clone()).or_default() += 1;
        }
    }
}

/// Reads every record; all are of one suite that has a world.
fn read(files: &[PathBuf]) -> Result<(&'static Source, Vec<Trajectory>), ImportError> {
    let mut known: Option<&'static Source> = None;
    let mut runs = Vec::new();
    for file in files {
        for run in record::open(file)? {
            let run = run?;
            let (file, line, suite) = (file.clone(), run.line, run.suite.clone());
            match known {
                Some(first) if first.suite == suite => {}
                Some(first) => {
                    let first = first.suite.to_owned();
                    return Err(ImportError::Mixed {
                        file,
                        line,
                        suite,
                        first,
                    });
                }
                None => {
                    let Some(found) = world::find(&suite) else {
                        return Err(ImportError::NoWorld { file, line, suite });
                    };
                    known = Some(found);
                }
            }
            runs.push(run);
        }
    }
    let known = known.ok_or_else(|| ImportError::Empty(source(files)))?;
    Ok((known, runs))
}

/// Runs with the same goal depend on each other. Where all have the same one, the user's task is what sets them apart.
fn cluster_by_goal(cases: &mut [Case], runs: &[Trajectory]) {
    for (case, run) in cases.iter_mut().zip(runs) {
        if let Some(goal) = &run.injection_task {
            case.cluster = Some(goal.clone());
        }
    }
}

/// The files, for people.
fn source(files: &[PathBuf]) -> String {
    let names: Vec<_> = files
        .iter()
        .filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned()))
        .collect();
    names.join(", ")
}

/// The instructions that most records have.
fn system(runs: &[Trajectory]) -> Option<&str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for run in runs {
        for message in &run.messages {
            if let Message::System(text) = message
                && !text.trim().is_empty()
            {
                *counts.entry(text).or_default() += 1;
            }
        }
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(text, _)| text)
}

/// Recordings and environments lie side by side.
fn env_folder(options: &Options) -> PathBuf {
    options.env.clone().unwrap_or_else(|| {
        let recordings = options.files.first().and_then(|file| file.parent());
        match recordings.and_then(Path::parent) {
            Some(data) => data.join("agentdojo_env"),
            None => PathBuf::from("../agentdojo_env"),
        }
    })
}
