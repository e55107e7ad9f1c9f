//! What a ticket is bound to: one call of one principal, canonical (RFC 8785) and hashed.

use std::borrow::Cow;
use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::item::{Arguments, RouteKind, ToolCall};
use crate::names::{SessionKey, ToolName, UpstreamName};
use crate::principal::Principal;

/// Separates this hash from every other use of SHA-256.
const DOMAIN: &[u8] = b"holdpoint-call-v1\0";

/// Deepest nesting of arguments that can be bound, in arrays and objects.
pub const MAX_DEPTH: usize = 64;

/// Largest arguments that can be bound, in bytes as they came.
pub const MAX_BYTES: usize = 1 << 20;

/// Shortest prefix of a digest that names a call, in hex digits.
pub const MIN_PREFIX: usize = 8;

/// SHA-256 of `holdpoint-call-v1`, a zero byte, and the canonical call.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallDigest([u8; 32]);

impl CallDigest {
    /// The digest written as 64 hex digits; `None` where it is something else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// Whether the hex form starts with `prefix`, in either case. An empty prefix names no digest.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        !prefix.is_empty() && self.to_string().starts_with(&prefix.to_ascii_lowercase())
    }
}

impl fmt::Display for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for CallDigest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A call in the form that is approved, stored and sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundCall {
    /// Its identity.
    pub digest: CallDigest,
    /// Its arguments, RFC 8785.
    pub arguments: Bytes,
}

/// Why arguments cannot be bound to a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBindable {
    /// Two readers may read the number differently.
    #[error("an integer is beyond 2^53-1")]
    Inexact,
    /// See [`MAX_DEPTH`].
    #[error("more than {MAX_DEPTH} levels of nesting")]
    TooDeep,
    /// See [`MAX_BYTES`].
    #[error("more than {MAX_BYTES} bytes")]
    TooLarge,
}

/// Whether arguments can be bound at all.
///
/// # Errors
/// What stands against it.
pub fn bindable(args: &Arguments) -> Result<(), NotBindable> {
    if args.raw.len() > MAX_BYTES {
        return Err(NotBindable::TooLarge);
    }
    if !args.exact {
        return Err(NotBindable::Inexact);
    }
    if deeper_than(&args.value, MAX_DEPTH) {
        return Err(NotBindable::TooDeep);
    }
    Ok(())
}

fn deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => {
            levels == 0 || items.iter().any(|child| deeper_than(child, levels - 1))
        }
        Value::Object(members) => {
            levels == 0 || members.values().any(|child| deeper_than(child, levels - 1))
        }
        _ => false,
    }
}

/// The call as it is hashed. `session` is written as `null` where there is none, so that no two calls share a form.
#[derive(Serialize)]
struct Call<'a> {
    tenant: &'a str,
    upstream: &'a UpstreamName,
    origin: Option<&'a str>,
    protocol: &'a str,
    tool: &'a ToolName,
    args: &'a Value,
    principal: Subject<'a>,
    agent: &'a str,
    session: Option<&'a SessionKey>,
}

#[derive(Serialize)]
struct Subject<'a> {
    iss: &'a str,
    sub: &'a str,
}

impl<'a> Subject<'a> {
    fn of(principal: &'a Principal) -> Self {
        Self {
            iss: &principal.issuer,
            sub: &principal.subject,
        }
    }
}

/// Where a call goes.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The upstream by its name in the config.
    pub upstream: &'a UpstreamName,
    /// Scheme, host and port of its URL; `None`: it has none that is known.
    pub origin: Option<&'a str>,
    /// Over which kind of route.
    pub kind: RouteKind,
}

impl Destination<'_> {
    const fn protocol(&self) -> &'static str {
        match self.kind {
            RouteKind::Model => "model",
            RouteKind::Mcp => "mcp",
            RouteKind::Http => "http",
            RouteKind::Forward => "forward",
        }
    }
}

/// Binds a call: its canonical arguments, and SHA-256(`"holdpoint-call-v1\0"` + JCS({tenant, upstream, origin or null, protocol,
/// tool, args, principal {iss, sub}, agent, session or null})). Scalars that stand for themselves alone, such as trace ids, are
/// left out of `args` where `volatile` names them: the stored ones are sent.
///
/// # Errors
/// Arguments that cannot be bound, see [`bindable`].
pub fn bind(
    call: &ToolCall,
    to: &Destination<'_>,
    (principal, session): (&Principal, Option<&SessionKey>),
    volatile: &[String],
) -> Result<BoundCall, NotBindable> {
    bindable(&call.args)?;
    let steady = without(&call.args.value, volatile);
    let whole = canonical(&Call {
        tenant: &principal.tenant,
        upstream: to.upstream,
        origin: to.origin,
        protocol: to.protocol(),
        tool: &call.tool,
        args: &steady,
        principal: Subject::of(principal),
        agent: &principal.agent,
        session,
    })?;
    let arguments = canonical(&call.args.value)?;
    let mut hashed = [0; 32];
    hashed.copy_from_slice(digest(&SHA256, &[DOMAIN, &whole].concat()).as_ref());
    Ok(BoundCall {
        digest: CallDigest(hashed),
        arguments: arguments.into(),
    })
}

/// Longest text that may differ from call to call.
const VOLATILE: usize = 128;

/// The arguments without what may differ. What could say more than an id, such as a URL, an address or a sentence, is left in:
/// nobody judges the stored one again.
fn without<'v>(arguments: &'v Value, volatile: &[String]) -> Cow<'v, Value> {
    let mut steady = Cow::Borrowed(arguments);
    for pointer in volatile {
        if !steady.pointer(pointer).is_some_and(is_plain) {
            continue;
        }
        let Some((parent, step)) = pointer.rsplit_once('/') else {
            continue;
        };
        let key = step.replace("~1", "/").replace("~0", "~");
        match steady.to_mut().pointer_mut(parent) {
            Some(Value::Object(members)) => drop(members.shift_remove_entry(&key)),
            Some(Value::Array(items)) => {
                // Its place stays, or two elements could change places.
                if let Some(item) = key.parse().ok().and_then(|at: usize| items.get_mut(at)) {
                    *item = Value::Null;
                }
            }
            _ => {}
        }
    }
    steady
}

fn is_plain(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => {
            text.len() <= VOLATILE
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        }
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// Only a number that is not finite cannot be written, and strict JSON has none.
fn canonical(value: &impl Serialize) -> Result<Vec<u8>, NotBindable> {
    serde_json_canonicalizer::to_vec(value).map_err(|_| NotBindable::Inexact)
}

/// A value as the stored arguments have it: `1.0` is `1`.
pub fn as_stored(value: &Value) -> Option<Value> {
    serde_json::from_slice(&canonical(value).ok()?).ok()
}

/// SHA-256 of some bytes, lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Document;

    fn arguments(text: &str) -> Arguments {
        let document = Document::read(Bytes::copy_from_slice(text.as_bytes()), 256).unwrap();
        let (value, exact) = document.value(document.root()).unwrap();
        Arguments {
            raw: document.bytes().clone(),
            value,
            exact,
        }
    }

    fn bound(text: &str) -> Result<BoundCall, NotBindable> {
        bound_but(text, &[])
    }

    fn bound_but(text: &str, volatile: &[&str]) -> Result<BoundCall, NotBindable> {
        let call = ToolCall::new(ToolName::from("refund"), arguments(text));
        let principal = Principal {
            tenant: "t".into(),
            issuer: "config".into(),
            subject: "ann".into(),
            agent: "bot".into(),
            actors: Vec::new(),
            scopes: std::collections::BTreeSet::new(),
        };
        let to = Destination {
            upstream: &UpstreamName::from("shop"),
            origin: Some("https://shop.example:443"),
            kind: RouteKind::Http,
        };
        let volatile: Vec<_> = volatile.iter().map(ToString::to_string).collect();
        bind(&call, &to, (&principal, None), &volatile)
    }

    /// Computed apart from this code: `printf '%s\0%s' holdpoint-call-v1 "$json" | sha256sum`.
    #[test]
    fn the_digest_is_the_documented_one() {
        let bound = bound(r#"{"b": 1.0, "a": "é"}"#).unwrap();
        assert_eq!(&bound.arguments[..], r#"{"a":"é","b":1}"#.as_bytes());
        let json = r#"{"agent":"bot","args":{"a":"é","b":1},"origin":"https://shop.example:443","principal":{"iss":"config","sub":"ann"},"protocol":"http","session":null,"tenant":"t","tool":"refund","upstream":"shop"}"#;
        let bytes = [b"holdpoint-call-v1\0".as_slice(), json.as_bytes()].concat();
        assert_eq!(bound.digest.to_string(), sha256_hex(&bytes));
        assert_eq!(bound.digest.to_string(), EXPECTED);
    }

    const EXPECTED: &str = "b42ef067dc771230d7cab897db0e2e8eb5404f70de71615bdc3211a827642c45";

    #[test]
    fn the_same_call_in_other_words_is_the_same() {
        let one = bound(r#"{"a":1,"b":[true,{"x":"y","c":1e1}]}"#).unwrap();
        let other =
            bound("{ \"b\" : [true, {\"c\": 10.0, \"x\": \"\\u0079\"}],\n\"a\": 1.0 }").unwrap();
        assert_eq!(one, other);
        let composed = bound("{\"a\":\"\u{e9}\"}").unwrap();
        let decomposed = bound("{\"a\":\"e\u{301}\"}").unwrap();
        assert_ne!(composed.digest, decomposed.digest);
    }

    #[test]
    fn ids_that_may_differ_are_left_out_and_nothing_else_is() {
        let digest = |text: &str, volatile: &[&str]| bound_but(text, volatile).unwrap().digest;
        let plain = digest(
            r#"{"a":1,"trace":{"id":"01-ab"},"n":[1,2]}"#,
            &["/trace/id"],
        );
        let other = bound_but(
            r#"{"a":1,"trace":{"id":"02-cd"},"n":[1,2]}"#,
            &["/trace/id"],
        );
        let other = other.unwrap();
        assert_eq!(plain, other.digest);
        // What is sent is whole.
        let sent = r#"{"a":1,"n":[1,2],"trace":{"id":"02-cd"}}"#;
        assert_eq!(&other.arguments[..], sent.as_bytes());
        assert_eq!(
            plain,
            digest(r#"{"a":1,"trace":{},"n":[1,2]}"#, &["/trace/id"])
        );
        assert_ne!(
            plain,
            digest(
                r#"{"a":2,"trace":{"id":"01-ab"},"n":[1,2]}"#,
                &["/trace/id"]
            )
        );
        for (one, two) in [
            (
                r#"{"t":"https://a.example/x"}"#,
                r#"{"t":"https://b.example/x"}"#,
            ),
            (r#"{"t":"ann@a.example"}"#, r#"{"t":"bob@a.example"}"#),
            (r#"{"t":{"x":1}}"#, r#"{"t":{"x":2}}"#),
            (r#"{"t":"pay bob"}"#, r#"{"t":"pay ann"}"#),
        ] {
            assert_ne!(digest(one, &["/t"]), digest(two, &["/t"]), "{one}");
        }
        assert_eq!(
            digest(r#"{"l":["a","b"]}"#, &["/l/0"]),
            digest(r#"{"l":["c","b"]}"#, &["/l/0"])
        );
        assert_ne!(
            digest(r#"{"l":["a","b"]}"#, &["/l/0"]),
            digest(r#"{"l":["b","a"]}"#, &["/l/0"])
        );
    }

    #[test]
    fn what_readers_may_read_differently_is_not_bound() {
        assert_eq!(
            bound(r#"{"a":9007199254740992}"#),
            Err(NotBindable::Inexact)
        );
        assert!(bound(r#"{"a":9007199254740991}"#).is_ok());
        let nested = |levels: usize| {
            let inside = levels - 1;
            format!("{{\"a\":{}{}}}", "[".repeat(inside), "]".repeat(inside))
        };
        assert!(bound(&nested(64)).is_ok());
        assert_eq!(bound(&nested(65)), Err(NotBindable::TooDeep));
        let filler = MAX_BYTES - r#"{"a":""}"#.len();
        let sized = |filler: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(filler));
        assert!(bound(&sized(filler)).is_ok());
        assert_eq!(bound(&sized(filler + 1)), Err(NotBindable::TooLarge));
    }

    #[test]
    fn a_prefix_is_compared_in_either_case() {
        let digest = CallDigest::from_hex(&"ab".repeat(32)).unwrap();
        assert!(digest.has_prefix("ABab"));
        assert!(!digest.has_prefix("abc"));
        assert!(!digest.has_prefix(""));
        assert_eq!(CallDigest::from_hex("abab"), None);
    }
}
