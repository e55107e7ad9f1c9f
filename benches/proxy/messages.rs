//! What `support` has for Chat Completions, as Anthropic Messages.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::Text;

/// A request of about `bytes` bytes for a stream: a call with its output as the bulk.
pub fn request(bytes: usize) -> Vec<u8> {
    let with = |output: &str| {
        json!({
            "model": "claude-1", "max_tokens": 1024, "stream": true,
            "system": "You are the support agent of a small shop. Answer from the tools only.",
            "messages": [
                {"role": "user", "content": "What became of my order A-1001, and when does the rest arrive?"},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "toolu_1", "name": "get_order", "input": {"order_id": "A-1001"}},
                ]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": output}]},
            ],
            "tools": [{
                "name": "get_order",
                "description": "Returns an order of the signed-in customer with its items and deliveries.",
                "input_schema": {"type": "object", "required": ["order_id"], "properties": {
                    "order_id": {"type": "string", "description": "Number of the order, such as A-1001"},
                }},
            }],
        })
        .to_string()
    };
    let fixed = with("").len();
    with(&Text::Clean.of_size(bytes.saturating_sub(fixed + bytes / 60))).into_bytes()
}

/// Its answer: `events` pieces of text, a tool call in four pieces, the end.
pub fn stream(events: usize) -> Vec<u8> {
    let mut body = String::new();
    let text = Text::Clean.of_size(events * 16);
    let mut push = |data: &Value| {
        let name = data.get("type").and_then(Value::as_str).unwrap_or_default();
        let _ = write!(body, "event: {name}\ndata: {data}\n\n");
    };
    push(&json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 512, "output_tokens": 1},
    }}));
    push(
        &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    );
    for word in text.split_whitespace().take(events) {
        let text = format!("{word} ");
        push(
            &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        );
    }
    push(&json!({"type": "content_block_stop", "index": 0}));
    push(
        &json!({"type": "content_block_start", "index": 1, "content_block": {
            "type": "tool_use", "id": "toolu_2", "name": "get_order", "input": {},
        }}),
    );
    for piece in ["", "{\"order", "_id\":\"A-", "1001\"}"] {
        let delta = json!({"type": "input_json_delta", "partial_json": piece});
        push(&json!({"type": "content_block_delta", "index": 1, "delta": delta}));
    }
    push(&json!({"type": "content_block_stop", "index": 1}));
    push(&json!({
        "type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null},
        "usage": {"output_tokens": 2048},
    }));
    push(&json!({"type": "message_stop"}));
    body.into_bytes()
}
