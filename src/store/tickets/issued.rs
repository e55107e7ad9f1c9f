//! Tickets that somebody else has signed: permission that an orchestrator has from the user already, and what executors outside
//! the guard are given.
//!
//! `hpt1.KID.PAYLOAD.SIGNATURE`: Ed25519 over `"holdpoint-ticket-v1" 0x00 KID "." PAYLOAD`, payload and signature in base64url
//! without padding. One algorithm, never negotiated. A ticket is spent through the store like any other, so it works once,
//! however often it is shown.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use data_encoding::{BASE64_MIME_PERMISSIVE, BASE64URL_NOPAD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::digest::{CallDigest, sha256_hex};
use crate::names::{TicketId, ToolName, UpstreamName};
use crate::principal::Principal;
use crate::wire::json::Document;

/// How a signed ticket begins.
pub const PREFIX: &str = "hpt1.";

/// Separates these signatures from every other use of the key.
const DOMAIN: &[u8] = b"holdpoint-ticket-v1\0";

/// Longest signed ticket, in bytes.
const LONGEST: usize = 4 << 10;

/// Longest life, in seconds: that of a ticket.
const LONGEST_LIFE: i64 = 30 * 24 * 3600;

/// How far the issuer's clock may be ahead, in seconds.
const LEEWAY: i64 = 30;

/// A public key of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerKey {
    /// Its id.
    pub kid: String,
    /// Ed25519, 32 bytes.
    pub public: [u8; 32],
    /// From when it counts; `None`: always.
    pub from: Option<Timestamp>,
    /// Until when it counts; `None`: until it is removed.
    pub until: Option<Timestamp>,
}

impl IssuerKey {
    /// Whether it counts at this time.
    pub fn counts(&self, now: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= now) && self.until.is_none_or(|until| now < until)
    }
}

/// Somebody whose signed tickets are taken where a rule names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Its name.
    pub name: String,
    /// Its keys; several at once while they are changed.
    pub keys: Vec<IssuerKey>,
}

/// What a signed ticket says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// Unique among the issuer's tickets.
    pub jti: String,
    /// When it was signed, in seconds since 1970.
    pub iat: i64,
    /// From when it counts.
    pub nbf: i64,
    /// Until when it may be used.
    pub exp: i64,
    /// Digest of the one call that it permits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The tool of the call, for executors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// SHA-256 of the call's canonical arguments (RFC 8785), lower-case hex, for executors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Or the calls that it permits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mandate: Option<SignedMandate>,
}

/// Calls of one tool for one principal, up to limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedMandate {
    /// The principal's tenant.
    pub tenant: String,
    /// Who vouches for the principal.
    pub iss: String,
    /// The principal.
    pub sub: String,
    /// The agent that acts.
    pub agent: String,
    /// Where to.
    pub upstream: UpstreamName,
    /// Which tool.
    pub tool: ToolName,
    /// Most that all calls together may come to, as a decimal, where the rule of the tool names an amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<String>,
    /// In this currency, where the rule names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// Most calls.
    pub uses: u32,
    /// JSON Pointers of arguments and what they must be, where the rule pins these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub same: BTreeMap<String, Value>,
}

impl SignedMandate {
    /// Whether it is for this principal, agent included.
    pub fn is_for(&self, principal: &Principal) -> bool {
        (&*self.tenant, &*self.iss, &*self.sub, &*self.agent)
            == (
                &*principal.tenant,
                &*principal.issuer,
                &*principal.subject,
                &*principal.agent,
            )
    }
}

/// What a verified ticket permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permits {
    /// One call.
    Call(CallDigest),
    /// Calls up to limits.
    Mandate(SignedMandate),
}

/// A signed ticket that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its id in the store: the same for every showing, and no other issuer's.
    pub id: TicketId,
    /// Whose it is.
    pub issuer: String,
    /// The key that it was checked with.
    pub kid: String,
    /// Until when it may be used.
    pub expires_at: Timestamp,
    /// What it permits.
    pub permits: Permits,
}

/// Why a signed ticket is not taken. Never holds anything of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// Not of the form, too long, or not what it should say.
    #[error("the signed ticket is malformed")]
    Malformed,
    /// No issuer that the rule names has this key, or not at this time.
    #[error("no issuer that the rule names has the key of the signed ticket")]
    UnknownKey,
    /// Made by somebody else, or changed.
    #[error("the signature of the signed ticket is wrong")]
    Signature,
    /// Not yet, or no longer.
    #[error("the signed ticket is expired or not valid yet")]
    Time,
}

/// Checks a signed ticket against the keys of the issuers that the rule names.
///
/// # Errors
/// Why it is not taken.
pub fn verify<'i>(
    token: &str,
    issuers: impl IntoIterator<Item = &'i Issuer>,
    now: Timestamp,
) -> Result<Verified, NotTaken> {
    let rest = token
        .strip_prefix(PREFIX)
        .filter(|_| token.len() <= LONGEST);
    let rest = rest.ok_or(NotTaken::Malformed)?;
    let (signed, signature) = rest.rsplit_once('.').ok_or(NotTaken::Malformed)?;
    let (kid, payload) = signed.split_once('.').ok_or(NotTaken::Malformed)?;
    let decode = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes());
    let signature = decode(signature).map_err(|_| NotTaken::Malformed)?;
    let valid = |key: &&IssuerKey| key.kid == kid && key.counts(now);
    let mut keys = issuers
        .into_iter()
        .filter_map(|issuer| Some((issuer, issuer.keys.iter().find(valid)?)));
    let (issuer, key) = keys.next().ok_or(NotTaken::UnknownKey)?;
    UnparsedPublicKey::new(&ED25519, &key.public)
        .verify(&[DOMAIN, signed.as_bytes()].concat(), &signature)
        .map_err(|_| NotTaken::Signature)?;
    let payload = decode(payload).map_err(|_| NotTaken::Malformed)?;
    // Strictly: a key twice would be read differently by others.
    let document = Document::read(payload.into(), 8).map_err(|_| NotTaken::Malformed)?;
    let claims: Claims =
        serde_json::from_slice(document.bytes()).map_err(|_| NotTaken::Malformed)?;
    let seconds = now.as_second();
    if claims.nbf > seconds + LEEWAY || claims.exp <= seconds {
        return Err(NotTaken::Time);
    }
    claims.check()?;
    let expires_at = Timestamp::from_second(claims.exp).map_err(|_| NotTaken::Malformed)?;
    let permits = match (claims.call, claims.mandate) {
        (Some(digest), None) => {
            Permits::Call(CallDigest::from_hex(&digest).ok_or(NotTaken::Malformed)?)
        }
        (None, Some(mandate)) => Permits::Mandate(mandate),
        _ => return Err(NotTaken::Malformed),
    };
    let named = format!("holdpoint-issued-v1\0{}\0{}", issuer.name, claims.jti);
    let hash = sha256_hex(named.as_bytes());
    Ok(Verified {
        id: TicketId::new(format!("tkt_{}", hash.get(..32).unwrap_or(&hash))),
        issuer: issuer.name.clone(),
        kid: key.kid.clone(),
        expires_at,
        permits,
    })
}

impl Claims {
    /// What holds whoever has signed it.
    fn check(&self) -> Result<(), NotTaken> {
        let life = self.exp.checked_sub(self.nbf);
        let named = !self.jti.is_empty() && self.jti.len() <= 128;
        let uses = self.mandate.as_ref().is_none_or(|mandate| mandate.uses > 0);
        if named && uses && life.is_some_and(|life| (1..=LONGEST_LIFE).contains(&life)) {
            Ok(())
        } else {
            Err(NotTaken::Malformed)
        }
    }
}

/// A private key that signs tickets.
pub struct SigningKey {
    kid: Arc<str>,
    pair: Ed25519KeyPair,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey")
            .field("kid", &self.kid)
            .finish_non_exhaustive()
    }
}

/// Why a key cannot sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not a private key of Ed25519.
    #[error(
        "this is no PKCS #8 private key of Ed25519 in PEM; `holdpoint ticket key new` makes one"
    )]
    NoKey,
    /// The system gave no randomness.
    #[error("the system gave no randomness for a key")]
    NoRandomness,
    /// What is to be signed is not permitted or not complete.
    #[error("a signed ticket permits either one call or a mandate, for at most 30 days")]
    Claims,
}

impl SigningKey {
    /// A new private key, as PKCS #8 in PEM.
    ///
    /// # Errors
    /// [`KeyError::NoRandomness`].
    pub fn generate() -> Result<String, KeyError> {
        let key = Ed25519KeyPair::generate().map_err(|_| KeyError::NoRandomness)?;
        let document = key.to_pkcs8().map_err(|_| KeyError::NoRandomness)?;
        let text = data_encoding::BASE64.encode(document.as_ref());
        let lines: Vec<_> = text
            .as_bytes()
            .chunks(64)
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect();
        Ok(format!("{BEGIN}\n{}\n{END}\n", lines.join("\n")))
    }

    /// Reads a private key.
    ///
    /// # Errors
    /// [`KeyError::NoKey`].
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let inside = pem
            .split_once(BEGIN)
            .and_then(|(_, rest)| rest.split_once(END));
        let (text, _) = inside.ok_or(KeyError::NoKey)?;
        let der = BASE64_MIME_PERMISSIVE
            .decode(text.trim().as_bytes())
            .map_err(|_| KeyError::NoKey)?;
        let pair = Ed25519KeyPair::from_pkcs8(&der).map_err(|_| KeyError::NoKey)?;
        let hash = sha256_hex(pair.public_key().as_ref());
        let kid = Arc::from(hash.get(..16).unwrap_or(&hash));
        Ok(Self { kid, pair })
    }

    /// Its id: the start of the SHA-256 of the public key.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Its public key as `tickets.issuers` of the config takes it.
    pub fn public(&self) -> String {
        BASE64URL_NOPAD.encode(self.pair.public_key().as_ref())
    }

    /// Signs a ticket.
    ///
    /// # Errors
    /// [`KeyError::Claims`].
    pub fn sign(&self, claims: &Claims) -> Result<String, KeyError> {
        let one = claims.call.is_some() != claims.mandate.is_some();
        claims
            .check()
            .ok()
            .filter(|()| one)
            .ok_or(KeyError::Claims)?;
        let payload = serde_json::to_vec(claims).map_err(|_| KeyError::Claims)?;
        let signed = format!("{}.{}", self.kid, BASE64URL_NOPAD.encode(&payload));
        let signature = self.pair.sign(&[DOMAIN, signed.as_bytes()].concat());
        let signature = BASE64URL_NOPAD.encode(signature.as_ref());
        Ok(format!("{PREFIX}{signed}.{signature}"))
    }
}

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(now: i64) -> Claims {
        Claims {
            jti: "one".to_owned(),
            iat: now,
            nbf: now,
            exp: now + 60,
            call: Some("ab".repeat(32)),
            mandate: None,
            tool: None,
            arguments: None,
        }
    }

    fn issuer(name: &str, key: &SigningKey) -> Issuer {
        let public = BASE64URL_NOPAD.decode(key.public().as_bytes()).unwrap();
        Issuer {
            name: name.to_owned(),
            keys: vec![IssuerKey {
                kid: key.kid().to_owned(),
                public: public.try_into().unwrap(),
                from: None,
                until: None,
            }],
        }
    }

    fn key() -> SigningKey {
        SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    const NOW: i64 = 1_800_000_000;

    #[test]
    fn a_signed_ticket_says_what_was_signed() {
        let key = key();
        let token = key.sign(&claims(NOW)).unwrap();
        let issuers = [issuer("orchestrator", &key)];
        let good = verify(&token, &issuers, at(NOW)).unwrap();
        assert_eq!(good.issuer, "orchestrator");
        assert_eq!(good.expires_at, at(NOW + 60));
        let digest = CallDigest::from_hex(&"ab".repeat(32)).unwrap();
        assert_eq!(good.permits, Permits::Call(digest));
        // Shown again it is the same ticket; of another issuer another one.
        assert_eq!(verify(&token, &issuers, at(NOW + 9)).unwrap().id, good.id);
        let other = [issuer("other", &key)];
        assert_ne!(verify(&token, &other, at(NOW)).unwrap().id, good.id);
    }

    #[test]
    fn what_is_changed_or_comes_at_another_time_is_not_taken() {
        let (own, foreign) = (key(), key());
        let issuers = [issuer("orchestrator", &own)];
        let token = own.sign(&claims(NOW)).unwrap();
        for index in PREFIX.len()..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(verify(&changed, &issuers, at(NOW)).is_err(), "{index}");
        }
        let said = |token: &str, now| verify(token, &issuers, at(now)).unwrap_err();
        assert_eq!(said(&token, NOW + 60), NotTaken::Time);
        assert_eq!(said(&token, NOW - 31), NotTaken::Time);
        assert!(verify(&token, &issuers, at(NOW - 30)).is_ok());
        let forged = foreign.sign(&claims(NOW)).unwrap();
        assert_eq!(said(&forged, NOW), NotTaken::UnknownKey);
        let mut borrowed = issuer("orchestrator", &foreign);
        borrowed.keys[0].kid = own.kid().to_owned();
        let wrong = verify(&token, &[borrowed], at(NOW)).unwrap_err();
        assert_eq!(wrong, NotTaken::Signature);
        for text in [
            "",
            "hpt1.",
            "hpt1.a.b",
            "hpt2.a.b.c",
            &"hpt1.a.b.c".repeat(999),
        ] {
            assert_eq!(said(text, NOW), NotTaken::Malformed, "{text:.20}");
        }
    }

    #[test]
    fn keys_overlap_while_they_are_changed() {
        let (old, new) = (key(), key());
        let mut both = issuer("orchestrator", &old);
        both.keys[0].until = Some(at(NOW + 100));
        let mut next = issuer("orchestrator", &new).keys.remove(0);
        next.from = Some(at(NOW + 50));
        both.keys.push(next);
        let signed = |key: &SigningKey, nbf| {
            let life = Claims {
                nbf,
                exp: nbf + 600,
                ..claims(NOW)
            };
            key.sign(&life).unwrap()
        };
        let takes = |token: &str, now| verify(token, [&both], at(now)).is_ok();
        let (of_old, of_new) = (signed(&old, NOW), signed(&new, NOW));
        assert!(takes(&of_old, NOW + 99) && !takes(&of_old, NOW + 100));
        assert!(!takes(&of_new, NOW + 49) && takes(&of_new, NOW + 50));
    }

    #[test]
    fn only_one_thing_is_permitted_and_not_for_ever() {
        let key = key();
        let mandate = SignedMandate {
            tenant: "t".to_owned(),
            iss: "config".to_owned(),
            sub: "ann".to_owned(),
            agent: "bot".to_owned(),
            upstream: UpstreamName::from("shop"),
            tool: ToolName::from("refund"),
            at_most: Some("50.00".to_owned()),
            currency: Some("EUR".to_owned()),
            uses: 3,
            same: BTreeMap::new(),
        };
        let both = Claims {
            mandate: Some(mandate.clone()),
            ..claims(NOW)
        };
        assert_eq!(key.sign(&both), Err(KeyError::Claims));
        let long = Claims {
            exp: NOW + LONGEST_LIFE + 1,
            ..claims(NOW)
        };
        assert_eq!(key.sign(&long), Err(KeyError::Claims));
        let own = Claims {
            call: None,
            mandate: Some(mandate.clone()),
            ..claims(NOW)
        };
        let token = key.sign(&own).unwrap();
        let good = verify(&token, &[issuer("o", &key)], at(NOW)).unwrap();
        assert_eq!(good.permits, Permits::Mandate(mandate));
    }
}
