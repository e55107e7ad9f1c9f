//! `--out`: a new folder with what every trial was, said and came to.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};

use super::replay::{Kept, Reading, Trial};
use super::report::Report;
use crate::source::Problem;

/// Writes into one folder. Dropped before [`Keeper::report`] it removes the folder: half a run looks like a whole one.
pub struct Keeper {
    folder: PathBuf,
    whole: bool,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.whole {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

impl Keeper {
    /// Makes the folder.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub fn create(folder: &Path) -> Result<Self, Problem> {
        let shown = folder.display();
        match fs::create_dir(folder) {
            Ok(()) => Ok(Self {
                folder: folder.to_owned(),
                whole: false,
            }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let problem = Problem::new(format!("`{shown}` exists already"));
                Err(problem.help("name a new folder: results of two runs are never mixed"))
            }
            Err(error) => Err(Problem::new(format!("`{shown}` cannot be made: {error}"))
                .help("the folder above it must exist and be writable")),
        }
    }

    /// Writes one trial: `READING/ARM/CASE/`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn trial(&self, trial: &Trial) -> io::Result<()> {
        let reading = match trial.reading {
            Reading::Optimistic => "optimistic",
            Reading::Pessimistic => "pessimistic",
        };
        // The colon of `without:LAYER` is no name for a folder everywhere.
        let arm = trial.arm.replace(':', "-");
        let folder = self.folder.join(reading).join(arm).join(&trial.case.id);
        fs::create_dir_all(&folder)?;
        write(&folder.join("result.json"), &result(trial))?;
        let Some(kept) = &trial.kept else {
            return Ok(());
        };
        let Kept {
            before,
            after,
            transcript,
            receipts,
        } = kept;
        write(&folder.join("before.json"), before)?;
        write(&folder.join("after.json"), after)?;
        write(&folder.join("receipts.json"), receipts)?;
        let mut lines = io::BufWriter::new(fs::File::create(folder.join("transcript.jsonl"))?);
        for line in transcript {
            writeln!(lines, "{line}")?;
        }
        lines.flush()
    }

    /// Writes the report, which is the last file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn report(mut self, report: &Report) -> io::Result<()> {
        write(&self.folder.join("report.json"), report)?;
        self.whole = true;
        Ok(())
    }
}

fn result(trial: &Trial) -> Value {
    let case = &trial.case;
    let mut result = json!({
        "case": case.id,
        "kind": case.kind,
        "cluster": case.cluster,
        "arm": trial.arm,
        "reading": trial.reading,
        "meta": case.meta,
    });
    if let Value::Object(fields) = &mut result {
        match &trial.result {
            Ok(graded) => fields.insert("graded".to_owned(), json!(graded)),
            Err(why) => fields.insert("inconclusive".to_owned(), json!(why)),
        };
    }
    result
}

fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    fs::write(path, text)
}
