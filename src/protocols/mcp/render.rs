//! What Holdpoint itself answers with: results that the model can read, and JSON-RPC errors.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use super::answer;
use crate::guard::Receipt;
use crate::protocols::strict::present;
use crate::protocols::{Refusal, note};
use crate::wire::json::{BODY_DEPTH, Document, Kind};
use crate::wire::media::{Media, media};
use crate::wire::splice::Splice;
use crate::wire::sse::Decoder;

/// `_meta` and `error.data`: why Holdpoint refused, for programs.
pub(super) const REFUSED: &str = "holdpoint/refusal";

/// `_meta` of a result: it was given before, and nothing was sent for it now.
const REPLAYED: &str = "holdpoint-replayed";

/// JSON-RPC: the body is not JSON.
const PARSE_ERROR: i64 = -32700;
/// JSON-RPC: the body is no request.
const INVALID_REQUEST: i64 = -32600;
/// MCP 2026-07-28: headers and body differ.
const HEADER_MISMATCH: i64 = -32020;
/// What the policy refused. Own codes are ten times an HTTP status: outside the range that JSON-RPC reserves, since clients
/// tell eras apart by codes in it.
const POLICY: i64 = 4030;

/// Whom an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// The id, as JSON text.
    pub(super) id: Bytes,
    /// A tool is called: the model reads the answer.
    pub(super) call: bool,
    /// The tool has no schema that a structured result would be held against.
    pub(super) structured: bool,
    /// The revision is stateless.
    pub(super) modern: bool,
}

impl Address {
    /// As the gate keeps it: JSON text.
    pub(super) fn to_bytes(&self) -> Bytes {
        let id = String::from_utf8_lossy(&self.id);
        let text = format!(
            r#"{{"id":{id},"call":{},"structured":{},"modern":{}}}"#,
            self.call, self.structured, self.modern
        );
        text.into()
    }

    fn of(bytes: &Bytes) -> Option<Self> {
        let document = Document::read(bytes.clone(), 2).ok()?;
        let is = |key| {
            let node = document.root().get(key);
            node.is_some_and(|node| *document.raw(node) == *b"true")
        };
        Some(Self {
            id: document.raw(document.root().get("id")?),
            call: is("call"),
            structured: is("structured"),
            modern: is("modern"),
        })
    }
}

pub(super) fn envelope(id: Option<&Bytes>, key: &str, value: &Value) -> Bytes {
    let id = id.map_or("null".into(), |id| String::from_utf8_lossy(id));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"{key}":{value}}}"#).into()
}

/// A refusal as the answer to the one that is named.
pub(super) fn message(refusal: &Refusal, to: Option<&Address>) -> Bytes {
    let id = to.map(|to| &to.id);
    match to {
        Some(to) if to.call && refusal.reason.is_some() => {
            let mut result = said(&refusal.words(), to.modern);
            let facts = refusal.facts();
            if to.structured {
                let facts = facts.clone();
                result.insert("structuredContent".to_owned(), facts.into());
            }
            result.insert("_meta".to_owned(), json!({ REFUSED: facts }));
            envelope(id, "result", &result.into())
        }
        _ => envelope(id, "error", &error(refusal)),
    }
}

/// A tool's result that says only this.
pub(super) fn said(text: &str, modern: bool) -> Map<String, Value> {
    let mut result = Map::new();
    result.insert(
        "content".to_owned(),
        json!([{ "type": "text", "text": text }]),
    );
    result.insert("isError".to_owned(), true.into());
    if modern {
        result.insert("resultType".to_owned(), "complete".into());
    }
    result
}

fn error(refusal: &Refusal) -> Value {
    let (code, text) = match refusal.reason {
        Some(_) => (POLICY, refusal.words()),
        None => (code(refusal), refusal.message.clone()),
    };
    // The specification gives this error no data.
    if code == HEADER_MISMATCH {
        return json!({ "code": code, "message": text });
    }
    json!({ "code": code, "message": text, "data": { REFUSED: refusal.facts() } })
}

fn code(refusal: &Refusal) -> i64 {
    match refusal.code {
        "invalid_json" => PARSE_ERROR,
        "invalid_request" => INVALID_REQUEST,
        "header_mismatch" => HEADER_MISMATCH,
        _ => i64::from(refusal.status.as_u16()) * 10,
    }
}

/// A refusal of the policy is an answer like any other (a status in its place starts a sign-in, or ends the session); what
/// went wrong on the way has its HTTP status.
pub(super) fn refuse(refusal: &Refusal, to: Option<&Bytes>) -> Response<Bytes> {
    let address = to.and_then(Address::of);
    let mut response = Response::new(message(refusal, address.as_ref()));
    *response.status_mut() = match refusal.reason {
        Some(_) if address.is_some() => StatusCode::OK,
        _ => refusal.status,
    };
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// A call that was carried out before, told in words.
pub(super) fn done_before(receipt: &Receipt, to: &Address) -> Bytes {
    let text = note::done_before(receipt);
    if to.call {
        return envelope(Some(&to.id), "result", &said(&text, to.modern).into());
    }
    let error = json!({ "code": POLICY, "message": text });
    envelope(Some(&to.id), "error", &error)
}

/// The refusal that a receipt stands for, where it cannot be given back itself.
pub(super) fn already_done(receipt: &Receipt) -> Refusal {
    Refusal {
        status: StatusCode::FORBIDDEN,
        code: "already_done",
        message: format!(
            "This call was carried out before, at {}, and is not repeated.",
            receipt.completed_at
        ),
        reason: None,
        hold: None,
        retry: false,
    }
}

/// A stored answer under another id. Of a stream only the answer is given: what led to it is told once.
pub(super) fn replayed(receipt: Receipt, to: &Address) -> Receipt {
    let mut headers = http::HeaderMap::new();
    if let Some(value) = receipt.content_type.as_deref()
        && let Ok(value) = HeaderValue::from_str(value)
    {
        headers.insert(header::CONTENT_TYPE, value);
    }
    let body = match media(&headers) {
        Ok(Media::Events) => last_answer(&receipt.body),
        Ok(Media::Json) => Some(receipt.body.clone()),
        _ => None,
    };
    let body = body
        .and_then(|body| readdressed(body, &to.id))
        .unwrap_or_else(|| done_before(&receipt, to));
    Receipt {
        content_type: Some("application/json".to_owned()),
        body,
        ..receipt
    }
}

fn last_answer(events: &Bytes) -> Option<Bytes> {
    let events = Decoder::new(events.len()).push(events.clone()).ok()?;
    let mut data = events.into_iter().rev().filter_map(|event| event.data);
    data.find_map(|data| {
        let document = Document::read(data.into(), BODY_DEPTH).ok()?;
        answer::is_response(document.root()).then(|| document.bytes().clone())
    })
}

fn readdressed(body: Bytes, id: &Bytes) -> Option<Bytes> {
    let document = Document::read(body, BODY_DEPTH).ok()?;
    if !answer::is_response(document.root()) {
        return None;
    }
    let mut splice = Splice::new(&document);
    splice.replace(document.root().get("id")?, id.to_vec());
    let result = document.root().get("result");
    if let Some(result) = result.filter(|result| matches!(result.kind, Kind::Object(_))) {
        match present(result, "_meta") {
            // Said by a server, it would say nothing.
            Some(meta) if meta.get(REPLAYED).is_none() => {
                splice.add_member(meta, REPLAYED, b"true");
            }
            Some(_) => {}
            None => {
                let meta = json!({ REPLAYED: true }).to_string();
                splice.add_member(result, "_meta", meta.as_bytes());
            }
        }
    }
    Some(splice.finish())
}

/// What the server gets in place of an answer that the policy keeps from it: it would wait for ever otherwise.
pub(super) fn withheld_answer(refusal: &Refusal, id: &Bytes) -> Bytes {
    envelope(Some(id), "error", &error(refusal))
}

/// What the server gets in place of a call that is refused, where its answers come on another stream: its answer to this
/// makes room for the refusal there.
pub(super) fn ping(id: &Bytes) -> Bytes {
    let id = String::from_utf8_lossy(id);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).into()
}
