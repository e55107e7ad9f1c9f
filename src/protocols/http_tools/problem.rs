//! Problem details (RFC 9457) for agents.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde_json::{Map, Value, json};

use crate::names::TicketId;
use crate::protocols::Refusal;
use crate::verdict::Reason;

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
    body.insert("error".to_owned(), refusal.code.into());
    if let Some(hold) = &refusal.hold {
        let ticket = hold.ticket.as_ref().map(TicketId::as_str);
        let mut put = |key: &str, value: Option<&str>| {
            if let Some(value) = value {
                body.insert(key.to_owned(), value.into());
            }
        };
        put("request_id", ticket);
        put("summary", hold.summary.as_deref());
        put("expires_at", hold.expires_at.as_deref());
    }
    if let Some(how) = how(refusal) {
        body.insert("retry".to_owned(), json!({ "how": how }));
    }
    let mut response = Response::new(Bytes::from(Value::Object(body).to_string()));
    *response.status_mut() = refusal.status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );
    response
}

fn how(refusal: &Refusal) -> Option<&'static str> {
    match refusal.reason {
        Some(Reason::ApprovalRequired | Reason::ApprovalPending) => {
            Some("repeat the identical call after the approval")
        }
        Some(Reason::ApprovalExpired) => Some("repeat the identical call to ask again"),
        Some(Reason::InProgress) => Some("repeat the identical call in a moment"),
        Some(Reason::Undecided) => Some("repeat the call later"),
        _ if refusal.retry => Some("repeat the request in a moment"),
        _ => None,
    }
}
