//! Logs of Anthropic's Messages API, one conversation or one exchange per line.
//!
//! A line is an object with `messages` and perhaps `system`, or an exchange: the body of a request with that of its answer, as
//! `request` and `response`.

use std::collections::HashMap;

use serde_json::Value;

use super::agentdojo::record::{Call, Message, Output, RecordError};
use super::chat::{field, text};
use super::lines::Line;

/// Whether a line holds what only this API has: blocks of tool use, or an answer that is a message.
pub fn is(value: &Value) -> bool {
    let request = super::logs::body(value, "request").unwrap_or(value);
    let answers = super::logs::body(value, "response").is_some_and(|r| r.get("content").is_some());
    let list = request.get("messages").unwrap_or(request);
    let blocks = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|message| message.get("content")?.as_array());
    let own = |block: &Value| {
        let kind = block.get("type").and_then(Value::as_str);
        matches!(kind, Some("tool_use" | "tool_result"))
    };
    answers || request.get("system").is_some() || blocks.flatten().any(own)
}

/// The conversation of a line, with the model's answer where the line has one.
///
/// # Errors
/// A line that is none; its field is named.
pub fn messages(line: &Line) -> Result<Vec<Message>, RecordError> {
    let value = &line.value;
    let request = super::logs::body(value, "request").unwrap_or(value);
    let read = conversation(request).and_then(|mut reading| {
        if let Some(response) = super::logs::body(value, "response") {
            super::logs::no_failure(response)?;
            if response.get("content").is_none() {
                return Err("`response.content` is missing: the whole answer is needed, not the events of a stream".to_owned());
            }
            reading.assistant(response, "response")?;
        }
        Ok(reading.messages)
    });
    read.map_err(|what| line.bad(what))
}

fn conversation(request: &Value) -> Result<Reading, String> {
    let mut reading = Reading::default();
    if let Some(system) = request.get("system") {
        reading
            .messages
            .push(Message::System(text(system, "system")?));
    }
    let list = request.get("messages").unwrap_or(request);
    let list = list.as_array().ok_or(
        "neither an array of messages nor an object with `messages`, or `request` and `response`",
    )?;
    for (index, message) in list.iter().enumerate() {
        let at = format!("messages[{index}]");
        match field(message, "role", &at)? {
            "user" => reading.user(message, &at)?,
            "assistant" => reading.assistant(message, &at)?,
            other => {
                return Err(format!(
                    "`{at}.role` is `{other}`, and neither user nor assistant"
                ));
            }
        }
    }
    Ok(reading)
}

#[derive(Default)]
struct Reading {
    messages: Vec<Message>,
    /// Tool by id of its call.
    tools: HashMap<String, String>,
}

impl Reading {
    /// A turn of the user: results of calls, then what the user says.
    fn user(&mut self, message: &Value, at: &str) -> Result<(), String> {
        let content = message.get("content").unwrap_or(&Value::Null);
        let mut said = Vec::new();
        for (index, block) in content.as_array().into_iter().flatten().enumerate() {
            let at = format!("{at}.content[{index}]");
            if block.get("type").and_then(Value::as_str) != Some("tool_result") {
                said.extend(block.get("text").and_then(Value::as_str));
                continue;
            }
            let call = field(block, "tool_use_id", &at)?.to_owned();
            let tool = self.tools.get(&call).cloned();
            let tool =
                tool.ok_or_else(|| format!("`{at}` is the output of a call that nobody made"))?;
            let given = text(
                block.get("content").unwrap_or(&Value::Null),
                &format!("{at}.content"),
            )?;
            let failed = block.get("is_error").and_then(Value::as_bool) == Some(true);
            self.messages.push(Message::Output(Output {
                call,
                tool,
                error: failed.then(|| given.clone()),
                text: given,
            }));
        }
        match content {
            Value::Array(_) if said.is_empty() => {}
            Value::Array(_) => self.messages.push(Message::User(said.join("\n"))),
            other => self
                .messages
                .push(Message::User(text(other, &format!("{at}.content"))?)),
        }
        Ok(())
    }

    fn assistant(&mut self, message: &Value, at: &str) -> Result<(), String> {
        let content = message.get("content").unwrap_or(&Value::Null);
        let mut calls = Vec::new();
        for (index, block) in content.as_array().into_iter().flatten().enumerate() {
            if block.get("type").and_then(Value::as_str) != Some("tool_use") {
                continue;
            }
            let at = format!("{at}.content[{index}]");
            let (id, tool) = (field(block, "id", &at)?, field(block, "name", &at)?);
            let args = match block.get("input") {
                None | Some(Value::Null) => serde_json::Map::new(),
                Some(Value::Object(args)) => args.clone(),
                Some(_) => return Err(format!("`{at}.input` is not an object")),
            };
            if self.tools.insert(id.to_owned(), tool.to_owned()).is_some() {
                return Err(format!("`{at}`: the id of this call was used before"));
            }
            calls.push(Call {
                id: id.to_owned(),
                tool: tool.to_owned(),
                args,
            });
        }
        self.messages.push(Message::Assistant {
            text: text(content, &format!("{at}.content"))?,
            calls,
        });
        Ok(())
    }
}
