//! `holdpoint policy diff`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;

use super::overrides::SetArgs;
use super::{Failure, print};
use crate::eval::recorded::RecordedError;
use crate::eval::recorded::diff::{Backing, Diff, Options, diff, render};
use crate::policy;
use crate::settings;

/// Arguments of `holdpoint policy diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The old policy and the new one; the new one alone is compared with what `serve --record` noted of its own verdicts.
    #[arg(required = true, num_args = 1..=2, value_name = "POLICY")]
    policies: Vec<PathBuf>,
    /// Recordings (`.jsonl`, `.jsonl.gz`), or folders of them: those of `serve --record`, and whatever `eval import` reads.
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    recordings: Vec<PathBuf>,
    /// The config with the databases that look-ups ask, and the routes of the recordings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show the arguments of calls in examples: they are what people wrote.
    #[arg(long)]
    show_arguments: bool,
    /// Print the report as JSON (schema `holdpoint-policy-diff/1`).
    #[arg(long)]
    json: bool,
    /// End with exit code 1 where there is such a change.
    #[arg(long, value_enum, value_name = "CHANGE")]
    fail_on: Option<FailOn>,
    #[command(flatten)]
    set: SetArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Something is refused or held that passed.
    NewlyBlocked,
    /// Something passes, or may be approved, that was refused.
    NewlyAllowed,
    /// Any verdict differs.
    Any,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut policies = args
        .policies
        .iter()
        .map(|file| policy::load(file).map(Arc::new));
    let (first, second) = (policies.next().transpose()?, policies.next().transpose()?);
    let (old, new) = match (first, second) {
        (Some(old), Some(new)) => (Some(old), new),
        (Some(new), None) => (None, new),
        (None, _) => return Err(Failure::Input("error: a policy is needed".to_owned())),
    };
    let backing = match &args.config {
        None => Backing::default(),
        Some(config) => {
            let settings = settings::read(config, &args.set.overrides(), &settings::environment())?;
            Backing::of(&settings.settings)?
        }
    };
    let options = Options {
        old,
        new,
        recordings: &args.recordings,
        backing: &backing,
        arguments: args.show_arguments,
    };
    let report = diff(&options).map_err(|error| match error {
        RecordedError::Policy(problems) => Failure::from(problems),
        RecordedError::Read(_) => Failure::Input(format!("error: {error}")),
        RecordedError::Run { .. } | RecordedError::Failed(_) => {
            Failure::Failed(format!("error: {error}"))
        }
    })?;
    if args.json {
        let json = serde_json::to_string_pretty(&report);
        print(json.map_err(|error| Failure::Failed(format!("error: {error}")))?);
    } else {
        print(render(&report).trim_end());
    }
    match args.fail_on {
        Some(fail_on) if fails(&report, fail_on) => Err(Failure::Failed(
            "error: verdicts differ as `--fail-on` names them".to_owned(),
        )),
        _ => Ok(()),
    }
}

const fn fails(report: &Diff, on: FailOn) -> bool {
    let counts = &report.counts;
    match on {
        FailOn::NewlyBlocked => counts.newly_blocked + counts.newly_held > 0,
        FailOn::NewlyAllowed => counts.newly_allowed + counts.held_instead > 0,
        FailOn::Any => !report.changes.is_empty(),
    }
}
