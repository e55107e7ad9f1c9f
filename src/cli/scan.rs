//! `holdpoint scan`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::{Failure, print, warn};
use crate::policy;
use crate::scan::{self, Judge};
use crate::verdict::{LayerId, Mode};

/// Arguments of `holdpoint scan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// JSON lines (`.jsonl`, `.ndjson`), each an object with `text` and, if wanted, `id`, `tool`, `kind` (`tool_output`, `definition`
    /// or `user`) and `tools`, answered by one line each; other files and folders get a report [default: JSON lines from standard
    /// input].
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Score in 0..1 from which a text is flagged and something taken out of it, whatever the policy says [default: what the policy
    /// redacts from, or 0.6].
    #[arg(long, value_name = "SCORE")]
    threshold: Option<f64>,
    /// Take the thresholds and actions of this policy, per tool; `action` is what `serve` would do.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Print the reference of the rules instead.
    #[arg(long, conflicts_with_all = ["paths", "threshold", "policy", "explain"])]
    rules: bool,
    /// Tell every phrase that was found too.
    #[arg(long)]
    explain: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.rules {
        print(crate::layers::injection::reference().trim_end());
        return Ok(());
    }
    let policy = args.policy.as_deref().map(policy::load).transpose()?;
    if let Some(policy) = &policy {
        for layer in [LayerId::Injection, LayerId::Catalog] {
            let mode = policy.modes.of(layer);
            if mode != Mode::Enforce {
                warn(format!(
                    "warning: the policy has `{layer}: {}`, and `action` says what it would do in mode `enforce`",
                    mode.as_str()
                ));
            }
        }
    }
    let judge = Judge::new(policy.as_ref(), args.threshold, args.explain)
        .map_err(|error| Failure::Input(format!("error: {error}")))?;
    if args.paths.is_empty() {
        return lines(&judge, "standard input", &mut io::stdin().lock());
    }
    let mut others = Vec::new();
    for path in &args.paths {
        if path.as_os_str() == "-" {
            lines(&judge, "standard input", &mut io::stdin().lock())?;
        } else if is_lines(path) {
            let shown = path.display().to_string();
            let file = File::open(path).map_err(|error| unreadable(&shown, &error))?;
            lines(&judge, &shown, &mut BufReader::with_capacity(1 << 20, file))?;
        } else {
            others.push(path.clone());
        }
    }
    if others.is_empty() {
        Ok(())
    } else {
        files(&judge, &others)
    }
}

fn is_lines(path: &Path) -> bool {
    path.is_file()
        && path
            .extension()
            .is_some_and(|extension| extension == "jsonl" || extension == "ndjson")
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::Input(format!("error: `{name}` cannot be read: {error}"))
}

fn lines(judge: &Judge, name: &str, input: &mut dyn BufRead) -> Result<(), Failure> {
    let summary = scan::lines(judge, input, &mut |line| print(line))
        .map_err(|error| unreadable(name, &error))?;
    if summary.bad > 0 {
        return Err(Failure::Failed(format!(
            "error: {name}: {} of {} lines could not be read; each is answered with `line` and `error`",
            summary.bad,
            summary.bad + summary.texts
        )));
    }
    Ok(())
}

fn files(judge: &Judge, paths: &[PathBuf]) -> Result<(), Failure> {
    let failed = |error: String| Failure::Input(format!("error: {error}"));
    let files = scan::files(paths).map_err(failed)?;
    let report = scan::report(judge, &files, &mut |line| print(line)).map_err(failed)?;
    warn(format!(
        "{} scanned, {} flagged, {} not scanned",
        report.texts, report.flagged, report.skipped
    ));
    Ok(())
}
