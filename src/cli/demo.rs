//! `holdpoint demo`.

use std::path::PathBuf;

use super::{Failure, print};
use crate::demo::{self, Options};
use crate::source::Problems;

/// Arguments of `holdpoint demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Play on this policy in place of the embedded one.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// End after the scenes.
    #[arg(long)]
    exit: bool,
}

/// Runs the command.
///
/// # Errors
/// A policy that cannot run, or a part of the demo that failed.
pub fn run(args: &Args) -> Result<(), Failure> {
    let options = Options {
        policy: args.policy.clone(),
        exit: args.exit,
    };
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::Failed(format!("cannot start the runtime: {error}")))?;
    runtime
        .block_on(demo::run(&options, &mut |line| print(line)))
        .map_err(|error| match error.downcast::<Problems>() {
            Ok(problems) => problems.into(),
            Err(error) => Failure::Failed(format!("error: the demo stopped: {error:#}")),
        })
}
