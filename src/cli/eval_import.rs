//! `holdpoint eval import`.

use std::path::PathBuf;

use super::{Failure, print};
use crate::eval::import::{agentdojo, tau2};

/// Where recordings come from.
#[derive(Debug, clap::Subcommand)]
pub enum Source {
    /// Recorded runs of AgentDojo or AgentDyn: native run files or the Invariant Explorer export, one per line.
    Agentdojo(Agentdojo),
    /// The retail domain of tau2-bench: its database as a web shop, its tasks, and its ownership cases where there are any.
    Tau2(Tau2),
}

/// Arguments of `holdpoint eval import tau2`.
#[derive(Debug, clap::Args)]
pub struct Tau2 {
    /// Folder with `db_users`, `db_orders`, `db_products`, `tasks` and `ownership_cases`, each `.jsonl` or `.jsonl.gz`.
    #[arg(value_name = "FOLDER")]
    data: PathBuf,
    /// Folder for the suite; must not be there yet.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
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
    let failed = |error: &dyn std::fmt::Display| Failure::Input(format!("error: {error}"));
    let out = match source {
        Source::Agentdojo(args) => {
            let options = agentdojo::Options {
                files: args.files.clone(),
                env: args.env.clone(),
                out: args.out.clone(),
            };
            print(agentdojo::import(&options).map_err(|e| failed(&e))?);
            &args.out
        }
        Source::Tau2(args) => {
            let options = tau2::Options {
                data: args.data.clone(),
                out: args.out.clone(),
            };
            print(tau2::import(&options).map_err(|e| failed(&e))?);
            &args.out
        }
    };
    print(format!(
        "written to {0}; run it with: holdpoint eval run {0}",
        out.display()
    ));
    Ok(())
}
