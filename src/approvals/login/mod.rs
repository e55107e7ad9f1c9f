//! Logging in and out.

mod local;
pub(crate) mod oidc;
mod pending;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{ConnectInfo, Query, Request, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use serde::Deserialize;

use self::local::{Accounts, Outcome};
use self::oidc::Provider;
use super::Approvals;
use super::human::{COOKIE, Posted, cookie, field, form, human, set_cookie};
use super::people::{People, Person};
use super::place::Place;
use super::view::{self, LoginView};
use crate::settings::Approvers;
use crate::wire::seal::SealingKey;

/// The ways in.
pub(crate) struct Login {
    accounts: Accounts,
    pub(crate) oidc: Option<Provider>,
}

impl Login {
    /// `keys` seal what a browser carries to the provider and back; without any, a key of this process.
    ///
    /// # Errors
    /// Authorities of the identity provider that cannot be read, or no randomness.
    pub(crate) fn new(
        approvers: &Approvers,
        place: &Place,
        keys: &[SealingKey],
    ) -> Result<Self, String> {
        let oidc = approvers.oidc.as_ref();
        let provider = oidc.map(|oidc| Provider::new(oidc, place, keys));
        Ok(Self {
            accounts: Accounts::new()?,
            oidc: provider.transpose()?,
        })
    }
}

/// `/login`, `/login/oidc`, `/login/callback` and `/logout`.
pub(crate) fn router() -> Router<Arc<Approvals>> {
    Router::new()
        .route("/login", get(show).post(try_account))
        .route("/login/oidc", get(oidc::go))
        .route("/login/callback", get(oidc::back))
        .route("/logout", post(log_out))
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Next {
    next: Option<String>,
    fresh: Option<String>,
}

impl Next {
    fn path(&self) -> &str {
        own_path(self.next.as_deref().unwrap_or("/"))
    }

    const fn is_fresh(&self) -> bool {
        self.fresh.is_some()
    }
}

/// A path of ours, or the start page: what follows a log-in must not lead anywhere else.
pub(crate) fn own_path(next: &str) -> &str {
    let fine = next.starts_with('/')
        && !next.starts_with("//")
        && !next.starts_with("/\\")
        && next.len() <= 1024
        && next
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if fine { next } else { "/" }
}

async fn show(
    State(approvals): State<Arc<Approvals>>,
    next: Result<Query<Next>, QueryRejection>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    if !approvals.place.is_ours(&parts.headers) {
        return view::not_ours();
    }
    let next = next.map(|query| query.0).unwrap_or_default();
    if let Some(human) = human(&parts, &approvals)
        && (human.fresh || !next.is_fresh())
    {
        return Redirect::to(next.path()).into_response();
    }
    Html(approvals.login_page(None, next.is_fresh(), next.path())).into_response()
}

impl Approvals {
    fn login_page(&self, error: Option<&str>, fresh: bool, next: &str) -> String {
        let approvers = self.people.approvers();
        view::login(&LoginView {
            error,
            accounts: !approvers.accounts.is_empty(),
            oidc: approvers.oidc.as_ref().map(|oidc| &*oidc.issuer),
            fresh,
            next,
        })
    }

    /// A new log-in: the cookie, and on to the page that was asked for.
    fn logged_in(
        &self,
        headers: &HeaderMap,
        person: Person,
        shown: Option<Timestamp>,
        method: &'static str,
        to: impl FnOnce() -> Response,
    ) -> Response {
        let who = person.id.clone();
        let old = cookie(headers, COOKIE);
        let Ok(name) = self.sessions.begin(person, shown, self.clock.now(), old) else {
            return view::message(
                StatusCode::SERVICE_UNAVAILABLE,
                "No log-in",
                "The system gives no randomness.",
            )
            .into_response();
        };
        tracing::info!(
            issuer = &*who.issuer,
            subject = &*who.subject,
            method,
            "an approver logged in"
        );
        self.metrics.approver_login(method, "ok");
        let age = self.people.approvers().sessions.absolute.as_secs();
        let mut response = to();
        append_cookie(
            &mut response,
            &set_cookie(COOKIE, Some((&name, age)), "Strict"),
        );
        response
    }
}

pub(crate) fn append_cookie(response: &mut Response, cookie: &str) {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

/// Who is at the other end, if the listener tells.
fn peer(parts: &Parts) -> Option<SocketAddr> {
    let info = parts.extensions.get::<ConnectInfo<super::Peer>>();
    info.map(|info| info.0.0)
}

async fn try_account(State(approvals): State<Arc<Approvals>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let (headers, from) = (parts.headers.clone(), peer(&parts));
    let fields = match form(Request::from_parts(parts, body), &approvals).await {
        Ok(fields) => fields,
        Err(response) => return response,
    };
    let next = own_path(field(&fields, "next").unwrap_or("/"));
    let name = field(&fields, "name").unwrap_or_default();
    let password = field(&fields, "password").unwrap_or_default();
    let now = approvals.clock.now();
    let accounts = &approvals.login.accounts;
    let people: &People = &approvals.people;
    match accounts.check(people, name, password, from, now).await {
        Outcome::Known(person) => approvals.logged_in(&headers, person, Some(now), "local", || {
            Redirect::to(next).into_response()
        }),
        Outcome::Wrong => {
            tracing::warn!("a log-in failed: wrong name or password");
            approvals.metrics.approver_login("local", "wrong");
            let error = "The name or the password is wrong.";
            let page = approvals.login_page(Some(error), false, next);
            (StatusCode::FORBIDDEN, Html(page)).into_response()
        }
        Outcome::TooMany(wait) => {
            tracing::warn!("a log-in was not tried: too many have failed");
            approvals.metrics.approver_login("local", "throttled");
            let seconds = wait.as_secs().max(1);
            let error = format!(
                "Too many tries have failed. Wait {} minutes.",
                seconds.div_ceil(60)
            );
            let page = approvals.login_page(Some(&error), false, next);
            let retry = [(header::RETRY_AFTER, seconds.to_string())];
            (StatusCode::TOO_MANY_REQUESTS, retry, Html(page)).into_response()
        }
    }
}

async fn log_out(State(approvals): State<Arc<Approvals>>, posted: Posted) -> Response {
    approvals.sessions.end(&posted.human.session);
    let mut response = Redirect::to("/login").into_response();
    append_cookie(&mut response, &set_cookie(COOKIE, None, "Strict"));
    response
}

#[cfg(test)]
mod tests {
    use super::own_path;

    #[test]
    fn a_log_in_leads_to_pages_of_ours_alone() {
        for path in [
            "/",
            "/tickets/tkt_1",
            "/history?state=denied&before=3",
            "/login?next=%2F",
        ] {
            assert_eq!(own_path(path), path);
        }
        for path in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "tickets",
            "/a\nb",
            "/a b",
            "/a\\b",
            "javascript:alert(1)",
        ] {
            assert_eq!(own_path(path), "/", "{path}");
        }
    }
}
