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

#[test]
fn a_run_that_is_stopped_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let [out, temporary] = ["out", "tmp"].map(|name| folder.path().join(name));
    std::fs::create_dir(&temporary).unwrap();
    let mut running = command("refund-ownership")
        .arg("--out")
        .arg(&out)
        .env("TMPDIR", &temporary)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Trials are being written.
    while !out.join("pessimistic").exists() {
        sleep(Duration::from_millis(5));
        assert!(running.try_wait().unwrap().is_none(), "it ended too early");
    }
    let id = running.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let ended = running.wait_with_output().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{error}");
    assert!(error.contains("stopped before its end"), "{error}");
    assert!(!out.exists());
    assert!(is_empty(&temporary));
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
