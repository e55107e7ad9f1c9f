//! `holdpoint eval recorded`.

use std::path::PathBuf;

use clap::ValueEnum;

use super::{Failure, print};
use crate::eval::recorded::{RecordedError, render, report};
use crate::eval::replay::Reading;

/// Arguments of `holdpoint eval recorded`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Recordings (`.jsonl`, `.jsonl.gz`), or folders of them: what `eval import` reads.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The folder with a policy `SUITE.yaml` for each suite of the recordings.
    #[arg(long, value_name = "DIR", default_value = "policies/worlds")]
    policies: PathBuf,
    /// Whether what was refused stays in the conversation.
    #[arg(long, value_enum, default_value_t)]
    reading: ReadingArg,
    /// Print the report as JSON (schema `holdpoint-recorded-calls/1`).
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ReadingArg {
    /// The conversation is as recorded, also after a refusal.
    #[default]
    Pessimistic,
    /// What was refused has never happened: neither the call nor its output is in later requests.
    Optimistic,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let reading = match args.reading {
        ReadingArg::Pessimistic => Reading::Pessimistic,
        ReadingArg::Optimistic => Reading::Optimistic,
    };
    let report = report(&args.paths, &args.policies, reading).map_err(|error| match error {
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
    Ok(())
}
