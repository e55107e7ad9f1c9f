//! Which paths and methods are MCP, and the second endpoint that HTTP with SSE (2024-11-05) announces in its stream.

use std::sync::Arc;

use http::{HeaderMap, Method, Uri, header};
use url::Url;

use crate::protocols::Malformed;
use crate::protocols::strict::invalid_response;

/// Endpoints below the route's prefix: the upstream's URL itself, and the two that everybody uses.
const PATHS: [&str; 3] = ["", "/mcp", "/sse"];

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A message.
    Post,
    /// Opens or resumes a stream of the server's messages.
    Stream,
    /// Ends a session.
    Delete,
}

impl Way {
    /// How the endpoint is used. `announced`: the path with its query is one that the server has announced.
    ///
    /// # Errors
    /// No endpoint, or a method that it does not have.
    pub(super) fn of(
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        announced: bool,
    ) -> Result<Self, Malformed> {
        let path = uri.path().trim_end_matches('/');
        if !announced && !PATHS.contains(&path) {
            return Err(Malformed {
                code: "endpoint_unknown",
                message: "the route's MCP endpoint is the prefix itself, or /mcp or /sse below it"
                    .to_owned(),
            });
        }
        match *method {
            Method::POST => Ok(Self::Post),
            Method::GET if !announced && takes_events(headers) => Ok(Self::Stream),
            Method::DELETE if !announced => Ok(Self::Delete),
            _ => Err(Malformed {
                code: "method_not_allowed",
                message:
                    "an MCP endpoint takes POST, GET with `accept: text/event-stream`, and DELETE"
                        .to_owned(),
            }),
        }
    }
}

fn takes_events(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|part| part.split(';').next())
        .any(|part| part.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// Path and query: what messages of an announced endpoint are posted to.
pub(super) fn target(uri: &Uri) -> Arc<str> {
    uri.path_and_query()
        .map_or("/", |target| target.as_str())
        .into()
}

/// Where the proxy and its upstream stand.
#[derive(Clone, Debug)]
pub(super) struct Bases {
    /// The route's prefix without a slash at its end.
    prefix: String,
    upstream: Url,
}

/// An announced endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Announced {
    /// Path and query below the prefix.
    pub(super) below: String,
    /// For the client.
    pub(super) shown: String,
}

impl Bases {
    /// `None` where the upstream's URL has no origin.
    pub(super) fn new(prefix: &str, upstream: &Uri) -> Option<Self> {
        Some(Self {
            prefix: prefix.trim_end_matches('/').to_owned(),
            upstream: Url::parse(&upstream.to_string()).ok()?,
        })
    }

    /// What the server announced in a stream that was asked for at `stream`, below the prefix: on the upstream's own origin and
    /// below its path, shown at the proxy's.
    ///
    /// # Errors
    /// Anything else: clients would post past the proxy, or to what is no part of the route.
    pub(super) fn announced(&self, stream: &Uri, endpoint: &str) -> Result<Announced, Malformed> {
        let base = self.upstream.path().trim_end_matches('/');
        let mut asked = self.upstream.clone();
        let path = stream.path().trim_end_matches('/');
        if !path.is_empty() {
            asked.set_path(&format!("{base}{}", stream.path()));
        }
        let url = asked
            .join(endpoint)
            .map_err(|_| invalid_response("the announced endpoint is no URL"))?;
        if url.origin() != self.upstream.origin() {
            return Err(invalid_response(
                "the announced endpoint is on another origin than the upstream",
            ));
        }
        let below = url
            .path()
            .strip_prefix(base)
            .filter(|rest| rest.starts_with('/'))
            .ok_or_else(|| {
                invalid_response(
                    "the announced endpoint is not below the upstream's URL: configure the path above both endpoints",
                )
            })?;
        let below = match url.query() {
            Some(query) => format!("{below}?{query}"),
            None => below.to_owned(),
        };
        Ok(Announced {
            shown: format!("{}{below}", self.prefix),
            below,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(
        prefix: &str,
        upstream: &str,
        stream: &str,
        endpoint: &str,
    ) -> Option<[String; 2]> {
        let bases = Bases::new(prefix, &upstream.parse().unwrap()).unwrap();
        let found = bases.announced(&stream.parse().unwrap(), endpoint).ok()?;
        Some([found.below, found.shown])
    }

    #[test]
    fn an_announced_endpoint_is_shown_at_the_proxy() {
        for (prefix, upstream, stream, endpoint, below, shown) in [
            (
                "/old",
                "http://h:1",
                "/sse",
                "/messages?s=1",
                "/messages?s=1",
                "/old/messages?s=1",
            ),
            (
                "/old/",
                "http://h:1/",
                "/sse",
                "messages/?s=1",
                "/messages/?s=1",
                "/old/messages/?s=1",
            ),
            ("/", "http://h:1", "/sse", "http://h:1/m", "/m", "/m"),
            (
                "/old",
                "http://h/x",
                "/sse",
                "/x/m?s=a%20b",
                "/m?s=a%20b",
                "/old/m?s=a%20b",
            ),
            (
                "/old",
                "http://h/x",
                "/sse",
                "?s=1",
                "/sse?s=1",
                "/old/sse?s=1",
            ),
        ] {
            let found = announced(prefix, upstream, stream, endpoint);
            assert_eq!(
                found,
                Some([below.to_owned(), shown.to_owned()]),
                "{endpoint}"
            );
        }
    }

    #[test]
    fn an_endpoint_elsewhere_is_refused() {
        for (upstream, endpoint) in [
            ("http://h:1", "http://h:2/m"),
            ("http://h:1", "https://h:1/m"),
            ("http://h:1", "//evil/m"),
            ("http://h:1", "data:text/plain,x"),
            ("http://h/x", "/y/m"),
            ("http://h/x", "/xy/m"),
            ("http://h/x", "../m"),
        ] {
            assert_eq!(
                announced("/old", upstream, "/sse", endpoint),
                None,
                "{endpoint}"
            );
        }
    }
}
