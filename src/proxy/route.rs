//! Which route a request takes. Default deny: what matches none is refused.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use http::Uri;
use http::uri::PathAndQuery;

use super::refuse::{self, ErrorCode};
use crate::protocols::Protocol;
use crate::settings::{Route, Settings};
use crate::source::Problems;

/// A route with its protocol.
pub(super) struct Entry {
    pub(super) route: Route,
    pub(super) protocol: Box<dyn Protocol>,
}

/// Every route, in file order.
pub(super) struct Routes(Vec<Arc<Entry>>);

impl Routes {
    /// Builds each route's protocol.
    pub(super) fn new(settings: &Settings) -> Result<Self, Problems> {
        let mut entries = Vec::new();
        let mut problems = Vec::new();
        for route in &settings.routes {
            match super::protocol(route, settings, &settings.limits) {
                Ok(protocol) => entries.push(Arc::new(Entry {
                    route: route.clone(),
                    protocol,
                })),
                Err(found) => problems.extend(found.0),
            }
        }
        if problems.is_empty() {
            Ok(Self(entries))
        } else {
            Err(Problems(problems))
        }
    }

    /// The routes.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.0.iter()
    }

    /// The first route whose prefix the path has, and the URI below that prefix, normalised.
    pub(super) fn find(&self, uri: &Uri) -> Result<(Arc<Entry>, Uri), &'static ErrorCode> {
        let path = normalised(uri.path()).ok_or(&refuse::PATH_INVALID)?;
        for entry in &self.0 {
            if let Some(below) = below(&path, &entry.route.prefix) {
                let below = with_query(below, uri.query()).ok_or(&refuse::PATH_INVALID)?;
                return Ok((Arc::clone(entry), below));
            }
        }
        Err(&refuse::ROUTE_UNKNOWN)
    }
}

/// What follows the prefix, if the path has it: `/` at least.
fn below<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(prefix.trim_end_matches('/'))?;
    match rest.as_bytes().first() {
        None => Some("/"),
        Some(b'/') => Some(rest),
        Some(_) => None,
    }
}

fn with_query(path: &str, query: Option<&str>) -> Option<Uri> {
    let whole = match query {
        Some(query) => Cow::Owned(format!("{path}?{query}")),
        None => Cow::Borrowed(path),
    };
    PathAndQuery::try_from(whole.as_ref()).ok().map(Uri::from)
}

/// One spelling per path: unreserved characters are decoded, other escapes upper-cased, empty segments dropped. `None` for a
/// path that two readers may take for two different ones: dot segments, encoded slashes, backslashes or control characters,
/// escapes of escapes, bytes beyond ASCII.
fn normalised(path: &str) -> Option<Cow<'_, str>> {
    if is_plain(path) {
        return Some(Cow::Borrowed(path));
    }
    if !path.starts_with('/') {
        return None;
    }
    let mut out = String::with_capacity(path.len());
    let mut bytes = path.as_bytes().iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let escaped = (unhex(*bytes.next()?)? << 4) | unhex(*bytes.next()?)?;
                match escaped {
                    b'/' | b'\\' | 0..b' ' | 0x7f => return None,
                    b'%' if starts_with_hex(bytes.as_slice()) => return None,
                    plain if is_unreserved(plain) => out.push(char::from(plain)),
                    other => {
                        let _ = write!(out, "%{other:02X}");
                    }
                }
            }
            b'\\' | 0x80.. | 0..=b' ' => return None,
            other => out.push(char::from(*other)),
        }
    }
    let mut joined = String::with_capacity(out.len());
    for segment in out.split('/').filter(|segment| !segment.is_empty()) {
        if matches!(segment.split(';').next(), Some("." | "..")) {
            return None;
        }
        joined.push('/');
        joined.push_str(segment);
    }
    if out.ends_with('/') {
        joined.push('/');
    }
    Some(Cow::Owned(joined))
}

/// The common case, told at a glance: nothing to decode, nothing to collapse.
fn is_plain(path: &str) -> bool {
    let plain =
        |byte: &u8| is_unreserved(*byte) && *byte != b'.' || matches!(byte, b'/' | b':' | b'@');
    path.starts_with('/') && path.as_bytes().iter().all(plain) && !path.contains("//")
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn unhex(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

fn starts_with_hex(bytes: &[u8]) -> bool {
    matches!(bytes, [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_per_path() {
        for (path, expected) in [
            ("/v1/chat/completions", "/v1/chat/completions"),
            ("/v1//chat///", "/v1/chat/"),
            ("/%76%31/%7Euser/a%2db", "/v1/~user/a-b"),
            ("/a%20b/%c3%a9", "/a%20b/%C3%A9"),
            ("/50%25", "/50%25"),
            ("/models/m:generate", "/models/m:generate"),
            ("/v1.0/x.y", "/v1.0/x.y"),
            ("/", "/"),
        ] {
            assert_eq!(normalised(path).as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn paths_that_two_readers_may_take_apart_are_refused() {
        for path in [
            "/a/../b",
            "/a/./b",
            "/..",
            "/a/%2e%2e/b",
            "/a/.%2E",
            "/a/..;x/b",
            "/a%2fb",
            "/a%5Cb",
            "/a\\b",
            "/a%00",
            "/a%0d%0ab",
            "/a%7f",
            "/a%252fb",
            "/a%zz",
            "/a%2",
            "*",
            "",
            "/\u{e9}",
        ] {
            assert_eq!(normalised(path), None, "{path}");
        }
    }

    #[test]
    fn a_prefix_ends_at_a_segment() {
        assert_eq!(below("/openai/v1", "/openai"), Some("/v1"));
        assert_eq!(below("/openai", "/openai/"), Some("/"));
        assert_eq!(below("/openaix/v1", "/openai"), None);
        assert_eq!(below("/anything", "/"), Some("/anything"));
    }
}
