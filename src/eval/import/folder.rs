//! A new folder, written whole or not at all: under another name first, then renamed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::source::is_name;

/// Why a folder was not written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It is there already.
    #[error("{} is there already; give `--out` a new folder", .0.display())]
    Exists(PathBuf),
    /// A suite cannot have its name.
    #[error("{} is no name for a suite: use ASCII letters, digits, `_` and `-`, first a letter, at most 64", .0.display())]
    Name(PathBuf),
    /// It has no name, or cannot be written.
    #[error("cannot write {}: {cause}", .folder.display())]
    Write {
        /// The folder.
        folder: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

/// The name that a folder will have.
///
/// # Errors
/// It is there already, or has none that a suite can have.
pub fn name(folder: &Path) -> Result<&str, FolderError> {
    if folder.exists() {
        return Err(FolderError::Exists(folder.to_owned()));
    }
    let name = folder.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| failed(folder, io::Error::other("the folder has no name")))?;
    if is_name(name) {
        Ok(name)
    } else {
        Err(FolderError::Name(folder.to_owned()))
    }
}

/// Makes the folder with these files.
///
/// # Errors
/// It is there already, or cannot be written; nothing is left behind then.
pub fn write(folder: &Path, files: &[(&str, String)]) -> Result<(), FolderError> {
    let name = name(folder)?;
    let parent = folder.parent().unwrap_or(Path::new(""));
    let unfinished = parent.join(format!(".{name}.unfinished-{}", std::process::id()));
    let written = fill(parent, &unfinished, files).and_then(|()| fs::rename(&unfinished, folder));
    written.map_err(|cause| {
        let _ = fs::remove_dir_all(&unfinished);
        failed(folder, cause)
    })
}

fn fill(parent: &Path, folder: &Path, files: &[(&str, String)]) -> io::Result<()> {
    if !parent.as_os_str().is_empty() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(folder)?;
    for (name, text) in files {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// It cannot be written.
pub(super) fn failed(folder: &Path, cause: io::Error) -> FolderError {
    FolderError::Write {
        folder: folder.to_owned(),
        cause,
    }
}
