//! Names and values as they stand in paths, queries and forms, read as every backend reads them or not at all.

use std::collections::HashMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::protocols::Malformed;
use crate::wire::json::folded;

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Frameworks take another method from the first ones than the one that was judged, and another charset from the last.
const OVERRIDES: [&str; 6] = [
    "_method",
    "$httpmethod",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "_charset_",
];

pub(super) fn unreadable(message: &str) -> Malformed {
    Malformed {
        code: "argument_unreadable",
        message: message.to_owned(),
    }
}

/// What readers that ignore case, invisible characters or the separators of words make of a name.
pub(super) fn loose(name: &str) -> String {
    let mut loose = folded(name);
    loose.retain(|c| !matches!(c, '_' | '-' | '.' | ' '));
    loose
}

/// Refuses a name that a backend may cut, trim or take for an order to itself.
pub(super) fn check(name: &str) -> Result<(), Malformed> {
    if name.contains(char::is_control) || name.trim() != name {
        return Err(unreadable(
            "An argument's name has a control character, or white space at its ends.",
        ));
    }
    if OVERRIDES.contains(&folded(name).as_str()) {
        return Err(unreadable(
            "An argument's name makes frameworks read the request otherwise, such as `_method`. Leave it out.",
        ));
    }
    Ok(())
}

/// As [`check`], for a name in a query or a form: to many `to[]` is the argument `to`, which a rule about `to` would not see.
pub(super) fn check_flat(name: &str) -> Result<(), Malformed> {
    if name.contains(['[', ']']) {
        return Err(unreadable(
            "A name in the query or form has brackets. Repeat the plain name for several values.",
        ));
    }
    check(name)
}

/// As a path segment, or a name or value of a query or form.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Percent-decoded once, strictly.
pub(super) fn decoded(text: &str) -> Result<String, Malformed> {
    let malformed = text.split('%').skip(1).any(|rest| {
        let digits = rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count();
        digits != 2
    });
    if malformed {
        return Err(unreadable("A percent sign is not followed by two digits."));
    }
    percent_decode_str(text)
        .decode_utf8()
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| unreadable("An argument in the path, query or form is not UTF-8."))
}

/// Names of a query or form with their values, in order of first appearance. Refused is a bare `;`, where some readers split.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, Vec<String>)>, Malformed> {
    if text.contains(';') {
        return Err(unreadable("Send a semicolon in a query or form as `%3B`."));
    }
    let mut pairs: Vec<(String, Vec<String>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(&name.replace('+', " "))?;
        let value = decoded(&value.replace('+', " "))?;
        check_flat(&name)?;
        if let Some((_, values)) = places.get(&name).and_then(|place| pairs.get_mut(*place)) {
            values.push(value);
        } else {
            places.insert(name.clone(), pairs.len());
            pairs.push((name, vec![value]));
        }
    }
    Ok(pairs)
}

/// One pair more of a query or form.
pub(super) fn push_pair(out: &mut String, name: &str, value: &str) {
    if !out.is_empty() {
        out.push('&');
    }
    out.push_str(&encoded(name));
    out.push('=');
    out.push_str(&encoded(value));
}
