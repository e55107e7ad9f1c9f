//! The real binary around a scripted server.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

pub const BINARY: &str = env!("CARGO_BIN_EXE_holdpoint");

/// Longer than anything here takes on a busy machine: a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server in shell: `answer ID RESULT`, `say MESSAGE`, and a `case` over each line; what it gets is in `$GOT`.
const PRELUDE: &str = r#"
say() { printf '%s\n' "$1"; }
answer() { say "{\"jsonrpc\":\"2.0\",\"id\":$1,\"result\":$2}"; }
text() { answer "$1" "{\"content\":[{\"type\":\"text\",\"text\":\"$2\"}]}"; }
next() { IFS= read -r line || exit "${1:-0}"; say "$line" >>"$GOT"; }
hello() {
    next
    answer 0 '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
    next
}
"#;

/// What runs.
pub struct Wrapped {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<String>,
    errors: Receiver<String>,
    folder: TempDir,
}

impl Wrapped {
    /// A server that runs the script, with nothing but the defaults.
    pub fn plain(script: &str) -> Self {
        Self::with(script, "", |_| {})
    }

    /// With a policy, unless it is empty, and what `more` adds to the command; `{}` in arguments is not replaced.
    pub fn with(script: &str, policy: &str, more: impl FnOnce(&mut Command)) -> Self {
        let folder = TempDir::new().unwrap();
        let mut command = Command::new(BINARY);
        command.arg("mcp-wrap");
        if !policy.is_empty() {
            let path = folder.path().join("policy.yaml");
            std::fs::write(&path, policy).unwrap();
            command.arg("--policy").arg(path);
        }
        command
            .env("GOT", folder.path().join("got"))
            .current_dir(folder.path());
        more(&mut command);
        command
            .args(["--", "sh", "-c"])
            .arg(format!("{PRELUDE}\n{script}"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: lines(child.stdout.take().unwrap()),
            errors: lines(child.stderr.take().unwrap()),
            child,
            folder,
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn raw(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        self.raw(&message.to_string());
    }

    pub fn call(&mut self, id: impl Into<Value>, tool: &str, arguments: &Value) {
        let params = json!({"name": tool, "arguments": arguments});
        self.send(
            &json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params}),
        );
    }

    /// The next message for the client.
    pub fn next(&mut self) -> Value {
        let line = self.output.recv_timeout(PATIENCE).expect("a message");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"))
    }

    /// The handshake of the eras that have one.
    pub fn shake_hands(&mut self) -> Value {
        let client = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        self.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client}));
        let answer = self.next();
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    /// A line of standard error that has this in it.
    pub fn hears(&mut self, what: &str) -> String {
        let mut seen = Vec::new();
        while let Ok(line) = self.errors.recv_timeout(PATIENCE) {
            if line.contains(what) {
                return line;
            }
            seen.push(line);
        }
        panic!("no `{what}` in {seen:#?}");
    }

    pub fn signal(&self, name: &str) {
        let done = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status();
        assert!(done.unwrap().success());
    }

    /// No more lines from the client.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// The exit code, and what was said until then.
    pub fn end(mut self) -> (i32, Vec<Value>) {
        self.close();
        self.wait()
    }

    /// The same, with the client still there.
    pub fn wait(&mut self) -> (i32, Vec<Value>) {
        let mut rest = Vec::new();
        while let Ok(line) = self.output.recv_timeout(PATIENCE) {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        (self.child.wait().unwrap().code().unwrap(), rest)
    }

    /// What the server has got so far.
    pub fn got(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("got")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(source: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        // What is no line of text is no message either: the test that waits for one fails.
        for line in BufReader::new(source).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
