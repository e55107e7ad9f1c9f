//! Refusals of the API: RFC 9457, with a code of a closed list.

use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::approvals::MAX_BODY;
use crate::layers::tickets::show::visible_json;
use crate::store::tickets::{AnswerError, TicketError, TicketState};

/// Every code of the API, with the status that it comes with. Listed in `docs/reference/tickets.md`.
pub const CODES: [(&str, u16); 21] = [
    ("body_invalid", 400),
    ("digest_prefix_required", 400),
    ("query_invalid", 400),
    ("credential_missing", 401),
    ("not_an_approver", 403),
    ("self_approval", 403),
    ("not_the_requester", 403),
    ("role_missing", 403),
    ("fresh_login_required", 403),
    ("every_tenant_required", 403),
    ("ticket_unknown", 404),
    ("mandate_unknown", 404),
    ("not_found", 404),
    ("method_not_allowed", 405),
    ("already_decided", 409),
    ("digest_mismatch", 409),
    ("ticket_expired", 409),
    ("not_unknown", 409),
    ("mandate_not_offered", 409),
    ("body_too_large", 413),
    ("store_unavailable", 503),
];

pub(crate) fn internal() -> Problem {
    let detail = "the ticket store failed; the log says why";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail)
}

/// A refusal.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    state: Option<TicketState>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            state: None,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut problem = json!({
            "type": format!("urn:holdpoint:error:{}", self.code),
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "detail": self.detail,
            "error": self.code,
        });
        if let (Some(state), Value::Object(members)) = (self.state, &mut problem) {
            members.insert("state".to_owned(), state.as_str().into());
        }
        let kind = HeaderValue::from_static("application/problem+json");
        (
            self.status,
            [(header::CONTENT_TYPE, kind)],
            visible_json(&problem.to_string()),
        )
            .into_response()
    }
}

impl From<TicketError> for Problem {
    fn from(error: TicketError) -> Self {
        tracing::error!(%error, "the approver API could not answer");
        internal()
    }
}

impl From<BytesRejection> for Problem {
    fn from(rejection: BytesRejection) -> Self {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            let detail = format!("the body is longer than {MAX_BODY} bytes");
            return Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail);
        }
        let detail = "the body ended early";
        Self::new(StatusCode::BAD_REQUEST, "body_invalid", detail)
    }
}

impl From<AnswerError> for Problem {
    fn from(error: AnswerError) -> Self {
        let status = match &error {
            AnswerError::NoSuchTicket(_) => StatusCode::NOT_FOUND,
            AnswerError::AlreadyDecided { .. }
            | AnswerError::Expired(_)
            | AnswerError::DigestMismatch(_)
            | AnswerError::NotUnknown { .. }
            | AnswerError::NotOffered { .. } => StatusCode::CONFLICT,
            AnswerError::DigestPrefix => StatusCode::BAD_REQUEST,
            AnswerError::SelfApproval(_)
            | AnswerError::NotTheRequester(_)
            | AnswerError::RoleMissing { .. }
            | AnswerError::FreshLogin(_) => StatusCode::FORBIDDEN,
            AnswerError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let (code, detail) = (error.code(), error.to_string());
        match error {
            AnswerError::Store(error) => error.into(),
            AnswerError::AlreadyDecided { state, .. } | AnswerError::NotUnknown { state, .. } => {
                Self {
                    state: Some(state),
                    ..Self::new(status, code, detail)
                }
            }
            _ => Self::new(status, code, detail),
        }
    }
}
