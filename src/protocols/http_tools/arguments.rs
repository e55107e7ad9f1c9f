//! Arguments of a call over HTTP: gathered from path, query, headers and body, and put back where they came from.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::multipart::Argument;
use super::names::{check, decoded, encoded, loose, pairs, push_pair, unreadable};
use crate::item::Arguments;
use crate::protocols::Malformed;
use crate::settings::BodyKind;
use crate::wire::json::{BODY_DEPTH, Document, Kind, Node};
use crate::wire::splice::quote;

/// Where arguments stand in a request.
#[derive(Debug, Default)]
pub(super) struct Places<'p> {
    /// Parameters of the path, as they came.
    pub(super) path: Vec<(&'p str, &'p str)>,
    /// The query, as it came.
    pub(super) query: Option<&'p str>,
    /// Headers that are arguments.
    pub(super) headers: Vec<(&'p str, &'p str)>,
    /// The body, where there is one.
    pub(super) body: Option<Body<'p>>,
    /// Whether the tool takes files.
    pub(super) files: bool,
}

/// A body that has arguments.
#[derive(Debug)]
pub(super) enum Body<'p> {
    Json(&'p Document),
    Form(&'p [u8]),
    Multipart(Vec<Argument>),
}

impl Body<'_> {
    pub(super) const fn kind(&self) -> BodyKind {
        match self {
            Self::Json(_) => BodyKind::Json,
            Self::Form(_) => BodyKind::Form,
            Self::Multipart(_) => BodyKind::Multipart,
        }
    }

    /// Whether a JSON argument has the form that a file's argument has: a ticket for one would be good for the other.
    fn imitates_a_file(&self) -> bool {
        let described = |node: &Node| {
            let has = |key: &&str| node.get(key).is_some();
            ["filename", "size", "sha256"].iter().all(has)
        };
        match self {
            Self::Json(document) => document.root().members().iter().any(|member| {
                let value = &member.value;
                described(value) || value.elements().iter().any(described)
            }),
            Self::Form(_) => false,
            Self::Multipart(arguments) => arguments.iter().any(|argument| argument.imitates),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Path,
    Query,
    Header,
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
    body: Option<BodyKind>,
}

/// What a request becomes that carries the stored arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rebuilt {
    /// Path with query.
    pub(super) target: String,
    /// Headers that are arguments.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// The body; `None`: it stays as it came.
    pub(super) body: Option<Bytes>,
}

impl Gathered {
    /// Gathers from everywhere. A name in two places, or in two spellings that a lenient reader takes for one, is refused.
    pub(super) fn gather(places: Places<'_>) -> Result<Self, Malformed> {
        let mut gathered = Self {
            origins: HashMap::new(),
            seen: HashSet::new(),
            raw: vec![b'{'],
            value: Map::new(),
            exact: true,
            body: places.body.as_ref().map(Body::kind),
        };
        for (name, value) in places.path {
            let value = decoded(value)?;
            gathered.add(name, Origin::Path, &quote(&value), value.into())?;
        }
        gathered.pairs(places.query.unwrap_or_default(), Origin::Query)?;
        for (name, value) in places.headers {
            gathered.add(name, Origin::Header, &quote(value), value.into())?;
        }
        if places.files && places.body.as_ref().is_some_and(Body::imitates_a_file) {
            return Err(Malformed {
                code: "argument_ambiguous",
                message: "A JSON argument looks like a file to those who approve it. Send the file itself; \
                    a tool without files says `body: json` in the config."
                    .to_owned(),
            });
        }
        match places.body {
            None => {}
            Some(Body::Json(document)) => gathered.members(document)?,
            Some(Body::Form(bytes)) => {
                let text =
                    std::str::from_utf8(bytes).map_err(|_| unreadable("The form is not UTF-8."))?;
                gathered.pairs(text, Origin::Body)?;
            }
            Some(Body::Multipart(arguments)) => {
                for Argument {
                    name,
                    raw,
                    value,
                    exact,
                    ..
                } in arguments
                {
                    gathered.exact &= exact;
                    gathered.add(&name, Origin::Body, &raw, value)?;
                }
            }
        }
        gathered.raw.push(b'}');
        Ok(gathered)
    }

    fn pairs(&mut self, text: &str, origin: Origin) -> Result<(), Malformed> {
        for (name, values) in pairs(text)? {
            let value = match <[String; 1]>::try_from(values) {
                Ok([one]) => Value::String(one),
                Err(many) => many.into(),
            };
            let raw = value.to_string();
            self.add(&name, origin, raw.as_bytes(), value)?;
        }
        Ok(())
    }

    fn members(&mut self, body: &Document) -> Result<(), Malformed> {
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
        if !self.seen.insert(loose(name)) {
            return Err(Malformed {
                code: "argument_ambiguous",
                message:
                    "Two of path, query, headers and body give the same argument. Send it once."
                        .to_owned(),
            });
        }
        check(name)?;
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

    /// A request that carries the stored arguments in the places of the fresh ones. Parts are not stored: their body stays as
    /// it came, and only where all its arguments are the stored ones, files by their hash.
    pub(super) fn put_back(self, template: &str, stored: &Bytes) -> Result<Rebuilt, Malformed> {
        let odd = || unreadable("The stored arguments do not fit the call.");
        let document = Document::read(stored.clone(), BODY_DEPTH).map_err(|_| odd())?;
        if document.root().members().len() != self.origins.len() {
            return Err(odd());
        }
        let mut target = template.to_owned();
        let (mut query, mut headers) = (String::new(), Vec::new());
        let mut members = Vec::new();
        // In the stored order: the bytes that were approved are the bytes that are sent.
        for member in document.root().members() {
            let (name, value) = (&*member.key, &member.value);
            match self.origins.get(name).ok_or_else(odd)? {
                Origin::Path => {
                    let text = value.as_str().ok_or_else(odd)?;
                    target = target.replace(&format!("{{{name}}}"), &encoded(text));
                }
                Origin::Query => push_pairs(&mut query, name, value),
                Origin::Header => {
                    let text = value.as_str().ok_or_else(odd)?;
                    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| odd())?;
                    let text = HeaderValue::from_str(text).map_err(|_| odd())?;
                    headers.push((header, text));
                }
                Origin::Body => members.push((name, value)),
            }
        }
        if !query.is_empty() {
            target.push('?');
            target.push_str(&query);
        }
        let body = match self.body {
            None => Some(Bytes::new()),
            Some(BodyKind::Json) => Some(object(&document, &members)),
            Some(BodyKind::Form) => {
                let mut form = String::new();
                for (name, value) in members {
                    push_pairs(&mut form, name, value);
                }
                Some(form.into())
            }
            Some(BodyKind::Multipart) => {
                let fresh = serde_json_canonicalizer::to_vec(&Value::Object(self.value));
                if fresh.ok().is_none_or(|fresh| fresh[..] != stored[..]) {
                    return Err(odd());
                }
                None
            }
        };
        Ok(Rebuilt {
            target,
            headers,
            body,
        })
    }
}

fn object(document: &Document, members: &[(&str, &Node)]) -> Bytes {
    let mut body = vec![b'{'];
    for (name, value) in members {
        if body.len() > 1 {
            body.push(b',');
        }
        body.extend_from_slice(&quote(name));
        body.push(b':');
        body.extend_from_slice(&document.raw(value));
    }
    body.push(b'}');
    body.into()
}

fn push_pairs(out: &mut String, name: &str, value: &Node) {
    if let Some(text) = value.as_str() {
        push_pair(out, name, text);
    }
    for text in value.elements().iter().filter_map(Node::as_str) {
        push_pair(out, name, text);
    }
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
        let places = Places {
            path: path.to_vec(),
            query: Some(query),
            headers: Vec::new(),
            body: document.as_ref().map(Body::Json),
            files: true,
        };
        Gathered::gather(places).map_err(|malformed| malformed.code)
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
            (vec![], "order_id=1&orderId=2", None),
            (
                vec![],
                "",
                Some(r#"{"doc": [{"filename": "a", "size": 1, "sha256": "b"}]}"#),
            ),
            (vec![], "order.id=1", Some(r#"{"order id": 2}"#)),
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
            ("to%00=a", None),
            ("+to=a", None),
            ("_Method=DELETE", None),
            ("", Some(r#"{"_method": "DELETE"}"#)),
            ("", Some(r#"{"to\u0000": "a"}"#)),
            ("", Some("[1]")),
            ("", Some("\"a\"")),
        ] {
            let refused = gather(&[], query, body).unwrap_err();
            assert_eq!(refused, "argument_unreadable", "{query} {body:?}");
        }
    }

    #[test]
    fn stored_arguments_go_back_where_the_fresh_ones_came_from() {
        let gathered = || {
            gather(
                &[("id", "a%20b")],
                "to=x&to=y%26z&q=1",
                Some(r#"{"amount": 5.0, "note": "\u0041"}"#),
            )
            .unwrap()
        };
        let stored =
            Bytes::from_static(br#"{"amount":5,"id":"a b","note":"A","q":"1","to":["x","y&z"]}"#);
        let other = Bytes::from_static(br#"{"id":"a b"}"#);
        assert!(gathered().put_back("/orders/{id}/mail", &other).is_err());
        let rebuilt = gathered().put_back("/orders/{id}/mail", &stored).unwrap();
        assert_eq!(rebuilt.target, "/orders/a%20b/mail?q=1&to=x&to=y%26z");
        assert_eq!(
            rebuilt.body.as_deref(),
            Some(&br#"{"amount":5,"note":"A"}"#[..])
        );
    }
}
