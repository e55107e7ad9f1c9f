//! `holdpoint eval import`.

use std::path::PathBuf;

use super::{Failure, print};
use crate::eval::import::agentdojo;

/// Where recordings come from.
#[derive(Debug, clap::Subcommand)]
pub enum Source {
    /// Recorded runs of AgentDojo or AgentDyn: native run files or the Invariant Explorer export, one per line.
    Agentdojo(Agentdojo),
}

/// Arguments of `holdpoint eval import agentdojo`.
#[derive(Debug, clap::Args)]
pub struct Agentdojo {
    /// Recordings, `.jsonl` or `.jsonl.gz`, all of one suite.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder for the suite; must not be there yet.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Folder with `user_tasks.json`, `injection_tasks.json` and a folder per suite [default: `agentdojo_env` beside the folder
    /// of the first FILE].
    #[arg(long, value_name = "DIR")]
    env: Option<PathBuf>,
}

/// Runs the command.
pub fn run(source: &Source) -> Result<(), Failure> {
    let Source::Agentdojo(args) = source;
    let options = agentdojo::Options {
        files: args.files.clone(),
        env: args.env.clone(),
        out: args.out.clone(),
    };
    let summary = agentdojo::import(&options).map_err(|e| Failure::Input(format!("error: {e}")))?;
    print(summary);
    print(format!(
        "written to {0}; run it with: holdpoint eval run {0}",
        args.out.display()
    ));
    Ok(())
}
