//! On whose behalf a request comes, and in which session.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, HeaderName, header};

use super::client::Getter;
use super::refuse::{self, ErrorCode};
use crate::clock::Clock;
use crate::identity::{Caller, ClientNames, Fault, Fetch, Jwks, LARGEST_JWKS, Tokens, api_key};
use crate::names::SessionKey;
use crate::principal::{Grant, Principal, Session};
use crate::settings::{
    CertificateName, JwtPrincipals, KeySource, MtlsPrincipals, Principals, SessionSource, Settings,
};
use crate::source::{Problem, Problems};

/// Longest session header.
const LONGEST_SESSION: usize = 256;

/// Knows callers by what the settings say.
pub(crate) struct Identify {
    principals: Principals,
    session: SessionSource,
    /// Only with tokens.
    tokens: Option<Tokens>,
}

impl Identify {
    /// `clock` tells how old keys are.
    ///
    /// # Errors
    /// Authorities of the issuer that cannot be read.
    pub(crate) fn new(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self, Problems> {
        let tokens = match &settings.principals {
            Principals::Jwt(jwt) => Some(tokens(jwt, settings, clock)?),
            _ => None,
        };
        Ok(Self {
            principals: settings.principals.clone(),
            session: settings.session.clone(),
            tokens,
        })
    }

    /// Reads the issuer's keys for the first time, where there is one.
    ///
    /// # Errors
    /// There are none.
    pub(crate) async fn load(&self) -> Result<(), Problems> {
        let (Some(tokens), Principals::Jwt(jwt)) = (&self.tokens, &self.principals) else {
            return Ok(());
        };
        tokens.load().await.map_err(|cause| {
            let at = match &jwt.keys {
                KeySource::File(path) => path.display().to_string(),
                KeySource::Url { url, .. } => url.to_string(),
                KeySource::Inline(_) => "the given set".to_owned(),
            };
            Problem::new(format!("the issuer's keys at {at} cannot be used: {cause}"))
                .help("check `principal.jwt`: no token could be verified without them")
                .into()
        })
    }

    /// Who calls, and in which session.
    pub(super) async fn session(
        &self,
        parts: &Parts,
        clock: &dyn Clock,
    ) -> Result<Session, &'static ErrorCode> {
        let names = parts.extensions.get::<Arc<ClientNames>>();
        let at = self.principals.header();
        self.session_of(&parts.headers, at, names.map(AsRef::as_ref), clock)
            .await
    }

    /// As [`Self::session`], with the credential in the header `at`.
    pub(crate) async fn session_of(
        &self,
        headers: &HeaderMap,
        at: Option<&HeaderName>,
        names: Option<&ClientNames>,
        clock: &dyn Clock,
    ) -> Result<Session, &'static ErrorCode> {
        let caller = self.caller(headers, at, names, clock).await?;
        let principal = caller.principal;
        let within = |value: &str| scoped(value, &principal);
        let bound = caller.session.as_deref().map(within);
        let key = match &self.session {
            SessionSource::Fixed(key) => Some(key.clone()),
            SessionSource::Header(name) => session_value(headers, name)?.map(within),
            SessionSource::Token => bound.clone(),
        };
        let grant = caller.until.map(|until| {
            Arc::new(Grant {
                until,
                session: bound,
            })
        });
        Ok(Session {
            key,
            principal,
            grant,
        })
    }

    /// Who calls, by the credential in the header `at` or the names of the client's certificate.
    async fn caller(
        &self,
        headers: &HeaderMap,
        at: Option<&HeaderName>,
        names: Option<&ClientNames>,
        clock: &dyn Clock,
    ) -> Result<Caller, &'static ErrorCode> {
        match (&self.principals, &self.tokens) {
            (Principals::Fixed(principal), _) => Ok(Caller::known(Arc::clone(principal))),
            (Principals::ApiKeys { keys, .. }, _) => {
                let key = credential(headers, at)?;
                // Looked up by digest: the time does not tell how much of a key is right.
                let principal = keys.get(&api_key::sha256(key));
                let principal = principal.ok_or(&refuse::CREDENTIAL_UNKNOWN)?;
                Ok(Caller::known(Arc::clone(principal)))
            }
            (Principals::Mtls(known), _) => certified(known, names),
            (Principals::Jwt(_), Some(tokens)) => {
                let token = credential(headers, at)?;
                let verified = tokens.verify(token, clock).await;
                verified.map_err(|fault| {
                    tracing::debug!(%fault, "a token was refused");
                    match fault {
                        Fault::Invalid(_) => &refuse::TOKEN_INVALID,
                        Fault::Expired => &refuse::TOKEN_EXPIRED,
                        Fault::Delegation(_) => &refuse::DELEGATION_REFUSED,
                        Fault::NoKeys => &refuse::KEYS_UNAVAILABLE,
                    }
                })
            }
            (Principals::Jwt(_), None) => Err(&refuse::INTERNAL),
        }
    }
}

fn tokens(
    jwt: &JwtPrincipals,
    settings: &Settings,
    clock: Arc<dyn Clock>,
) -> Result<Tokens, Problems> {
    let from: Box<dyn Fetch> = match &jwt.keys {
        KeySource::Inline(set) => Box::new(Given(set.clone())),
        KeySource::File(path) => Box::new(File(path.clone())),
        KeySource::Url { url, ca } => {
            let getter = Getter::new(url.clone(), ca.as_deref(), settings.timeouts.connect);
            Box::new(Remote(getter.map_err(|cause| {
                Problem::new(format!("`principal.jwt.jwks_ca`: {cause}"))
                    .help("write the certificates of the authorities in PEM")
            })?))
        }
    };
    let keys = Jwks::new(from, jwt.timing, clock);
    Ok(Tokens::new(jwt.clone(), keys))
}

/// A set that is there already.
struct Given(Bytes);

impl Fetch for Given {
    fn fetch(&self) -> BoxFuture<'_, Result<Bytes, String>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

struct File(std::path::PathBuf);

impl Fetch for File {
    fn fetch(&self) -> BoxFuture<'_, Result<Bytes, String>> {
        Box::pin(async {
            use tokio::io::AsyncReadExt;
            let unread = |error: std::io::Error| format!("the file cannot be read: {error}");
            let file = tokio::fs::File::open(&self.0).await.map_err(unread)?;
            let mut bytes = Vec::new();
            let most = u64::try_from(LARGEST_JWKS).unwrap_or(u64::MAX);
            let mut file = file.take(most.saturating_add(1));
            file.read_to_end(&mut bytes).await.map_err(unread)?;
            if bytes.len() > LARGEST_JWKS {
                return Err("the file is larger than 256 KiB".to_owned());
            }
            Ok(bytes.into())
        })
    }
}

struct Remote(Getter);

impl Fetch for Remote {
    fn fetch(&self) -> BoxFuture<'_, Result<Bytes, String>> {
        Box::pin(self.0.get(LARGEST_JWKS))
    }
}

/// The one principal that the names of a certificate mean.
fn certified(
    known: &MtlsPrincipals,
    names: Option<&ClientNames>,
) -> Result<Caller, &'static ErrorCode> {
    let names = names.ok_or(&refuse::CREDENTIAL_MISSING)?;
    let uris = names.uris.iter().cloned().map(CertificateName::Uri);
    let dns = names.dns.iter().cloned().map(CertificateName::Dns);
    let found: Vec<_> = uris
        .chain(dns)
        .filter_map(|name| known.get(&name))
        .collect();
    let (Some(first), rest) = (found.first(), found.get(1..).unwrap_or_default()) else {
        return Err(&refuse::CREDENTIAL_UNKNOWN);
    };
    // One certificate that speaks for two speaks for neither.
    if rest.iter().any(|other| other != first) {
        return Err(&refuse::CREDENTIAL_UNKNOWN);
    }
    Ok(Caller::known(Arc::clone(first)))
}

/// The key or token in the header: with or without `Bearer` where the header has schemes.
fn credential<'h>(
    headers: &'h HeaderMap,
    at: Option<&HeaderName>,
) -> Result<&'h [u8], &'static ErrorCode> {
    let name = at.ok_or(&refuse::INTERNAL)?;
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(&refuse::CREDENTIAL_MISSING);
    };
    let value = value.as_bytes();
    let with_scheme = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION].contains(name);
    let bare = match value.split_at_checked(b"bearer ".len()) {
        Some((scheme, key)) if with_scheme && scheme.eq_ignore_ascii_case(b"bearer ") => {
            key.trim_ascii()
        }
        _ if with_scheme && value.eq_ignore_ascii_case(b"bearer") => &[],
        _ => value,
    };
    if bare.is_empty() {
        return Err(&refuse::CREDENTIAL_MISSING);
    }
    Ok(bare)
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

    use futures_util::FutureExt;
    use http::HeaderValue;

    use super::*;

    fn principal(subject: &str) -> Arc<Principal> {
        Arc::new(Principal {
            tenant: "t".into(),
            issuer: "config".into(),
            subject: subject.into(),
            agent: "a".into(),
            actors: Vec::new(),
            scopes: BTreeSet::new(),
        })
    }

    fn keys(header: &'static str) -> Principals {
        Principals::ApiKeys {
            header: HeaderName::from_static(header),
            keys: HashMap::from([
                (api_key::sha256(b"key-a"), principal("ann")),
                (api_key::sha256(b"key-b"), principal("bob")),
            ]),
        }
    }

    fn ask(
        principals: &Principals,
        headers: &[(&'static str, &str)],
    ) -> Result<Session, &'static str> {
        let mut request = http::Request::new(());
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).unwrap();
            request.headers_mut().append(*name, value);
        }
        answer(principals, request)
    }

    fn answer(
        principals: &Principals,
        request: http::Request<()>,
    ) -> Result<Session, &'static str> {
        let identify = Identify {
            principals: principals.clone(),
            session: SessionSource::Header(HeaderName::from_static("holdpoint-session")),
            tokens: None,
        };
        let (parts, ()) = request.into_parts();
        let clock = crate::clock::SystemClock;
        let session = identify.session(&parts, &clock).now_or_never().unwrap();
        session.map_err(|code| code.code)
    }

    #[test]
    fn a_certificate_names_one_principal_or_none() {
        let uri = |text: &str| CertificateName::Uri(text.to_owned());
        let known = Principals::Mtls(
            [
                (uri("spiffe://x/a"), principal("ann")),
                (uri("spiffe://x/a2"), principal("ann")),
                (CertificateName::Dns("b.x".to_owned()), principal("bob")),
            ]
            .into(),
        );
        let ask = |uris: &[&str], dns: &[&str]| {
            let owned = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
            let mut request = http::Request::new(());
            request.extensions_mut().insert(Arc::new(ClientNames {
                uris: owned(uris),
                dns: owned(dns),
            }));
            answer(&known, request).map(|session| session.principal.subject.to_string())
        };
        assert_eq!(ask(&["spiffe://x/a"], &[]), Ok("ann".to_owned()));
        assert_eq!(
            ask(&["spiffe://x/a", "spiffe://x/a2"], &["c.x"]),
            Ok("ann".to_owned())
        );
        assert_eq!(ask(&[], &["b.x"]), Ok("bob".to_owned()));
        for (uris, dns) in [
            (&["spiffe://x/a"][..], &["b.x"][..]),
            (&["spiffe://x/A"], &[]),
            (&["b.x"], &["spiffe://x/a"]),
            (&[], &[]),
        ] {
            assert_eq!(
                ask(uris, dns),
                Err("credential_unknown"),
                "{uris:?} {dns:?}"
            );
        }
        let bare = answer(&known, http::Request::new(()));
        assert_eq!(bare.err(), Some("credential_missing"));
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
            vec![("x-api-key", "")],
            vec![("x-api-key", "key-a"), ("x-api-key", "key-a")],
            vec![("authorization", "Bearer key-a")],
        ] {
            assert_eq!(ask(&plain, &headers), Err("credential_missing"));
        }
        for key in ["key-c", "Bearer key-a", "key-a "] {
            assert_eq!(
                ask(&plain, &[("x-api-key", key)]),
                Err("credential_unknown")
            );
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
