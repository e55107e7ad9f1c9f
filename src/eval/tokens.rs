//! Tokens for the principals of a suite, signed by keys that are made from their names: for the sandbox alone, where everybody
//! may know them. The proxy verifies them as it does any other.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

use crate::policy::Policy;
use crate::principal::Principal;
use crate::settings::{JwtPrincipals, KeySource};

/// The key whose signatures are good.
const ISSUER_KEY: &str = "issuer";
/// Who every token says that it is for.
const AUDIENCE: &str = "holdpoint";
/// The claims that have no standard name.
const TENANT: &str = "tenant";
const SESSION: &str = "sid";
/// Seconds from the start of a trial to the end of its tokens.
const LIFE: i64 = 24 * 3600;

/// How the token of a principal differs from a good one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bearer {
    /// The key that signs it, under the issuer's name; absent: the issuer's.
    pub signed_by: Option<String>,
    /// The session that it is for; absent: the case's own.
    pub session: Option<String>,
}

/// A check of the caller's identity that an arm may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Whose signature it is: left out, whoever signed the token is the issuer.
    Signature,
    /// `scopes` of the policy's rules.
    Scope,
    /// `agents` of the policy's rules.
    Actor,
    /// `session` of the policy's rules.
    Session,
}

impl Check {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Signature, Self::Scope, Self::Actor, Self::Session];

    /// The name in a suite.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Signature => "signature",
            Self::Scope => "scope",
            Self::Actor => "actor",
            Self::Session => "session",
        }
    }

    /// Takes the check's rules out of a policy.
    pub fn lift(self, policy: &mut Policy) {
        for rule in &mut policy.tools {
            match self {
                Self::Signature => {}
                Self::Scope => rule.scopes.clear(),
                Self::Actor => rule.agents.clear(),
                Self::Session => rule.own_session = false,
            }
        }
    }
}

fn key(name: &str) -> Result<Ed25519KeyPair, String> {
    let seed = digest(&SHA256, format!("holdpoint eval key {name}").as_bytes());
    Ed25519KeyPair::from_seed_unchecked(seed.as_ref())
        .map_err(|error| format!("a key cannot be made: {error}"))
}

/// What the proxy is told of tokens. `trusted`: the key whose signatures are good, under the issuer's key id.
pub(super) fn verified_as(issuer: &str, trusted: Option<&str>) -> Result<JwtPrincipals, String> {
    let key = key(trusted.unwrap_or(ISSUER_KEY))?;
    let x = BASE64URL_NOPAD.encode(key.public_key().as_ref());
    let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": ISSUER_KEY, "x": x}]});
    let set = Bytes::from(set.to_string());
    let mut jwt = JwtPrincipals::new(issuer, AUDIENCE, KeySource::Inline(set));
    jwt.claims.tenant = Some(TENANT.to_owned());
    jwt.claims.session = Some(SESSION.to_owned());
    Ok(jwt)
}

/// The token of a principal in a session, as of `now` in seconds.
pub(super) fn token(
    principal: &Principal,
    bearer: &Bearer,
    session: &str,
    now: i64,
) -> Result<String, String> {
    let key = key(bearer.signed_by.as_deref().unwrap_or(ISSUER_KEY))?;
    let scopes: Vec<&str> = principal.scopes.iter().map(AsRef::as_ref).collect();
    let claims = json!({
        "iss": principal.issuer,
        "aud": AUDIENCE,
        "sub": principal.subject,
        TENANT: principal.tenant,
        "act": {"sub": principal.agent},
        "scope": scopes.join(" "),
        SESSION: bearer.session.as_deref().unwrap_or(session),
        "iat": now,
        "exp": now.saturating_add(LIFE),
    });
    let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": ISSUER_KEY});
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let signature = BASE64URL_NOPAD.encode(key.sign(signed.as_bytes()).as_ref());
    Ok(format!("{signed}.{signature}"))
}
