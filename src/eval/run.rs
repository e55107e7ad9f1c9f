//! One run: every case in every arm it belongs to, on all cores, then the report.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::arms::{Arm, Design};
use super::case::{Case, Kind};
use super::judge::{Connect, read_only};
use super::keep::{Begun, Keeper, Log};
use super::record::{Record, Seen};
use super::replay::{Approver, Ask, Manner, Reading, Replayer, Site, SiteError, Spent, Trial};
use super::report::{Report, Setting, report};
use super::suite::Suite;
use super::world::file_in;
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

/// Where results are kept.
#[derive(Clone, Debug, Default)]
pub enum Out {
    /// Nowhere.
    #[default]
    Nowhere,
    /// In a new folder.
    New(PathBuf),
    /// In the folder of a run that was stopped, which goes on.
    Resume(PathBuf),
}

/// How a suite is run.
#[derive(Clone)]
pub struct Plan {
    /// Arms or groups of arms; empty for all.
    pub arms: Vec<String>,
    /// Which readings.
    pub readings: Readings,
    /// Who answers held calls: the first is the report's own, the others stand beside it. Empty: nobody.
    pub approvers: Vec<Approver>,
    /// Whether the model's answers come as a stream.
    pub stream: bool,
    /// Where snapshots, transcripts and results are kept.
    pub out: Out,
    /// How many trials run at once; `None`: one per core.
    pub jobs: Option<usize>,
    /// How the judge connects to a world's file.
    pub judge: Connect,
    /// Waits for the wish to stop early.
    pub stop: Stop,
    /// Told how far the run is.
    pub progress: Arc<dyn Fn(Progress) + Send + Sync>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Trials that are done, those of an earlier part of the run among them.
    pub done: usize,
    /// All.
    pub all: usize,
    /// Done by an earlier part of the run.
    pub before: usize,
}

/// Made once per run and awaited beside it, inside the runtime.
pub type Stop = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

impl Default for Plan {
    fn default() -> Self {
        Self {
            arms: Vec::new(),
            readings: Readings::default(),
            approvers: Vec::new(),
            stream: false,
            out: Out::default(),
            jobs: None,
            judge: read_only(),
            stop: Arc::new(|| Box::pin(std::future::pending())),
            progress: Arc::new(|_| {}),
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
    /// The database is gone.
    #[error("eval was stopped, for the world's database is gone: {cause}{left}")]
    Gone {
        /// What the database, or nobody, said.
        cause: String,
        /// What is left of the run.
        left: Left,
    },
    /// It was stopped early.
    #[error("eval was stopped before its end: there is no report{0}")]
    Stopped(Left),
}

/// What is left of a run that did not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left(Option<(PathBuf, usize, usize)>);

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some((folder, done, all)) => write!(
                f,
                "; {done} of {all} trials are in {0}, and `--resume {0}` goes on from there",
                folder.display()
            ),
            None => Ok(()),
        }
    }
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
    measured(suite, plan).map(|(report, _)| report)
}

/// The same, with where the time went, over all workers.
///
/// # Errors
/// As [`run`].
pub fn measured(suite: &Arc<Suite>, plan: &Plan) -> Result<(Report, Spent), EvalError> {
    let design = Design::new(suite, &plan.arms)?;
    let worlds = tempfile::tempdir().map_err(failed)?;
    let readings = match plan.readings {
        Readings::Both if suite.has_carriers() => vec![Reading::Optimistic, Reading::Pessimistic],
        Readings::Only(Reading::Optimistic) if suite.has_carriers() => vec![Reading::Optimistic],
        _ => vec![Reading::Pessimistic],
    };
    let approvers = match plan.approvers.as_slice() {
        [] => vec![Approver::None],
        some => some.to_vec(),
    };
    let manner = Manner {
        connect: Arc::clone(&plan.judge),
        stream: plan.stream,
        keep: !matches!(plan.out, Out::Nowhere),
    };
    let replayer = Replayer::new(Arc::clone(suite), manner);
    prove(&replayer, &design, worlds.path())?;
    let jobs = jobs(suite, &design, &readings);
    let begun = Begun::new(suite, plan, &approvers);
    let (keeper, log) = match &plan.out {
        Out::Nowhere => (None, Log::default()),
        Out::New(out) => {
            let keeper = Keeper::create(out, &begun).map_err(Problems::from)?;
            (Some(keeper), Log::default())
        }
        Out::Resume(out) => {
            let (keeper, log) = Keeper::resume(out, &begun).map_err(Problems::from)?;
            (Some(keeper), log)
        }
    };
    let shared = Shared {
        replayer: &replayer,
        design: &design,
        approvers: &approvers,
        keeper: keeper.as_ref(),
        worlds: worlds.path(),
        jobs: &jobs,
        done: &log,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    let (finished, spent) = shared.run(plan)?;
    let trials = records(&design, &approvers, &jobs, log, finished);
    let setting = Setting {
        design: &design,
        approvers: &approvers,
        streamed: plan.stream,
    };
    let report = report(suite, setting, &readings, &trials);
    if let Some(keeper) = keeper {
        keeper.report(&report).map_err(failed)?;
    }
    Ok((report, spent))
}

/// Before anything else: the judge's connection must fail to write to a world of its own, and every arm must be able to run.
fn prove(replayer: &Replayer, design: &Design, worlds: &Path) -> Result<(), EvalError> {
    let runtime = alone()?;
    let path = worlds.join("proof.sqlite");
    let site = runtime.block_on(replayer.site(path)).map_err(unproved)?;
    for arm in &design.arms {
        replayer.ready(arm, &site)?;
    }
    Ok(())
}

fn unproved(error: SiteError) -> EvalError {
    match error {
        SiteError::Judge(error @ SqlError::Writable { .. }) => EvalError::Judge(error),
        SiteError::Judge(error) => EvalError::Failed(error.to_string()),
        SiteError::World(fault) => EvalError::Failed(fault.cause),
    }
}

fn alone() -> Result<tokio::runtime::Runtime, EvalError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(failed)
}

/// One case in one arm and reading, under every approver.
struct Job {
    arm: usize,
    reading: Reading,
    case: Arc<Case>,
}

fn jobs(suite: &Suite, design: &Design, readings: &[Reading]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for reading in readings {
        for (place, arm) in design.arms.iter().enumerate() {
            let here = |case: &&Arc<Case>| match (&case.arm, case.kind) {
                (Some(own), _) => *own == arm.name,
                (None, Kind::Mutation) => arm.name == design.baseline,
                (None, _) => true,
            };
            let run = suite.cases.iter().filter(|case| case.excluded.is_none());
            jobs.extend(run.filter(here).map(|case| Job {
                arm: place,
                reading: *reading,
                case: Arc::clone(case),
            }));
        }
    }
    jobs
}

/// What came of one job, in the order of the approvers.
pub(super) type Came = Vec<Result<Seen, String>>;

/// What the workers share.
struct Shared<'r> {
    replayer: &'r Replayer,
    design: &'r Design,
    approvers: &'r [Approver],
    keeper: Option<&'r Keeper>,
    worlds: &'r Path,
    jobs: &'r [Job],
    /// By an earlier part of the run.
    done: &'r Log,
    next: AtomicUsize,
    stop: AtomicBool,
}

/// What a worker says.
enum Word {
    Done(usize, Came),
    Ended(Spent),
    Failed(EvalError),
}

impl Shared<'_> {
    fn run(&self, plan: &Plan) -> Result<(Log, Spent), EvalError> {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let left = self.jobs.len().saturating_sub(self.done.0.len());
        let workers = plan.jobs.unwrap_or(cores).clamp(1, left.max(1));
        let runtime = alone()?;
        std::thread::scope(|scope| {
            let (said, heard) = unbounded_channel();
            for number in 0..workers {
                let said = said.clone();
                scope.spawn(move || self.work(number, &said));
            }
            drop(said);
            runtime.block_on(self.listen(plan, heard))
        })
    }

    /// Gathers what the workers say, until the last of them has ended.
    async fn listen(
        &self,
        plan: &Plan,
        mut heard: UnboundedReceiver<Word>,
    ) -> Result<(Log, Spent), EvalError> {
        let mut stopped = (plan.stop)();
        let mut wanted = true;
        let mut log = Log::default();
        let mut spent = Spent::default();
        let mut failure = None;
        let (all, before) = (self.jobs.len(), self.done.0.len());
        let tell = |done| {
            (plan.progress)(Progress {
                done: before + done,
                all,
                before,
            });
        };
        tell(0);
        loop {
            let word = tokio::select! {
                biased;
                () = &mut stopped, if wanted => {
                    wanted = false;
                    self.stop.store(true, Ordering::Relaxed);
                    continue;
                }
                word = heard.recv() => word,
            };
            match word {
                None => break,
                Some(Word::Done(number, came)) => {
                    log.0.insert(number, came);
                    tell(log.0.len());
                }
                Some(Word::Ended(worker)) => spent.add(&worker),
                Some(Word::Failed(error)) => {
                    self.stop.store(true, Ordering::Relaxed);
                    failure.get_or_insert(error);
                }
            }
        }
        let done = before + log.0.len();
        let left = Left(
            self.keeper
                .map(|keeper| (keeper.folder().to_owned(), done, all)),
        );
        match failure {
            Some(EvalError::Gone { cause, .. }) => Err(EvalError::Gone { cause, left }),
            Some(error) => Err(error),
            None if done < all => Err(EvalError::Stopped(left)),
            None => Ok((log, spent)),
        }
    }

    fn work(&self, number: usize, said: &UnboundedSender<Word>) {
        let worked = alone().and_then(|runtime| runtime.block_on(self.until_the_end(number, said)));
        // Nobody listens only where the run has failed already.
        let _ = said.send(match worked {
            Ok(spent) => Word::Ended(spent),
            Err(error) => Word::Failed(error),
        });
    }

    async fn until_the_end(
        &self,
        number: usize,
        said: &UnboundedSender<Word>,
    ) -> Result<Spent, EvalError> {
        let site = self.replayer.site(file_in(self.worlds, number)).await;
        let mut site = site.map_err(unproved)?;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let Some(job) = self.jobs.get(number) else {
                break;
            };
            if self.done.0.contains_key(&number) {
                continue;
            }
            let came = self.job(&mut site, number, job).await?;
            let _ = said.send(Word::Done(number, came));
        }
        Ok(*site.spent())
    }

    /// One job under every approver. Where nobody was asked, whoever would have answered makes no difference.
    async fn job(&self, site: &mut Site, number: usize, job: &Job) -> Result<Came, EvalError> {
        let Some(arm) = self.design.arms.get(job.arm) else {
            return Err(failed("a trial without an arm"));
        };
        let mut came: Came = Vec::with_capacity(self.approvers.len());
        for approver in self.approvers {
            if let Some(first) = came.first()
                && !first.as_ref().is_ok_and(|seen| seen.asked)
            {
                came.push(first.clone());
                continue;
            }
            let trial = self.trial(site, arm, *approver, job).await?;
            if let Some(keeper) = self.keeper {
                keeper.trial(&trial).map_err(failed)?;
            }
            came.push(trial.result.as_ref().map(Seen::from).map_err(Clone::clone));
        }
        if let Some(keeper) = self.keeper {
            keeper.log(number, &came).map_err(failed)?;
        }
        Ok(came)
    }

    async fn trial(
        &self,
        site: &mut Site,
        arm: &Arm,
        approver: Approver,
        job: &Job,
    ) -> Result<Trial, EvalError> {
        let ask = Ask {
            arm,
            reading: job.reading,
            approver,
            case: &job.case,
        };
        let trial = self.replayer.trial(site, ask).await;
        trial.map_err(|fault| EvalError::Gone {
            cause: fault.cause,
            left: Left(None),
        })
    }
}

/// Every trial, in the order of the jobs, whoever ran it when.
fn records(
    design: &Design,
    approvers: &[Approver],
    jobs: &[Job],
    earlier: Log,
    now: Log,
) -> Vec<Record> {
    let names: Vec<Arc<str>> = design
        .arms
        .iter()
        .map(|arm| arm.name.as_str().into())
        .collect();
    let mut done = earlier.0;
    done.extend(now.0);
    let mut records = Vec::with_capacity(jobs.len() * approvers.len());
    for (number, job) in jobs.iter().enumerate() {
        let came = done.remove(&number).into_iter().flatten();
        let arm = names.get(job.arm).cloned().unwrap_or_default();
        records.extend(approvers.iter().zip(came).map(|(approver, result)| Record {
            arm: Arc::clone(&arm),
            reading: job.reading,
            approver: *approver,
            case: Arc::clone(&job.case),
            result,
        }));
    }
    records
}
