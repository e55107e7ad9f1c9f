//! `holdpoint check`.

use super::Failure;

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {}

/// Runs the command.
pub fn run(command: &Command) -> Result<(), Failure> {
    match *command {}
}
