//! Anthropic Messages.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::MODEL;
use crate::script::{Asked, Call, Manner, Piece, Turn, ends_in_result, pieces};

/// What a client must send back unchanged.
const SIGNATURE: &str = "EqoBCkgIARABGAIiQL8scripted/+signature==";

/// An error's body.
pub fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

fn stop_reason(turn: &Turn) -> &'static str {
    if turn.calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    }
}

fn tool_use(call: &Call) -> Value {
    json!({"type": "tool_use", "id": format!("toolu_{}", call.number), "name": call.name, "input": {}})
}

/// A whole answer. Arguments that are no JSON stand as a string.
pub fn whole(asked: &Asked, request: &Value) -> String {
    let turn = asked.turn(ends_in_result(request));
    let mut blocks = Vec::new();
    if let Some(thinking) = &turn.thinking {
        let block = json!({"type": "thinking", "thinking": thinking, "signature": SIGNATURE});
        blocks.push(block.to_string());
    }
    if let Some(text) = &turn.text {
        blocks.push(json!({"type": "text", "text": text}).to_string());
    }
    for call in &turn.calls {
        // Raw: a duplicate key stays one.
        let input = serde_json::from_str::<&RawValue>(&call.arguments).map_or_else(
            |_| json!(call.arguments).to_string(),
            |raw| raw.get().to_owned(),
        );
        let block = tool_use(call).to_string();
        blocks.push(block.replace(r#""input":{}"#, &format!(r#""input":{input}"#)));
    }
    let mut answer = head();
    answer["stop_reason"] = json!(stop_reason(&turn));
    answer["usage"]["output_tokens"] = json!(5);
    let content = format!(r#""content":[{}]"#, blocks.join(","));
    answer.to_string().replace(r#""content":[]"#, &content)
}

fn head() -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 7, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    })
}

fn event(name: &'static str, data: &Value) -> Piece {
    let mut whole = json!({"type": name});
    for (key, value) in data.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    Piece::Event(Some(name), whole.to_string())
}

/// A streamed answer.
pub fn stream(asked: &Asked, request: &Value) -> Vec<Piece> {
    let turn = asked.turn(ends_in_result(request));
    let mut out = vec![
        event("message_start", &json!({"message": head()})),
        event("ping", &json!({})),
    ];
    let mut blocks = Vec::new();
    if let Some(thinking) = &turn.thinking {
        let mut deltas: Vec<Value> = pieces(thinking, 4)
            .into_iter()
            .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
            .collect();
        deltas.push(json!({"type": "signature_delta", "signature": SIGNATURE}));
        blocks.push((
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            deltas,
        ));
    }
    if let Some(text) = &turn.text {
        let deltas = pieces(text, 1)
            .into_iter()
            .map(|piece| json!({"type": "text_delta", "text": piece}));
        blocks.push((json!({"type": "text", "text": ""}), deltas.collect()));
    }
    let calls_from = blocks.len();
    for call in &turn.calls {
        let empty = std::iter::once(String::new());
        let deltas = empty
            .chain(pieces(&call.arguments, 3))
            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
        blocks.push((tool_use(call), deltas.collect()));
    }
    let last = blocks.len().saturating_sub(1);
    for (position, (block, deltas)) in blocks.into_iter().enumerate() {
        let index = if asked.is(Manner::Gaps) {
            position * 2 + 1
        } else {
            position
        };
        let start = json!({"index": index, "content_block": block});
        out.push(event("content_block_start", &start));
        for (number, delta) in deltas.into_iter().enumerate() {
            if number == 2 && position == calls_from && asked.is(Manner::Stall) {
                out.push(Piece::Stall);
            }
            if number == 2 && position == last && asked.is(Manner::Cut) {
                out.push(Piece::Cut);
                return out;
            }
            if number == 2 && position == last && asked.is(Manner::Error) {
                let error = error("overloaded_error", "the model fell over");
                out.push(Piece::Event(Some("error"), error.to_string()));
                return out;
            }
            let delta = json!({"index": index, "delta": delta});
            out.push(event("content_block_delta", &delta));
        }
        out.push(event("content_block_stop", &json!({"index": index})));
    }
    let delta = json!({
        "delta": {"stop_reason": stop_reason(&turn), "stop_sequence": null}, "usage": {"output_tokens": 5},
    });
    out.push(event("message_delta", &delta));
    out.push(event("message_stop", &json!({})));
    out
}
