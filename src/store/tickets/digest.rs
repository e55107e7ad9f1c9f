//! What a ticket is bound to: one call of one principal, canonical (RFC 8785) and hashed.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::item::{Arguments, ToolCall};
use crate::names::{SessionKey, ToolName, UpstreamName};
use crate::principal::{Principal, Session};

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

/// Binds a call: its canonical arguments, and SHA-256(`"holdpoint-call-v1\0"` + JCS({tenant, upstream, tool, args,
/// principal {iss, sub}, agent, session or null})).
///
/// # Errors
/// Arguments that cannot be bound, see [`bindable`].
pub fn bind(
    call: &ToolCall,
    upstream: &UpstreamName,
    session: &Session,
) -> Result<BoundCall, NotBindable> {
    bindable(&call.args)?;
    let principal = &session.principal;
    let whole = canonical(&Call {
        tenant: &principal.tenant,
        upstream,
        tool: &call.tool,
        args: &call.args.value,
        principal: Subject::of(principal),
        agent: &principal.agent,
        session: session.key.as_ref(),
    })?;
    let arguments = canonical(&call.args.value)?;
    let mut hashed = [0; 32];
    hashed.copy_from_slice(digest(&SHA256, &[DOMAIN, &whole].concat()).as_ref());
    Ok(BoundCall {
        digest: CallDigest(hashed),
        arguments: arguments.into(),
    })
}

/// Only a number that is not finite cannot be written, and strict JSON has none.
fn canonical(value: &impl Serialize) -> Result<Vec<u8>, NotBindable> {
    serde_json_canonicalizer::to_vec(value).map_err(|_| NotBindable::Inexact)
}

/// SHA-256 of some bytes, lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
        let call = ToolCall::new(ToolName::from("refund"), arguments(text));
        let session = Session {
            key: None,
            principal: Arc::new(Principal {
                tenant: "t".into(),
                issuer: "config".into(),
                subject: "ann".into(),
                agent: "bot".into(),
                actors: Vec::new(),
                scopes: std::collections::BTreeSet::new(),
            }),
            grant: None,
        };
        bind(&call, &UpstreamName::from("shop"), &session)
    }

    /// Computed apart from this code: `printf '%s\0%s' holdpoint-call-v1 "$json" | sha256sum`.
    #[test]
    fn the_digest_is_the_documented_one() {
        let bound = bound(r#"{"b": 1.0, "a": "é"}"#).unwrap();
        assert_eq!(&bound.arguments[..], r#"{"a":"é","b":1}"#.as_bytes());
        let json = r#"{"agent":"bot","args":{"a":"é","b":1},"principal":{"iss":"config","sub":"ann"},"session":null,"tenant":"t","tool":"refund","upstream":"shop"}"#;
        let bytes = [b"holdpoint-call-v1\0".as_slice(), json.as_bytes()].concat();
        assert_eq!(bound.digest.to_string(), sha256_hex(&bytes));
        assert_eq!(bound.digest.to_string(), EXPECTED);
    }

    const EXPECTED: &str = "adb2192a8c9007f683efbe59e7144e482f295dd32b430f72279ee65440772c17";

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
