//! Worlds of `eval` on real servers: the same report as on SQLite, a judge that cannot write, and nothing left behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::servers::{Server, wanted};

/// The variable that names the server to the command.
const VARIABLE: &str = "WORLD_DATABASE_URL";

fn command(server: Option<&Server>, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
    command.arg("eval").args(words);
    if let Some(server) = server {
        command
            .args(["--database", VARIABLE])
            .env(VARIABLE, server.url("admin"));
    }
    command
}

fn shipped(suite: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("evalsets").join(suite)
}

fn succeeded(ended: &Output) -> Value {
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{error}");
    serde_json::from_slice(&ended.stdout).unwrap()
}

fn report(server: Option<&Server>, suite: &Path) -> Value {
    let suite = suite.to_str().unwrap();
    let mut report = succeeded(&command(server, &["run", suite, "--json"]).output().unwrap());
    // Of the files that were read, and each database reads its own schema.
    report["suite"]["digest"].take();
    report
}

/// A copy of the refund suite with fewer quiet trials.
fn small() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("refund-ownership");
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(shipped("refund-ownership")).unwrap() {
        let from = entry.unwrap().path();
        let text = std::fs::read_to_string(&from).unwrap();
        let text = text.replace("trials: 60", "trials: 24");
        std::fs::write(to.join(from.file_name().unwrap()), text).unwrap();
    }
    (folder, to)
}

/// What `eval` has made on the server and not removed.
async fn left_behind(server: &Server, postgres: bool) -> String {
    if postgres {
        return server
            .asked(
                "SELECT count(*)::text FROM (SELECT datname FROM pg_database WHERE datname LIKE 'holdpoint_eval%' \
                 UNION ALL SELECT rolname FROM pg_roles WHERE rolname LIKE 'holdpoint_eval%') AS x",
            )
            .await;
    }
    server
        .asked(
            "SELECT CAST(count(*) AS CHAR) FROM (SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'hpeval%' \
             UNION ALL SELECT user FROM mysql.user WHERE user LIKE 'hpeval%') AS x",
        )
        .await
}

async fn gives_what_sqlite_gives(server: &Server, postgres: bool) {
    let (_folder, suite) = small();
    let expected = report(None, &suite);
    let off = &expected["readings"][0]["arms"][0]["attack"]["asr"];
    assert_eq!((&off["x"], &off["n"]), (&json!(55), &json!(120)));
    let found = report(Some(server), &suite);
    assert_eq!(found, expected);
    assert_eq!(left_behind(server, postgres).await, "0");

    // What examples do, too, and that the start state comes back.
    for world in ["refund-ownership", "templates/world"] {
        let world = shipped(world);
        let look = |server| {
            let words = ["world", world.to_str().unwrap(), "--json"];
            let mut found = succeeded(&command(server, &words).output().unwrap());
            for key in ["database", "start"] {
                assert!(found[key].take().is_string());
            }
            // Spaces in JSON are the server's own.
            for tool in found["tools"].as_array_mut().unwrap() {
                if let Value::String(text) = &mut tool["example"]["text"] {
                    *text = text.replace(": ", ":").replace(", ", ",");
                }
            }
            found
        };
        assert_eq!(look(Some(server)), look(None), "{}", world.display());
    }
    assert_eq!(left_behind(server, postgres).await, "0");
    undoes_what_a_call_does_to_the_schema(server);
}

/// Statements of a tool that make a table: the world is made anew.
fn undoes_what_a_call_does_to_the_schema(server: &Server) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine");
    let path = path.to_str().unwrap();
    assert!(
        command(None, &["world", path, "--init"])
            .status()
            .unwrap()
            .success()
    );
    let file = Path::new(path).join("world.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let from = "- UPDATE orders SET state = 'REFUNDED' WHERE id = :order_id";
    assert!(text.contains(from));
    let text = text.replace(from, "- CREATE TABLE more AS SELECT * FROM orders");
    std::fs::write(&file, &text).unwrap();
    let found = succeeded(
        &command(Some(server), &["world", path, "--json"])
            .output()
            .unwrap(),
    );
    let changed = found["tools"][1]["example"]["changed"].as_array().unwrap();
    assert!(changed.iter().any(|it| it[0] == "more"), "{changed:?}");
    // A statement that the server does not take is told at its line.
    std::fs::write(
        &file,
        text.replace("CREATE TABLE more AS", "CREATE TABEL more AS"),
    )
    .unwrap();
    let ended = command(Some(server), &["world", path]).output().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{error}");
    assert!(error.contains("world.yaml:40"), "{error}");
    assert!(!error.contains("ss:word"), "{error}");
}

/// The server goes away under a run, which ends with an error; when it is back the run goes on to the whole report.
async fn survives_a_server_that_goes_away(mut server: Server) {
    let (folder, suite) = small();
    let expected = report(None, &suite);
    let out = folder.path().join("out");
    let words = ["run", suite.to_str().unwrap(), "--json"];
    let mut running = command(Some(&server), &words)
        .args(["--jobs", "2", "--out"])
        .arg(&out)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = out.join("trials.jsonl");
    let lines = || std::fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    while lines() < 10 {
        sleep(Duration::from_millis(2));
        assert!(running.try_wait().unwrap().is_none(), "it ended too early");
    }
    server.stop();
    let ended = running.wait_with_output().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{error}");
    assert!(error.contains("the world's database is gone"), "{error}");
    assert!(error.contains("--resume"), "{error}");
    assert!(!out.join("report.json").exists());
    server.start_again().await;
    let resumed = command(Some(&server), &words)
        .arg("--resume")
        .arg(&out)
        .output()
        .unwrap();
    let mut report = succeeded(&resumed);
    report["suite"]["digest"].take();
    assert_eq!(report, expected);
}

#[tokio::test]
async fn postgres_gives_what_sqlite_gives() {
    if !wanted() {
        return;
    }
    let server = Server::postgres().await;
    gives_what_sqlite_gives(&server, true).await;
}

#[tokio::test]
async fn mysql_gives_what_sqlite_gives() {
    if !wanted() {
        return;
    }
    let server = Server::mysql().await;
    gives_what_sqlite_gives(&server, false).await;
}

#[tokio::test]
async fn postgres_may_go_away() {
    if wanted() {
        survives_a_server_that_goes_away(Server::postgres().await).await;
    }
}

#[tokio::test]
async fn mysql_may_go_away() {
    if wanted() {
        survives_a_server_that_goes_away(Server::mysql().await).await;
    }
}
