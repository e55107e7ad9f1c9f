//! `holdpoint approver`.

use std::io::{IsTerminal as _, Read as _};

use super::{Failure, print, warn};
use crate::approvals::password;

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Print the hash of a password, read from standard input, for `password_hash` of an account in the config.
    Hash,
}

/// Runs the command.
///
/// # Errors
/// A password that cannot be read, or is too short or too long.
pub fn run(command: &Command) -> Result<(), Failure> {
    let Command::Hash = command;
    if std::io::stdin().is_terminal() {
        warn("type the password, which is shown, and end with ctrl-d on a line of its own");
    }
    let mut text = String::new();
    let most = u64::try_from(password::LONGEST).unwrap_or(u64::MAX) + 64;
    let read = std::io::stdin().lock().take(most).read_to_string(&mut text);
    read.map_err(|error| {
        Failure::Input(format!(
            "error: no password can be read from standard input: {error}"
        ))
    })?;
    let hash = password::hash(text.trim_end_matches(['\r', '\n']));
    print(hash.map_err(|why| Failure::Input(format!("error: {why}")))?);
    Ok(())
}
