//! The demo as a user runs it, and what an edited policy does to it.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Lines about the database, one per scene.
fn databases(policy: Option<PathBuf>) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
    command.args(["demo", "--exit"]);
    if let Some(policy) = policy {
        command.arg("--policy").arg(policy);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("database"))
        .map(|line| line.trim().to_owned())
        .collect()
}

/// The demo's policy with one line changed.
fn edited(from: &str, to: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    let policy = holdpoint::demo::POLICY;
    assert_eq!(policy.matches(from).count(), 1, "{from}");
    std::fs::write(&path, policy.replace(from, to)).unwrap();
    (folder, path)
}

#[test]
fn five_scenes_change_only_what_the_policy_allows() {
    let none = "refunds: 0, emails: 0";
    let one = "refunds: 1 (A-1001 19.90), emails: 0";
    assert_eq!(databases(None), [none, none, none, one, one]);
}

#[test]
fn the_scenes_follow_the_policy() {
    let (_folder, recipients_off) = edited("recipients: enforce", "recipients: off");
    let after = databases(Some(recipients_off));
    assert_eq!(after[1], "refunds: 0, emails: 1 (books@ledger.example)");

    let (_folder, tickets_off) = edited("tickets: enforce", "tickets: off");
    let after = databases(Some(tickets_off));
    assert_eq!(after[3], "refunds: 1 (A-1001 19.90), emails: 0");
}

#[test]
fn without_injection_and_recipients_the_planted_review_wins() {
    let (_folder, path) = edited("injection: enforce", "injection: off");
    let policy = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        policy.replace("recipients: enforce", "recipients: off"),
    )
    .unwrap();
    let after = databases(Some(path));
    assert_eq!(after[0], "refunds: 0, emails: 1 (collector@drop.example)");
}

#[test]
fn a_request_waits_for_you_and_goes_through_once_you_approve() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
        .arg("demo")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut after = |mark: &str| {
        let line = lines.find(|line| line.contains(mark)).unwrap();
        line.split_once(mark).unwrap().1.to_owned()
    };
    let ticket = after("/tickets/");
    let store = after("ticket list --state requested --store ");
    let ask = |verb: &str, more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
            .args(["ticket", verb, &ticket, "--store", &store, "--json"])
            .args(more)
            .output()
            .unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_default()
    };
    let shown = ask("show", &[]);
    let digest = shown["digest"].as_str().unwrap_or_default();
    let approved = ask("approve", &["--digest", digest]);
    let database = (approved["state"] == "approved").then(|| after("database  "));
    demo.kill().unwrap();
    demo.wait().unwrap();
    assert_eq!(
        database.as_deref(),
        Some("refunds: 2 (A-1001 19.90; A-1001 4.90), emails: 0")
    );
}

#[test]
fn a_broken_policy_is_named_and_nothing_runs() {
    let (_folder, path) = edited("ownership: enforce", "ownershp: enforce");
    let output = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
        .args(["demo", "--exit", "--policy"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("ownershp") && errors.contains("ownership"),
        "{errors}"
    );
    assert!(output.stdout.is_empty());
}
