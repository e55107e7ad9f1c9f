//! Runs that end before their time, or whose report cannot be written.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::support::shipped;

fn command(suite: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
    command.args(["eval", "run"]).arg(shipped(suite));
    command
}

fn is_empty(folder: &Path) -> bool {
    folder.read_dir().unwrap().next().is_none()
}

/// Ended from the keyboard or for good, at some moment: what is done stays, and the rest gives the report of an undisturbed run.
#[test]
fn a_run_that_is_stopped_goes_on_to_the_same_report() {
    let undisturbed = command("refund-ownership").arg("--json").output().unwrap();
    assert!(undisturbed.status.success());
    let folder = tempfile::tempdir().unwrap();
    let [out, temporary] = ["out", "tmp"].map(|name| folder.path().join(name));
    std::fs::create_dir(&temporary).unwrap();
    let log = out.join("trials.jsonl");
    let lines = || std::fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    let mut seen = 0;
    for (round, signal) in ["-INT", "-KILL", "-INT", "-KILL"].into_iter().enumerate() {
        let mut running = command("refund-ownership");
        running.arg(if round == 0 { "--out" } else { "--resume" });
        let mut running = running
            .arg(&out)
            .args(["--jobs", "2"])
            .env("TMPDIR", &temporary)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Trials are being written: some more than before, and not the last of the six hundred.
        while lines() < seen + 20 + 7 * round {
            sleep(Duration::from_millis(1));
            assert!(running.try_wait().unwrap().is_none(), "it ended too early");
        }
        let id = running.id().to_string();
        let killed = Command::new("kill").args([signal, &id]).status();
        assert!(killed.unwrap().success());
        let ended = running.wait_with_output().unwrap();
        let error = String::from_utf8(ended.stderr).unwrap();
        if signal == "-INT" {
            assert_eq!(ended.status.code(), Some(1), "{error}");
            assert!(error.contains("stopped before its end"), "{error}");
            assert!(error.contains("--resume"), "{error}");
        }
        // A process that is killed leaves its worlds behind, one that ends does not.
        assert!(round > 0 || is_empty(&temporary));
        assert!(!out.join("report.json").exists());
        seen = lines();
    }
    // Cut off in the middle of a line, as a machine without power would leave it.
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.get(..text.len() - 9).unwrap()).unwrap();
    let resume = |suite: &str| {
        let mut command = command(suite);
        command.args(["--json", "--resume"]).arg(&out);
        command.output().unwrap()
    };
    let other = resume("refund-ownership-buyer");
    let error = String::from_utf8(other.stderr).unwrap();
    assert_eq!(other.status.code(), Some(2), "{error}");
    assert!(error.contains("begun otherwise: another suite"), "{error}");
    let whole = resume("refund-ownership");
    let error = String::from_utf8(whole.stderr).unwrap();
    assert!(whole.status.success(), "{error}");
    // Standard error is a pipe: no progress is drawn.
    assert_eq!(error, "");
    assert_eq!(whole.stdout, undisturbed.stdout);
    assert!(out.join("report.json").exists());
    // Once more: nothing is left to do, and the report is the same.
    assert_eq!(resume("refund-ownership").stdout, undisturbed.stdout);
}

#[test]
fn a_folder_that_is_none_of_a_run_is_not_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command("refund-ownership-buyer");
    let ended = command.arg("--resume").arg(folder.path()).output().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{error}");
    assert!(error.contains("run.json` cannot be read"), "{error}");
    assert!(is_empty(folder.path()));
}

#[test]
fn a_run_that_ends_leaves_no_temporary_file() {
    let temporary = tempfile::tempdir().unwrap();
    let mut command = command("refund-ownership-buyer");
    let ended = command.env("TMPDIR", temporary.path()).output().unwrap();
    assert!(ended.status.success());
    assert!(is_empty(temporary.path()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_report_that_cannot_be_written_is_a_failure() {
    let mut command = command("refund-ownership-buyer");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ended = command.arg("--json").stdout(full).output().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{error}");
    assert!(
        error.contains("standard output cannot be written"),
        "{error}"
    );
}
