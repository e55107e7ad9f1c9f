//! How callers are known by tokens and by certificates, and the secrets that the proxy puts in place of placeholders.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Uri};

use super::Secret;
use crate::identity::{Algorithm, Timing};
use crate::names::{SecretName, UpstreamName};
use crate::principal::Principal;

/// Callers come with a token of one issuer (RFC 7519), in a header.
#[derive(Clone, Debug)]
pub struct JwtPrincipals {
    /// The header: `authorization` with `Bearer`, or another with the token alone. Never forwarded.
    pub header: HeaderName,
    /// The `iss` that a token must have, exact.
    pub issuer: Arc<str>,
    /// One of them must be in the token's `aud`. Not empty.
    pub audiences: Vec<String>,
    /// Where the issuer's keys are.
    pub keys: KeySource,
    /// How tokens may be signed. Not empty.
    pub algorithms: Vec<Algorithm>,
    /// How far the issuer's clock may be off.
    pub leeway: Duration,
    /// How often keys are read.
    pub timing: Timing,
    /// Which claims mean what.
    pub claims: ClaimNames,
    /// Of every principal, where `claims.tenant` names no claim.
    pub tenant: Arc<str>,
    /// Of a principal whose token names no actor and no agent.
    pub agent: Arc<str>,
    /// Who may act for a subject (`act`, RFC 8693); `None`: whomever the issuer lets.
    pub actors: Option<BTreeSet<Arc<str>>>,
    /// Most actors in a row in one token, the acting one included.
    pub actor_depth: usize,
}

impl JwtPrincipals {
    /// Tokens of this issuer for this audience, everything else as without a setting.
    pub fn new(issuer: &str, audience: &str, keys: KeySource) -> Self {
        Self {
            header: http::header::AUTHORIZATION,
            issuer: issuer.into(),
            audiences: vec![audience.to_owned()],
            keys,
            algorithms: vec![
                Algorithm::Es256,
                Algorithm::EdDsa,
                Algorithm::Rs256,
                Algorithm::Ps256,
            ],
            leeway: Duration::from_secs(30),
            timing: Timing {
                refresh: Duration::from_mins(10),
                floor: Duration::from_secs(30),
                max_age: Duration::from_hours(24),
            },
            claims: ClaimNames::default(),
            tenant: "default".into(),
            agent: "default".into(),
            actors: None,
            actor_depth: 1,
        }
    }
}

/// Where an issuer's keys (a JWK set, RFC 7517) come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A file, read at start and again as a URL is.
    File(PathBuf),
    /// A URL: `https`, or `http` on this machine.
    Url {
        /// The whole URL.
        url: Uri,
        /// PEM file of the certificate authorities that are trusted for it, in place of the public ones.
        ca: Option<PathBuf>,
    },
    /// The set itself.
    Inline(Bytes),
}

/// Names of claims: of a top-level one, or a JSON Pointer (RFC 6901).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimNames {
    /// The end user.
    pub subject: String,
    /// The tenant; a token without it is refused.
    pub tenant: Option<String>,
    /// The agent of a token without `act`; a token without both is refused.
    pub agent: Option<String>,
    /// Scopes: words in one text, or a list.
    pub scopes: String,
    /// The session that the token is for.
    pub session: Option<String>,
}

impl Default for ClaimNames {
    fn default() -> Self {
        Self {
            subject: "sub".to_owned(),
            tenant: None,
            agent: None,
            scopes: "scope".to_owned(),
            session: None,
        }
    }
}

/// A name in a client certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CertificateName {
    /// A URI, exact.
    Uri(String),
    /// A DNS name, lower case.
    Dns(String),
}

/// Callers by the names in the client certificates that `listen.tls.client_ca` has signed.
pub type MtlsPrincipals = BTreeMap<CertificateName, Arc<Principal>>;

/// A value that agents write as a placeholder, `{{holdpoint:NAME}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedSecret {
    /// Its name.
    pub name: SecretName,
    /// What stands in its place.
    pub value: Secret,
    /// The only upstreams that get it.
    pub upstreams: BTreeSet<UpstreamName>,
    /// Where in a request the placeholder may stand.
    pub places: BTreeSet<SecretPlace>,
}

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretPlace {
    /// The value of a header.
    Header,
    /// The query.
    Query,
    /// A text of a JSON body.
    Body,
}

impl SecretPlace {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Header, Self::Query, Self::Body];

    /// The name in a config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Query => "query",
            Self::Body => "body",
        }
    }
}
