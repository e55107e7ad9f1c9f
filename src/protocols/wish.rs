//! What a caller of a tool says of the call beside it, in headers of Holdpoint's own. None of it leaves, and none is authority.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};

/// A second identical act is wanted.
const AGAIN: HeaderName = HeaderName::from_static("holdpoint-again");
/// Which ticket the caller means.
const TICKET: HeaderName = HeaderName::from_static("holdpoint-ticket");

/// Longest ticket that is taken for one, in bytes: one that was issued elsewhere is signed and holds its terms.
const LONGEST: usize = 8 << 10;

/// Whether a second identical act is asked for.
pub(super) fn again(headers: &HeaderMap) -> bool {
    let value = headers.get(AGAIN);
    value.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
}

/// The ticket that is named; `None` where there is none, or more than one.
pub(super) fn ticket(headers: &HeaderMap) -> Option<Arc<str>> {
    let mut values = headers.get_all(TICKET).iter();
    let first = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    named(first)
}

/// A text that may name a ticket.
pub(super) fn named(text: &str) -> Option<Arc<str>> {
    let text = text.trim();
    let is_name = (1..=LONGEST).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    is_name.then(|| text.into())
}
