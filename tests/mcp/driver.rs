//! Runs the adapter without a proxy.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use holdpoint::guard::{Claim, Decision, Outcome, Receipt};
use holdpoint::item::{Item, Located};
use holdpoint::names::{RuleId, TicketId};
use holdpoint::policy::PolicyHash;
use holdpoint::protocols::mcp::Mcp;
use holdpoint::protocols::{
    Event, Frame, Framing, Malformed, Protocol, Request, ResponseReader, Step, Written,
};
use holdpoint::settings::McpRoute;
use holdpoint::verdict::{Finding, LayerId, Reason, Rewrite, RewriteKind, Ruling, Verdict};
use holdpoint::wire::json::{BODY_DEPTH, Document};
use holdpoint::wire::sse::Decoder;
use serde_json::{Value, json};

pub const JSON: &str = "application/json";
pub const EVENTS: &str = "text/event-stream";

/// The revision without sessions.
pub const MODERN: &str = "2026-07-28";

pub fn adapter() -> Mcp {
    let upstream = "http://tools.test:3000".parse().unwrap();
    Mcp::new(&McpRoute::default(), "/srv", Some(&upstream))
}

pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Request {
    let mut builder = http::Request::builder().method(method).uri(path);
    if !body.is_empty() {
        builder = builder.header("content-type", JSON);
    }
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let body = Bytes::copy_from_slice(body.as_bytes());
    let json = Document::read(body.clone(), BODY_DEPTH).ok();
    Request {
        parts: builder.body(()).unwrap().into_parts().0,
        body,
        json,
    }
}

pub fn post(body: &str) -> Request {
    request("POST", "/mcp", &[], body)
}

/// A call of a tool, in a revision with sessions.
pub fn call(id: &str, tool: &str, arguments: &str) -> Request {
    post(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    ))
}

/// A request of any method.
pub fn ask(method: &str) -> Request {
    post(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{}}}}"#
    ))
}

/// A stateless request, its headers as they must be.
pub fn modern(method: &str, mut params: Value) -> Request {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    let name = params.get("name").or_else(|| params.get("uri"));
    let name = name.and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", method)];
    if !name.is_empty() {
        headers.push(("mcp-name", &name));
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    request("POST", "/mcp", &headers, &body.to_string())
}

/// Tool and arguments of each call in a request.
pub fn calls(request: &Request) -> Result<Vec<(String, Value)>, Malformed> {
    let items = adapter().read(request)?;
    Ok(items
        .into_iter()
        .map(|located| match located.item {
            Item::ToolCall(call) => (call.tool.to_string(), call.args.value),
            Item::Unreadable(call) => (call.tool.to_string(), Value::Null),
            other => panic!("{other:?}"),
        })
        .collect())
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

/// What tests take for an instruction.
pub const BAD: &str = "IGNORE-THIS";

/// The text of an item that a server sent.
pub fn text(located: &Located) -> &str {
    match &located.item {
        Item::ToolOutput(output) => &output.text,
        Item::Definition(definition) => &definition.text,
        other => panic!("{other:?}"),
    }
}

/// Takes [`BAD`] out of outputs, and refuses a definition that has it.
pub fn redact(located: &Located) -> Verdict {
    let edits: Vec<_> = text(located)
        .match_indices(BAD)
        .map(|(at, bad)| (at..at + bad.len(), "[x]".into()))
        .collect();
    match &located.item {
        _ if edits.is_empty() => Verdict::Allow,
        Item::Definition(_) => deny(Reason::DefinitionChanged),
        _ => Verdict::Rewrite(Rewrite {
            kind: RewriteKind::Redact,
            edits,
            finding: finding(Reason::InjectionDetected),
        }),
    }
}

/// Withholds each text that has [`BAD`].
pub fn block(located: &Located) -> Verdict {
    if text(located).contains(BAD) {
        deny(Reason::InjectionDetected)
    } else {
        Verdict::Allow
    }
}

pub type Judge<'a> = &'a dyn Fn(&Located) -> Verdict;

pub fn decision(items: &[Located], judge: Judge<'_>) -> Decision {
    let rulings = items.iter().map(|located| Ruling {
        place: located.place.clone(),
        verdict: judge(located),
        opinions: Vec::new(),
    });
    Decision::new(PolicyHash(Arc::from("test")), rulings.collect())
}

/// A ticket with its stored arguments.
struct Stored(TicketId, Bytes);

/// A claimed ticket whose stored arguments are these.
pub fn claim(arguments: &'static str) -> Box<dyn Claim> {
    Box::new(Stored(
        "t-1".into(),
        Bytes::from_static(arguments.as_bytes()),
    ))
}

impl Claim for Stored {
    fn ticket(&self) -> &TicketId {
        &self.0
    }

    fn arguments(&self) -> &Bytes {
        &self.1
    }

    fn finish(
        self: Box<Self>,
        _: Outcome,
    ) -> futures_util::future::BoxFuture<'static, Result<(), holdpoint::verdict::Undecided>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What is written of a request whose call is bound to a ticket with these arguments.
pub fn redeemed(request: Request, stored: &'static str) -> Result<Request, Malformed> {
    let adapter = adapter();
    let items = adapter.read(&request)?;
    let mut decision = decision(&items, &|_| Verdict::Allow);
    decision.claims.push((0, claim(stored)));
    match adapter.write(request, &decision)? {
        Written::Forward(request) => Ok(request),
        other => panic!("{other:?}"),
    }
}

pub fn receipt(content_type: Option<&str>, body: &str) -> Receipt {
    Receipt {
        ticket: TicketId::from("t-1"),
        status: 200,
        content_type: content_type.map(str::to_owned),
        body: Bytes::copy_from_slice(body.as_bytes()),
        completed_at: "2026-11-30T12:00:00Z".parse().unwrap(),
    }
}

pub fn head(status: u16, content_type: &str) -> http::response::Parts {
    let mut builder = http::Response::builder().status(status);
    if !content_type.is_empty() {
        builder = builder.header("content-type", content_type);
    }
    builder.body(()).unwrap().into_parts().0
}

/// What came of an answer.
#[derive(Debug, Default)]
pub struct Got {
    pub sent: Vec<u8>,
    pub judged: Vec<Located>,
}

impl Got {
    pub fn text(&self) -> String {
        String::from_utf8(self.sent.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.sent).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn events(&self) -> Vec<Event> {
        let events = Decoder::new(1 << 24).push(Bytes::from(self.sent.clone()));
        events.unwrap()
    }

    /// The message of each event that has one.
    pub fn messages(&self) -> Vec<Value> {
        let data = self.events().into_iter().filter_map(|event| event.data);
        data.filter(|data| !data.is_empty())
            .map(|data| serde_json::from_str(&data).unwrap())
            .collect()
    }

    /// Every text that was judged, as the pointer to it and the text.
    pub fn texts(&self) -> Vec<(&str, &str)> {
        let pairs = self.judged.iter();
        pairs
            .map(|located| (&*located.place.pointer, text(located)))
            .collect()
    }

    fn take(
        &mut self,
        reader: &mut dyn ResponseReader,
        step: Step,
        judge: Judge<'_>,
    ) -> Result<(), Malformed> {
        self.sent.extend(step.send.concat());
        if !step.judge.is_empty() {
            let decision = decision(&step.judge, judge);
            self.judged.extend(step.judge);
            self.sent.extend(reader.resolve(&decision)?.concat());
        }
        Ok(())
    }
}

/// An answer in these pieces.
pub fn answer(
    adapter: &Mcp,
    request: &Request,
    head: &http::response::Parts,
    pieces: &[Bytes],
    judge: Judge<'_>,
) -> Result<Got, Malformed> {
    let mut reader = adapter.response(request, head)?;
    let mut got = Got::default();
    match reader.framing() {
        Framing::Whole => {
            let step = reader.push(Frame::Whole(Bytes::from(pieces.concat())))?;
            got.take(reader.as_mut(), step, judge)?;
        }
        Framing::Events => {
            let mut decoder = Decoder::new(1 << 24);
            for piece in pieces {
                for event in decoder.push(piece.clone()).unwrap() {
                    let step = reader.push(Frame::Event(event))?;
                    got.take(reader.as_mut(), step, judge)?;
                }
            }
        }
    }
    let step = reader.finish()?;
    got.take(reader.as_mut(), step, judge)?;
    Ok(got)
}

/// A JSON answer, 200.
pub fn json_answer(request: &Request, body: &str, judge: Judge<'_>) -> Result<Got, Malformed> {
    let pieces = [Bytes::copy_from_slice(body.as_bytes())];
    answer(&adapter(), request, &head(200, JSON), &pieces, judge)
}

/// An event stream, 200.
pub fn stream_answer(request: &Request, body: &str, judge: Judge<'_>) -> Result<Got, Malformed> {
    let pieces = [Bytes::copy_from_slice(body.as_bytes())];
    answer(&adapter(), request, &head(200, EVENTS), &pieces, judge)
}

/// An event with one message.
pub fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

/// The answer to request 1.
pub fn result(result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string()
}
