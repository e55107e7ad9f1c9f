//! Importers: recordings become suites that `eval run` executes, or runs that [`super::recorded`] drives.
//!
//! Where a world was built for the recordings their calls take effect in it ([`agentdojo`]); else the world is a table of the
//! calls that were carried out ([`calls`]).

pub mod agentdojo;
pub mod anthropic_log;
pub mod calls;
mod chat;
pub mod folder;
pub mod injecagent;
pub mod lines;
pub mod logs;
pub mod openai_log;
pub mod plain;
pub mod recording;
pub mod tau2;
pub mod tau_bench;

use std::path::PathBuf;

use self::agentdojo::record::RecordError;
use self::folder::FolderError;

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A recording cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The suite's folder cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The files hold no record.
    #[error("no record in {0}; expected one JSON value per line")]
    Empty(String),
    /// The rows do not fit the world.
    #[error("the database in {} does not fit its world: {what}", .folder.display())]
    World {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The model that was asked for said nothing.
    #[error("there is no output of the model `{model}`; there are outputs of: {models}")]
    NoModel {
        /// The model.
        model: String,
        /// Those that there are.
        models: String,
    },
}

/// The files, for people.
fn names(files: &[PathBuf]) -> String {
    let names: Vec<_> = files
        .iter()
        .filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned()))
        .collect();
    names.join(", ")
}

fn percent(part: usize, whole: usize) -> f64 {
    let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    if whole == 0 {
        0.0
    } else {
        100.0 * count(part) / count(whole)
    }
}
