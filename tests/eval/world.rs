//! `holdpoint eval world`, from the outside.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::shipped;

fn look(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdpoint"))
        .args(["eval", "world"])
        .arg(folder)
        .args(args)
        .output()
        .unwrap()
}

fn started() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine");
    let made = look(&path, &["--init"]);
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    (folder, path)
}

fn change(path: &Path, file: &str, from: &str, to: &str) {
    let path = path.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from}");
    fs::write(&path, text.replace(from, to)).unwrap();
}

fn error(path: &Path) -> String {
    let ended = look(path, &[]);
    let error = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{error}");
    error
}

#[test]
fn a_world_to_start_from_is_whole() {
    let (_folder, path) = started();
    let found = look(&path, &["--json"]);
    assert!(
        found.status.success(),
        "{}",
        String::from_utf8_lossy(&found.stderr)
    );
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(found["database"], "sqlite");
    let refund = &found["tools"][1];
    assert_eq!(refund["tool"], "refund");
    assert_eq!(refund["writes"], serde_json::json!(["orders", "refunds"]));
    assert_eq!(
        refund["example"]["changed"],
        serde_json::json!([["orders", 1, 1], ["refunds", 1, 0]])
    );
    assert_eq!(
        found["tools"][0]["example"]["changed"],
        serde_json::json!([])
    );
    assert_eq!(found["missing"], serde_json::json!([]));
    // The same start state has the same hash.
    let again: Value = serde_json::from_slice(&look(&path, &["--json"]).stdout).unwrap();
    assert_eq!(found["start"], again["start"]);
    // It is not overwritten.
    let twice = look(&path, &["--init"]);
    assert_eq!(twice.status.code(), Some(2));
}

#[test]
fn what_is_wrong_with_a_world_is_told_at_its_line() {
    for (file, from, to, says) in [
        (
            "world.yaml",
            "UPDATE orders SET state",
            "UPDATE order SET state",
            "world.yaml:40",
        ),
        (
            "world.yaml",
            "cents: 400}",
            "cents: 4000}",
            "the example of `refund` fails: there is no paid order",
        ),
        (
            "world.yaml",
            "cents: 400}",
            "sum: 400}",
            "`sum` is not among the tool's arguments",
        ),
        (
            "world.yaml",
            "{principal: ann, args: {order_id: ord-1, cents",
            "{principal: eve, args: {order_id: ord-1, cents",
            "`eve` is not among the principals",
        ),
        (
            "world.yaml",
            "SELECT EXISTS (SELECT 1 FROM refunds WHERE order_id = :order_id)",
            "DELETE FROM refunds RETURNING 1",
            "must be one SELECT",
        ),
        (
            "world.yaml",
            "ignore: [{table: visits}]",
            "ignore: [{table: visit}]",
            "visit",
        ),
        (
            "world.yaml",
            "VALUES (:call,",
            "VALUES (:call || random(),",
            "gives something else when it is made again",
        ),
        (
            "schema.sql",
            "CREATE TABLE visits",
            "CREATE TABEL visits",
            "schema.sql:16",
        ),
    ] {
        let (_folder, path) = started();
        change(&path, file, from, to);
        let said = error(&path);
        assert!(said.contains(says), "{to}: {said}");
    }
}

#[test]
fn a_call_that_changes_the_schema_is_undone_too() {
    let (_folder, path) = started();
    change(
        &path,
        "world.yaml",
        "- UPDATE orders SET state = 'REFUNDED' WHERE id = :order_id",
        "- CREATE TABLE more AS SELECT * FROM orders",
    );
    let found = look(&path, &["--json"]);
    assert!(
        found.status.success(),
        "{}",
        String::from_utf8_lossy(&found.stderr)
    );
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    let changed = found["tools"][1]["example"]["changed"].as_array().unwrap();
    let tables: Vec<_> = changed.iter().map(|it| it[0].as_str().unwrap()).collect();
    assert_eq!(tables, ["more", "refunds", "sqlite_schema"]);
}

/// A suite takes a world over and adds to it; what is missing for a database is an error before anything runs.
#[test]
fn a_suite_takes_a_world_over() {
    let (folder, world) = started();
    let suite = folder.path().join("suite");
    fs::create_dir(&suite).unwrap();
    let yaml = "version: 1\nname: taken\nabout: A.\nsource: B.\nlicence: MIT\npolicy: policy.yaml\nworld: ../mine\n\
        assertions: {state: \"SELECT count(*) = 1 FROM orders WHERE state = 'REFUNDED'\"}\n";
    let policy = "version: 1\nname: p\ntools:\n  - {tool: get_order, effect: read}\n  - {tool: refund, effect: write}\n\
        layers: {catalog: off, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: off}\n";
    let case = r#"{"id": "own", "kind": "control", "principal": "ann", "params": {"order_id": "ord-1"}, "steps": [
        {"user": "Refund it."}, {"calls": [{"id": "c1", "tool": "refund", "args": {"order_id": "ord-1", "cents": 4}}]}],
        "expect": {"must": ["refunded", "state"], "may_change": ["own_refund"]}}"#;
    fs::write(suite.join("suite.yaml"), yaml).unwrap();
    fs::write(suite.join("policy.yaml"), policy).unwrap();
    fs::write(suite.join("cases.jsonl"), case.replace('\n', " ")).unwrap();
    let report = crate::support::report(&suite, &[]);
    assert_eq!(report["readings"][0]["controls"][0]["passed"]["x"], 1);
    // `eval world` looks at the world of a suite, too.
    assert!(look(&suite, &[]).status.success());
    fs::write(
        suite.join("suite.yaml"),
        yaml.replace("{state:", "{refunded:"),
    )
    .unwrap();
    let (code, said) = crate::support::failure(&suite, &[]);
    assert_eq!(code, 2);
    assert!(
        said.contains("`refunded` is in the world already"),
        "{said}"
    );
    change(
        &world,
        "world.yaml",
        "      sqlite: SELECT json_object",
        "      postgres: SELECT json_object",
    );
    change(
        &world,
        "world.yaml",
        "      postgres: SELECT json_build_object",
        "      sqlite: SELECT no_such_function",
    );
    let said = error(&world);
    assert!(said.contains("no such function"), "{said}");
}

#[test]
fn a_world_without_statements_for_the_database_says_so() {
    let (_folder, path) = started();
    change(
        &path,
        "world.yaml",
        "      sqlite: SELECT json_object",
        "      postgres: SELECT json_object",
    );
    change(
        &path,
        "world.yaml",
        "      postgres: SELECT json_build_object('id', id, 'state', state, 'cents', cents) FROM orders WHERE id = :order_id\n",
        "",
    );
    let said = error(&path);
    assert!(said.contains("there is nothing here for sqlite"), "{said}");
    assert!(
        said.contains("world.yaml:27") && said.contains("postgres, mysql"),
        "{said}"
    );
}

#[test]
fn a_database_is_named_by_a_variable_whose_value_is_never_told() {
    let (_folder, path) = started();
    let run = |value: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
        command
            .args(["eval", "world"])
            .arg(&path)
            .args(["--database", "WORLD_URL_OF_TEST"]);
        if let Some(value) = value {
            command.env("WORLD_URL_OF_TEST", value);
        }
        let ended = command.output().unwrap();
        assert_eq!(ended.status.code(), Some(2));
        String::from_utf8(ended.stderr).unwrap()
    };
    assert!(run(None).contains("WORLD_URL_OF_TEST is not set"));
    assert!(run(Some("oracle://u:s3cret@h/d")).contains("none of PostgreSQL or MySQL"));
    let gone = run(Some("postgresql://u:s3cret@127.0.0.1:1/d"));
    assert!(
        gone.contains("cannot be made on the server of WORLD_URL_OF_TEST"),
        "{gone}"
    );
    assert!(!gone.contains("s3cret"), "{gone}");
}

#[test]
fn the_worlds_of_the_shipped_suites_are_whole() {
    for suite in [
        "refund-ownership",
        "refund-ownership-buyer",
        "refund-ownership-identity",
    ] {
        let ended = look(&shipped(suite), &[]);
        assert!(
            ended.status.success(),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }
}

/// The page shows the very file that `--init` writes, which the tests above run.
#[test]
fn the_world_of_the_page_is_the_one_that_is_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/eval.md")).unwrap();
    let (_folder, path) = started();
    let written = fs::read_to_string(path.join("world.yaml")).unwrap();
    assert!(page.contains(&format!("```yaml\n{written}```\n")));
}
