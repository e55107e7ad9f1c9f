//! Headers on their way in and out: what is refused, what stays behind, what the proxy sets.

use std::collections::HashSet;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::Authority;

use super::TwoFramings;
use super::refuse::{self, ErrorCode};
use crate::settings::{Principals, SessionSource, Settings, Upstream};

/// Prefix of the proxy's own headers: set by it alone, in either direction.
const OWN: &str = "holdpoint-";

/// For one connection only (RFC 9110 section 7.6.1), or about its framing, which the proxy makes anew.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Never sent on with a request: set by the proxy, or about what the proxy has undone. A range would let a text be fetched
/// in pieces that are judged apart.
const NOT_FORWARDED: [&str; 11] = [
    "host",
    "content-length",
    "content-encoding",
    "accept-encoding",
    "expect",
    "forwarded",
    "via",
    "x-real-ip",
    "range",
    "if-range",
    "http2-settings",
];

/// Frameworks take another method or path from these than the one that was judged.
const OVERRIDES: [&str; 5] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

/// A `Connection` header must not take these away: the policy or the upstream depends on them.
const PROTECTED: [&str; 8] = [
    "authorization",
    "host",
    "content-type",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "cookie",
    "x-api-key",
];

/// At most one of each in a request.
const SINGLE: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::AUTHORIZATION,
];

/// About the exact bytes of a body: wrong once it is decoded or edited.
const ABOUT_BYTES: [&str; 6] = [
    "etag",
    "digest",
    "content-digest",
    "repr-digest",
    "content-md5",
    "accept-ranges",
];

/// Which request headers are looked at, from the settings.
#[derive(Debug)]
pub(super) struct HeaderRules {
    /// Carries the agent's key; never forwarded.
    key: Option<HeaderName>,
    /// Carries the session.
    session: Option<HeaderName>,
    /// This process in `Via`.
    pseudonym: String,
}

impl HeaderRules {
    /// `pseudonym` is unique to this process, so that only a true loop is one.
    pub(super) fn new(settings: &Settings, pseudonym: String) -> Self {
        Self {
            key: match &settings.principals {
                Principals::ApiKeys { header, .. } => Some(header.clone()),
                Principals::Fixed(_) => None,
            },
            session: match &settings.session {
                SessionSource::Header(name) => Some(name.clone()),
                SessionSource::Fixed(_) => None,
            },
            pseudonym,
        }
    }

    /// Refuses heads that two readers may take for different requests.
    pub(super) fn check(&self, parts: &Parts) -> Result<(), &'static ErrorCode> {
        let headers = &parts.headers;
        check_host(parts)?;
        if parts.extensions.get::<TwoFramings>().is_some() {
            return Err(&refuse::FRAMING_INVALID);
        }
        let encodings: Vec<_> = headers.get_all(header::TRANSFER_ENCODING).iter().collect();
        match encodings.as_slice() {
            [] => {}
            [one] if one.as_bytes().eq_ignore_ascii_case(b"chunked") => {
                if headers.contains_key(header::CONTENT_LENGTH) {
                    return Err(&refuse::FRAMING_INVALID);
                }
            }
            _ => return Err(&refuse::FRAMING_INVALID),
        }
        if SINGLE.iter().any(|name| several(headers, name)) {
            return Err(&refuse::HEADER_DUPLICATE);
        }
        if connection_names(headers)
            .iter()
            .any(|name| self.protected(name))
        {
            return Err(&refuse::CONNECTION_INVALID);
        }
        let looped = headers
            .get_all(header::VIA)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split([',', ' ']))
            .any(|token| token == self.pseudonym);
        if looped {
            return Err(&refuse::LOOP_DETECTED);
        }
        Ok(())
    }

    fn protected(&self, name: &str) -> bool {
        let ours = |header: &Option<HeaderName>| header.as_ref().is_some_and(|h| h == name);
        PROTECTED.contains(&name)
            || name.starts_with(OWN)
            || name.starts_with("mcp-")
            || ours(&self.key)
            || ours(&self.session)
    }

    /// The headers for the upstream. `exact`: the body's bytes are the agent's own.
    pub(super) fn outgoing(&self, came: &HeaderMap, upstream: &Upstream, exact: bool) -> HeaderMap {
        let named = connection_names(came);
        let credential = upstream.credential.as_ref();
        let mut headers = HeaderMap::with_capacity(came.len() + 4);
        if let Some(authority) = upstream.url.authority()
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            headers.insert(header::HOST, host);
        }
        for (name, value) in came {
            let text = name.as_str();
            // CGI and its heirs take `_` for `-`.
            let dashed = text.replace('_', "-");
            let dashed = dashed.as_str();
            let stays = HOP_BY_HOP.contains(&dashed)
                || NOT_FORWARDED.contains(&dashed)
                || OVERRIDES.contains(&dashed)
                || named.contains(text)
                || dashed.starts_with(OWN)
                || dashed.starts_with("x-forwarded-")
                || (!exact && ABOUT_BYTES.contains(&dashed))
                || self.key.as_ref().is_some_and(|key| key == dashed)
                || credential.is_some_and(|(header, _)| header == dashed);
            if !stays {
                headers.append(name.clone(), value.clone());
            }
        }
        headers.insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        );
        for via in came.get_all(header::VIA) {
            headers.append(header::VIA, via.clone());
        }
        if let Ok(via) = HeaderValue::from_str(&format!("1.1 {}", self.pseudonym)) {
            headers.append(header::VIA, via);
        }
        if let Some((name, secret)) = credential
            && let Ok(mut value) = HeaderValue::from_str(&secret.0)
        {
            value.set_sensitive(true);
            headers.insert(name.clone(), value);
        }
        headers
    }
}

/// Exactly one `Host`, an authority without user info, equal to that of an absolute target.
fn check_host(parts: &Parts) -> Result<(), &'static ErrorCode> {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(&refuse::HOST_INVALID);
    };
    let authority = Authority::try_from(host.as_bytes()).map_err(|_| &refuse::HOST_INVALID)?;
    let same = parts
        .uri
        .authority()
        .is_none_or(|target| *target == authority);
    if authority.as_str().contains('@') || !same {
        return Err(&refuse::HOST_INVALID);
    }
    Ok(())
}

fn several(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(name).iter().nth(1).is_some()
}

/// Names in `Connection`, lower-cased.
fn connection_names(headers: &HeaderMap) -> HashSet<String> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| !name.is_empty())
        .collect()
}

/// The upstream's headers for the agent. `exact`: the body's bytes are the upstream's own.
pub(super) fn returning(came: &HeaderMap, exact: bool) -> HeaderMap {
    let named = connection_names(came);
    let mut headers = HeaderMap::with_capacity(came.len() + 2);
    for (name, value) in came {
        let text = name.as_str();
        // `Alt-Svc` would lead the client past the proxy.
        let stays = HOP_BY_HOP.contains(&text)
            || matches!(text, "content-length" | "content-encoding" | "alt-svc")
            || (named.contains(text) && !PROTECTED.contains(&text))
            || text.starts_with(OWN)
            || (!exact && ABOUT_BYTES.contains(&text));
        if !stays {
            headers.append(name.clone(), value.clone());
        }
    }
    headers
}

/// Asks whoever stands between to pass each event on at once.
pub(super) fn unbuffered(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CACHE_CONTROL, "no-cache, no-transform"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, Request};

    use super::*;
    use crate::names::UpstreamName;
    use crate::settings::Secret;

    fn rules() -> HeaderRules {
        HeaderRules {
            key: Some(HeaderName::from_static("x-agent-key")),
            session: Some(HeaderName::from_static("x-session")),
            pseudonym: "holdpoint-1".to_owned(),
        }
    }

    fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn upstream(credential: Option<(&'static str, &str)>) -> Upstream {
        Upstream {
            name: UpstreamName::from("model"),
            url: "https://api.example:8443/base".parse().unwrap(),
            credential: credential
                .map(|(name, value)| (HeaderName::from_static(name), Secret(value.into()))),
        }
    }

    #[test]
    fn ambiguous_heads_are_refused() {
        for (uri, headers, code) in [
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
                vec![("host", "a"), ("content-type", "a"), ("content-type", "a")],
                "header_duplicate",
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
                vec![("host", "a"), ("via", "1.0 x, 1.1 holdpoint-1")],
                "loop_detected",
            ),
        ] {
            let refused = rules().check(&parts(uri, &headers)).unwrap_err();
            assert_eq!(refused.code, code, "{headers:?}");
        }
        let fine = [
            ("host", "A:80"),
            ("transfer-encoding", "Chunked"),
            ("via", "1.1 holdpoint-12"),
            ("connection", "keep-alive, x-other"),
        ];
        assert_eq!(rules().check(&parts("http://a:80/", &fine)), Ok(()));
    }

    #[test]
    fn what_is_not_for_the_upstream_stays_behind() {
        let came = parts(
            "/",
            &[
                ("host", "proxy"),
                ("connection", "keep-alive, X-Mine"),
                ("x-mine", "1"),
                ("te", "trailers"),
                ("accept-encoding", "gzip"),
                ("content-encoding", "gzip"),
                ("content-length", "9"),
                ("x-forwarded-for", "1.2.3.4"),
                ("forwarded", "for=1.2.3.4"),
                ("x-agent-key", "k"),
                ("holdpoint-again", "true"),
                ("range", "bytes=0-9"),
                ("authorization", "Bearer agent"),
                ("via", "1.0 edge"),
                ("x-stainless-lang", "python"),
                ("accept", "a"),
                ("accept", "b"),
            ],
        )
        .headers;
        let plain = rules().outgoing(&came, &upstream(None), true);
        let mut got: Vec<_> = plain
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        got.sort();
        assert_eq!(
            got,
            [
                "accept-encoding: identity",
                "accept: a",
                "accept: b",
                "authorization: Bearer agent",
                "host: api.example:8443",
                "via: 1.0 edge",
                "via: 1.1 holdpoint-1",
                "x-stainless-lang: python",
            ]
        );
        let own = upstream(Some(("authorization", "Bearer proxy")));
        let with = rules().outgoing(&came, &own, true);
        assert_eq!(with.get_all("authorization").iter().count(), 1);
        assert_eq!(with["authorization"], "Bearer proxy");
    }

    #[test]
    fn what_is_not_for_the_agent_stays_behind() {
        let came = parts(
            "/",
            &[
                ("connection", "x-hop, content-type"),
                ("x-hop", "1"),
                ("content-type", "application/json"),
                ("content-encoding", "gzip"),
                ("content-length", "5"),
                ("etag", "\"1\""),
                ("holdpoint-replayed", "true"),
                ("alt-svc", "h3"),
                ("x-request-id", "r"),
            ],
        )
        .headers;
        let names = |headers: HeaderMap| {
            let mut names: Vec<_> = headers.keys().map(ToString::to_string).collect();
            names.sort();
            names
        };
        assert_eq!(
            names(returning(&came, true)),
            ["content-type", "etag", "x-request-id"]
        );
        assert_eq!(
            names(returning(&came, false)),
            ["content-type", "x-request-id"]
        );
    }
}
