//! `record`: whole exchanges on the disk without their secrets, and the same bytes on the wire as without it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::streams::{CHAT, EGRESS, end, event, text};
use crate::support::client::{ask, request};
use crate::support::rig::{Rig, config};
use crate::support::upstream::{EVENTS, Received, Step, Upstream, chunk, json as answers, send};

/// A key as a provider makes it, put together here.
fn key() -> String {
    format!("AK{}{}", "IA", "Q3EGRIWJ7VN2LK4M")
}

/// The upstream's own credential, as `UPSTREAM_KEY` has it.
const CREDENTIAL: &str = "upstream-secret";

async fn upstream() -> Upstream {
    Upstream::start(|received: &Received| script(received)).await
}

fn script(received: &Received) -> Vec<Step> {
    if received.target().contains("/send") {
        return answers(&json!({"sent": true, "token": key(), "by": CREDENTIAL}).to_string());
    }
    if received.text().contains("\"stream\"") {
        let key = key();
        let (before, after) = key.split_at(9);
        let call = |more: Value| event(&json!({"tool_calls": [more]}).to_string());
        let begin = json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "send", "arguments": "{\"url\":\"https://shop.example/"}});
        let piece = |text: &str| json!({"index": 0, "function": {"arguments": text}});
        return vec![
            send(EVENTS),
            chunk(text("Here: ")),
            chunk(text(before)),
            chunk(text(after)),
            chunk(call(begin)),
            chunk(call(piece(before))),
            chunk(call(piece(&format!("{after}\"}}")))),
            chunk(end("tool_calls")),
            chunk(""),
        ];
    }
    let call = |id: &str, url: &str| json!({"id": id, "type": "function", "function": {"name": "send", "arguments": json!({"url": url}).to_string()}});
    answers(
        &json!({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0,
            "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null,
            "tool_calls": [call("good", "https://shop.example/a"), call("bad", "https://thief.example/b")]}}]})
        .to_string(),
    )
}

/// What agents send.
fn requests() -> Vec<Vec<u8>> {
    let chat = |more: Value| {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": format!("My key is {}.", key())}]});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        request(
            "POST",
            CHAT,
            &[
                ("content-type", "application/json"),
                ("authorization", "Bearer the-agents-own-bearer"),
                ("cookie", "sid=the-agents-cookie"),
                ("holdpoint-session", "the-session"),
            ],
            body.to_string(),
        )
    };
    let tool = request(
        "POST",
        "/shop/send",
        &[("content-type", "application/json")],
        json!({"url": "https://shop.example/x", "text": "hello"}).to_string(),
    );
    vec![chat(json!({})), chat(json!({"stream": true})), tool]
}

fn lines(folder: &Path) -> Vec<Value> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let texts = files.iter().map(|file| {
        assert_eq!(
            fs::metadata(file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::read_to_string(file).unwrap()
    });
    let texts: Vec<_> = texts.collect();
    texts
        .iter()
        .flat_map(|text| text.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Everything that left for the upstream and came back to the agent, but for what differs by itself from one process to the next.
async fn exchanged(record: Option<&Path>) -> (Vec<String>, Vec<String>, String) {
    let upstream = upstream().await;
    let more = record.map_or_else(String::new, |folder| {
        format!("record: {{directory: \"{}\"}}\n", folder.display())
    });
    let mut rig = Rig::start(
        &config(&format!("http://{}", upstream.address), &more),
        EGRESS,
    )
    .await;
    let mut got = Vec::new();
    for one in requests() {
        got.push(ask(rig.agents(), one).await.text().to_owned());
    }
    // What was not asked for is not written either.
    ask(rig.agents(), request("GET", "/nowhere", &[], "")).await;
    let scrape = rig.scrape().await;
    rig.take().shutdown().await;
    let sent = upstream
        .received()
        .iter()
        .map(|received| received.text().to_owned())
        .collect();
    (sent, got, scrape)
}

#[tokio::test]
async fn a_recording_changes_no_byte_and_holds_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("rec");
    let plain = exchanged(None).await;
    let recorded = exchanged(Some(&record)).await;
    assert_eq!(plain.0, recorded.0, "to the upstream");
    assert_eq!(plain.1, recorded.1, "to the agent");
    assert!(plain.2.contains("holdpoint_recording 0\n"));
    assert!(recorded.2.contains("holdpoint_recording 1\n"));

    assert_eq!(
        fs::metadata(&record).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let lines = lines(&record);
    assert_eq!(lines.len(), 3);
    let all = lines.iter().map(Value::to_string).collect::<String>();
    for secret in [
        key().as_str(),
        CREDENTIAL,
        "the-agents-own-bearer",
        "the-agents-cookie",
        "the-session",
        "\"ann\"",
    ] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    let [whole, stream, tool] = lines.as_slice() else {
        panic!()
    };
    assert_eq!(
        (&whole["protocol"], &whole["route"]),
        (&json!("openai_chat"), &json!("model"))
    );
    let body = whole["answer"]["content"]["body"].as_str().unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        body["choices"][0]["message"]["tool_calls"][1]["id"], "bad",
        "as the model said it, before it was judged"
    );
    let verdicts: Vec<_> = whole["judged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|said| (said["call"].as_str(), said["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(verdicts, [(Some("good"), "allow"), (Some("bad"), "deny")]);
    assert_eq!(whole["judged"][1]["reason"], "host_not_allowed");
    assert_eq!(whole["principal"], stream["principal"]);
    assert_eq!(whole["session"], stream["session"]);

    let events = stream["answer"]["content"]["body"].as_str().unwrap();
    assert!(
        events.contains("Here: ") && events.contains("[DONE]") && events.contains("withheld"),
        "{events}"
    );
    assert_eq!(tool["request"]["path"], "/send");
    assert!(
        tool["answer"]["content"]["body"]
            .as_str()
            .unwrap()
            .contains("\"sent\":true")
    );
}

#[tokio::test]
async fn a_full_file_is_followed_by_another_and_a_folder_that_cannot_be_made_is_no_start() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = upstream().await;
    let record = folder.path().join("rec");
    let more = format!(
        "record: {{directory: \"{}\", file_size: 1KiB}}\n",
        record.display()
    );
    let mut rig = Rig::start(
        &config(&format!("http://{}", upstream.address), &more),
        EGRESS,
    )
    .await;
    for one in requests().iter().chain(&requests()) {
        ask(rig.agents(), one).await;
    }
    rig.take().shutdown().await;
    assert_eq!(lines(&record).len(), 6);
    assert!(fs::read_dir(&record).unwrap().count() > 3);

    fs::write(folder.path().join("file"), "").unwrap();
    let more = format!(
        "record: {{directory: \"{}/file\"}}\n",
        folder.path().display()
    );
    let config = config(&format!("http://{}", upstream.address), &more);
    let folder = tempfile::tempdir().unwrap();
    let (settings, policy) = crate::support::rig::load(folder.path(), &config, EGRESS);
    let stores = holdpoint::serve::open_stores(&settings).unwrap();
    let started = holdpoint::serve::start(settings.into(), policy.into(), stores).await;
    let problems = started.unwrap_err().to_string();
    assert!(
        problems.contains("cannot record to") && problems.contains("record.directory"),
        "{problems}"
    );
}

#[tokio::test]
async fn a_disk_that_takes_no_more_stops_the_recording_and_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = upstream().await;
    let record = folder.path().join("rec");
    let more = format!(
        "record: {{directory: \"{}\", file_size: 1B}}\n",
        record.display()
    );
    let mut rig = Rig::start(
        &config(&format!("http://{}", upstream.address), &more),
        EGRESS,
    )
    .await;
    let first = requests().remove(0);
    let before = ask(rig.agents(), &first).await;
    // The next file cannot be made where the folder is gone.
    fs::remove_dir_all(&record).unwrap();
    let after = ask(rig.agents(), &first).await;
    assert_eq!(before.text(), after.text());
    let mut scrape = rig.scrape().await;
    while scrape.contains("holdpoint_recording 1\n") {
        ask(rig.agents(), &first).await;
        scrape = rig.scrape().await;
    }
    assert!(
        scrape.contains("holdpoint_unrecorded_exchanges_total{reason=\"disk\"} 1\n"),
        "{scrape}"
    );
    let after = ask(rig.agents(), &first).await;
    assert_eq!(before.text(), after.text());
    rig.take().shutdown().await;
}

#[tokio::test]
async fn what_was_recorded_is_replayed_against_another_policy() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("rec");
    exchanged(Some(&record)).await;
    let diff = |policy: &str| {
        let file = folder.path().join("policy.yaml");
        fs::write(&file, policy).unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_holdpoint"))
            .args(["policy", "diff", "--json"])
            .arg(file)
            .arg("--recordings")
            .arg(&record)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    // Two calls of the first answer and one on the tool's own route; that of the stream was refused for a secret, which the
    // recording does not have.
    let same = diff(EGRESS);
    assert_eq!(same["changes"], json!([]), "{same:#}");
    assert_eq!(
        (&same["exchanges"], &same["calls"]),
        (&json!(3), &json!(3)),
        "{same:#}"
    );
    let strict = EGRESS
        .replace(
            ", executes_at: agent, egress: [{at: /url, allow: [ours]}]",
            ", deny: true",
        )
        .replace("catalog: off", "catalog: enforce")
        .replace("egress: enforce", "egress: off")
        .replace("lists: {ours: {hosts: [shop.example]}}\n", "");
    let report = diff(&strict);
    assert_eq!(report["counts"]["newly_blocked"], 2, "{report:#}");
    assert_eq!(report["counts"]["other_reason"], 1, "{report:#}");
}
