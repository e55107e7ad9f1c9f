//! The two formats as they are written, and nothing more of them than is used.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Call, Kind, Message, Output, Trajectory, tie};

#[derive(Deserialize)]
struct Explorer {
    messages: Vec<Value>,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    suite_name: String,
    model: String,
    user_task_id: String,
    injection_task_id: Option<String>,
    attack_type: Option<String>,
    success: Option<bool>,
    security: Option<bool>,
}

#[derive(Deserialize)]
struct Native {
    suite_name: String,
    pipeline_name: String,
    user_task_id: String,
    injection_task_id: Option<String>,
    attack_type: Option<String>,
    #[serde(default)]
    injections: Option<BTreeMap<String, String>>,
    messages: Vec<Value>,
    #[serde(default)]
    error: Option<String>,
    utility: Option<bool>,
    security: Option<bool>,
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: Option<Content>,
    #[serde(default)]
    tool_calls: Option<Vec<RawCall>>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Blocks(Vec<Block>),
}

#[derive(Deserialize)]
struct Block {
    content: Option<String>,
}

#[derive(Deserialize)]
struct RawCall {
    #[serde(default)]
    id: Option<String>,
    function: Function,
    #[serde(default)]
    args: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Function {
    Name(String),
    Whole {
        name: String,
        #[serde(default)]
        arguments: Value,
    },
}

/// Reads one line of an Invariant Explorer export.
pub(super) fn explorer(value: Value) -> Result<Trajectory, String> {
    let record: Explorer = serde_json::from_value(value).map_err(|e| e.to_string())?;
    let Metadata {
        suite_name,
        model,
        user_task_id,
        injection_task_id,
        attack_type,
        success,
        security,
    } = record.metadata;
    finish(Trajectory {
        line: 0,
        suite: suite_name,
        pipeline: model,
        user_task: user_task_id,
        injection_task: injection_task_id,
        attack: attack_type,
        kind: Kind::Benign,
        messages: messages(record.messages)?,
        utility: success,
        security,
        injections: BTreeMap::new(),
        error: None,
    })
}

/// Reads one native run file.
pub(super) fn native(value: Value) -> Result<Trajectory, String> {
    let record: Native = serde_json::from_value(value).map_err(|e| e.to_string())?;
    finish(Trajectory {
        line: 0,
        suite: record.suite_name,
        pipeline: record.pipeline_name,
        user_task: record.user_task_id,
        injection_task: record.injection_task_id,
        attack: record.attack_type,
        kind: Kind::Benign,
        messages: messages(record.messages)?,
        utility: record.utility,
        security: record.security,
        injections: record.injections.unwrap_or_default(),
        error: record.error,
    })
}

fn finish(mut read: Trajectory) -> Result<Trajectory, String> {
    let injected = read.injection_task.is_some();
    match read.attack.as_deref() {
        Some(attack) if attack != "none" && !injected => {
            return Err(
                "`attack_type` names an attack, but there is no `injection_task_id`".into(),
            );
        }
        None if injected => {
            return Err("there is an `injection_task_id`, but no `attack_type`".to_owned());
        }
        _ => {}
    }
    read.kind = if read.attack.is_some() && read.injection_task.is_some() {
        Kind::Attack
    } else if read.user_task.starts_with("injection_task") {
        Kind::GoalAsTask
    } else {
        Kind::Benign
    };
    if read.kind != Kind::Attack {
        read.security = None;
        read.injection_task = None;
    }
    tie(&mut read.messages)?;
    Ok(read)
}

fn messages(turns: Vec<Value>) -> Result<Vec<Message>, String> {
    turns
        .into_iter()
        .enumerate()
        .map(|(at, turn)| message(turn).map_err(|what| format!("messages[{at}]: {what}")))
        .collect()
}

fn message(turn: Value) -> Result<Message, String> {
    let turn: Turn = serde_json::from_value(turn).map_err(|e| e.to_string())?;
    let text = turn.content.map(Content::text).unwrap_or_default();
    Ok(match turn.role.as_str() {
        "system" => Message::System(text),
        "user" => Message::User(text),
        "assistant" => Message::Assistant {
            text,
            calls: turn
                .tool_calls
                .unwrap_or_default()
                .into_iter()
                .map(call)
                .collect::<Result<_, _>>()?,
        },
        "tool" => Message::Output(Output {
            call: turn.tool_call_id.unwrap_or_default(),
            tool: String::new(),
            text,
            error: turn.error.filter(|error| !error.is_empty()),
        }),
        other => {
            return Err(format!(
                "unknown role {other:?}; expected system, user, assistant or tool"
            ));
        }
    })
}

fn call(raw: RawCall) -> Result<Call, String> {
    let (tool, args) = match (raw.function, raw.args) {
        (Function::Whole { name, arguments }, _) => {
            let args = arguments_of(arguments)
                .ok_or_else(|| format!("the arguments of {name} are no JSON object"))?;
            (name, args)
        }
        (Function::Name(name), Some(args)) => (name, args),
        (Function::Name(name), None) => return Err(format!("the call of {name} has no `args`")),
    };
    if tool.trim().is_empty() {
        return Err("a call names no tool".to_owned());
    }
    Ok(Call {
        id: raw.id.unwrap_or_default(),
        tool,
        args,
    })
}

/// An object, or its JSON as text, as OpenAI's own API has it; none for a call without arguments.
fn arguments_of(written: Value) -> Option<Map<String, Value>> {
    match written {
        Value::Object(args) => Some(args),
        Value::Null => Some(Map::new()),
        Value::String(text) => serde_json::from_str(&text).ok(),
        _ => None,
    }
}

impl Content {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Blocks(blocks) => {
                let texts: Vec<_> = blocks.into_iter().filter_map(|b| b.content).collect();
                texts.join("\n")
            }
        }
    }
}
