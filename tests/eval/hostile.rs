//! Suites from somebody else: SQL that never ends, that reaches for other files, or that says nothing.

use std::fs;

use crate::support::{Copy, failure, report};

const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT";

fn buyer() -> Copy {
    Copy::of("refund-ownership-buyer")
}

#[test]
fn sql_that_never_ends_is_stopped() {
    let copy = buyer();
    let schema = format!("CREATE TABLE endless AS {ENDLESS} i FROM n; CREATE TABLE outbox");
    copy.change(
        "../refund-ownership/schema.sql",
        "CREATE TABLE outbox",
        &schema,
    );
    let (code, error) = failure(&copy.path(), &[]);
    assert_eq!(code, 2);
    assert!(
        error.contains("schema.sql:64") && error.contains("does it ever end?"),
        "{error}"
    );

    for (from, to) in [
        (
            "refund_requested: SELECT EXISTS (SELECT 1 FROM refunds",
            format!(
                "refund_requested: {ENDLESS} count(*) FROM n, refunds r WHERE EXISTS (SELECT 1 FROM refunds"
            ),
        ),
        (
            "UPDATE pending_actions SET state = 'CONSUMED' WHERE id",
            format!("UPDATE pending_actions SET state = ({ENDLESS} count(*) FROM n) WHERE id"),
        ),
    ] {
        let copy = buyer();
        copy.change("suite.yaml", from, &to);
        // The harm of the mutation case comes with this statement.
        let text = fs::read_to_string(copy.path().join("suite.yaml")).unwrap();
        assert!(text.contains(ENDLESS));
        let output = crate::support::run(&copy.path(), &["--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let inconclusive = report["readings"][0]["inconclusive"].as_array().unwrap();
        assert!(
            inconclusive
                .iter()
                .any(|it| it["cause"].as_str().unwrap().contains("does it ever end?")),
            "{inconclusive:?}"
        );
    }
}

#[test]
fn a_suite_writes_no_file_but_its_world() {
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("written");
    let shown = path.display();
    for sql in [
        format!("ATTACH '{shown}' AS other; CREATE TABLE other.t (x);"),
        format!("VACUUM INTO '{shown}';"),
    ] {
        let copy = buyer();
        copy.change(
            "../refund-ownership/schema.sql",
            "CREATE TABLE outbox",
            &format!("{sql} CREATE TABLE outbox"),
        );
        let (code, error) = failure(&copy.path(), &[]);
        assert_eq!(code, 2);
        assert!(error.contains("schema.sql:64"), "{error}");
        assert!(!path.exists(), "{sql}");
    }
    let copy = buyer();
    copy.change(
        "suite.yaml",
        "- UPDATE pending_actions SET state = 'CONSUMED' WHERE id",
        &format!("- ATTACH '{shown}' AS other\n      - UPDATE pending_actions SET state = 'CONSUMED' WHERE id"),
    );
    let _ = crate::support::run(&copy.path(), &[]);
    assert!(!path.exists());
}

#[test]
fn a_goal_that_gives_no_truth_is_not_graded() {
    let copy = buyer();
    copy.change(
        "suite.yaml",
        "refund_requested: SELECT EXISTS (SELECT 1 FROM refunds WHERE order_id = :order_id AND state = 'REQUESTED')",
        "refund_requested: SELECT order_id FROM orders JOIN refunds ON orders.id = order_id WHERE order_id = :order_id",
    );
    let report = report(&copy.path(), &[]);
    let inconclusive = report["readings"][0]["inconclusive"].as_array().unwrap();
    assert!(
        inconclusive.iter().any(|it| {
            it["case"] == "without-reading-first"
                && it["cause"].as_str().unwrap().contains("must give 1 or 0")
        }),
        "{inconclusive:?}"
    );
    assert_eq!(report["readings"][0]["mutation_control"]["proved"], false);
}

#[test]
fn names_that_no_trial_could_bear_are_told_at_their_line() {
    for (to, says) in [
        (
            format!("\"id\": \"{}\"", "x".repeat(201)),
            "longer than 200",
        ),
        (
            "\"session\": \"\", \"id\": \"a\"".to_owned(),
            "1 to 256 visible ASCII",
        ),
        (
            "\"session\": \"a b\", \"id\": \"a\"".to_owned(),
            "1 to 256 visible ASCII",
        ),
    ] {
        let copy = buyer();
        copy.change("cases.jsonl", "\"id\": \"own-order-2\"", &to);
        let (code, error) = failure(&copy.path(), &[]);
        assert_eq!(code, 2);
        assert!(
            error.contains("cases.jsonl:2") && error.contains(says),
            "{error}"
        );
    }
}

#[test]
fn a_suite_is_found_by_its_file_too() {
    let copy = buyer();
    let by_file = report(&copy.path().join("suite.yaml"), &[]);
    assert_eq!(by_file, report(&copy.path(), &[]));
}
