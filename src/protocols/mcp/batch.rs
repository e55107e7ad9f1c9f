//! Several messages in one body, which MCP 2025-03-26 alone has: each passes by itself, and their answers leave together.

use std::collections::HashSet;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

use super::answer::is_response;
use super::headers;
use super::message::{Message, id_text};
use crate::protocols::strict::invalid_request;
use crate::protocols::{Malformed, Request, unwritable};
use crate::wire::json::{BODY_DEPTH, Document, Kind, Node};
use crate::wire::media::{Media, media};
use crate::wire::sse::Decoder;

/// Most messages of one body.
const MOST: usize = 64;

/// The revision that has batches. Its clients name none.
const REVISION: &str = "2025-03-26";

/// The messages of a body, as requests of their own; `None`: it has one, or its revision knows none of these.
///
/// # Errors
/// None, too many, an id that two of them have, or one that must come alone.
pub(super) fn several(request: &Request) -> Result<Option<Vec<Request>>, Malformed> {
    let Some(document) = &request.json else {
        return Ok(None);
    };
    let Kind::Array(elements) = &document.root().kind else {
        return Ok(None);
    };
    let mut versions = request.parts.headers.get_all(headers::VERSION).iter();
    if versions.any(|version| version != REVISION) {
        return Ok(None);
    }
    if elements.is_empty() || elements.len() > MOST {
        return Err(invalid_request("", "must have 1 to 64 messages"));
    }
    let mut ids = HashSet::new();
    let mut requests = Vec::with_capacity(elements.len());
    for (index, element) in elements.iter().enumerate() {
        let at = || format!("/{index}");
        let body = document.raw(element);
        let own = Document::read(body.clone(), BODY_DEPTH).map_err(|_| unwritable())?;
        if let Message::Request { id, method, .. } = Message::read(&own)? {
            if method == "initialize" {
                return Err(invalid_request(&at(), "must come alone"));
            }
            if !id_text(&own, id).is_some_and(|id| ids.insert(id)) {
                return Err(invalid_request(&at(), "has the id of another message"));
            }
        }
        requests.push(Request {
            parts: request.parts.clone(),
            body,
            json: Some(own),
        });
    }
    Ok(Some(requests))
}

/// The answers in one body; none, where nothing was asked.
pub(super) fn joined(answers: &[Response<Bytes>]) -> Response<Bytes> {
    let mut messages = Vec::new();
    for answer in answers {
        match media(answer.headers()) {
            Ok(Media::Json) => messages.extend(response(answer.body().clone())),
            Ok(Media::Events) => {
                let mut decoder = Decoder::new(answer.body().len());
                let events = decoder.push(answer.body().clone()).unwrap_or_default();
                let data = events.into_iter().filter_map(|event| event.data);
                messages.extend(data.filter_map(|data| response(data.into())));
            }
            _ => {}
        }
    }
    if messages.is_empty() {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::ACCEPTED;
        return response;
    }
    let mut body = vec![b'['];
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(message);
    }
    body.push(b']');
    let mut response = Response::new(Bytes::from(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// A message that answers a request; what a server says on the way there has no place in a batch.
fn response(bytes: Bytes) -> Option<Bytes> {
    let document = Document::read(bytes, BODY_DEPTH).ok()?;
    let root = document.root();
    let named = root.get("id").is_some_and(|id| !is_null(id));
    (is_response(root) && named).then(|| document.bytes().clone())
}

fn is_null(node: &Node) -> bool {
    matches!(node.kind, Kind::Null)
}
