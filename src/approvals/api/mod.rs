//! The JSON API below `/v1`, for programs: with a key or a token, never with the cookie of a page.

mod body;
pub mod openapi;
mod problem;
mod tickets;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::json;

use self::problem::Problem;
use super::Approvals;
use super::people::Person;
use crate::identity::api_key::sha256;
use crate::store::tickets::Channel;
use crate::store::tickets::audit::{Event, Note};

pub use self::problem::CODES;

/// A handler of the API, as [`openapi::ROUTES`] names it.
fn handler(operation: &str) -> Option<MethodRouter<Arc<Approvals>>> {
    Some(match operation {
        "listTickets" => get(tickets::list),
        "showTicket" => get(tickets::show),
        "approveTicket" => post(tickets::approve),
        "denyTicket" => post(tickets::deny),
        "revokeTicket" => post(tickets::revoke),
        "resolveTicket" => post(tickets::resolve),
        "grantMandate" => post(tickets::grant),
        "listMandates" => get(tickets::mandates),
        "endMandate" => post(tickets::end_mandate),
        "readAudit" => get(tickets::audit),
        _ => return None,
    })
}

/// `/v1`: the routes of the document that describes them. Shapes and error codes are in `docs/reference/tickets.md`.
pub(super) fn router(approvals: &Arc<Approvals>) -> Router<Arc<Approvals>> {
    let unknown =
        async || Problem::new(StatusCode::NOT_FOUND, "not_found", "there is no such path");
    let mut router = Router::new();
    for route in openapi::ROUTES {
        if let Some(handler) = handler(route.operation) {
            router = router.route(route.path, handler);
        }
    }
    router
        .route("/v1", any(unknown))
        .route("/v1/{*rest}", any(unknown))
        .method_not_allowed_fallback(async || {
            let detail = "what is read is read with GET, and what is changed is changed with POST";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
        })
        .route_layer(from_fn_with_state(Arc::clone(approvals), authenticate))
        .route("/v1/openapi.json", get(openapi::serve))
}

async fn authenticate(
    State(approvals): State<Arc<Approvals>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(key) = bearer(request.headers()) else {
        let detail = "send one header `Authorization: Bearer KEY` with an approver's key";
        let problem = Problem::new(StatusCode::UNAUTHORIZED, "credential_missing", detail);
        let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
        return (challenge, problem).into_response();
    };
    let Some(person) = approvals.person(key).await else {
        approvals.foreign(request.headers()).await;
        let detail = "the key is no approver's; an agent's credential gives no access here";
        return Problem::new(StatusCode::FORBIDDEN, "not_an_approver", detail).into_response();
    };
    // A key shows nothing of when a person was there.
    request
        .extensions_mut()
        .insert(person.voter(Channel::Api, false));
    next.run(request).await
}

impl Approvals {
    /// Whose key or access token it is.
    async fn person(&self, credential: &str) -> Option<Person> {
        if let Some(person) = self.people.by_key(&sha256(credential.as_bytes())) {
            return Some(person);
        }
        let provider = self.login.oidc.as_ref()?;
        provider.bearer(credential, &self.people, &self.clock).await
    }

    /// A credential that is no approver's was used. An agent's own is an alert: somebody leads an agent here.
    async fn foreign(&self, headers: &HeaderMap) {
        let Some(agents) = &self.agents else {
            return self.refused("unknown_credential");
        };
        let at = Some(&header::AUTHORIZATION);
        let session = agents.session_of(headers, at, None, &*self.clock).await;
        let Ok(session) = session else {
            return self.refused("unknown_credential");
        };
        self.refused("foreign_credential");
        let principal = &session.principal;
        tracing::error!(
            issuer = &*principal.issuer,
            subject = &*principal.subject,
            agent = &*principal.agent,
            "an agent's credential was used on the approver listener"
        );
        let actor = format!("{}:{}", principal.issuer, principal.subject);
        let now = self.clock.now();
        if self.noted.wait(&actor, now).is_some() {
            return;
        }
        self.noted.count(actor.clone(), now);
        let note = Note {
            event: Event::ForeignCredential,
            ticket: None,
            mandate: None,
            actor,
            details: json!({"tenant": &*principal.tenant, "agent": &*principal.agent}),
        };
        if let Err(error) = self.store.note(note).await {
            tracing::error!(%error, "the use of an agent's credential could not be written to the audit");
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = super::place::one(headers, &header::AUTHORIZATION)?;
    let (scheme, key) = value.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}
