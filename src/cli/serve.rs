//! `holdpoint serve`.

use super::Failure;

/// Arguments of `holdpoint serve`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: &Args) -> Result<(), Failure> {
    Err(Failure::Failed("not there yet".to_owned()))
}
