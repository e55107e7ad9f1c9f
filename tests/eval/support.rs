//! Copies of suites that a test may change, and the command over them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A suite of the project.
pub fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("evalsets")
        .join(name)
}

const SHOPS: [&str; 3] = [
    "refund-ownership",
    "refund-ownership-buyer",
    "refund-ownership-identity",
];

/// A copy of the refund suites, of which one is looked at.
pub struct Copy {
    folder: TempDir,
    name: String,
}

impl Copy {
    pub fn of(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The second suite takes the world of the first.
        for suite in SHOPS {
            let to = folder.path().join(suite);
            fs::create_dir(&to).unwrap();
            for entry in fs::read_dir(shipped(suite)).unwrap() {
                let from = entry.unwrap().path();
                fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
            }
        }
        Self {
            folder,
            name: name.to_owned(),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// Replaces a text that must be there.
    pub fn change(&self, file: &str, from: &str, to: &str) -> &Self {
        let path = self.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} lacks {from:?}");
        fs::write(&path, text.replace(from, to)).unwrap();
        self
    }
}

/// Runs `holdpoint eval run` on a suite.
pub fn run(suite: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdpoint"))
        .args(["eval", "run"])
        .arg(suite)
        .args(args)
        .output()
        .unwrap()
}

/// The report of a run that succeeds.
pub fn report(suite: &Path, args: &[&str]) -> Value {
    let output = run(suite, &[args, &["--json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Exit code and standard error of a run that fails.
pub fn failure(suite: &Path, args: &[&str]) -> (i32, String) {
    let output = run(suite, args);
    let code = output.status.code().unwrap();
    assert_ne!(code, 0);
    (code, String::from_utf8(output.stderr).unwrap())
}

/// The entry of an arm in the only reading.
pub fn arm<'r>(report: &'r Value, name: &str) -> &'r Value {
    let arms = report["readings"][0]["arms"].as_array().unwrap();
    arms.iter().find(|arm| arm["arm"] == name).unwrap()
}

/// Events and trials of a rate.
pub fn counts(rate: &Value) -> (u64, u64) {
    (rate["x"].as_u64().unwrap(), rate["n"].as_u64().unwrap())
}

/// Whether an interval has these ends, to the given digits.
pub fn assert_interval(interval: &Value, low: f64, high: f64, tolerance: f64) {
    let end = |index: usize| interval[index].as_f64().unwrap();
    assert!(
        (end(0) - low).abs() < tolerance && (end(1) - high).abs() < tolerance,
        "{interval} instead of {low} – {high}"
    );
}
