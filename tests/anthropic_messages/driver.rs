//! The adapter under test, and what leaves it as the official SDKs read it.

use bytes::Bytes;
use holdpoint::item::{Item, Located};
use holdpoint::protocols::anthropic_messages::AnthropicMessages;
use holdpoint::protocols::{Malformed, Protocol as _, Written};
use holdpoint::settings::{Limits, ModelRoute};
use holdpoint::verdict::Verdict;
use holdpoint::wire::sse::Decoder;
use serde_json::{Value, json};

pub use crate::adapter::{
    Decide, EVENTS, JSON, Outcome, decision, deny, finding, markup, request, shown,
};

pub fn adapter() -> AnthropicMessages {
    with(ModelRoute::default())
}

pub fn with(route: ModelRoute) -> AnthropicMessages {
    AnthropicMessages::new(&Limits::default(), &route)
}

/// A response that comes in these pieces.
pub fn respond(
    adapter: &AnthropicMessages,
    content_type: &str,
    pieces: &[Bytes],
    decide: Decide<'_>,
) -> Result<Outcome, Malformed> {
    let asked = request("POST", "/v1/messages", "{}");
    crate::adapter::respond(adapter, &asked, 200, content_type, pieces, decide)
}

/// The same where a rule asks what clients would fetch or follow in the text.
pub fn rendered(
    adapter: &AnthropicMessages,
    content_type: &str,
    pieces: &[Bytes],
    decide: Decide<'_>,
) -> Result<Outcome, Malformed> {
    let asked = request("POST", "/v1/messages", "{}");
    crate::adapter::rendered(adapter, &asked, content_type, pieces, decide)
}

/// Everything found in the body of a request.
pub fn items(adapter: &AnthropicMessages, body: &str) -> Vec<Located> {
    adapter
        .read(&request("POST", "/v1/messages", body))
        .unwrap()
}

/// The untrusted texts in the body of a request, without joined views.
pub fn texts(adapter: &AnthropicMessages, body: &str) -> Vec<String> {
    items(adapter, body)
        .into_iter()
        .filter(|located| {
            located
                .place
                .span
                .as_ref()
                .is_some_and(|span| !span.is_empty())
        })
        .filter_map(|located| match located.item {
            Item::ToolOutput(output) => Some(output.text.to_string()),
            _ => None,
        })
        .collect()
}

/// A request after rulings.
pub fn written(
    adapter: &AnthropicMessages,
    body: &str,
    judge: &dyn Fn(&Located) -> Verdict,
) -> Written {
    let request = request("POST", "/v1/messages", body);
    let items = adapter.read(&request).unwrap();
    let decision = decision(&items, judge);
    adapter.write(request, &decision).unwrap()
}

/// The body that is sent after rulings.
pub fn edited(
    adapter: &AnthropicMessages,
    body: &str,
    judge: &dyn Fn(&Located) -> Verdict,
) -> String {
    match written(adapter, body, judge) {
        Written::Forward(request) => String::from_utf8(request.body.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// A whole response as a client reads it.
pub fn whole(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

/// A stream as the official SDKs read it: a block is appended when it starts, and found again by its index.
pub fn streamed(bytes: &[u8]) -> Value {
    let mut message = Value::Null;
    let mut inputs: Vec<String> = Vec::new();
    let mut open = None;
    let mut stopped = false;
    let decoded = Decoder::new(1 << 20).push(Bytes::copy_from_slice(bytes));
    for event in decoded.unwrap() {
        assert!(!stopped, "an event after the end");
        let data: Value = serde_json::from_str(&event.data.unwrap()).unwrap();
        let name = event.event.unwrap();
        assert_eq!(data["type"], name);
        let index = data["index"]
            .as_u64()
            .map(|index| usize::try_from(index).unwrap());
        match &*name {
            "ping" => {}
            "message_start" => {
                assert_eq!(message, Value::Null, "two messages");
                message = data["message"].clone();
            }
            "content_block_start" => {
                let blocks = message["content"].as_array_mut().unwrap();
                assert_eq!(index, Some(blocks.len()), "an index that is not the next");
                assert_eq!(open.replace(blocks.len()), None, "a block within another");
                blocks.push(data["content_block"].clone());
                inputs.push(String::new());
            }
            "content_block_delta" => {
                assert_eq!(index, open, "a delta for another block");
                let block = &mut message["content"][index.unwrap()];
                append(block, &mut inputs[index.unwrap()], &data["delta"]);
            }
            "content_block_stop" => {
                assert_eq!(index, open.take(), "another block stops");
                let input = &inputs[index.unwrap()];
                if !input.is_empty() {
                    let input = serde_json::from_str(input).unwrap();
                    message["content"][index.unwrap()]["input"] = input;
                }
            }
            "message_delta" => {
                for (key, value) in data["delta"].as_object().unwrap() {
                    message[key] = value.clone();
                }
                message["usage"]["output_tokens"] = data["usage"]["output_tokens"].clone();
            }
            "message_stop" => stopped = true,
            other => panic!("an event {other}"),
        }
    }
    assert_eq!(open, None);
    message
}

fn append(block: &mut Value, input: &mut String, delta: &Value) {
    let add = |text: &mut Value, more: &Value| {
        *text = json!(format!(
            "{}{}",
            text.as_str().unwrap(),
            more.as_str().unwrap()
        ));
    };
    match delta["type"].as_str().unwrap() {
        "text_delta" => add(&mut block["text"], &delta["text"]),
        "thinking_delta" => add(&mut block["thinking"], &delta["thinking"]),
        "signature_delta" => block["signature"] = delta["signature"].clone(),
        "input_json_delta" => input.push_str(delta["partial_json"].as_str().unwrap()),
        other => panic!("a delta {other}"),
    }
}
