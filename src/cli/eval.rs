//! `holdpoint eval`.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use clap::ValueEnum;

use super::signals::Signals;
use super::{Failure, eval_import, eval_recorded, eval_world, print, progress, warn};
use crate::eval::replay::{Approver, Reading};
use crate::eval::report::render;
use crate::eval::suite::{Suite, find, list};
use crate::eval::world::{Database, Server};
use crate::eval::{self, Begun, EvalError, Out, Plan, Readings};
use crate::source::Problems;

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Replay a suite through the pipeline and report what each layer buys and costs.
    Run(Run),
    /// Check a world of your own: every statement, that it can be reset, that the judge cannot write, what each tool changes.
    World(eval_world::World),
    /// Name the suites of a folder.
    List {
        /// The folder.
        #[arg(default_value = "evalsets")]
        folder: PathBuf,
    },
    /// Turn public recordings into a suite.
    #[command(subcommand)]
    Import(eval_import::Source),
    /// Say what policies stop of recorded runs, without a world.
    Recorded(eval_recorded::Args),
}

/// Arguments of `holdpoint eval run`.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// A suite's folder, or its name under `evalsets/`.
    suite: String,
    /// Print the report as JSON (schema `holdpoint-eval/1`).
    #[arg(long)]
    json: bool,
    /// A new folder for each trial's snapshots, transcript, receipts and result. A run that is stopped can go on from there.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the run that was stopped in the folder, as it was begun.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "arms", "reading", "approver", "seed", "stream"])]
    resume: Option<PathBuf>,
    /// Arms to run: `none`, `all`, `leave-one-out`, `only-one`, or an arm's name. The baseline always runs.
    #[arg(long, value_delimiter = ',')]
    arms: Vec<String>,
    /// What a recorded model does when the injection that it obeyed was withheld.
    #[arg(long, value_enum, default_value_t = ReadingArg::Both)]
    reading: ReadingArg,
    /// Who answers held calls: `none`, `oracle`, `always`, `errs:P`, an oracle that errs with probability P, or `all`: each of `none`,
    /// `oracle`, `always` and `errs:0.1` in one report.
    #[arg(long, default_value_t = Answers::default())]
    approver: Answers,
    /// Chooses which answers of `errs:P` are wrong.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Have the recorded model answer as a stream.
    #[arg(long)]
    stream: bool,
    /// Make the world on the database server whose URL this environment variable holds, in place of SQLite.
    #[arg(long, value_name = "VARIABLE")]
    database: Option<String>,
    /// Most trials at once; by default one per core. The report is the same for any number.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// `--approver`.
#[derive(Clone, Copy, Debug)]
enum Answers {
    All,
    Of(Approver),
}

impl Default for Answers {
    fn default() -> Self {
        Self::Of(Approver::None)
    }
}

impl Answers {
    fn approvers(self, seed: u64) -> Vec<Approver> {
        let all = match self {
            Self::All => Approver::EVERYBODY.to_vec(),
            Self::Of(approver) => vec![approver],
        };
        all.into_iter().map(|it| it.seeded(seed)).collect()
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Of(approver) => approver.fmt(f),
        }
    }
}

impl FromStr for Answers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            one => one
                .parse()
                .map(Self::Of)
                .map_err(|error: String| error.replace("`always`, or", "`always`, `all`, or")),
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReadingArg {
    /// It does not make the calls that the injection asked for.
    Optimistic,
    /// It makes them all the same.
    Pessimistic,
    /// Both, one after the other.
    Both,
}

/// Runs the command.
pub fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run_suite(args),
        Command::World(args) => eval_world::run(args),
        Command::List { folder } => list_suites(folder),
        Command::Import(source) => eval_import::run(source),
        Command::Recorded(args) => eval_recorded::run(args),
    }
}

/// The server that a variable of the environment names; `None`: what the suite says.
pub(super) fn database(variable: Option<&str>) -> Result<Option<Database>, Failure> {
    let server = variable.map(|variable| Server::from_env(variable, None));
    let server = server.transpose().map_err(Problems::from)?;
    Ok(server.map(Database::Server))
}

fn run_suite(args: &Run) -> Result<(), Failure> {
    let folder = find(&args.suite)?;
    let suite = Arc::new(match database(args.database.as_deref())? {
        Some(database) => Suite::load_on(&folder, database)?,
        None => Suite::load(&folder)?,
    });
    let mut plan = Plan {
        arms: args.arms.clone(),
        readings: match args.reading {
            ReadingArg::Optimistic => Readings::Only(Reading::Optimistic),
            ReadingArg::Pessimistic => Readings::Only(Reading::Pessimistic),
            ReadingArg::Both => Readings::Both,
        },
        approvers: args.approver.approvers(args.seed),
        stream: args.stream,
        out: args.out.clone().map_or(Out::Nowhere, Out::New),
        jobs: args.jobs.map(NonZeroUsize::get),
        stop: Arc::new(|| Box::pin(signalled())),
        progress: progress::bar(),
        ..Plan::default()
    };
    if let Some(folder) = &args.resume {
        let begun = Begun::read(folder).map_err(Problems::from)?;
        begun.apply(&mut plan).map_err(Problems::from)?;
        plan.out = Out::Resume(folder.clone());
    }
    let report = eval::run(&suite, &plan).map_err(|error| match error {
        EvalError::Input(problems) => Failure::from(problems),
        EvalError::Judge(_)
        | EvalError::Failed(_)
        | EvalError::Gone { .. }
        | EvalError::Stopped(_) => Failure::Failed(format!("error: {error}")),
    })?;
    if args.json {
        let json = serde_json::to_string_pretty(&report);
        print(json.map_err(|error| Failure::Failed(format!("error: {error}")))?);
    } else {
        print(render(&report).trim_end());
    }
    if report.valid {
        return Ok(());
    }
    let causes = report.invalid_because.join("; ");
    Err(Failure::Failed(format!(
        "error: the suite is invalid: {causes}"
    )))
}

/// Ctrl-C and the like. Without a handler the system ends the process, and what it had begun stays.
async fn signalled() {
    match Signals::new() {
        Ok(mut signals) => signals.next().await,
        Err(_) => std::future::pending().await,
    }
}

fn list_suites(folder: &Path) -> Result<(), Failure> {
    let names = list(folder);
    if names.is_empty() {
        return Err(Failure::Input(format!(
            "error: there is no suite in {}; a suite is a folder with a suite.yaml",
            folder.display()
        )));
    }
    for name in names {
        match Suite::load(&folder.join(&name)) {
            Ok(suite) => print(format!("{name}: {}", suite.about)),
            Err(_) => warn(format!(
                "{name}: has faults; `holdpoint eval run {name}` shows them"
            )),
        }
    }
    Ok(())
}
