//! Fields that must be read as every other reader reads them.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::Malformed;
use crate::unicode::is_ignorable;
use crate::wire::json::{Document, Kind, Node};

/// What is there and not `null`.
pub fn present<'d>(object: &'d Node, key: &str) -> Option<&'d Node> {
    object.get(key).filter(|node| !node.is_null())
}

/// The first of `known` that another reader could see in a key that is not it: in other case (Go), or with a NUL behind it.
pub fn lookalike<'k>(object: &Node, known: &[&'k str]) -> Option<&'k str> {
    object.members().iter().find_map(|member| {
        let key = &*member.key;
        if known.contains(&key) {
            return None;
        }
        let plain = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let folded = if plain {
            Cow::Borrowed(key)
        } else {
            Cow::Owned(folded(key))
        };
        known
            .iter()
            .copied()
            .find(|known| known.eq_ignore_ascii_case(&folded))
    })
}

/// A key without what some readers do not see: case, control and format characters, and the two letters that Unicode folds
/// into ASCII.
fn folded(key: &str) -> String {
    let unseen = |c: &char| c.is_control() || is_ignorable(*c);
    key.chars()
        .filter(|c| !unseen(c))
        .flat_map(char::to_lowercase)
        .map(|c| match c {
            'ſ' => 's',
            'K' => 'k',
            c => c,
        })
        .collect()
}

/// Refuses an object of a request with a key that some readers take for one of `known`.
///
/// # Errors
/// Names the place and the key.
pub fn exact_keys_in_request(
    object: &Node,
    pointer: &str,
    known: &[&str],
) -> Result<(), Malformed> {
    match lookalike(object, known) {
        Some(key) => Err(invalid_request(
            pointer,
            &format!("has a key that some readers take for `{key}`: write it exactly so"),
        )),
        None => Ok(()),
    }
}

/// As [`exact_keys_in_request`], for a response.
///
/// # Errors
/// Names the key.
pub fn exact_keys(object: &Node, known: &[&str]) -> Result<(), Malformed> {
    match lookalike(object, known) {
        Some(key) => Err(invalid_response(format!(
            "the response has a key that some readers take for `{key}`"
        ))),
        None => Ok(()),
    }
}

/// Type and subtype, lower case, without parameters.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next()?;
    Some(essence.trim().to_ascii_lowercase())
}

/// The array under the key; empty where there is none.
///
/// # Errors
/// Another kind of value.
pub fn array<'d>(object: &'d Node, key: &str) -> Result<&'d [Node], Malformed> {
    match present(object, key) {
        None => Ok(&[]),
        Some(Node {
            kind: Kind::Array(elements),
            ..
        }) => Ok(elements),
        Some(_) => Err(invalid_response(format!("`{key}` is not an array"))),
    }
}

/// Refuses what is not an object in a response.
///
/// # Errors
/// Another kind of value.
pub fn must_be_object(node: &Node) -> Result<(), Malformed> {
    match node.kind {
        Kind::Object(_) => Ok(()),
        _ => Err(invalid_response(
            "the response has another value where an object must be",
        )),
    }
}

/// The whole number under the key of a response.
///
/// # Errors
/// Another kind of value.
pub fn whole_number(document: &Document, node: &Node, key: &str) -> Result<Option<u64>, Malformed> {
    let Some(number) = present(node, key) else {
        return Ok(None);
    };
    let raw = document.raw(number);
    std::str::from_utf8(&raw)
        .ok()
        .and_then(|text| text.parse().ok())
        .map(Some)
        .ok_or_else(|| invalid_response(format!("`{key}` of the response is not a whole number")))
}

/// An array of objects in a request; empty where there is none.
///
/// # Errors
/// Names the place of another kind of value.
pub fn list<'d>(object: &'d Node, pointer: &str, key: &str) -> Result<&'d [Node], Malformed> {
    let Some(node) = present(object, key) else {
        return Ok(&[]);
    };
    let pointer = format!("{pointer}/{key}");
    let Kind::Array(elements) = &node.kind else {
        return Err(invalid_request(&pointer, "must be an array"));
    };
    match elements
        .iter()
        .position(|element| !matches!(element.kind, Kind::Object(_)))
    {
        Some(index) => Err(invalid_request(
            &format!("{pointer}/{index}"),
            "must be an object",
        )),
        None => Ok(elements),
    }
}

/// A request that is not valid at this place.
pub fn invalid_request(pointer: &str, what: &str) -> Malformed {
    Malformed {
        code: "invalid_request",
        message: format!("`{pointer}` {what}"),
    }
}

/// A response that cannot be read.
pub fn invalid_response(message: impl Into<String>) -> Malformed {
    Malformed {
        code: "upstream_invalid_response",
        message: message.into(),
    }
}

/// A response that was cut into the wrong kind of frames.
pub fn misframed() -> Malformed {
    invalid_response("the response was cut into the wrong kind of frames")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::json::Document;

    #[test]
    fn a_key_that_another_reader_takes_for_a_known_one() {
        let seen = |json: &'static str| {
            let document = Document::read(Bytes::from_static(json.as_bytes()), 4).unwrap();
            lookalike(
                document.root(),
                &["params", "structuredContent", "tools", "task"],
            )
        };
        for (json, like) in [
            (r#"{"Params":1}"#, "params"),
            (r#"{"params\u0000":1}"#, "params"),
            (r#"{"param\u017f":1}"#, "params"),
            (r#"{"tas\u212a":1}"#, "task"),
            (r#"{"to\u200bols":1}"#, "tools"),
            (r#"{"structuredcontent":1}"#, "structuredContent"),
        ] {
            assert_eq!(seen(json), Some(like), "{json}");
        }
        assert_eq!(seen(r#"{"params":1,"structuredContent":2,"x":3}"#), None);
    }
}
