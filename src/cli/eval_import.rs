//! `holdpoint eval import`.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::{Failure, print};
use crate::eval::import::logs::Api;
use crate::eval::import::tau_bench::desk;
use crate::eval::import::{agentdojo, injecagent, plain, tau2};

/// Where recordings come from.
#[derive(Debug, clap::Subcommand)]
pub enum Source {
    /// Recorded runs of AgentDojo or AgentDyn: native run files or the Invariant Explorer export, one per line.
    Agentdojo(Agentdojo),
    /// The retail domain of tau2-bench: its database as a web shop, its tasks, and its ownership cases where there are any.
    Tau2(Tau2),
    /// Test cases of `InjecAgent`, with the recorded outputs of models.
    Injecagent(Injecagent),
    /// Recorded conversations of tau-bench.
    TauBench(TauBench),
    /// Logs of OpenAI's Chat Completions or Responses: conversations, or requests with their answers.
    OpenaiLog(Plain),
    /// Logs of Anthropic's Messages: conversations, or requests with their answers.
    AnthropicLog(Plain),
    /// What `holdpoint serve --record` wrote.
    Recording(Plain),
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

/// Arguments of `holdpoint eval import injecagent`.
#[derive(Debug, clap::Args)]
pub struct Injecagent {
    /// `test_cases_*` and, where models were recorded, `recorded_outputs`; `.jsonl` or `.jsonl.gz`.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder for the suite; must not be there yet.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Only the outputs of this model.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
}

/// Arguments of `holdpoint eval import tau-bench`.
#[derive(Debug, clap::Args)]
pub struct TauBench {
    /// Conversations, `.jsonl` or `.jsonl.gz`.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder for the suite; must not be there yet.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Folder with the airline's database (`airline_db_users`, `airline_db_reservations`, `airline_db_flights`): calls take effect
    /// in it. Without it the world is a table of calls.
    #[arg(long, value_name = "DIR")]
    env: Option<PathBuf>,
}

/// Arguments of the other importers.
#[derive(Debug, clap::Args)]
pub struct Plain {
    /// Recordings, `.jsonl` or `.jsonl.gz`.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder for the suite; must not be there yet.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Runs the command.
pub fn run(source: &Source) -> Result<(), Failure> {
    match source {
        Source::Agentdojo(args) => {
            let options = agentdojo::Options {
                files: args.files.clone(),
                env: args.env.clone(),
                out: args.out.clone(),
            };
            imported(agentdojo::import(&options), &args.out)
        }
        Source::Tau2(args) => {
            let options = tau2::Options {
                data: args.data.clone(),
                out: args.out.clone(),
            };
            imported(tau2::import(&options), &args.out)
        }
        Source::Injecagent(args) => {
            let options = injecagent::Options {
                files: args.files.clone(),
                model: args.model.clone(),
                out: args.out.clone(),
            };
            imported(injecagent::import(&options), &args.out)
        }
        Source::TauBench(TauBench { files, out, env }) => match env {
            None => imported(plain::tau_bench(files, out), out),
            Some(env) => {
                let options = desk::Options {
                    files: files.clone(),
                    env: env.clone(),
                    out: out.clone(),
                };
                imported(desk::import(&options), out)
            }
        },
        Source::OpenaiLog(args) => {
            imported(plain::log(&args.files, Api::OpenAi, &args.out), &args.out)
        }
        Source::Recording(args) => imported(plain::recorded(&args.files, &args.out), &args.out),
        Source::AnthropicLog(args) => imported(
            plain::log(&args.files, Api::Anthropic, &args.out),
            &args.out,
        ),
    }
}

fn imported<S: Display, E: Display>(done: Result<S, E>, out: &Path) -> Result<(), Failure> {
    let summary = done.map_err(|error| Failure::Input(format!("error: {error}")))?;
    print(summary);
    print(format!(
        "written to {0}; run it with: holdpoint eval run {0}",
        out.display()
    ));
    Ok(())
}
