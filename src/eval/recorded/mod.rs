//! Recorded calls: what a policy says of every call of recorded runs whose world does not exist here.
//!
//! A recording is a conversation. Its prefix up to each answer of the model is sent as a request of `OpenAI` Chat Completions
//! through the proxy's own service, the recorded answer comes back behind it, and the guard's verdict on each call is counted:
//! attack calls that are stopped beside honest runs that lose a call. Nothing here judges, and nothing is carried out: where
//! there is a world, [`super::run()`] is the better measure.

pub mod diff;
mod drive;
mod formats;
mod rates;
mod read;
mod strictness;
mod text;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use drive::{Driver, Fate, Said, Why};
pub use formats::{Format, read};
pub use rates::{Rates, Stopped, rates};
pub use read::{ReadError, Run, files};
use serde::Serialize;
pub use strictness::Strictness;
pub use text::render;

use super::replay::Reading;
use crate::policy::{self, Policy};
use crate::source::{Problem, Problems};

/// One policy at one strictness over one suite.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// How strictly it was read.
    pub strictness: Strictness,
    /// What came of it.
    #[serde(flatten)]
    pub rates: Rates,
}

/// Why there are no rates.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// The recordings.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The policy cannot run.
    #[error("{0}")]
    Policy(Problems),
    /// A run could not be driven.
    #[error("{run}: {cause}")]
    Run {
        /// Which: suite, task, model.
        run: String,
        /// Why.
        cause: String,
    },
    /// The machine failed.
    #[error("the recordings could not be driven: {0}")]
    Failed(String),
}

impl From<Problems> for RecordedError {
    fn from(problems: Problems) -> Self {
        Self::Policy(problems)
    }
}

/// The policy of the file at one point of the frontier.
///
/// # Errors
/// What is wrong with the file.
pub fn policy(file: &Path, strictness: Strictness) -> Result<Arc<Policy>, Problems> {
    let mut read = policy::load(file)?;
    strictness.apply(&mut read);
    Ok(Arc::new(read))
}

/// The rates of one policy over runs of one suite.
///
/// # Errors
/// A policy that cannot run without a database, or a run that the proxy does not take.
pub fn measure(
    policy: &Arc<Policy>,
    runs: &[Run],
    reading: Reading,
) -> Result<Rates, RecordedError> {
    let said = verdicts(policy, runs, reading)?;
    let counted = runs.iter().zip(&said);
    Ok(rates(counted.map(|(run, said)| (run, said.as_slice()))))
}

/// What the guard says of every call of every run, in order. Each thread has a proxy of its own.
///
/// # Errors
/// As [`measure`].
pub fn verdicts(
    policy: &Arc<Policy>,
    runs: &[Run],
    reading: Reading,
) -> Result<Vec<Vec<Said>>, RecordedError> {
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let next = AtomicUsize::new(0);
    let done = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| work(policy, runs, reading, &next)))
            .collect();
        let joined = workers.into_iter().map(|worker| {
            let lost = |_| RecordedError::Failed("a thread ended early".to_owned());
            worker.join().map_err(lost).flatten()
        });
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    let mut said: Vec<_> = done.into_iter().flatten().collect();
    said.sort_by_key(|(index, _)| *index);
    Ok(said.into_iter().map(|(_, said)| said).collect())
}

fn work(
    policy: &Arc<Policy>,
    runs: &[Run],
    reading: Reading,
    next: &AtomicUsize,
) -> Result<Vec<(usize, Vec<Said>)>, RecordedError> {
    let driver = Driver::new(Arc::clone(policy), reading)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| RecordedError::Failed(error.to_string()))?;
    let mut done = Vec::new();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(run) = runs.get(index) else {
            return Ok(done);
        };
        let session = format!("run-{index}");
        let said = runtime.block_on(driver.run(run, &session));
        let said = said.map_err(|cause| RecordedError::Run {
            run: named(run),
            cause,
        })?;
        done.push((index, said));
    }
}

fn named(run: &Run) -> String {
    let run = &run.trajectory;
    format!(
        "line {} ({}, {}, {}{})",
        run.line,
        run.suite,
        run.pipeline,
        run.user_task,
        run.injection_task
            .as_deref()
            .map(|task| format!(" with {task}"))
            .unwrap_or_default(),
    )
}

/// Runs of one suite.
#[derive(Clone, Debug)]
pub struct SuiteRuns {
    /// Its name.
    pub suite: String,
    /// Its runs, those that count.
    pub runs: Vec<Run>,
    /// How many there are in all.
    pub all: usize,
}

/// Every recording that the paths name, by suite, in order of name.
///
/// # Errors
/// As [`files`] and [`read()`].
pub fn suites<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<SuiteRuns>, RecordedError> {
    let mut named = Vec::new();
    for path in paths {
        named.extend(files(path.as_ref())?);
    }
    let mut suites: BTreeMap<String, SuiteRuns> = BTreeMap::new();
    for run in read(&named)? {
        let name = &run.trajectory.suite;
        let suite = suites.entry(name.clone()).or_insert_with(|| SuiteRuns {
            suite: name.clone(),
            runs: Vec::new(),
            all: 0,
        });
        suite.all += 1;
        if run.counts() {
            suite.runs.push(run);
        }
    }
    Ok(suites.into_values().collect())
}

/// The frontier of one policy file over runs of one suite: the naive rule first, then from strict to loose.
///
/// # Errors
/// As [`measure`].
pub fn frontier(file: &Path, runs: &[Run], reading: Reading) -> Result<Vec<Point>, RecordedError> {
    Strictness::ALL
        .into_iter()
        .map(|strictness| {
            let policy = policy(file, strictness)?;
            let rates = measure(&policy, runs, reading)?;
            Ok(Point { strictness, rates })
        })
        .collect()
}

/// The layout of the report as JSON.
const SCHEMA: &str = "holdpoint-recorded-calls/1";

/// What policies say of recordings.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The layout, with its version.
    pub schema: &'static str,
    /// Whether what was refused stays in the conversation.
    pub reading: Reading,
    /// One per suite that the recordings are of.
    pub suites: Vec<SuiteReport>,
}

/// One suite.
#[derive(Clone, Debug, Serialize)]
pub struct SuiteReport {
    /// Its name.
    pub suite: String,
    /// All runs of the recordings.
    pub runs: usize,
    /// Runs that count: benign or asked for and successful, or with an attack call.
    pub counted: usize,
    /// From strict to loose.
    pub points: Vec<Point>,
}

/// The frontiers of every suite that the paths name, each under its policy of the folder.
///
/// # Errors
/// As [`suites`], [`policy_file`] and [`frontier`]; recordings without a run.
pub fn report<P: AsRef<Path>>(
    paths: &[P],
    policies: &Path,
    reading: Reading,
) -> Result<Report, RecordedError> {
    let suites = suites(paths)?;
    if suites.is_empty() {
        let none = "the recordings hold no run".to_owned();
        return Err(RecordedError::Policy(Problem::new(none).into()));
    }
    let suites = suites.into_iter().map(|suite| {
        let file = policy_file(policies, &suite.suite)?;
        Ok(SuiteReport {
            points: frontier(&file, &suite.runs, reading)?,
            runs: suite.all,
            counted: suite.runs.len(),
            suite: suite.suite,
        })
    });
    Ok(Report {
        schema: SCHEMA,
        reading,
        suites: suites.collect::<Result<_, RecordedError>>()?,
    })
}

/// The policy file of a suite in a folder: `SUITE.yaml`.
///
/// # Errors
/// It is not there.
pub fn policy_file(folder: &Path, suite: &str) -> Result<std::path::PathBuf, Problems> {
    let file = folder.join(format!("{suite}.yaml"));
    if file.is_file() {
        return Ok(file);
    }
    let missing = format!("there is no policy {} for the suite", file.display());
    Err(Problem::new(missing)
        .help("give the folder that has SUITE.yaml for every suite of the recordings")
        .into())
}
