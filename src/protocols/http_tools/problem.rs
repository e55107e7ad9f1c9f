//! Problem details (RFC 9457) for agents.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde_json::{Map, Value};

use crate::protocols::Refusal;

/// Renders a refusal as `application/problem+json`.
pub fn problem(refusal: &Refusal) -> Response<Bytes> {
    let mut body = Map::new();
    let title = refusal.status.canonical_reason().unwrap_or("Error");
    body.insert(
        "type".to_owned(),
        format!("urn:holdpoint:error:{}", refusal.code).into(),
    );
    body.insert("title".to_owned(), title.into());
    body.insert("status".to_owned(), refusal.status.as_u16().into());
    body.insert("detail".to_owned(), refusal.message.clone().into());
    body.extend(refusal.facts());
    let mut response = Response::new(Bytes::from(Value::Object(body).to_string()));
    *response.status_mut() = refusal.status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );
    response
}
