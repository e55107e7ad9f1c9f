//! `holdpoint eval`.

use super::{Failure, eval_import};

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Turn public recordings into a suite.
    #[command(subcommand)]
    Import(eval_import::Source),
}

/// Runs the command.
pub fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Import(source) => eval_import::run(source),
    }
}
