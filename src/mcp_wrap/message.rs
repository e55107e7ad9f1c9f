//! What the wrapper must know of a JSON-RPC message to carry it. Nothing is judged by it: the pipeline reads every message
//! again, strictly.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The id of a request: `"1"` is not `1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Id {
    /// As written.
    Number(String),
    /// Without quotes and escapes.
    Text(String),
}

impl Id {
    fn of(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        match text.as_bytes().first()? {
            b'"' => serde_json::from_str(text).ok().map(Self::Text),
            b'0'..=b'9' | b'-' => Some(Self::Number(text.to_owned())),
            _ => None,
        }
    }

    /// From a value's text; `None` for what can be no id.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        Self::of(serde_json::from_slice(text).ok()?)
    }

    /// Whether a server that spells ids in another way may mean this one: `"1"` or `1.0` for `1`.
    pub(super) fn resembles(&self, other: &Self) -> bool {
        /// Above it two numbers may have one double.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let text = |id: &Self| match id {
            Self::Number(text) | Self::Text(text) => text.trim().to_owned(),
        };
        let (one, two) = (text(self), text(other));
        let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.abs() < EXACT);
        one == two || number(&one).is_some() && number(&one) == number(&two)
    }

    /// As JSON.
    pub(super) fn json(&self) -> String {
        match self {
            Self::Number(text) => text.clone(),
            Self::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        }
    }
}

/// The outside of a message.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// Absent in notifications.
    pub(super) id: Option<Id>,
    /// Absent in responses.
    pub(super) method: Option<String>,
    /// A response that says no.
    pub(super) error: Option<Box<RawValue>>,
    /// `params.name`, or `params.uri`.
    pub(super) name: Option<String>,
    /// What the sender wants to be told of, or tells of.
    pub(super) progress: Option<Id>,
    /// The request that is called off.
    pub(super) cancels: Option<Id>,
    /// The stream of a subscription, named by its request.
    pub(super) subscription: Option<Id>,
    /// The protocol version that the 2026 revision writes into each request, or that an answer to `initialize` names.
    pub(super) version: Option<String>,
}

#[derive(Deserialize)]
struct Raw<'m> {
    #[serde(borrow, default)]
    id: Option<&'m RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'m, str>>,
    #[serde(borrow, default)]
    params: Option<&'m RawValue>,
    #[serde(borrow, default)]
    result: Option<&'m RawValue>,
    #[serde(borrow, default)]
    error: Option<&'m RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'m> {
    #[serde(borrow, default)]
    name: Option<Cow<'m, str>>,
    #[serde(borrow, default)]
    uri: Option<Cow<'m, str>>,
    #[serde(borrow, default)]
    progress_token: Option<&'m RawValue>,
    #[serde(borrow, default)]
    request_id: Option<&'m RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<Meta<'m>>,
}

#[derive(Default, Deserialize)]
struct Meta<'m> {
    #[serde(borrow, default, rename = "progressToken")]
    progress_token: Option<&'m RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'m, str>>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/subscriptionId")]
    subscription: Option<&'m RawValue>,
}

#[derive(Default, Deserialize)]
struct Answer<'m> {
    #[serde(borrow, default, rename = "protocolVersion")]
    version: Option<Cow<'m, str>>,
}

impl Head {
    /// The head of one message; `None` for what is no JSON object.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        // An array would be read as the fields in their order.
        if !message.trim_ascii_start().starts_with(b"{") {
            return None;
        }
        let raw: Raw<'_> = serde_json::from_slice(message).ok()?;
        let params: Params<'_> = inner(raw.params);
        let answer: Answer<'_> = inner(raw.result);
        let meta = params.meta.unwrap_or_default();
        let id = |raw: Option<&RawValue>| raw.and_then(Id::of);
        Some(Self {
            id: id(raw.id),
            method: raw.method.map(Cow::into_owned),
            error: raw.error.map(ToOwned::to_owned),
            name: params.name.or(params.uri).map(Cow::into_owned),
            progress: id(params.progress_token.or(meta.progress_token)),
            cancels: id(params.request_id),
            subscription: id(meta.subscription),
            version: meta.version.or(answer.version).map(Cow::into_owned),
        })
    }

    /// Whether the sender waits for an answer.
    pub(super) fn is_request(&self) -> bool {
        self.id.is_some() && self.method.is_some()
    }

    /// Whether it answers a request.
    pub(super) fn is_response(&self) -> bool {
        self.id.is_some() && self.method.is_none()
    }
}

/// What has another shape names nothing that the wrapper needs.
fn inner<'m, T: Default + Deserialize<'m>>(raw: Option<&'m RawValue>) -> T {
    raw.filter(|raw| raw.get().starts_with('{'))
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

/// A message on one line: line ends can only be white space between its tokens.
pub(super) fn one_line(message: Bytes) -> Bytes {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    if !message.iter().any(is_end) {
        return message;
    }
    let mut line = BytesMut::from(message.as_ref());
    for byte in line.iter_mut().filter(|byte| is_end(byte)) {
        *byte = b' ';
    }
    line.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_type_and_lose_their_spelling() {
        let id = |text: &str| Head::read(text.as_bytes()).unwrap().id;
        assert_eq!(
            id(r#"{"id":"\u0061"}"#),
            Some(Id::Text("a".to_owned())),
            "an escape"
        );
        assert_ne!(id(r#"{"id":"1"}"#), id(r#"{"id":1}"#));
        for (one, two, same) in [
            (r#"{"id":1}"#, r#"{"id":"1"}"#, true),
            (r#"{"id":1}"#, r#"{"id":1.0}"#, true),
            (r#"{"id":"a"}"#, r#"{"id":" a"}"#, true),
            (r#"{"id":1}"#, r#"{"id":"2"}"#, false),
            (
                r#"{"id":9007199254740993}"#,
                r#"{"id":"9007199254740992"}"#,
                false,
            ),
            (r#"{"id":"a"}"#, r#"{"id":"b"}"#, false),
        ] {
            let (one, two) = (id(one).unwrap(), id(two).unwrap());
            assert_eq!(one.resembles(&two), same, "{one:?} {two:?}");
        }
        for none in [r#"{"id":null}"#, r#"{"id":{}}"#, r#"{"id":true}"#, "{}"] {
            assert_eq!(id(none), None, "{none}");
        }
        assert_eq!(Id::Text("a\"b".to_owned()).json(), r#""a\"b""#);
    }

    #[test]
    fn odd_shapes_name_nothing() {
        for odd in [
            r#"{"method":"m","id":1,"params":[1]}"#,
            r#"{"method":"m","id":1,"params":["name"]}"#,
            r#"{"method":"m","id":1,"params":{"name":7,"_meta":"x"}}"#,
        ] {
            let head = Head::read(odd.as_bytes()).unwrap();
            assert!(head.is_request());
            assert_eq!(head.name, None);
        }
        for junk in [
            "",
            "hello",
            "[]",
            "[1,\"m\"]",
            "7",
            "{\"a\":1",
            "{\"id\":1,\"id\":2}",
        ] {
            assert!(Head::read(junk.as_bytes()).is_none(), "{junk}");
        }
    }

    #[test]
    fn a_message_is_one_line() {
        let line = |text: &'static str| one_line(Bytes::from_static(text.as_bytes()));
        assert_eq!(line("{\r\n \"a\": 1\n}"), "{   \"a\": 1 }");
        let other = "{\"a\":\"\u{2028}\u{85}\"}";
        assert_eq!(line(other), other);
    }
}
