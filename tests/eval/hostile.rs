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
    let _ = report(&buyer().path(), &[]);
}
