//! Logs of `OpenAI` APIs: Chat Completions and Responses, one conversation or one exchange per line.
//!
//! A line is an array of messages, an object with `messages` (or `input`), or an exchange: the body of a request with that of
//! its answer, as `request` and `response`. Exchanges of one conversation, each of which repeats the one before, become one run.

use serde_json::Value;

use super::agentdojo::record::{Message, RecordError};
use super::chat;
use super::lines::Line;

/// Whether a line can be one of these.
pub fn is(value: &Value) -> bool {
    let request = super::logs::body(value, "request").unwrap_or(value);
    let said = |messages: &Value| {
        let first = messages.get(0);
        first.is_some_and(|first| first.get("role").is_some() || first.get("type").is_some())
    };
    said(request) || request.get("messages").is_some_and(said) || request.get("input").is_some()
}

/// The conversation of a line, with the model's answer where the line has one.
///
/// # Errors
/// A line that is none; its field is named.
pub fn messages(line: &Line) -> Result<Vec<Message>, RecordError> {
    let value = &line.value;
    let request = super::logs::body(value, "request").unwrap_or(value);
    let response = super::logs::body(value, "response");
    let read = match response {
        Some(response) => exchange(request, response),
        None if request.is_array() => chat::messages(request, "the line"),
        None => conversation(request),
    };
    read.map_err(|what| line.bad(what))
}

fn conversation(request: &Value) -> Result<Vec<Message>, String> {
    if let Some(messages) = request.get("messages") {
        return chat::messages(messages, "messages");
    }
    if let Some(input) = request.get("input") {
        let messages = match request.get("output") {
            Some(output) => chat::with_output(input, output, ("input", "output"))?,
            None => chat::items(input, "input")?,
        };
        return Ok(with_instructions(request, messages));
    }
    Err("neither an array of messages nor an object with `messages`, `input`, or `request` and `response`".to_owned())
}

fn exchange(request: &Value, response: &Value) -> Result<Vec<Message>, String> {
    super::logs::no_failure(response)?;
    if let Some(messages) = request.get("messages") {
        let answer = response.pointer("/choices/0/message").ok_or(
            "`response.choices[0].message` is missing: the whole answer is needed, not the events of a stream",
        )?;
        return chat::with_answer(
            messages,
            answer,
            ("request.messages", "response.choices[0].message"),
        );
    }
    let input = request
        .get("input")
        .ok_or("`request` has neither `messages` nor `input`")?;
    let output = response.get("output").ok_or(
        "`response.output` is missing: the whole answer is needed, not the events of a stream",
    )?;
    let messages = chat::with_output(input, output, ("request.input", "response.output"))?;
    Ok(with_instructions(request, messages))
}

fn with_instructions(request: &Value, mut messages: Vec<Message>) -> Vec<Message> {
    if let Some(text) = request.get("instructions").and_then(Value::as_str) {
        messages.insert(0, Message::System(text.to_owned()));
    }
    messages
}
