//! Headers that mirror the body (MCP 2026-07-28, Streamable HTTP): intermediaries act on them and the server on the body, so
//! both must say the same.

use std::borrow::Cow;

use data_encoding::BASE64;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::message::Message;
use crate::protocols::Malformed;
use crate::wire::json::Node;

pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Each at most once, whatever the revision.
const SINGLE: [HeaderName; 4] = [
    VERSION,
    METHOD,
    NAME,
    HeaderName::from_static("last-event-id"),
];

/// The first stateless revision; revisions are dates.
const MODERN: &str = "2026-07-28";

/// Whether a revision is stateless: what it answers carries a `resultType`.
fn is_modern(version: &str) -> bool {
    let date = |byte: u8| byte.is_ascii_digit() || byte == b'-';
    version.len() == MODERN.len() && version.bytes().all(date) && version >= MODERN
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Whether a request is of a stateless revision.
pub(super) fn modern(headers: &HeaderMap, message: &Message<'_>) -> bool {
    text(headers, &VERSION).is_some_and(is_modern) || message.version().is_some_and(is_modern)
}

/// What a server refuses as `HeaderMismatch` (-32020).
fn mismatch(name: &HeaderName) -> Malformed {
    Malformed {
        code: "header_mismatch",
        message: format!("the header {name} must be there once and equal the body"),
    }
}

/// Refuses headers that say something else than the body.
pub(super) fn check(headers: &HeaderMap, message: &Message<'_>) -> Result<(), Malformed> {
    single(headers)?;
    // What later revisions want is the server's to say: the body is what is judged.
    let named = [text(headers, &VERSION), message.version()];
    if !named.contains(&Some(MODERN)) {
        return Ok(());
    }
    let (method, params) = match message {
        Message::Request { method, params, .. } => (*method, *params),
        Message::Notification { method } => (*method, None),
        Message::Response { .. } => return Ok(()),
    };
    let version = text(headers, &VERSION).ok_or_else(|| mismatch(&VERSION))?;
    if message.version().is_some_and(|own| own != version) {
        return Err(mismatch(&VERSION));
    }
    if text(headers, &METHOD) != Some(method) {
        return Err(mismatch(&METHOD));
    }
    let target = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return Ok(()),
    };
    let target = params.and_then(|params| params.get(target)?.as_str());
    match (target, headers.get(&NAME)) {
        (None, _) => Ok(()),
        (Some(target), Some(value)) if *plain(value) == *target.as_bytes() => Ok(()),
        _ => Err(mismatch(&NAME)),
    }
}

/// Refuses what one reader takes for another header or value than the next one.
pub(super) fn single(headers: &HeaderMap) -> Result<(), Malformed> {
    let twice = |name: &HeaderName| headers.get_all(name).iter().nth(1).is_some();
    if headers.contains_key(&SESSION) && (session(headers).is_none() || twice(&SESSION)) {
        return Err(Malformed {
            code: "session_invalid",
            message: format!("send Mcp-Session-Id once, with 1 to {LONGEST} visible characters"),
        });
    }
    // CGI and its heirs take `_` for `-`.
    let named = |name: &HeaderName| {
        let text = name.as_str();
        text.contains('_') && text.replace('_', "-").starts_with("mcp-")
    };
    let once = SINGLE;
    let odd = headers.keys().find(|name| named(name));
    match odd.or_else(|| once.iter().find(|name| twice(name))) {
        Some(name) => Err(mismatch(name)),
        None => Ok(()),
    }
}

/// A value that may be wrapped as `=?base64?…?=`, as it reads.
fn plain(value: &HeaderValue) -> Cow<'_, [u8]> {
    let bytes = value.as_bytes();
    let coded = bytes
        .strip_prefix(b"=?base64?")
        .and_then(|rest| rest.strip_suffix(b"?="));
    match coded.and_then(|coded| BASE64.decode(coded).ok()) {
        Some(decoded) => Cow::Owned(decoded),
        None => Cow::Borrowed(bytes),
    }
}

/// Lets the headers that mirror arguments follow a number that is now written in another way. Strings and truth values have
/// one way only.
pub(super) fn renumber(headers: &mut HeaderMap, changed: &[(String, String)]) {
    for (name, value) in headers.iter_mut() {
        if !name.as_str().starts_with("mcp-param-") {
            continue;
        }
        let new = changed
            .iter()
            .find(|(old, _)| old.as_bytes() == value.as_bytes());
        if let Some(new) = new.and_then(|(_, new)| HeaderValue::from_str(new).ok()) {
            *value = new;
        }
    }
}

/// The session of the server.
pub(super) fn session(headers: &HeaderMap) -> Option<&str> {
    text(headers, &SESSION).filter(|text| is_name(text))
}

/// Longest name of a session: some are signed tokens.
const LONGEST: usize = 2048;

/// Visible characters, not too many.
pub(super) fn is_name(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Numbers whose text differs between two readings of the same value, in order of appearance.
pub(super) fn renumbered(
    old: (&[u8], &Node),
    new: (&[u8], &Node),
    changed: &mut Vec<(String, String)>,
) {
    use crate::wire::json::Kind;
    match (&old.1.kind, &new.1.kind) {
        (Kind::Number, Kind::Number) => {
            let raw = |(bytes, node): (&[u8], &Node)| {
                let raw = bytes.get(node.span.clone()).unwrap_or_default();
                String::from_utf8_lossy(raw).into_owned()
            };
            let (old, new) = (raw(old), raw(new));
            if old != new {
                changed.push((old, new));
            }
        }
        (Kind::Array(olds), Kind::Array(news)) => {
            for (a, b) in olds.iter().zip(news) {
                renumbered((old.0, a), (new.0, b), changed);
            }
        }
        (Kind::Object(members), Kind::Object(_)) => {
            for member in members {
                if let Some(node) = new.1.get(&member.key) {
                    renumbered((old.0, &member.value), (new.0, node), changed);
                }
            }
        }
        _ => {}
    }
}
