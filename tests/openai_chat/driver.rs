//! The adapter under test, and what leaves it as the official SDKs read it.

use std::collections::BTreeMap;

use bytes::Bytes;
use holdpoint::item::Item;
use holdpoint::protocols::openai_chat::OpenAiChat;
use holdpoint::protocols::{Malformed, Protocol, Request, Written};
use holdpoint::settings::{Limits, ModelRoute};
use holdpoint::verdict::{Reason, Verdict};
use holdpoint::wire::sse::Decoder;
use serde_json::Value;

pub use crate::adapter::{
    Decide, EVENTS, JSON, Outcome, decision, deny, finding, markup, request, shown,
};

pub fn adapter() -> OpenAiChat {
    OpenAiChat::new(&Limits::default(), &ModelRoute::default())
}

pub fn with(route: &ModelRoute) -> OpenAiChat {
    OpenAiChat::new(&Limits::default(), route)
}

pub fn completion(body: &str) -> Request {
    request("POST", "/v1/chat/completions", body)
}

/// Each item of a request: its place, kind, tool and text.
pub fn items(adapter: &OpenAiChat, body: &str) -> Vec<String> {
    let items = adapter.read(&completion(body)).unwrap().into_iter();
    items
        .map(|located| {
            let place = located.place.pointer;
            match located.item {
                Item::Definition(d) => format!("{place} defines {} {:?}", d.tool, &*d.text),
                Item::ToolOutput(o) => {
                    let tool = o.tool.map_or_else(|| "-".to_owned(), |t| t.to_string());
                    format!("{place} {tool} {:?}", &*o.text)
                }
                Item::ProviderTool(p) => {
                    format!(
                        "{place} runs {} at {}",
                        p.kind,
                        p.server.as_deref().unwrap_or("-")
                    )
                }
                other => panic!("{other:?}"),
            }
        })
        .collect()
}

/// What is sent on when the items whose place is one of these are refused.
pub fn edited(adapter: &OpenAiChat, body: &str, refused: &[&str]) -> Written {
    let request = completion(body);
    let items = adapter.read(&request).unwrap();
    let decision = decision(&items, &|located| {
        if refused.contains(&&*located.place.pointer) {
            deny(Reason::InjectionDetected)
        } else {
            Verdict::Allow
        }
    });
    adapter.write(request, &decision).unwrap()
}

pub fn forwarded(written: Written) -> String {
    match written {
        Written::Forward(request) => String::from_utf8(request.body.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// A response that comes in these pieces.
pub fn respond(
    adapter: &OpenAiChat,
    status: u16,
    content_type: &str,
    pieces: &[Bytes],
    decide: Decide<'_>,
) -> Result<Outcome, Malformed> {
    let asked = request("POST", "/v1/chat/completions", "{}");
    crate::adapter::respond(adapter, &asked, status, content_type, pieces, decide)
}

/// The same where a rule asks what clients would fetch or follow in the text.
pub fn rendered(
    adapter: &OpenAiChat,
    content_type: &str,
    pieces: &[Bytes],
    decide: Decide<'_>,
) -> Result<Outcome, Malformed> {
    let asked = request("POST", "/v1/chat/completions", "{}");
    crate::adapter::rendered(adapter, &asked, content_type, pieces, decide)
}

/// One choice as a client ends up with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    pub content: String,
    /// Id, type, name, text.
    pub calls: Vec<[String; 4]>,
    pub legacy: Option<[String; 2]>,
    /// Calls in the members `x0`, `x1` … that no client of the API knows: name, text.
    pub strays: Vec<[String; 2]>,
    pub finish_reason: String,
}

pub type Client = BTreeMap<u64, Choice>;

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn strays(message: &Value) -> Vec<[String; 2]> {
    let members = message.as_object().into_iter().flatten();
    let strays = members.filter(|(key, _)| key.starts_with('x'));
    strays
        .map(|(_, call)| [text(&call["name"]), text(&call["arguments"])])
        .collect()
}

/// A whole response as a client reads it.
pub fn whole(body: &[u8]) -> Client {
    let body: Value = serde_json::from_slice(body).unwrap();
    let choices = body["choices"].as_array().unwrap().iter();
    choices
        .map(|choice| {
            let message = &choice["message"];
            assert_ne!(
                message.get("tool_calls"),
                Some(&Value::Array(Vec::new())),
                "an empty list of calls"
            );
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let calls = calls.map(|call| {
                let kind = text(&call["type"]);
                let body = &call[&kind];
                let words = body.get("arguments").or_else(|| body.get("input"));
                let name = text(&body["name"]);
                [text(&call["id"]), kind, name, text(words.unwrap())]
            });
            let legacy = message.get("function_call");
            let choice_read = Choice {
                content: text(&message["content"]),
                calls: calls.collect(),
                legacy: legacy.map(|call| [text(&call["name"]), text(&call["arguments"])]),
                strays: strays(message),
                finish_reason: text(&choice["finish_reason"]),
            };
            (choice["index"].as_u64().unwrap(), choice_read)
        })
        .collect()
}

/// A stream as the official SDKs read it: strings of repeated fragments are joined, an index is a place in the list.
pub fn streamed(bytes: &[u8]) -> Client {
    let mut client = Client::new();
    let mut ended = false;
    let events = Decoder::new(1 << 20).push(Bytes::copy_from_slice(bytes));
    for event in events.unwrap() {
        let data = event.data.unwrap();
        assert!(!ended, "an event after the end");
        if data == "[DONE]" {
            ended = true;
            continue;
        }
        let chunk: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(chunk["id"], "chatcmpl-1");
        for part in chunk["choices"].as_array().unwrap() {
            let choice = client.entry(part["index"].as_u64().unwrap()).or_default();
            read_delta(choice, &part["delta"]);
            if let Some(reason) = part["finish_reason"].as_str() {
                reason.clone_into(&mut choice.finish_reason);
            }
        }
    }
    client
}

fn read_delta(choice: &mut Choice, delta: &Value) {
    choice.content.push_str(&text(&delta["content"]));
    for call in delta["tool_calls"].as_array().into_iter().flatten() {
        let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
        assert!(index <= choice.calls.len(), "a gap before index {index}");
        if index == choice.calls.len() {
            choice.calls.push([const { String::new() }; 4]);
        }
        let [id, kind, name, words] = &mut choice.calls[index];
        id.push_str(&text(&call["id"]));
        kind.push_str(&text(&call["type"]));
        for body in [&call["function"], &call["custom"]] {
            name.push_str(&text(&body["name"]));
            words.push_str(&text(&body["arguments"]));
            words.push_str(&text(&body["input"]));
        }
    }
    choice.strays.extend(strays(delta));
    if let Some(call) = delta.get("function_call").filter(|call| !call.is_null()) {
        let [name, words] = choice.legacy.get_or_insert_default();
        name.push_str(&text(&call["name"]));
        words.push_str(&text(&call["arguments"]));
    }
}
