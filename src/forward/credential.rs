//! The agent's key where a proxy's clients send it.

use data_encoding::BASE64;
use http::{HeaderMap, HeaderValue, header};

use crate::clock::Clock;
use crate::identity::ClientNames;
use crate::principal::Session;
use crate::proxy::Identify;
use crate::proxy::refuse::{self, ErrorCode};
use crate::settings::{SessionSource, Settings};

/// On whose behalf a request to the forward proxy comes. Where the config knows agents by a key or a token,
/// `Proxy-Authorization` carries it: as `Bearer`, or as `Basic`, whose password it is (its user, where there is no password).
pub(super) async fn session(
    headers: &HeaderMap,
    names: Option<&ClientNames>,
    (identify, settings): (&Identify, &Settings),
    clock: &dyn Clock,
) -> Result<Session, &'static ErrorCode> {
    let mut asked = HeaderMap::new();
    if let SessionSource::Header(name) = &settings.session {
        for value in headers.get_all(name) {
            asked.append(name.clone(), value.clone());
        }
    }
    let at = settings.principals.header();
    if let Some(header) = at {
        let key = key(headers).ok_or(&refuse::PROXY_CREDENTIAL_UNKNOWN)?;
        asked.insert(header.clone(), key);
    }
    let session = identify.session_of(&asked, at, names, clock).await;
    session.map_err(|code| {
        if code == &refuse::CREDENTIAL_UNKNOWN || code == &refuse::CREDENTIAL_MISSING {
            &refuse::PROXY_CREDENTIAL_UNKNOWN
        } else {
            code
        }
    })
}

fn key(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut values = headers.get_all(header::PROXY_AUTHORIZATION).iter();
    let (value, None) = (values.next()?.to_str().ok()?, values.next()) else {
        return None;
    };
    let (scheme, rest) = value.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return HeaderValue::from_str(rest).ok();
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = BASE64.decode(rest.as_bytes()).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    let (user, password) = (pair.get(..colon)?, pair.get(colon + 1..)?);
    let key = if password.is_empty() { user } else { password };
    HeaderValue::from_bytes(key).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(
                header::PROXY_AUTHORIZATION,
                HeaderValue::from_str(value).unwrap(),
            );
        }
        key(&headers).map(|key| key.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_key_comes_as_a_token_or_as_a_password() {
        let basic = |pair: &str| format!("Basic {}", BASE64.encode(pair.as_bytes()));
        assert_eq!(of(&["Bearer k"]).as_deref(), Some("k"));
        assert_eq!(of(&["bearer  k"]).as_deref(), Some("k"));
        assert_eq!(of(&[&basic("agent:k")]).as_deref(), Some("k"));
        assert_eq!(of(&[&basic("k:")]).as_deref(), Some("k"));
        assert_eq!(of(&[&basic("a:k:l")]).as_deref(), Some("k:l"));
        for none in [
            &[][..],
            &["k"],
            &["Digest k"],
            &["Basic ?"],
            &["Basic bm9jb2xvbg=="],
            &["Bearer k", "Bearer k"],
        ] {
            assert_eq!(of(none), None, "{none:?}");
        }
        // A line end inside must not become a header.
        assert_eq!(of(&[&basic("a:k\r\nx: y")]), None);
    }
}
