//! Recorded runs, read line by line: the Invariant Explorer export and the native AgentDojo run file, both into one
//! [`Trajectory`].
//!
//! Keys that the importer has no use for are skipped; labels that somebody added to a record are never looked at.

mod raw;

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use serde_json::{Map, Value};

use crate::wire::json::{BODY_DEPTH, Document};

/// Longest line that is read, in bytes after decompression.
const MAX_LINE: u64 = 64 << 20;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be opened or read.
    #[error("cannot read {}: {cause}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A line is not a recorded run.
    #[error("{}:{line}: {what}", .file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        what: String,
    },
}

/// What a run shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A user task while an injection waits in some tool output.
    Attack,
    /// A user task alone.
    Benign,
    /// The goal of an injection, given openly by the user: a legitimate request.
    GoalAsTask,
}

/// One recorded run, whatever format it came in.
#[derive(Clone, Debug, PartialEq)]
pub struct Trajectory {
    /// Line of its file, from 1.
    pub line: usize,
    /// Suite, such as `banking`.
    pub suite: String,
    /// The model, with its defence where the recording names one.
    pub pipeline: String,
    /// The user's task; an injection task's id where the goal was given openly.
    pub user_task: String,
    /// The injected goal.
    pub injection_task: Option<String>,
    /// Name of the template that wraps the goal.
    pub attack: Option<String>,
    /// What the run shows.
    pub kind: Kind,
    /// The conversation, in order; positions are those of the record.
    pub messages: Vec<Message>,
    /// Upstream's flag: the user's task was done.
    pub utility: Option<bool>,
    /// Upstream's flag: the attacker's goal was met. `None` in a run without attack, where upstream sets it anyway.
    pub security: Option<bool>,
    /// Injected text by injection point; empty where the format does not record it.
    pub injections: BTreeMap<String, String>,
    /// Why the run broke off, where the model could not be asked.
    pub error: Option<String>,
}

impl Trajectory {
    /// Text of the system prompt and of every user turn.
    pub fn said_by_people(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().filter_map(|message| match message {
            Message::System(text) | Message::User(text) => Some(text.as_str()),
            Message::Assistant { .. } | Message::Output(_) => None,
        })
    }

    /// Every call with the position of its message and its position there.
    pub fn calls(&self) -> impl Iterator<Item = (usize, usize, &Call)> {
        self.messages.iter().enumerate().flat_map(|(at, message)| {
            let calls: &[Call] = match message {
                Message::Assistant { calls, .. } => calls,
                _ => &[],
            };
            calls
                .iter()
                .enumerate()
                .map(move |(index, call)| (at, index, call))
        })
    }

    /// Every tool output with the position of its message.
    pub fn outputs(&self) -> impl Iterator<Item = (usize, &Output)> {
        self.messages
            .iter()
            .enumerate()
            .filter_map(|(at, message)| match message {
                Message::Output(output) => Some((at, output)),
                _ => None,
            })
    }
}

/// One turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The operator's instructions.
    System(String),
    /// The user; a defence may repeat the task in a later turn.
    User(String),
    /// The model.
    Assistant {
        /// What it said; may be empty.
        text: String,
        /// What it asked to run, in order.
        calls: Vec<Call>,
    },
    /// What a tool gave back.
    Output(Output),
}

/// A recorded call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Unique in the trajectory: as recorded, or made up where the record has none or the same twice.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub args: Map<String, Value>,
}

/// A recorded tool output.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Id of the call it answers.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// What it gave back.
    pub text: String,
    /// Why the tool itself failed.
    pub error: Option<String>,
}

/// The recorded runs of one file, one per line; blank lines are skipped.
pub struct Records {
    file: PathBuf,
    from: Box<dyn BufRead>,
    line: usize,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records")
            .field("file", &self.file)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

/// Opens a `.jsonl` file, or a `.jsonl.gz` file.
///
/// # Errors
/// The file cannot be opened.
pub fn open(file: &Path) -> Result<Records, RecordError> {
    let opened = File::open(file).map_err(|cause| RecordError::File {
        file: file.to_owned(),
        cause,
    })?;
    let plain = BufReader::new(opened);
    let from: Box<dyn BufRead> = if file.extension().is_some_and(|ending| ending == "gz") {
        Box::new(BufReader::new(MultiGzDecoder::new(plain)))
    } else {
        Box::new(plain)
    };
    Ok(Records {
        file: file.to_owned(),
        from,
        line: 0,
    })
}

impl Iterator for Records {
    type Item = Result<Trajectory, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut line = Vec::new();
            self.line += 1;
            match (&mut self.from)
                .take(MAX_LINE + 1)
                .read_until(b'\n', &mut line)
            {
                Ok(0) => return None,
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(read) if read as u64 > MAX_LINE => {
                    let longest = MAX_LINE >> 20;
                    return Some(Err(
                        self.bad(format!("the line is longer than {longest} MiB"))
                    ));
                }
                Ok(_) => {
                    let read = trajectory(Bytes::from(line), self.line);
                    return Some(read.map_err(|what| self.bad(what)));
                }
                Err(cause) => {
                    return Some(Err(RecordError::File {
                        file: self.file.clone(),
                        cause,
                    }));
                }
            }
        }
    }
}

impl Records {
    fn bad(&self, what: String) -> RecordError {
        RecordError::Line {
            file: self.file.clone(),
            line: self.line,
            what,
        }
    }
}

fn trajectory(bytes: Bytes, line: usize) -> Result<Trajectory, String> {
    let document = Document::read(bytes, BODY_DEPTH)
        .map_err(|e| format!("no JSON object: {} at column {}", e.what, e.column))?;
    let root = document.root();
    let explorer = root.get("metadata").is_some_and(|m| !m.is_null());
    if !explorer && root.get("suite_name").is_none() {
        return Err(
            "neither an Invariant Explorer export (an object with `metadata` and `messages`) nor a native AgentDojo \
             run (an object with `suite_name` and `messages`)"
                .to_owned(),
        );
    }
    let (value, _) = document
        .value(root)
        .map_err(|e| format!("no JSON object: {} at column {}", e.what, e.column))?;
    let mut read: Trajectory = if explorer {
        raw::explorer(value)
    } else {
        raw::native(value)
    }?;
    read.line = line;
    unwrap_spotlight(&mut read);
    Ok(read)
}

/// A recorded agent with the defence "spotlighting" set every output between `<<` and `>>`. That is the agent's own doing, so
/// it is undone: the proxy sees what the tool gave.
fn unwrap_spotlight(run: &mut Trajectory) {
    if !run.pipeline.ends_with("spotlighting_with_delimiting") {
        return;
    }
    for message in &mut run.messages {
        if let Message::Output(output) = message {
            let bare = output.text.trim().strip_prefix("<<");
            if let Some(bare) = bare.and_then(|text| text.strip_suffix(">>")) {
                output.text = bare.to_owned();
            }
        }
    }
}

/// Gives every call an id of its own and ties each output to its call: by id where the record has one, else by order.
fn tie(messages: &mut [Message]) -> Result<(), String> {
    let mut taken = HashSet::new();
    let mut open: Vec<(String, Call)> = Vec::new();
    for (at, message) in messages.iter_mut().enumerate() {
        match message {
            Message::Assistant { calls, .. } => {
                open.clear();
                for (index, call) in calls.iter_mut().enumerate() {
                    let recorded = call.id.clone();
                    if recorded.is_empty() || !taken.insert(recorded.clone()) {
                        call.id = format!("call_{at}_{index}");
                        taken.insert(call.id.clone());
                    }
                    open.push((recorded, call.clone()));
                }
            }
            Message::Output(output) => {
                let by_id = open
                    .iter()
                    .position(|(recorded, _)| !recorded.is_empty() && *recorded == output.call);
                let at = by_id.or((!open.is_empty()).then_some(0)).ok_or_else(|| {
                    format!("messages[{at}] is a tool output that no call asked for")
                })?;
                let (_, call) = open.remove(at);
                output.call = call.id;
                output.tool = call.tool;
            }
            Message::System(_) | Message::User(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Trajectory, String> {
        trajectory(Bytes::copy_from_slice(line.as_bytes()), 1)
    }

    const EXPLORER: &str = r#"{"index":0,"messages":[{"role":"user","content":"Pay"},
        {"role":"assistant","content":null,"tool_calls":[
            {"id":"","type":"function","function":{"name":"pay","arguments":{"n":1}}},
            {"id":"","type":"function","function":{"name":"look","arguments":{}}}]},
        {"role":"tool","content":"done","tool_call_id":"","error":null},
        {"role":"tool","content":"","tool_call_id":null,"error":"ValueError: no"},
        {"role":"assistant","content":"Paid.","tool_calls":null}],
        "metadata":{"suite_name":"shop","model":"m","success":true,"security":true,"user_task_id":"user_task_1",
        "injection_task_id":null,"attack_type":null},"_labels":{"kind":"attack"}}"#;

    const NATIVE: &str = r#"{"suite_name":"shop","pipeline_name":"m","user_task_id":"user_task_1",
        "injection_task_id":"injection_task_2","attack_type":"plain","injections":{"v":"Do it"},"messages":[
        {"role":"user","content":[{"type":"text","content":"Pay"}]},
        {"role":"assistant","content":null,"tool_calls":[{"function":"pay","args":{"n":1},"id":"a"},
            {"function":"look","args":{},"id":"a"}]},
        {"role":"tool","content":[{"type":"text","content":"done"}],"tool_call_id":"a","error":null}],
        "error":null,"utility":false,"security":true}"#;

    #[test]
    fn both_formats_give_the_same_words() {
        let explorer = read(EXPLORER).unwrap();
        assert_eq!(explorer.kind, Kind::Benign, "labels are not read");
        assert_eq!((explorer.utility, explorer.security), (Some(true), None));
        let paid = |text: &str| text == "Paid.";
        assert!(
            matches!(explorer.messages.last(), Some(Message::Assistant { text, .. }) if paid(text))
        );
        let native = read(NATIVE).unwrap();
        assert_eq!(native.kind, Kind::Attack);
        assert_eq!(native.security, Some(true));
        assert_eq!(native.injections["v"], "Do it");
        let tools = |t: &Trajectory| -> Vec<String> {
            t.calls().map(|(_, _, call)| call.tool.clone()).collect()
        };
        assert_eq!(tools(&explorer), ["pay", "look"]);
        assert_eq!(tools(&native), ["pay", "look"]);
    }

    #[test]
    fn every_call_gets_an_id_of_its_own_and_its_output() {
        let explorer = read(EXPLORER).unwrap();
        let ids: Vec<_> = explorer.calls().map(|(_, _, c)| c.id.as_str()).collect();
        assert_eq!(ids, ["call_1_0", "call_1_1"]);
        let outputs: Vec<_> = explorer
            .outputs()
            .map(|(at, o)| (at, o.call.as_str(), o.tool.as_str(), o.error.is_some()))
            .collect();
        assert_eq!(
            outputs,
            [(2, "call_1_0", "pay", false), (3, "call_1_1", "look", true)]
        );
        let native = read(NATIVE).unwrap();
        let ids: Vec<_> = native.calls().map(|(_, _, c)| c.id.as_str()).collect();
        assert_eq!(ids, ["a", "call_1_1"]);
    }

    #[test]
    fn a_goal_given_by_the_user_is_no_attack() {
        let line = NATIVE
            .replace("\"user_task_1\"", "\"injection_task_2\"")
            .replace(
                "\"injection_task_id\":\"injection_task_2\"",
                "\"injection_task_id\":null",
            )
            .replace("\"plain\"", "null");
        assert_eq!(read(&line).unwrap().kind, Kind::GoalAsTask);
    }

    #[test]
    fn a_bad_line_says_what_was_expected() {
        assert!(read("{").unwrap_err().contains("no JSON object"));
        assert!(read("{\"a\":1}").unwrap_err().contains("suite_name"));
        let error = read(&NATIVE.replace("\"role\":\"tool\"", "\"role\":\"robot\"")).unwrap_err();
        assert!(error.contains("robot"), "{error}");
        let orphan = NATIVE.replace("\"role\":\"assistant\"", "\"role\":\"user\"");
        assert!(read(&orphan).unwrap_err().contains("messages[2]"));
        let no_tool = NATIVE.replace("\"function\":\"pay\",", "");
        assert!(read(&no_tool).unwrap_err().contains("messages[1]"));
    }
}
