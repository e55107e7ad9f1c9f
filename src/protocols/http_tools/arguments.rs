//! Arguments of a call over HTTP: gathered from path, query and body, and put back where they came from.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::item::Arguments;
use crate::protocols::Malformed;
use crate::wire::json::{BODY_DEPTH, Document, Kind, folded};
use crate::wire::splice::quote;

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Path,
    Query,
    Body,
}

/// Named arguments with where each came from.
#[derive(Debug)]
pub(super) struct Gathered {
    origins: HashMap<String, Origin>,
    seen: HashSet<String>,
    raw: Vec<u8>,
    value: Map<String, Value>,
    exact: bool,
    has_body: bool,
}

fn unreadable(message: &str) -> Malformed {
    Malformed {
        code: "argument_unreadable",
        message: message.to_owned(),
    }
}

impl Gathered {
    /// Gathers from the path's parameters, the query and the body. A name in two places, or in two spellings that a lenient
    /// reader takes for one, is refused.
    pub(super) fn gather<'p>(
        path: impl Iterator<Item = (&'p str, &'p str)>,
        query: Option<&str>,
        body: Option<&Document>,
    ) -> Result<Self, Malformed> {
        let mut gathered = Self {
            origins: HashMap::new(),
            seen: HashSet::new(),
            raw: vec![b'{'],
            value: Map::new(),
            exact: true,
            has_body: body.is_some(),
        };
        for (name, value) in path {
            let value = decoded(value)?;
            gathered.add(name, Origin::Path, &quote(&value), value.into())?;
        }
        for (name, values) in pairs(query.unwrap_or_default())? {
            let value = match <[String; 1]>::try_from(values) {
                Ok([one]) => Value::String(one),
                Err(many) => many.into(),
            };
            let raw = value.to_string();
            gathered.add(&name, Origin::Query, raw.as_bytes(), value)?;
        }
        if let Some(body) = body {
            gathered.body(body)?;
        }
        gathered.raw.push(b'}');
        Ok(gathered)
    }

    fn body(&mut self, body: &Document) -> Result<(), Malformed> {
        if !matches!(body.root().kind, Kind::Object(_)) {
            return Err(unreadable(
                "The body must be a JSON object: each member is an argument.",
            ));
        }
        for member in body.root().members() {
            let (value, exact) = body
                .value(&member.value)
                .map_err(|error| unreadable(&format!("An argument cannot be read: {error}.")))?;
            self.exact &= exact;
            let raw = body.raw(&member.value);
            self.add(&member.key, Origin::Body, &raw, value)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        name: &str,
        origin: Origin,
        raw: &[u8],
        value: Value,
    ) -> Result<(), Malformed> {
        if !self.seen.insert(folded(name)) {
            return Err(Malformed {
                code: "argument_ambiguous",
                message: "Two of path, query and body give the same argument. Send it once."
                    .to_owned(),
            });
        }
        if !self.origins.is_empty() {
            self.raw.push(b',');
        }
        self.raw.extend_from_slice(&quote(name));
        self.raw.push(b':');
        self.raw.extend_from_slice(raw);
        self.origins.insert(name.to_owned(), origin);
        self.value.insert(name.to_owned(), value);
        Ok(())
    }

    /// As the guard judges them.
    pub(super) fn into_arguments(self) -> Arguments {
        Arguments {
            raw: self.raw.into(),
            value: Value::Object(self.value),
            exact: self.exact,
        }
    }

    /// Path with query, and body, that carry the stored arguments in the places of the fresh ones.
    pub(super) fn put_back(
        &self,
        template: &str,
        stored: &Bytes,
    ) -> Result<(String, Bytes), Malformed> {
        let odd = || unreadable("The stored arguments do not fit the call.");
        let document = Document::read(stored.clone(), BODY_DEPTH).map_err(|_| odd())?;
        if document.root().members().len() != self.origins.len() {
            return Err(odd());
        }
        let mut target = template.to_owned();
        let mut query = String::new();
        let mut body = vec![b'{'];
        // In the stored order: the bytes that were approved are the bytes that are sent.
        for member in document.root().members() {
            let (name, value) = (&*member.key, &member.value);
            match self.origins.get(name).ok_or_else(odd)? {
                Origin::Path => {
                    let text = value.as_str().ok_or_else(odd)?;
                    target = target.replace(&format!("{{{name}}}"), &encoded(text));
                }
                Origin::Query => {
                    let texts = match value.as_str() {
                        Some(text) => vec![text],
                        None => value.elements().iter().filter_map(|e| e.as_str()).collect(),
                    };
                    for text in texts {
                        query.push(if query.is_empty() { '?' } else { '&' });
                        query.extend(utf8_percent_encode(name, RESERVED));
                        query.push('=');
                        query.extend(utf8_percent_encode(text, RESERVED));
                    }
                }
                Origin::Body => {
                    if body.len() > 1 {
                        body.push(b',');
                    }
                    body.extend_from_slice(&quote(name));
                    body.push(b':');
                    body.extend_from_slice(&document.raw(value));
                }
            }
        }
        body.push(b'}');
        target.push_str(&query);
        let body = if self.has_body {
            body.into()
        } else {
            Bytes::new()
        };
        Ok((target, body))
    }
}

/// As a path segment.
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
        .map_err(|_| unreadable("An argument in the path or query is not UTF-8."))
}

/// Names with their values, in order of first appearance. Refused are a bare `;`, where some readers split, and brackets in
/// a name: to many `to[]` is the argument `to`, which a rule about `to` would not see.
fn pairs(query: &str) -> Result<Vec<(String, Vec<String>)>, Malformed> {
    if query.contains(';') {
        return Err(unreadable("Send a semicolon in the query as `%3B`."));
    }
    let mut pairs: Vec<(String, Vec<String>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(&name.replace('+', " "))?;
        let value = decoded(&value.replace('+', " "))?;
        if name.contains(['[', ']']) {
            return Err(unreadable(
                "A name in the query has brackets. Repeat the plain name for several values.",
            ));
        }
        if let Some((_, values)) = places.get(&name).and_then(|place| pairs.get_mut(*place)) {
            values.push(value);
        } else {
            places.insert(name.clone(), pairs.len());
            pairs.push((name, vec![value]));
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gather(
        path: &[(&str, &str)],
        query: &str,
        body: Option<&'static str>,
    ) -> Result<Gathered, &'static str> {
        let document =
            body.map(|text| Document::read(Bytes::from_static(text.as_bytes()), 8).unwrap());
        Gathered::gather(path.iter().copied(), Some(query), document.as_ref())
            .map_err(|malformed| malformed.code)
    }

    #[test]
    fn arguments_come_from_path_query_and_body() {
        let gathered = gather(
            &[("order_id", "A%2D1")],
            "tag=x+y&tag=%C3%A9&empty",
            Some(r#"{"amount": 19.90, "n": 12345678901234567890}"#),
        )
        .unwrap();
        let args = gathered.into_arguments();
        assert_eq!(
            args.value,
            json!({
                "order_id": "A-1", "tag": ["x y", "é"], "empty": "",
                "amount": 19.9, "n": 12_345_678_901_234_567_890_u64,
            })
        );
        assert!(!args.exact);
        assert_eq!(
            &args.raw[..],
            r#"{"order_id":"A-1","tag":["x y","é"],"empty":"","amount":19.90,"n":12345678901234567890}"#
                .as_bytes()
        );
    }

    #[test]
    fn a_name_in_two_places_or_spellings_is_ambiguous() {
        for (path, query, body) in [
            (vec![("id", "1")], "id=2", None),
            (vec![("id", "1")], "", Some(r#"{"id": 1}"#)),
            (vec![], "id=1", Some(r#"{"ID": 1}"#)),
            (vec![], "", Some(r#"{"ask": 1, "a\u017fk": 2}"#)),
            (vec![], "", Some(r#"{"ask": 1, "as\u212a": 2}"#)),
            (vec![], "", Some(r#"{"id": 1, "id\u0000": 2}"#)),
        ] {
            let refused = gather(&path, query, body).unwrap_err();
            assert_eq!(refused, "argument_ambiguous", "{query} {body:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_one_way_is_refused() {
        for (query, body) in [
            ("a=%zz", None),
            ("a=%e9", None),
            ("a=1;b=2", None),
            ("to[]=a", None),
            ("to%5B0%5D=a", None),
            ("", Some("[1]")),
            ("", Some("\"a\"")),
        ] {
            let refused = gather(&[], query, body).unwrap_err();
            assert_eq!(refused, "argument_unreadable", "{query} {body:?}");
        }
    }

    #[test]
    fn stored_arguments_go_back_where_the_fresh_ones_came_from() {
        let gathered = gather(
            &[("id", "a%20b")],
            "to=x&to=y%26z&q=1",
            Some(r#"{"amount": 5.0, "note": "\u0041"}"#),
        )
        .unwrap();
        let stored =
            Bytes::from_static(br#"{"amount":5,"id":"a b","note":"A","q":"1","to":["x","y&z"]}"#);
        let (target, body) = gathered.put_back("/orders/{id}/mail", &stored).unwrap();
        assert_eq!(target, "/orders/a%20b/mail?q=1&to=x&to=y%26z");
        assert_eq!(&body[..], br#"{"amount":5,"note":"A"}"#);
        let other = Bytes::from_static(br#"{"id":"a b"}"#);
        assert!(gathered.put_back("/orders/{id}/mail", &other).is_err());
    }
}
