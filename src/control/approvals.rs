//! The approver listener: the ticket API. Served on an address of its own that agents cannot reach, with keys of its own.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Digest, SHA256, digest};
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::middleware::{Next, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::layers::tickets::show::visible_json;
use crate::names::TicketId;
use crate::settings::Approver;
use crate::store::tickets::{
    Answer, AnswerError, Channel, Decider, Filter, Person, Ticket, TicketError, TicketState,
    TicketStore, Verdict, Voter,
};
use crate::wire::json::Document;

/// Largest body of an answer, in bytes.
const MAX_BODY: usize = 16 << 10;

/// Tickets in one answer, where the caller does not say.
const DEFAULT_LIMIT: u32 = 100;

/// Tickets in one answer, at most.
const MAX_LIMIT: u32 = 1000;

/// The ticket API: `GET /v1/tickets`, `GET /v1/tickets/{id}`, `POST /v1/tickets/{id}/approve` and `…/deny`. Shapes and
/// error codes are in `docs/reference/tickets.md`. Every approver sees every ticket.
pub fn router(
    store: Arc<dyn TicketStore>,
    approvers: Vec<Approver>,
    clock: Arc<dyn Clock>,
) -> Router {
    let keys = approvers.into_iter().map(Key::new).collect();
    let api = Arc::new(Api { store, keys, clock });
    Router::new()
        .route("/v1/tickets", get(list))
        .route("/v1/tickets/{id}", get(show))
        .route("/v1/tickets/{id}/approve", post(approve))
        .route("/v1/tickets/{id}/deny", post(deny))
        .fallback(async || {
            Problem::new(StatusCode::NOT_FOUND, "not_found", "there is no such path")
        })
        .method_not_allowed_fallback(async || {
            let detail = "tickets are read with GET and answered with POST";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn_with_state(Arc::clone(&api), authenticate))
        .layer(map_response(uncached))
        .with_state(api)
}

struct Api {
    store: Arc<dyn TicketStore>,
    keys: Vec<Key>,
    clock: Arc<dyn Clock>,
}

/// An approver with the hash of the key: hashes are of one length, so that comparing them tells nothing of the key.
struct Key {
    hash: Digest,
    person: Decider,
}

impl Key {
    fn new(approver: Approver) -> Self {
        Self {
            hash: digest(&SHA256, approver.key.0.as_bytes()),
            person: Decider::Person(Voter::new(
                Person::new("config", &*approver.subject),
                approver.roles,
                Channel::Api,
            )),
        }
    }
}

impl Api {
    /// Compares with every key, whether one has matched already or not.
    fn person(&self, key: &str) -> Option<&Decider> {
        let hash = digest(&SHA256, key.as_bytes());
        self.keys.iter().fold(None, |found, known| {
            let equal = verify_slices_are_equal(known.hash.as_ref(), hash.as_ref()).is_ok();
            if equal { Some(&known.person) } else { found }
        })
    }
}

async fn authenticate(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let Some(key) = bearer(request.headers()) else {
        let detail = "send one header `Authorization: Bearer KEY` with an approver's key";
        let problem = Problem::new(StatusCode::UNAUTHORIZED, "credential_missing", detail);
        let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
        return (challenge, problem).into_response();
    };
    let Some(person) = api.person(key) else {
        tracing::warn!("a credential that is no approver's was used on the approver listener");
        let detail = "the key is no approver's; an agent's credential gives no access here";
        return Problem::new(StatusCode::FORBIDDEN, "not_an_approver", detail).into_response();
    };
    let person = person.clone();
    request.extensions_mut().insert(person);
    next.run(request).await
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

async fn uncached(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    state: Option<String>,
    limit: Option<u32>,
}

async fn list(
    State(api): State<Arc<Api>>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let filter = query
        .ok()
        .and_then(|Query(query)| filter(&query))
        .ok_or_else(|| {
            let states = TicketState::ALL.map(TicketState::as_str).join(", ");
            let detail = format!(
                "`state` is one of {states}; `limit` is 1 to {MAX_LIMIT}; nothing else is known"
            );
            Problem::new(StatusCode::BAD_REQUEST, "query_invalid", detail)
        })?;
    let tickets = api.store.list(filter).await?;
    let now = api.clock.now();
    Ok(json_response(&Listing { now, tickets }))
}

fn filter(query: &ListQuery) -> Option<Filter> {
    let states = match &query.state {
        Some(name) => vec![TicketState::from_name(name)?],
        None => Vec::new(),
    };
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    (1..=MAX_LIMIT).contains(&limit).then_some(Filter {
        states,
        limit,
        ..Filter::default()
    })
}

#[derive(Serialize)]
struct Listing {
    now: jiff::Timestamp,
    tickets: Vec<Ticket>,
}

async fn show(
    State(api): State<Arc<Api>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let id = ticket_id(id)?;
    match api.store.get(id.clone()).await? {
        Some(ticket) => Ok(json_response(&ticket)),
        None => Err(AnswerError::NoSuchTicket(id).into()),
    }
}

async fn approve(
    State(api): State<Arc<Api>>,
    Extension(person): Extension<Decider>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    answer(&api, person, Verdict::Approve, id, body).await
}

async fn deny(
    State(api): State<Arc<Api>>,
    Extension(person): Extension<Decider>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    answer(&api, person, Verdict::Deny, id, body).await
}

async fn answer(
    api: &Api,
    by: Decider,
    verdict: Verdict,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let ticket = ticket_id(id)?;
    let (digest_prefix, comment) = words(body?)?;
    let who = by.record();
    let answer = Answer {
        ticket: ticket.clone(),
        verdict,
        by,
        digest_prefix,
        comment,
    };
    match api.store.answer(answer).await {
        Ok(answered) => {
            tracing::info!(ticket = %answered.id, state = %answered.state, by = who, "a request was answered");
            Ok(json_response(&answered))
        }
        Err(error) => {
            tracing::warn!(code = error.code(), by = who, "an answer does not count");
            Err(error.into())
        }
    }
}

fn ticket_id(id: Result<Path<String>, PathRejection>) -> Result<TicketId, Problem> {
    let Ok(Path(id)) = id else {
        let detail = "the ticket's id is not text";
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "ticket_unknown",
            detail,
        ));
    };
    Ok(TicketId::new(id))
}

/// `{"digest_prefix": TEXT, "comment": TEXT}`, both optional here; no body is an empty object.
fn words(body: Bytes) -> Result<(Option<String>, Option<String>), Problem> {
    let invalid = |detail: String| Problem::new(StatusCode::BAD_REQUEST, "body_invalid", detail);
    if body.is_empty() {
        return Ok((None, None));
    }
    let document = Document::read(body, 4)
        .map_err(|error| invalid(format!("the body is not strict JSON: {error}")))?;
    let value = document
        .value(document.root())
        .map_err(|error| invalid(format!("the body is not strict JSON: {error}")))?
        .0;
    let known =
        "the body is an object with the strings `digest_prefix` and `comment`, nothing else";
    let Value::Object(members) = value else {
        return Err(invalid(known.to_owned()));
    };
    let (mut digest_prefix, mut comment) = (None, None);
    for (key, value) in members {
        match (key.as_str(), value) {
            ("digest_prefix", Value::String(text)) => digest_prefix = Some(text),
            ("comment", Value::String(text)) => comment = Some(text),
            _ => return Err(invalid(known.to_owned())),
        }
    }
    Ok((digest_prefix, comment))
}

fn json_response(value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(json) => {
            let kind = [(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            )];
            (kind, visible_json(&json)).into_response()
        }
        Err(_) => internal().into_response(),
    }
}

fn internal() -> Problem {
    let detail = "the ticket store failed; the log says why";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail)
}

/// A refusal, RFC 9457, with a closed code in `error`.
struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    state: Option<TicketState>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
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
            | AnswerError::NotUnknown { .. }
            | AnswerError::NotOffered { .. }
            | AnswerError::Expired(_)
            | AnswerError::DigestMismatch(_) => StatusCode::CONFLICT,
            AnswerError::DigestPrefix => StatusCode::BAD_REQUEST,
            AnswerError::SelfApproval(_)
            | AnswerError::NotTheRequester(_)
            | AnswerError::FreshLogin(_)
            | AnswerError::RoleMissing { .. } => StatusCode::FORBIDDEN,
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
