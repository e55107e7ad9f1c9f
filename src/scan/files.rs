//! Plain files and folders, with a report for people.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Answer, Given, Judge, Verdict, excerpt, line_of, on_all_cores};

/// Files of a batch.
const BATCH: usize = 64;

/// Largest file, in bytes.
const LARGEST: u64 = 64 << 20;

/// What came of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files that were read as text.
    pub texts: u64,
    /// Those that were flagged.
    pub flagged: u64,
    /// Files that are no text or too large, each named.
    pub skipped: u64,
}

/// Every file under `paths`, folders searched through, by name.
///
/// # Errors
/// A path that cannot be read, with it.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in paths {
        collect(path, &mut found)
            .map_err(|error| format!("`{}` cannot be read: {error}", path.display()))?;
    }
    Ok(found)
}

fn collect(path: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    // A link inside a folder is not followed: it may lead back.
    let kind = fs::metadata(path)?;
    if !kind.is_dir() {
        found.push(path.to_owned());
        return Ok(());
    }
    let mut inside = fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    inside.sort();
    for path in inside {
        let kind = fs::symlink_metadata(&path)?;
        if kind.is_dir() || kind.is_file() {
            collect(&path, found)?;
        }
    }
    Ok(())
}

enum Judged {
    Text { answer: Answer, shown: String },
    Skipped(&'static str),
}

/// Judges files and hands what is to be said of each to `print`.
///
/// # Errors
/// A file that cannot be read, with its path.
pub fn report(
    judge: &Judge,
    files: &[PathBuf],
    print: &mut dyn FnMut(&str),
) -> Result<Report, String> {
    let mut report = Report::default();
    for batch in files.chunks(BATCH) {
        let judged = on_all_cores(batch, |path| {
            look(judge, path)
                .map_err(|error| format!("`{}` cannot be read: {error}", path.display()))
        });
        for (path, judged) in batch.iter().zip(judged) {
            match judged? {
                Judged::Text { answer, shown } => {
                    report.texts += 1;
                    if answer.verdict == Verdict::Flag {
                        report.flagged += 1;
                        print(&format!(
                            "{}: {} at {:.2}{shown}",
                            path.display(),
                            answer.action,
                            answer.score
                        ));
                    }
                }
                Judged::Skipped(why) => {
                    report.skipped += 1;
                    print(&format!("{}: not scanned: {why}", path.display()));
                }
            }
        }
    }
    Ok(report)
}

fn look(judge: &Judge, path: &Path) -> io::Result<Judged> {
    if fs::metadata(path)?.len() > LARGEST {
        return Ok(Judged::Skipped("larger than 64 MiB"));
    }
    let Ok(text) = String::from_utf8(fs::read(path)?) else {
        return Ok(Judged::Skipped("not UTF-8 text"));
    };
    let answer = judge.judge(&Given {
        text: &text,
        ..Given::default()
    });
    let mut shown = String::new();
    for place in &answer.findings {
        let range = place.start..place.end;
        let _ = write!(
            shown,
            "\n  line {}, bytes {}..{}: {:.2} {} ({})",
            line_of(&text, place.start),
            place.start,
            place.end,
            place.score,
            place.rule,
            place.view
        );
        if answer.phrases.is_some() {
            let _ = write!(shown, "\n    \"{}\"", excerpt(&text, &range));
        }
    }
    for phrase in answer.phrases.iter().flatten() {
        let _ = write!(
            shown,
            "\n    {} {:.2} ({}) \"{}\"",
            phrase.rule,
            phrase.score,
            phrase.view,
            excerpt(&text, &(phrase.start..phrase.end))
        );
    }
    Ok(Judged::Text { answer, shown })
}
