//! `holdpoint key`.

use std::io::Read;

use super::{Failure, print};
use crate::identity::api_key;

/// Longest key that is read, in bytes.
const LONGEST: u64 = 4096;

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a key of 256 random bits: prints the key, to be given to its agent once, and the digest for the config.
    New,
    /// Print the digest of a key that is read from standard input.
    Hash,
}

/// Runs the command.
pub fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::New => {
            let key = api_key::new().map_err(|why| Failure::Failed(format!("error: {why}")))?;
            print(format!("key: {key}"));
            print(format!("key_sha256: {}", digest(&key)));
        }
        Command::Hash => {
            let key = read()?;
            api_key::check(&key).map_err(|why| {
                Failure::Input(format!(
                    "error: {why}\nhelp: make one with `holdpoint key new`"
                ))
            })?;
            print(digest(&key));
        }
    }
    Ok(())
}

fn digest(key: &str) -> String {
    api_key::written(&api_key::sha256(key.as_bytes()))
}

/// Standard input, for a key must not stand on a command line, where every process sees it.
fn read() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin()
        .lock()
        .take(LONGEST)
        .read_to_string(&mut text);
    read.map_err(|error| {
        Failure::Input(format!(
            "error: no key can be read from standard input: {error}"
        ))
    })?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
