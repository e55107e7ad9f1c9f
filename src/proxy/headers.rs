//! Headers on their way through: what stays behind, what the proxy sets.

use std::collections::HashSet;

use http::Version;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;

use super::admission::{is_protected, is_single};
use crate::settings::{Settings, Upstream};

/// Prefix of the proxy's own headers: set by it alone, in either direction.
pub(crate) const OWN: &str = "holdpoint-";

/// For one connection only (RFC 9110 section 7.6.1), or about its framing, which the proxy makes anew.
pub(crate) const HOP_BY_HOP: [&str; 9] = [
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
pub(crate) const OVERRIDES: [&str; 5] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
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

/// What is done to the headers of a request on their way out.
#[derive(Debug)]
pub(super) struct Forwarding {
    /// Carries the agent's key; never forwarded.
    key: Option<HeaderName>,
    /// This process in `Via`.
    pseudonym: String,
}

impl Forwarding {
    /// `pseudonym` is unique to this process.
    pub(super) fn new(settings: &Settings, pseudonym: String) -> Self {
        Self {
            key: settings.principals.header().cloned(),
            pseudonym,
        }
    }

    /// The agent's own fields among them.
    pub(super) fn own(&self, parts: &Parts, upstream: &Upstream) -> HeaderMap {
        let mut headers = HeaderMap::new();
        self.add_own(&mut headers, parts, upstream, true);
        headers
    }

    fn add_own(&self, headers: &mut HeaderMap, parts: &Parts, upstream: &Upstream, exact: bool) {
        let came = &parts.headers;
        let named = connection_names(came);
        let credential = upstream.credential.as_ref();
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
                || (dashed != text && (is_single(dashed) || is_protected(dashed)))
                || (!exact && ABOUT_BYTES.contains(&dashed))
                || self.key.as_ref().is_some_and(|key| key == dashed)
                || credential.is_some_and(|(header, _)| header == dashed);
            if !stays {
                headers.append(name.clone(), value.clone());
            }
        }
    }

    /// The headers for the upstream. `exact`: the body's bytes are the agent's own.
    pub(super) fn outgoing(&self, parts: &Parts, upstream: &Upstream, exact: bool) -> HeaderMap {
        let came = &parts.headers;
        let credential = upstream.credential.as_ref();
        let mut headers = HeaderMap::with_capacity(came.len() + 4);
        if let Some(authority) = upstream.url.authority()
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            headers.insert(header::HOST, host);
        }
        self.add_own(&mut headers, parts, upstream, exact);
        headers.insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        );
        for via in came.get_all(header::VIA) {
            headers.append(header::VIA, via.clone());
        }
        let received = if parts.version == Version::HTTP_2 {
            "2.0"
        } else {
            "1.1"
        };
        if let Ok(via) = HeaderValue::from_str(&format!("{received} {}", self.pseudonym)) {
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

/// Names in `Connection`, lower-cased.
pub(crate) fn connection_names(headers: &HeaderMap) -> HashSet<String> {
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
        // `Alt-Svc` and `Refresh` would lead the client past the proxy.
        let stays = HOP_BY_HOP.contains(&text)
            || matches!(
                text,
                "content-length" | "content-encoding" | "alt-svc" | "refresh"
            )
            || (named.contains(text) && !is_protected(text))
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

    fn rules() -> Forwarding {
        Forwarding {
            key: Some(HeaderName::from_static("x-agent-key")),
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
            ca: None,
        }
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
                ("mcp_session_id", "other"),
                ("content_type", "text/plain"),
                ("session_id", "kept: no other header is spelt so"),
            ],
        );
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
                "session_id: kept: no other header is spelt so",
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
