//! `holdpoint secret`: lines for `registered_secrets` of the config, made where the secret is and from nowhere else.

use std::io::Read as _;

use super::{Failure, print};
use crate::layers::egress::secrets::{LONGEST, Registered};

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Print the salted hash of a secret, read from standard input or a variable, for `registered_secrets` of the config.
    Hash {
        /// Read the secret from this environment variable; never on the command line, where others see it.
        #[arg(long, value_name = "VARIABLE")]
        env: Option<String>,
    },
}

/// Runs it.
///
/// # Errors
/// A secret that cannot be read or registered.
pub fn run(command: &Command) -> Result<(), Failure> {
    let Command::Hash { env } = command;
    let secret = match env {
        Some(name) => std::env::var(name).map_err(|_| {
            Failure::Input(format!(
                "error: the environment variable `{name}` is not set, or is no text"
            ))
        })?,
        None => standard_input()?,
    };
    let registered = Registered::new(secret.trim())
        .map_err(|error| Failure::Input(format!("error: {error}")))?;
    print(registered);
    Ok(())
}

fn standard_input() -> Result<String, Failure> {
    let mut secret = String::new();
    let most = u64::try_from(LONGEST).unwrap_or(u64::MAX) + 64;
    let read = std::io::stdin()
        .lock()
        .take(most)
        .read_to_string(&mut secret);
    read.map_err(|error| {
        Failure::Input(format!(
            "error: the secret cannot be read from standard input: {error}"
        ))
    })?;
    Ok(secret)
}
