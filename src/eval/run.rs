//! One run: every case in every arm it belongs to, in parallel, then the report.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;

use super::arms::{Arm, Design};
use super::case::{Case, Kind};
use super::judge::{Connect, Judge, read_only};
use super::keep::Keeper;
use super::replay::{Approver, Manner, Reading, Replayer, Trial};
use super::report::{Report, Setting, report};
use super::suite::Suite;
use super::world::World;
use crate::source::Problems;
use crate::store::sql::SqlError;

/// Which readings are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readings {
    /// Both, where the suite has carriers.
    #[default]
    Both,
    /// Only this one.
    Only(Reading),
}

/// How a suite is run.
#[derive(Clone)]
pub struct Plan {
    /// Arms or groups of arms; empty for all.
    pub arms: Vec<String>,
    /// Which readings.
    pub readings: Readings,
    /// Who answers held calls.
    pub approver: Approver,
    /// Whether the model's answers come as a stream.
    pub stream: bool,
    /// A new folder for snapshots, transcripts and results.
    pub out: Option<PathBuf>,
    /// How the judge connects to a world.
    pub judge: Connect,
    /// Waits for the wish to stop early.
    pub stop: Stop,
}

/// Made once per run and awaited beside it, inside the runtime.
pub type Stop = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

impl Default for Plan {
    fn default() -> Self {
        Self {
            arms: Vec::new(),
            readings: Readings::default(),
            approver: Approver::default(),
            stream: false,
            out: None,
            judge: read_only(),
            stop: Arc::new(|| Box::pin(std::future::pending())),
        }
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// What the user asked for cannot be run.
    #[error("{0}")]
    Input(Problems),
    /// The judge is not independent: nothing may be graded with it.
    #[error("eval refuses to run: the judge must not be able to write, but {0}")]
    Judge(SqlError),
    /// The machine failed.
    #[error("eval could not run: {0}")]
    Failed(String),
    /// It was stopped early.
    #[error("eval was stopped before its end: there is no report, and `--out` is removed")]
    Stopped,
}

impl From<Problems> for EvalError {
    fn from(problems: Problems) -> Self {
        Self::Input(problems)
    }
}

fn failed(error: impl std::fmt::Display) -> EvalError {
    EvalError::Failed(error.to_string())
}

/// Runs a suite.
///
/// # Errors
/// An arm that does not exist, an output folder that does, a judge that can write, or a machine that fails. A trial that
/// fails is no error: it is inconclusive, in its own column.
pub fn run(suite: &Arc<Suite>, plan: &Plan) -> Result<Report, EvalError> {
    let design = Design::new(suite, &plan.arms)?;
    let worlds = tempfile::tempdir().map_err(failed)?;
    let readings = match plan.readings {
        Readings::Both if suite.has_carriers() => vec![Reading::Optimistic, Reading::Pessimistic],
        Readings::Only(Reading::Optimistic) if suite.has_carriers() => vec![Reading::Optimistic],
        _ => vec![Reading::Pessimistic],
    };
    let manner = Manner {
        connect: Arc::clone(&plan.judge),
        approver: plan.approver,
        stream: plan.stream,
        keep: plan.out.is_some(),
    };
    let replayer = Arc::new(Replayer::new(Arc::clone(suite), manner));
    prove(
        suite,
        plan,
        &replayer,
        &design,
        &worlds.path().join("proof.sqlite"),
    )?;
    let keeper = match &plan.out {
        Some(out) => Some(Keeper::create(out).map_err(Problems::from)?),
        None => None,
    };
    let jobs = jobs(suite, &design, &readings);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let playing = play(&replayer, jobs, worlds.path().to_owned(), keeper.as_ref());
    let trials = runtime.block_on(async {
        let stopped = (plan.stop)();
        tokio::select! {
            biased;
            () = stopped => Err(EvalError::Stopped),
            trials = playing => trials,
        }
    });
    // Before the worlds' folder goes: a trial that still runs would write into it again.
    drop(runtime);
    let trials = trials?;
    let setting = Setting {
        design: &design,
        approver: plan.approver,
        streamed: plan.stream,
    };
    let report = report(suite, setting, &readings, &trials);
    if let Some(keeper) = keeper {
        keeper.report(&report).map_err(failed)?;
    }
    Ok(report)
}

/// Before anything else: the judge's connection must fail to write to a world of its own, and every arm must be able to run.
fn prove(
    suite: &Suite,
    plan: &Plan,
    replayer: &Replayer,
    design: &Design,
    path: &Path,
) -> Result<(), EvalError> {
    let world = World::create(&suite.image, path.to_owned()).map_err(EvalError::Failed)?;
    Judge::open(&plan.judge, world.path()).map_err(EvalError::Judge)?;
    for arm in &design.arms {
        replayer.ready(arm, path)?;
    }
    Ok(())
}

/// One trial to run.
#[derive(Clone)]
struct Job {
    arm: Arc<Arm>,
    reading: Reading,
    case: Arc<Case>,
}

fn jobs(suite: &Suite, design: &Design, readings: &[Reading]) -> Vec<Job> {
    let arms: Vec<_> = design.arms.iter().cloned().map(Arc::new).collect();
    let mut jobs = Vec::new();
    for reading in readings {
        for arm in &arms {
            let here = |case: &&Arc<Case>| match (&case.arm, case.kind) {
                (Some(own), _) => *own == arm.name,
                (None, Kind::Mutation) => arm.name == design.baseline,
                (None, _) => true,
            };
            let run = suite.cases.iter().filter(|case| case.excluded.is_none());
            jobs.extend(run.filter(here).map(|case| Job {
                arm: Arc::clone(arm),
                reading: *reading,
                case: Arc::clone(case),
            }));
        }
    }
    jobs
}

fn spawn(replayer: &Arc<Replayer>, job: Job, path: PathBuf) -> JoinHandle<Trial> {
    let replayer = Arc::clone(replayer);
    tokio::spawn(async move {
        let trial = replayer.trial(&job.arm, job.reading, job.case, path);
        trial.await
    })
}

async fn play(
    replayer: &Arc<Replayer>,
    jobs: Vec<Job>,
    worlds: PathBuf,
    keeper: Option<&Keeper>,
) -> Result<Vec<Trial>, EvalError> {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let running = futures_util::stream::iter(jobs.into_iter().enumerate())
        .map(|(number, job)| spawn(replayer, job, worlds.join(format!("{number}.sqlite"))))
        .buffered(cores * 2);
    let mut running = std::pin::pin!(running);
    let mut trials = Vec::new();
    while let Some(trial) = running.next().await {
        let mut trial = trial.map_err(failed)?;
        if let Some(keeper) = keeper {
            keeper.trial(&trial).map_err(failed)?;
            // It is on disk now.
            trial.kept = None;
        }
        trials.push(trial);
    }
    Ok(trials)
}
