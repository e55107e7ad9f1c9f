//! Which heads are let in: none that two readers may take for different requests, none from where no agent is.

use std::collections::HashSet;
use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::Authority;
use http::{Uri, Version};
use url::{Host, Url};

use super::TwoFramings;
use super::headers::{OWN, connection_names};
use super::refuse::{self, ErrorCode};
use crate::settings::{Listen, SessionSource, Settings};

/// Most header lines of a request.
const MOST_HEADERS: usize = 100;
/// Names and values of all headers, in bytes.
const LARGEST_HEAD: usize = 64 << 10;
/// One value, in bytes.
const LARGEST_VALUE: usize = 16 << 10;
/// A value of MCP's own headers, in bytes: servers decode them before they look at the body.
const LARGEST_MCP_VALUE: usize = 4 << 10;
/// Prefix of MCP's headers.
const MCP: &str = "mcp-";

/// A `Connection` header must not take these away: the policy or the upstream depends on them.
const PROTECTED: [&str; 15] = [
    "accept",
    "api-key",
    "authorization",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "idempotency-key",
    "last-event-id",
    "origin",
    "transfer-encoding",
    "via",
    "x-api-key",
    "x-goog-api-key",
];
/// Families of them.
const PROTECTED_FAMILIES: [&str; 4] = [MCP, "anthropic-", "openai-", OWN];

/// At most one of each in a request; so with MCP's headers.
const SINGLE: [&str; 7] = [
    "authorization",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "origin",
];

/// Whether a `Connection` header must not name it.
pub(crate) fn is_protected(name: &str) -> bool {
    PROTECTED.contains(&name)
        || PROTECTED_FAMILIES
            .iter()
            .any(|family| name.starts_with(family))
}

/// Whether a request may have it once only.
pub(super) fn is_single(name: &str) -> bool {
    SINGLE.contains(&name) || name.starts_with(MCP)
}

/// What the settings say of heads.
#[derive(Debug)]
pub(super) struct Admission {
    /// Headers that carry the agent's key and the session.
    own: Vec<HeaderName>,
    /// Names that `Host` may have; `None`: any.
    hosts: Option<HashSet<String>>,
    /// Origins that are let in; `None`: those on a name of `hosts`.
    origins: Option<HashSet<String>>,
    /// Whether the listener is for this machine alone.
    loopback: bool,
    /// This process in `Via`.
    pseudonym: String,
}

impl Admission {
    /// `pseudonym` is unique to this process, so that only a true loop is one.
    pub(super) fn new(settings: &Settings, pseudonym: String) -> Self {
        let key = settings.principals.header().cloned();
        let session = match &settings.session {
            SessionSource::Header(name) => Some(name.clone()),
            SessionSource::Fixed(_) | SessionSource::Token => None,
        };
        let Listen {
            agents,
            hosts,
            origins,
            ..
        } = &settings.listen;
        let loopback = agents.ip().is_loopback();
        let set = |names: &Vec<String>| names.iter().cloned().collect();
        let this_machine = || HashSet::from(["localhost".to_owned()]);
        Self {
            own: key.into_iter().chain(session).collect(),
            hosts: hosts
                .as_ref()
                .map(set)
                .or_else(|| loopback.then(this_machine)),
            origins: origins.as_ref().map(set),
            loopback,
            pseudonym,
        }
    }

    /// Refuses heads that are too large, that two readers may take for different requests, or that a web page had sent.
    pub(super) fn check(&self, parts: &Parts) -> Result<(), &'static ErrorCode> {
        let headers = &parts.headers;
        bounded(headers)?;
        let authority = authority(parts)?;
        unambiguous(parts)?;
        let taken = |name: &str| is_protected(name) || self.own.iter().any(|own| own == name);
        if connection_names(headers).iter().any(|name| taken(name)) {
            return Err(&refuse::CONNECTION_INVALID);
        }
        not_looped(headers, &self.pseudonym)?;
        // Before any answer that a web page could read: a name that leads to this machine may be anybody's.
        if !self.takes_host(authority.host()) {
            return Err(&refuse::HOST_REFUSED);
        }
        match headers.get(header::ORIGIN) {
            Some(origin) if !self.takes_origin(origin) => Err(&refuse::ORIGIN_REFUSED),
            _ => Ok(()),
        }
    }

    /// A page gets a browser to send it a name of the page's own, never an address.
    fn takes_host(&self, host: &str) -> bool {
        let Some(hosts) = &self.hosts else {
            return true;
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<IpAddr>().is_ok()
            || hosts.contains(host.trim_end_matches('.').to_ascii_lowercase().as_str())
    }

    fn takes_origin(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str() else {
            return false;
        };
        let Ok(url) = Url::parse(origin) else {
            return false;
        };
        if let Some(origins) = &self.origins {
            let written = url.origin();
            return if written.is_tuple() {
                origins.contains(&written.ascii_serialization())
            } else {
                origins.contains(&origin.to_ascii_lowercase())
            };
        }
        match url.host() {
            Some(Host::Domain(name)) => self
                .hosts
                .as_ref()
                .is_some_and(|hosts| hosts.contains(name)),
            Some(Host::Ipv4(ip)) => self.loopback && ip.is_loopback(),
            Some(Host::Ipv6(ip)) => self.loopback && ip.is_loopback(),
            None => false,
        }
    }
}

/// What holds of every head, whatever its target: not too large, one framing, and each header once that must be.
///
/// # Errors
/// The code of the first fault.
pub(crate) fn unambiguous(parts: &Parts) -> Result<(), &'static ErrorCode> {
    bounded(&parts.headers)?;
    framing(parts)?;
    let headers = &parts.headers;
    let twice = |name: &HeaderName| headers.get_all(name).iter().nth(1).is_some();
    if headers
        .keys()
        .any(|name| is_single(name.as_str()) && twice(name))
    {
        return Err(&refuse::HEADER_DUPLICATE);
    }
    Ok(())
}

/// Refuses what has passed the process of this pseudonym before.
///
/// # Errors
/// [`refuse::LOOP_DETECTED`].
pub(crate) fn not_looped(headers: &HeaderMap, pseudonym: &str) -> Result<(), &'static ErrorCode> {
    let looped = headers
        .get_all(header::VIA)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split([',', ' ']))
        .any(|token| token == pseudonym);
    if looped {
        return Err(&refuse::LOOP_DETECTED);
    }
    Ok(())
}

/// The libraries bound a head too, but each in its own way.
fn bounded(headers: &HeaderMap) -> Result<(), &'static ErrorCode> {
    let mut whole = 0;
    for (name, value) in headers {
        let most = if name.as_str().starts_with(MCP) {
            LARGEST_MCP_VALUE
        } else {
            LARGEST_VALUE
        };
        if value.len() > most {
            return Err(&refuse::HEADERS_TOO_LARGE);
        }
        whole += name.as_str().len() + value.len();
    }
    if headers.len() > MOST_HEADERS || whole > LARGEST_HEAD {
        return Err(&refuse::HEADERS_TOO_LARGE);
    }
    Ok(())
}

/// One authority without user info. HTTP/1.1 has exactly one `Host`, equal to that of an absolute target (RFC 9112 section
/// 3.2); with HTTP/2 `:authority` stands in its place (RFC 9113 section 8.3.1).
fn authority(parts: &Parts) -> Result<Authority, &'static ErrorCode> {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(host),
        (None, _) if parts.version == Version::HTTP_2 => None,
        _ => return Err(&refuse::HOST_INVALID),
    };
    let host = host
        .map(|host| Authority::try_from(host.as_bytes()).map_err(|_| &refuse::HOST_INVALID))
        .transpose()?;
    let target = Uri::authority(&parts.uri).cloned();
    match (host, target) {
        (Some(host), Some(target)) if host != target => Err(&refuse::HOST_INVALID),
        (Some(one), _) | (None, Some(one)) if !one.as_str().contains('@') => Ok(one),
        _ => Err(&refuse::HOST_INVALID),
    }
}

/// One framing: `Transfer-Encoding` is exactly `chunked`, and nothing stands beside it.
fn framing(parts: &Parts) -> Result<(), &'static ErrorCode> {
    let mut codings = parts.headers.get_all(header::TRANSFER_ENCODING).iter();
    let fine = match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(one), None) => {
            one.as_bytes().eq_ignore_ascii_case(b"chunked")
                && !parts.headers.contains_key(header::CONTENT_LENGTH)
        }
        _ => false,
    };
    if fine && parts.extensions.get::<TwoFramings>().is_none() {
        return Ok(());
    }
    Err(&refuse::FRAMING_INVALID)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn admission(loopback: bool, hosts: Option<&[&str]>, origins: Option<&[&str]>) -> Admission {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Admission {
            own: vec![HeaderName::from_static("x-session")],
            hosts: hosts.map(set).or(loopback.then(|| set(&["localhost"]))),
            origins: origins.map(set),
            loopback,
            pseudonym: "holdpoint-1".to_owned(),
        }
    }

    fn parts(version: Version, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().version(version).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn code(admission: &Admission, parts: &Parts) -> &'static str {
        admission
            .check(parts)
            .map_or_else(|code| code.code, |()| "")
    }

    #[test]
    fn ambiguous_heads_are_refused() {
        let anyone = admission(false, None, None);
        for (uri, headers, expected) in [
            ("/", vec![], "host_invalid"),
            ("/", vec![("host", "a"), ("host", "a")], "host_invalid"),
            ("/", vec![("host", "u@a")], "host_invalid"),
            ("/", vec![("host", "")], "host_invalid"),
            ("http://b/", vec![("host", "a")], "host_invalid"),
            (
                "/",
                vec![("host", "a"), ("transfer-encoding", "gzip, chunked")],
                "framing_invalid",
            ),
            (
                "/",
                vec![
                    ("host", "a"),
                    ("transfer-encoding", "chunked"),
                    ("content-length", "3"),
                ],
                "framing_invalid",
            ),
            (
                "/",
                vec![("host", "a"), ("connection", "close, Authorization")],
                "connection_invalid",
            ),
            (
                "/",
                vec![("host", "a"), ("connection", "x-session")],
                "connection_invalid",
            ),
            (
                "/",
                vec![("host", "a"), ("connection", "Mcp-Name")],
                "connection_invalid",
            ),
            (
                "/",
                vec![("host", "a"), ("via", "1.0 x, 1.1 holdpoint-1")],
                "loop_detected",
            ),
        ] {
            let got = code(&anyone, &parts(Version::HTTP_11, uri, &headers));
            assert_eq!(got, expected, "{headers:?}");
        }
        for name in [
            "Content-Type",
            "Content-Encoding",
            "Content-Length",
            "Authorization",
            "Origin",
            "Last-Event-ID",
            "Mcp-Session-Id",
            "MCP-Protocol-Version",
            "Mcp-Param-Region",
        ] {
            let twice = [("host", "a"), (name, "1"), (name, "1")];
            let got = code(&anyone, &parts(Version::HTTP_11, "/", &twice));
            assert_eq!(got, "header_duplicate", "{name}");
        }
        let fine = [
            ("host", "A:80"),
            ("transfer-encoding", "Chunked"),
            ("via", "1.1 holdpoint-12"),
            ("connection", "keep-alive, x-other"),
        ];
        assert_eq!(
            code(&anyone, &parts(Version::HTTP_11, "http://a:80/", &fine)),
            ""
        );
    }

    #[test]
    fn the_authority_of_http_2_needs_no_host_and_equals_one() {
        let anyone = admission(false, None, None);
        for (uri, headers, expected) in [
            ("https://a/", vec![], ""),
            ("https://a/", vec![("host", "A")], ""),
            ("https://a/", vec![("host", "b")], "host_invalid"),
            ("https://a:8443/", vec![("host", "a")], "host_invalid"),
            ("https://u@a/", vec![], "host_invalid"),
            ("/", vec![("host", "a")], ""),
            ("/", vec![], "host_invalid"),
            (
                "https://a/",
                vec![("host", "a"), ("host", "a")],
                "host_invalid",
            ),
        ] {
            let got = code(&anyone, &parts(Version::HTTP_2, uri, &headers));
            assert_eq!(got, expected, "{uri} {headers:?}");
        }
    }

    #[test]
    fn a_name_that_is_not_the_proxys_is_refused() {
        let local = admission(true, None, None);
        let named = admission(false, Some(&["gateway.example"]), None);
        let open = admission(false, None, None);
        for (host, by_default, by_name) in [
            ("localhost:8080", true, false),
            ("LocalHost.", true, false),
            ("127.0.0.1:8080", true, true),
            ("[::1]:8080", true, true),
            ("10.1.2.3", true, true),
            ("gateway.example", false, true),
            ("Gateway.Example:443", false, true),
            ("evil.example", false, false),
            ("localhost.evil.example", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("0x7f000001", false, false),
            ("127.1", false, false),
        ] {
            let parts = parts(Version::HTTP_11, "/", &[("host", host)]);
            for (admission, taken) in [(&local, by_default), (&named, by_name), (&open, true)] {
                let expected = if taken { "" } else { "host_refused" };
                assert_eq!(code(admission, &parts), expected, "{host} {admission:?}");
            }
        }
    }

    #[test]
    fn a_page_of_somebody_else_is_refused() {
        let local = admission(true, None, None);
        let named = admission(false, Some(&["gateway.example"]), None);
        let open = admission(false, None, None);
        let listed = admission(
            true,
            None,
            Some(&["https://app.example", "http://localhost:3000", "app://desk"]),
        );
        for (origin, taken) in [
            ("http://localhost:6274", [true, false, false, false]),
            ("http://127.0.0.1:1", [true, false, false, false]),
            ("http://[::1]", [true, false, false, false]),
            ("http://10.1.2.3", [false; 4]),
            ("https://gateway.example", [false, true, false, false]),
            ("https://app.example", [false, false, false, true]),
            ("https://app.example:443", [false, false, false, true]),
            ("http://app.example", [false; 4]),
            ("http://localhost:3000", [true, false, false, true]),
            ("app://desk", [false, false, false, true]),
            ("https://evil.example", [false; 4]),
            ("http://localhost.evil.example", [false; 4]),
            ("http://localhost@evil.example", [false; 4]),
            ("null", [false; 4]),
            ("", [false; 4]),
            ("localhost", [false; 4]),
        ] {
            let parts = parts(
                Version::HTTP_11,
                "/",
                &[("host", "127.0.0.1"), ("origin", origin)],
            );
            for (admission, taken) in [&local, &named, &open, &listed].into_iter().zip(taken) {
                let expected = if taken { "" } else { "origin_refused" };
                assert_eq!(code(admission, &parts), expected, "{origin} {admission:?}");
            }
        }
    }

    #[test]
    fn heads_that_are_too_large_are_refused() {
        let anyone = admission(false, None, None);
        let long = |length| "v".repeat(length);
        let (large, mcp) = (long(LARGEST_VALUE), long(LARGEST_MCP_VALUE));
        let (larger, more_mcp) = (format!("{large}v"), format!("{mcp}v"));
        for (name, value, expected) in [
            ("x-any", &large, ""),
            ("x-any", &larger, "headers_too_large"),
            ("mcp-name", &mcp, ""),
            ("mcp-name", &more_mcp, "headers_too_large"),
        ] {
            let parts = parts(Version::HTTP_2, "https://a/", &[(name, value)]);
            assert_eq!(code(&anyone, &parts), expected, "{name}: {}", value.len());
        }
        for (count, length, expected) in [
            (MOST_HEADERS, 1, ""),
            (MOST_HEADERS + 1, 1, "headers_too_large"),
            (5, 12 << 10, ""),
            (5, 13 << 10, "headers_too_large"),
        ] {
            let value = long(length);
            let headers = vec![("x", value.as_str()); count];
            let parts = parts(Version::HTTP_2, "https://a/", &headers);
            assert_eq!(code(&anyone, &parts), expected, "{count} of {length}");
        }
    }
}
