//! Runs an adapter without a proxy, and reads what leaves as the official SDKs do.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use holdpoint::guard::Decision;
use holdpoint::item::{Item, Located};
use holdpoint::names::RuleId;
use holdpoint::policy::PolicyHash;
use holdpoint::protocols::openai_chat::OpenAiChat;
use holdpoint::protocols::{Frame, Framing, Malformed, Protocol, Request, ResponseReader, Step};
use holdpoint::settings::{Limits, ModelRoute};
use holdpoint::verdict::{Finding, LayerId, Reason, Ruling, Verdict};
use holdpoint::wire::json::{BODY_DEPTH, Document};
use holdpoint::wire::sse::Decoder;
use serde_json::Value;

pub const JSON: &str = "application/json";
pub const EVENTS: &str = "text/event-stream; charset=utf-8";

pub fn adapter() -> OpenAiChat {
    OpenAiChat::new(&Limits::default(), &ModelRoute::default())
}

pub fn request(method: &str, path: &str, body: &str) -> Request {
    let mut builder = http::Request::builder().method(method).uri(path);
    if !body.is_empty() {
        builder = builder.header("content-type", JSON);
    }
    let body = Bytes::copy_from_slice(body.as_bytes());
    let json = Document::read(body.clone(), BODY_DEPTH).ok();
    Request {
        parts: builder.body(()).unwrap().into_parts().0,
        body,
        json,
    }
}

pub fn finding(reason: Reason) -> Finding {
    Finding {
        layer: LayerId::Ownership,
        rule: RuleId::from("test"),
        reason,
        argument: None,
        detail: Cow::Borrowed(""),
    }
}

pub fn deny(reason: Reason) -> Verdict {
    Verdict::Deny(finding(reason))
}

/// As the guard does: what cannot be read is refused, the rest as `judge` says.
pub fn decision(items: &[Located], judge: &dyn Fn(&Located) -> Verdict) -> Decision {
    let rulings = items.iter().map(|located| Ruling {
        place: located.place.clone(),
        verdict: match &located.item {
            Item::Unreadable(_) => deny(Reason::ArgumentsUnreadable),
            _ => judge(located),
        },
        opinions: Vec::new(),
    });
    Decision {
        policy: PolicyHash(Arc::from("test")),
        rulings: rulings.collect(),
        claims: Vec::new(),
        receipts: Vec::new(),
    }
}

/// What came of a response.
#[derive(Debug, Default)]
pub struct Outcome {
    pub sent: Vec<u8>,
    pub judged: Vec<Located>,
}

impl Outcome {
    pub fn text(&self) -> String {
        String::from_utf8(self.sent.clone()).unwrap()
    }
}

pub type Decide<'a> = &'a dyn Fn(&[Located]) -> Decision;

/// A response that comes in these pieces.
pub fn respond(
    adapter: &OpenAiChat,
    status: u16,
    content_type: &str,
    pieces: &[Bytes],
    decide: Decide<'_>,
) -> Result<Outcome, Malformed> {
    let head = http::Response::builder()
        .status(status)
        .header("content-type", content_type)
        .body(())
        .unwrap()
        .into_parts()
        .0;
    let mut reader = adapter.response(&request("POST", "/v1/chat/completions", "{}"), &head)?;
    let mut outcome = Outcome::default();
    match reader.framing() {
        Framing::Whole => {
            let body = Bytes::from(pieces.concat());
            let step = reader.push(Frame::Whole(body))?;
            outcome.take(reader.as_mut(), step, decide)?;
        }
        Framing::Events => {
            let mut decoder = Decoder::new(1 << 20);
            for piece in pieces {
                for event in decoder.push(piece.clone()).unwrap() {
                    let step = reader.push(Frame::Event(event))?;
                    outcome.take(reader.as_mut(), step, decide)?;
                }
            }
        }
    }
    let step = reader.finish()?;
    outcome.take(reader.as_mut(), step, decide)?;
    Ok(outcome)
}

impl Outcome {
    fn take(
        &mut self,
        reader: &mut dyn ResponseReader,
        step: Step,
        decide: Decide<'_>,
    ) -> Result<(), Malformed> {
        self.sent.extend(step.send.concat());
        if !step.judge.is_empty() {
            let decision = decide(&step.judge);
            self.judged.extend(step.judge);
            self.sent.extend(reader.resolve(&decision)?.concat());
        }
        Ok(())
    }
}

/// One choice as a client ends up with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    pub content: String,
    /// Id, type, name, text.
    pub calls: Vec<[String; 4]>,
    pub legacy: Option<[String; 2]>,
    pub finish_reason: String,
}

pub type Client = BTreeMap<u64, Choice>;

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
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
    if let Some(call) = delta.get("function_call").filter(|call| !call.is_null()) {
        let [name, words] = choice.legacy.get_or_insert_default();
        name.push_str(&text(&call["name"]));
        words.push_str(&text(&call["arguments"]));
    }
}
