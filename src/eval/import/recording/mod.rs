//! Holdpoint's own recordings as conversations: what models were asked and answered. Calls on tool routes were proposed by a model
//! before; they are in its answers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::agentdojo::record::RecordError;
use super::lines::{Line, Lines};
use super::logs::{Api, Conversations};
use crate::eval::recorded::Run;
use crate::eval::replay::chat::Answer;
use crate::record::{Answered, Content, Exchange, VERSION};
use crate::wire::sse::Decoder;

/// One event of a stream is never larger than this.
const EVENT: usize = 32 << 20;

/// The exchange of a line.
///
/// # Errors
/// A line that is none; its field is named.
pub fn exchange(mut line: Line) -> Result<Exchange, RecordError> {
    let version = line
        .value
        .get("holdpoint_recording")
        .and_then(Value::as_u64);
    if version != Some(u64::from(VERSION)) {
        return Err(line.bad(format!(
            "`holdpoint_recording` is not {VERSION}: no recorded exchange, or one of another version of Holdpoint"
        )));
    }
    let value = line.value.take();
    serde_json::from_value(value)
        .map_err(|error| line.bad(format!("no recorded exchange: {error}")))
}

/// What the recordings hold.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The conversations.
    pub runs: Vec<Run>,
    /// Exchanges that are part of none, by reason.
    pub left_out: BTreeMap<&'static str, usize>,
}

/// The conversations of several files, each of them in the order in which it was written.
///
/// # Errors
/// A line that is no exchange.
pub fn read(files: &[PathBuf]) -> Result<Recorded, RecordError> {
    let mut conversations = Conversations::default();
    let mut left_out: BTreeMap<&'static str, usize> = BTreeMap::new();
    for file in files {
        for line in Lines::open(file)? {
            if let Err(why) = add(&mut conversations, line?, file)? {
                *left_out.entry(why).or_default() += 1;
            }
        }
    }
    Ok(Recorded {
        runs: conversations.into_runs(),
        left_out,
    })
}

/// Adds an exchange, or says why it is part of no conversation.
fn add(
    conversations: &mut Conversations,
    line: Line,
    file: &Path,
) -> Result<Result<(), &'static str>, RecordError> {
    let (number, path) = (line.number, line.file.clone());
    let exchange = exchange(line)?;
    let api = match exchange.protocol.as_str() {
        "openai_chat" => Api::OpenAi,
        "anthropic_messages" => Api::Anthropic,
        _ => return Ok(Err("on a tool route")),
    };
    let Content::Body(request) = &exchange.request.content else {
        return Ok(Err("request not recorded"));
    };
    let Some(answer) = exchange
        .answer
        .as_ref()
        .filter(|answer| answer.status == 200)
    else {
        return Ok(Err("no answer of the model"));
    };
    let (Ok(request), Some(response)) = (
        serde_json::from_str::<Value>(request),
        response(answer, api),
    ) else {
        return Ok(Err("no conversation"));
    };
    if request.get("messages").is_none() && request.get("input").is_none() {
        return Ok(Err("no conversation"));
    }
    let line = Line {
        file: path,
        number,
        value: json!({"request": request, "response": response}),
    };
    conversations.add(&line, api, file)?;
    Ok(Ok(()))
}

/// The answer as one object, also where it came in events. `None`: it is no answer of a model.
fn response(answer: &Answered, api: Api) -> Option<Value> {
    let Content::Body(body) = &answer.content else {
        return None;
    };
    let streamed = answer
        .content_type
        .as_deref()
        .is_some_and(|media| media.contains("event-stream"));
    if !streamed {
        return serde_json::from_str(body).ok();
    }
    let body = Bytes::from(body.clone());
    let events = Decoder::new(EVENT).push(body.clone()).ok()?;
    let events = events
        .into_iter()
        .filter_map(|event| serde_json::from_str(event.data.as_deref()?).ok());
    let events: Vec<Value> = events.collect();
    if api == Api::Anthropic {
        return blocks(&events);
    }
    let done = events.iter().rfind(|event| {
        event
            .get("type")
            .is_some_and(|kind| kind == "response.completed")
    });
    if let Some(done) = done {
        return done.get("response").cloned();
    }
    let message = Answer::read(&body, true).ok()?.message();
    Some(json!({"choices": [{"index": 0, "message": message}]}))
}

/// A message of Anthropic from its events.
fn blocks(events: &[Value]) -> Option<Value> {
    let mut blocks: BTreeMap<u64, (Value, String)> = BTreeMap::new();
    for event in events {
        let Some(index) = event.get("index").and_then(Value::as_u64) else {
            continue;
        };
        if let Some(block) = event.get("content_block") {
            blocks.insert(index, (block.clone(), String::new()));
        }
        let piece = ["text", "partial_json"]
            .iter()
            .find_map(|key| event.get("delta")?.get(*key)?.as_str());
        if let (Some((_, text)), Some(piece)) = (blocks.get_mut(&index), piece) {
            text.push_str(piece);
        }
    }
    if blocks.is_empty() {
        return None;
    }
    let content = blocks.into_values().map(|(mut block, text)| {
        if block.get("type").is_some_and(|kind| kind == "tool_use") {
            let input = serde_json::from_str(&text).unwrap_or_else(|_| Value::Object(Map::new()));
            if !text.is_empty()
                && let Some(block) = block.as_object_mut()
            {
                block.insert("input".to_owned(), input);
            }
        } else if let Some(said) = block.get_mut("text") {
            *said = format!("{}{text}", said.as_str().unwrap_or_default()).into();
        }
        block
    });
    Some(json!({"role": "assistant", "content": content.collect::<Vec<_>>()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streamed(events: &[Value]) -> Answered {
        let events = events.iter().map(|event| format!("data: {event}\n\n"));
        Answered {
            status: 200,
            content_type: Some("text/event-stream".to_owned()),
            content: Content::Body(events.collect()),
            replaced: 0,
        }
    }

    #[test]
    fn a_stream_is_the_message_that_it_comes_to() {
        let anthropic = streamed(&[
            json!({"type": "message_start", "message": {"content": []}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me "}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "see."}}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "look", "input": {}}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"a\":"}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "1}"}}),
        ]);
        let message = response(&anthropic, Api::Anthropic).unwrap();
        assert_eq!(message["content"][0]["text"], "Let me see.");
        assert_eq!(message["content"][1]["input"], json!({"a": 1}));

        let responses = streamed(&[
            json!({"type": "response.output_text.delta", "delta": "x"}),
            json!({"type": "response.completed", "response": {"output": [{"type": "message"}]}}),
        ]);
        assert_eq!(
            response(&responses, Api::OpenAi).unwrap()["output"][0]["type"],
            "message"
        );

        let chat = streamed(&[
            json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "On"}, "finish_reason": null}]}),
            json!({"choices": [{"index": 0, "delta": {"content": "e"}, "finish_reason": "stop"}]}),
        ]);
        let chat = Answered {
            content: Content::Body(match chat.content {
                Content::Body(body) => body + "data: [DONE]\n\n",
                Content::Withheld(_) => String::new(),
            }),
            ..chat
        };
        assert_eq!(
            response(&chat, Api::OpenAi).unwrap()["choices"][0]["message"]["content"],
            "One"
        );
    }
}
