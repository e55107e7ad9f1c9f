//! On whose behalf a request comes, and in which session.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderMap, HeaderName, header};

use super::refuse::{self, ErrorCode};
use crate::names::SessionKey;
use crate::principal::{Principal, Session};
use crate::settings::{Principals, SessionSource};

/// Longest session header.
const LONGEST_SESSION: usize = 256;

/// The session of a request.
pub(crate) fn identify(
    headers: &HeaderMap,
    principals: &Principals,
    session: &SessionSource,
) -> Result<Session, &'static ErrorCode> {
    let principal = match principals {
        Principals::Fixed(principal) => Arc::clone(principal),
        Principals::ApiKeys { header, keys } => {
            let key = api_key(headers, header).ok_or(&refuse::CREDENTIAL_UNKNOWN)?;
            // Looked up by digest: the time does not tell how much of a key is right.
            let digest = <[u8; 32]>::try_from(digest(&SHA256, key).as_ref())
                .map_err(|_| &refuse::CREDENTIAL_UNKNOWN)?;
            let principal = keys.get(&digest).ok_or(&refuse::CREDENTIAL_UNKNOWN)?;
            Arc::clone(principal)
        }
    };
    let key = match session {
        SessionSource::Fixed(key) => Some(key.clone()),
        SessionSource::Header(name) => {
            session_value(headers, name)?.map(|value| scoped(value, &principal))
        }
    };
    Ok(Session { key, principal })
}

fn api_key<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h [u8]> {
    let mut values = headers.get_all(name).iter();
    let (value, None) = (values.next()?.as_bytes(), values.next()) else {
        return None;
    };
    if *name != header::AUTHORIZATION {
        return Some(value);
    }
    match value.split_at_checked(b"bearer ".len()) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"bearer ") => Some(key.trim_ascii()),
        _ => Some(value),
    }
}

fn session_value<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h str>, &'static ErrorCode> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    let Some(value) = first else {
        return Ok(None);
    };
    let text = value.to_str().map_err(|_| &refuse::SESSION_INVALID)?;
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    if second.is_some() || text.is_empty() || text.len() > LONGEST_SESSION || !visible {
        return Err(&refuse::SESSION_INVALID);
    }
    Ok(Some(text))
}

/// The same header value of two principals names two sessions.
pub(super) fn scoped(value: &str, principal: &Principal) -> SessionKey {
    let mut identity = Vec::new();
    for part in [&principal.tenant, &principal.issuer, &principal.subject] {
        identity.extend_from_slice(part.as_bytes());
        identity.push(0);
    }
    let digest = digest(&SHA256, &identity);
    let short = digest.as_ref().get(..8).unwrap_or_default();
    SessionKey::new(format!("{value}~{}", data_encoding::HEXLOWER.encode(short)))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use http::HeaderValue;

    use super::*;

    fn principal(subject: &str) -> Arc<Principal> {
        Arc::new(Principal {
            tenant: "t".into(),
            issuer: "config".into(),
            subject: subject.into(),
            agent: "a".into(),
            scopes: BTreeSet::new(),
        })
    }

    fn keys(header: &'static str) -> Principals {
        let digest = |key: &str| <[u8; 32]>::try_from(digest(&SHA256, key.as_bytes()).as_ref());
        Principals::ApiKeys {
            header: HeaderName::from_static(header),
            keys: HashMap::from([
                (digest("key-a").unwrap(), principal("ann")),
                (digest("key-b").unwrap(), principal("bob")),
            ]),
        }
    }

    fn ask(
        principals: &Principals,
        headers: &[(&'static str, &str)],
    ) -> Result<Session, &'static str> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let source = SessionSource::Header(HeaderName::from_static("holdpoint-session"));
        identify(&map, principals, &source).map_err(|code| code.code)
    }

    #[test]
    fn a_key_names_its_principal_with_or_without_bearer() {
        let bearer = keys("authorization");
        for value in ["Bearer key-b", "bearer key-b", "key-b"] {
            let session = ask(&bearer, &[("authorization", value)]).unwrap();
            assert_eq!(&*session.principal.subject, "bob", "{value}");
            assert_eq!(session.key, None);
        }
        let plain = keys("x-api-key");
        assert!(ask(&plain, &[("x-api-key", "key-a")]).is_ok());
        for headers in [
            vec![],
            vec![("x-api-key", "key-c")],
            vec![("x-api-key", "key-a"), ("x-api-key", "key-a")],
            vec![("authorization", "Bearer key-a")],
        ] {
            assert_eq!(ask(&plain, &headers), Err("credential_unknown"));
        }
    }

    #[test]
    fn one_header_of_two_principals_is_two_sessions() {
        let plain = keys("x-api-key");
        let of = |key| {
            let headers = [("x-api-key", key), ("holdpoint-session", "s1")];
            ask(&plain, &headers).unwrap().key.unwrap()
        };
        assert_eq!(of("key-a"), of("key-a"));
        assert_ne!(of("key-a"), of("key-b"));
        assert!(of("key-a").as_str().starts_with("s1~"));
    }

    #[test]
    fn a_session_that_cannot_be_a_name_is_refused() {
        let fixed = Principals::Fixed(principal("ann"));
        let long = "x".repeat(257);
        for value in ["", "a b", &long] {
            let refused = ask(&fixed, &[("holdpoint-session", value)]);
            assert_eq!(refused, Err("session_invalid"));
        }
    }
}
