//! Who looks at a page or sends a form: extractors that pages cannot go without.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};

use super::Approvals;
use super::people::Person;
use super::place::{Place, one};
use super::view;
use crate::store::tickets::{Channel, Voter};

/// The cookie of a log-in. The prefix has browsers keep it for this host, this path and https alone (RFC 6265bis).
pub(crate) const COOKIE: &str = "__Host-holdpoint";

/// Fields of one form, at most.
const MOST_FIELDS: usize = 64;

/// Somebody who is logged in.
///
/// A page that takes it is shown to nobody else: without a log-in a browser is sent to it, whatever is no page gets 401.
#[derive(Clone, Debug)]
pub struct Human {
    /// Who.
    pub person: Arc<Person>,
    /// What each form of theirs carries in its field `csrf`.
    pub csrf: Arc<str>,
    /// Whether they have shown who they are just now (`sessions.fresh`).
    pub fresh: bool,
    /// The cookie's value.
    pub(crate) session: String,
}

impl Human {
    /// As somebody who answers on the page.
    pub fn voter(&self) -> Voter {
        self.person.voter(Channel::Page, self.fresh)
    }
}

impl FromRequestParts<Arc<Approvals>> for Human {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        approvals: &Arc<Approvals>,
    ) -> Result<Self, Response> {
        if !approvals.place.is_ours(&parts.headers) {
            return Err(view::not_ours().into_response());
        }
        let human = human(parts, approvals).await;
        human.ok_or_else(|| rejection(parts))
    }
}

/// The one who is logged in, if somebody is.
pub(crate) async fn human(parts: &Parts, approvals: &Approvals) -> Option<Human> {
    let name = cookie(&parts.headers, COOKIE)?;
    let session = approvals.sessions.get(name, approvals.clock.now()).await?;
    Some(Human {
        person: session.person,
        csrf: session.csrf,
        fresh: session.fresh,
        session: name.to_owned(),
    })
}

fn rejection(parts: &Parts) -> Response {
    let accept = one(&parts.headers, &header::ACCEPT).unwrap_or_default();
    let page = parts.method == Method::GET && (accept.contains("text/html") || accept.is_empty());
    if !page {
        return view::message(
            StatusCode::UNAUTHORIZED,
            "Not logged in",
            "The log-in has ended, or there was none. Log in and try again.",
        )
        .into_response();
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    // A link on another site: the browser held the cookie back. Coming from our own page it sends it.
    if Place::is_from_elsewhere(&parts.headers) {
        return view::bounce(path).into_response();
    }
    let next: String = url::form_urlencoded::byte_serialize(path.as_bytes()).collect();
    Redirect::to(&format!("/login?next={next}")).into_response()
}

/// A form that a page of ours sent for somebody who is logged in: same origin and CSRF token are checked, the fields are
/// read, none comes twice.
#[derive(Clone, Debug)]
pub struct Posted {
    /// Whose form.
    pub human: Human,
    fields: Vec<(String, String)>,
}

impl Posted {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.fields, name)
    }
}

impl FromRequest<Arc<Approvals>> for Posted {
    type Rejection = Response;

    async fn from_request(request: Request, approvals: &Arc<Approvals>) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let human = Human::from_request_parts(&mut parts, approvals).await?;
        let request = Request::from_parts(parts, body);
        let fields = form(request, approvals).await?;
        let token = field(&fields, "csrf").unwrap_or_default();
        if verify_slices_are_equal(token.as_bytes(), human.csrf.as_bytes()).is_err() {
            approvals.refused("csrf");
            return Err(view::foreign().into_response());
        }
        Ok(Self { human, fields })
    }
}

/// The fields of a form that a page of ours sent.
pub(crate) async fn form(
    request: Request,
    approvals: &Arc<Approvals>,
) -> Result<Vec<(String, String)>, Response> {
    let headers = request.headers();
    if !approvals.place.is_from_us(headers) {
        approvals.refused("origin");
        return Err(view::foreign().into_response());
    }
    let kind = one(headers, &header::CONTENT_TYPE).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let wrong =
        |text: &str| view::message(StatusCode::BAD_REQUEST, "Not a form", text).into_response();
    if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(wrong("The form's content type is another one."));
    }
    let body = Bytes::from_request(request, approvals).await;
    let body = body.map_err(|_| wrong("The form is too long, or ended early."))?;
    let fields: Vec<(String, String)> = url::form_urlencoded::parse(&body)
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let twice = fields.iter().enumerate().any(|(at, (name, _))| {
        let earlier = fields.iter().take(at);
        earlier.into_iter().any(|(other, _)| other == name)
    });
    if twice || fields.len() > MOST_FIELDS {
        return Err(wrong("A field of the form comes twice."));
    }
    Ok(fields)
}

pub(crate) fn field<'f>(fields: &'f [(String, String)], name: &str) -> Option<&'f str> {
    let found = fields.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

/// The value of a cookie that comes once (RFC 6265 section 4.2).
pub(crate) fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let values = headers.get_all(header::COOKIE).iter();
    let mut found = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(known, _)| *known == name)
        .map(|(_, value)| value);
    match (found.next(), found.next()) {
        (Some(value), None) if !value.is_empty() => Some(value),
        _ => None,
    }
}

/// `Set-Cookie` for a value; `None` takes it back.
pub(crate) fn set_cookie(name: &str, value: Option<(&str, u64)>, same_site: &str) -> String {
    let (value, age) = value.unwrap_or(("", 0));
    format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite={same_site}; Max-Age={age}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_counts_where_it_comes_once() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::COOKIE, value.parse().unwrap());
            }
            cookie(&headers, COOKIE).map(str::to_owned)
        };
        let own = format!("{COOKIE}=abc");
        assert_eq!(read(&[&own]).as_deref(), Some("abc"));
        assert_eq!(read(&[&format!("a=b; {own}; c=d")]).as_deref(), Some("abc"));
        assert_eq!(read(&["a=b", &own]).as_deref(), Some("abc"));
        assert_eq!(read(&[&own, &own]), None);
        assert_eq!(read(&[&format!("{COOKIE}=")]), None);
        assert_eq!(read(&[&format!("x{own}")]), None);
        assert_eq!(read(&[]), None);
    }
}
