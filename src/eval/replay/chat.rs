//! The recorded model's side and the agent's side of OpenAI Chat Completions, unstreamed and streamed.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::eval::case::Call;
use crate::eval::suite::Suite;
use crate::wire::sse::Decoder;

/// One event of a stream is never larger than this.
const EVENT: usize = 32 << 20;

/// What the model says in one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::eval) struct Answer {
    /// Text.
    pub text: Option<String>,
    /// Calls: id, tool, arguments as JSON text.
    pub calls: Vec<(String, String, String)>,
}

impl Answer {
    /// A recorded turn with the calls that are made.
    pub(in crate::eval) fn recorded<'c>(
        say: Option<&String>,
        calls: impl Iterator<Item = &'c Call>,
    ) -> Self {
        Self {
            text: say.cloned(),
            calls: calls
                .map(|call| {
                    let args = Value::Object(call.args.clone()).to_string();
                    (call.id.clone(), call.tool.clone(), args)
                })
                .collect(),
        }
    }

    const fn finish_reason(&self) -> &'static str {
        if self.calls.is_empty() {
            "stop"
        } else {
            "tool_calls"
        }
    }

    /// The message as it stands in a conversation.
    pub(in crate::eval) fn message(&self) -> Value {
        let mut message = Map::new();
        message.insert("role".to_owned(), "assistant".into());
        let text = match &self.text {
            None if self.calls.is_empty() => Some(String::new()),
            text => text.clone(),
        };
        message.insert("content".to_owned(), text.into());
        if !self.calls.is_empty() {
            let calls = self.calls.iter().map(|(id, tool, args)| {
                json!({"id": id, "type": "function", "function": {"name": tool, "arguments": args}})
            });
            message.insert("tool_calls".to_owned(), calls.collect());
        }
        message.into()
    }

    /// The whole response.
    pub(in crate::eval) fn whole(&self) -> Bytes {
        let body = json!({
            "id": "chatcmpl-recorded", "object": "chat.completion", "created": 0, "model": "recorded",
            "choices": [{"index": 0, "message": self.message(), "finish_reason": self.finish_reason()}],
            "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        });
        body.to_string().into()
    }

    /// The response as server-sent events: text and arguments each cut in two.
    pub(in crate::eval) fn streamed(&self) -> Bytes {
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        let text = halves(self.text.as_deref().unwrap_or_default());
        deltas.extend(text.into_iter().map(|part| json!({"content": part})));
        for (index, (id, tool, args)) in self.calls.iter().enumerate() {
            deltas.push(
                json!({"tool_calls": [{"index": index, "id": id, "type": "function",
                "function": {"name": tool, "arguments": ""}}]}),
            );
            deltas.extend(halves(args).into_iter().map(
                |part| json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]}),
            ));
        }
        let chunk = |delta: Value, finish: Option<&str>| {
            let chunk = json!({
                "id": "chatcmpl-recorded", "object": "chat.completion.chunk", "created": 0, "model": "recorded",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            });
            format!("data: {chunk}\n\n")
        };
        let mut body: String = deltas.into_iter().map(|delta| chunk(delta, None)).collect();
        body += &chunk(json!({}), Some(self.finish_reason()));
        body += "data: [DONE]\n\n";
        body.into()
    }

    /// Reads what the proxy passed on.
    pub(in crate::eval) fn read(body: &Bytes, stream: bool) -> Result<Self, String> {
        let lost = |what: &str| format!("the proxy's answer is no chat completion: {what}");
        if !stream {
            let body: Value = serde_json::from_slice(body).map_err(|e| lost(&e.to_string()))?;
            let message = body
                .pointer("/choices/0/message")
                .ok_or_else(|| lost("no message"))?;
            let mut answer = Self::default();
            answer.add(message, false);
            return Ok(answer);
        }
        let events = Decoder::new(EVENT)
            .push(body.clone())
            .map_err(|error| lost(&error.to_string()))?;
        let mut answer = Self::default();
        let mut ended = false;
        for data in events.into_iter().filter_map(|event| event.data) {
            if data == "[DONE]" {
                ended = true;
                continue;
            }
            let chunk: Value = serde_json::from_str(&data).map_err(|e| lost(&e.to_string()))?;
            if let Some(delta) = chunk.pointer("/choices/0/delta") {
                answer.add(delta, true);
            }
        }
        if ended {
            Ok(answer)
        } else {
            Err(lost("the stream ended early"))
        }
    }

    fn add(&mut self, message: &Value, delta: bool) {
        if let Some(text) = message.get("content").and_then(Value::as_str)
            && !text.is_empty()
        {
            self.text.get_or_insert_default().push_str(text);
        }
        let calls = message.get("tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            let text = |pointer| {
                call.pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            let index = call.get("index").and_then(Value::as_u64);
            let index = index.and_then(|index| usize::try_from(index).ok());
            let index = if delta {
                index.unwrap_or_default()
            } else {
                self.calls.len()
            };
            if self.calls.len() <= index {
                self.calls.resize_with(index + 1, Default::default);
            }
            if let Some((id, tool, args)) = self.calls.get_mut(index) {
                id.push_str(text("/id"));
                tool.push_str(text("/function/name"));
                args.push_str(text("/function/arguments"));
            }
        }
    }
}

fn halves(text: &str) -> Vec<&str> {
    let middle = (text.len() / 2..=text.len()).find(|at| text.is_char_boundary(*at));
    let (first, second) = text
        .split_at_checked(middle.unwrap_or_default())
        .unwrap_or((text, ""));
    [first, second]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect()
}

/// The tools as the request offers them.
pub(in crate::eval) fn definitions(suite: &Suite) -> Value {
    let tools = suite.tools.iter().map(|(name, tool)| {
        let args = tool.args.iter().map(|arg| (arg.clone(), json!({})));
        json!({"type": "function", "function": {
            "name": name,
            "description": tool.description.as_deref().unwrap_or_default(),
            "parameters": {"type": "object", "properties": args.collect::<Map<_, _>>()},
        }})
    });
    tools.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_as_they_were_meant() {
        let call = |id: &str, args: &str| (id.to_owned(), "tool".to_owned(), args.to_owned());
        for answer in [
            Answer {
                text: Some("grüße".into()),
                calls: vec![],
            },
            Answer {
                text: None,
                calls: vec![call("a", "{\"é\":1}"), call("b", "{}")],
            },
            Answer {
                text: Some("so".into()),
                calls: vec![call("a", "{}")],
            },
        ] {
            assert_eq!(Answer::read(&answer.whole(), false).unwrap(), answer);
            assert_eq!(Answer::read(&answer.streamed(), true).unwrap(), answer);
        }
        let cut = Answer::default().streamed().slice(..40);
        assert!(
            Answer::read(&cut, true)
                .unwrap_err()
                .contains("ended early")
        );
    }
}
