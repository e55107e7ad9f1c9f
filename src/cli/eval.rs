//! `holdpoint eval`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;

use super::signals::Signals;
use super::{Failure, eval_import, eval_recorded, print, warn};
use crate::eval::replay::{Approver, Reading};
use crate::eval::report::render;
use crate::eval::suite::{Suite, find, list};
use crate::eval::{self, EvalError, Plan, Readings};

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Replay a suite through the pipeline and report what each layer buys and costs.
    Run(Run),
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
    /// A new folder for each trial's snapshots, transcript, receipts and result.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Arms to run: `none`, `all`, `leave-one-out`, `only-one`, or an arm's name. The baseline always runs.
    #[arg(long, value_delimiter = ',')]
    arms: Vec<String>,
    /// What a recorded model does when the injection that it obeyed was withheld.
    #[arg(long, value_enum, default_value_t = ReadingArg::Both)]
    reading: ReadingArg,
    /// Who answers held calls: `none`, `oracle`, `always`, or `errs:P`, an oracle that errs with probability P.
    #[arg(long, default_value_t = Approver::None)]
    approver: Approver,
    /// Chooses which answers of `errs:P` are wrong.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Have the recorded model answer as a stream.
    #[arg(long)]
    stream: bool,
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
        Command::List { folder } => list_suites(folder),
        Command::Import(source) => eval_import::run(source),
        Command::Recorded(args) => eval_recorded::run(args),
    }
}

fn run_suite(args: &Run) -> Result<(), Failure> {
    let suite = Arc::new(Suite::load(&find(&args.suite)?)?);
    let plan = Plan {
        arms: args.arms.clone(),
        readings: match args.reading {
            ReadingArg::Optimistic => Readings::Only(Reading::Optimistic),
            ReadingArg::Pessimistic => Readings::Only(Reading::Pessimistic),
            ReadingArg::Both => Readings::Both,
        },
        approver: args.approver.seeded(args.seed),
        stream: args.stream,
        out: args.out.clone(),
        stop: Arc::new(|| Box::pin(signalled())),
        ..Plan::default()
    };
    let report = eval::run(&suite, &plan).map_err(|error| match error {
        EvalError::Input(problems) => Failure::from(problems),
        EvalError::Judge(_) | EvalError::Failed(_) | EvalError::Stopped => {
            Failure::Failed(format!("error: {error}"))
        }
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
