//! The README's files and commands do what it says.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

const README: &str = include_str!("../README.md");
const BINARY: &str = env!("CARGO_BIN_EXE_holdpoint");

/// Files that the README tells to write: a comment with the name, then a fenced block, indented as in a list.
fn write_files(folder: &Path) -> usize {
    let mut written = 0;
    for part in README.split("<!-- file: ").skip(1) {
        let (name, rest) = part.split_once(" -->").expect("a closed comment");
        let (_, rest) = rest
            .split_once("```yaml\n")
            .expect("a block after the comment");
        let (body, _) = rest.split_once("```").expect("a closed block");
        let lines: Vec<_> = body
            .lines()
            .map(|line| line.strip_prefix("   ").unwrap_or(line))
            .collect();
        fs::write(folder.join(name), lines.join("\n")).expect("a file in a fresh folder");
        written += 1;
    }
    written
}

/// Commands in the README's console blocks that begin with the binary's name.
fn commands() -> Vec<Vec<&'static str>> {
    README
        .lines()
        .filter_map(|line| line.trim().strip_prefix("$ holdpoint "))
        .map(|command| command.split_whitespace().collect())
        .collect()
}

#[test]
fn every_command_is_one_that_the_binary_knows() {
    let commands = commands();
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        let words = command
            .iter()
            .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase()));
        let output = Command::new(BINARY)
            .args(words)
            .arg("--help")
            .output()
            .unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{command:?}");
        for option in command.iter().filter(|word| word.starts_with("--")) {
            assert!(help.contains(option), "{command:?}: {option}");
        }
    }
}

#[test]
fn links_lead_to_files() {
    for part in README.split("](").skip(1) {
        let target = part.split(')').next().unwrap();
        if !target.starts_with("http") {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(target);
            assert!(path.exists(), "{target}");
        }
    }
}

#[test]
fn the_five_minutes_work_in_front_of_an_upstream() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(write_files(folder.path()), 2);
    let check = Command::new(BINARY)
        .args([
            "policy",
            "check",
            "policy.yaml",
            "--config",
            "holdpoint.yaml",
        ])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(
        check.status.success(),
        "{}",
        String::from_utf8_lossy(&check.stderr)
    );

    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "upstreams.openai.url=http://{}",
        upstream.local_addr().unwrap()
    );
    let mut serve = Command::new(BINARY)
        .args(["serve", "--config", "holdpoint.yaml", "--set", &url])
        .args([
            "--listen-agents",
            "127.0.0.1:0",
            "--listen-operations",
            "127.0.0.1:0",
        ])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = BufReader::new(serve.stderr.take().unwrap());
    let line = log
        .lines()
        .map(Result::unwrap)
        .find(|line| line.contains("agents listener"))
        .unwrap();
    let address = line.rsplit_once("address=").unwrap().1.to_owned();

    let answering = std::thread::spawn(move || answer(&upstream));
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;
    let answer = post(&address, "/openai/v1/chat/completions", body);
    let asked = answering.join().unwrap();
    assert!(
        asked.starts_with("POST /v1/chat/completions HTTP/1.1"),
        "{asked}"
    );
    assert!(
        asked.contains("sk-of-the-agent") && asked.ends_with(body),
        "{asked}"
    );
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("hello back"),
        "{answer}"
    );
    serve.kill().unwrap();
    serve.wait().unwrap();
}

/// One chat answer; gives back the request.
fn answer(upstream: &TcpListener) -> String {
    let (mut stream, _) = upstream.accept().unwrap();
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !request.ends_with(b"}]}") {
        let read = stream.read(&mut piece).unwrap();
        assert_ne!(read, 0);
        request.extend_from_slice(&piece[..read]);
    }
    let body = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello back"},"finish_reason":"stop"}]}"#;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    String::from_utf8(request).unwrap()
}

fn post(address: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer sk-of-the-agent\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
