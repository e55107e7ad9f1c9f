//! One token (RFC 7515 compact form, RFC 7519 claims): read strictly, verified by the library, judged by our clock.
//!
//! The library checks the signature, issuer and audience. What it cannot do stands here: JSON in which a key comes twice, a time
//! that is handed in, keys that must fit the algorithm, and limits.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use jiff::Timestamp;
use jsonwebtoken::Validation;
use jsonwebtoken::errors::ErrorKind;
use serde::de::IgnoredAny;

use super::jwk::LONGEST_KID;
use super::{Algorithm, Caller, Fault, Jwks, KeySet, claims};
use crate::clock::Clock;
use crate::settings::JwtPrincipals;
use crate::wire::json::{Document, Kind, Node};

/// Longest token, in bytes: more than any header of common servers holds.
const LONGEST: usize = 16 << 10;
/// Deepest nesting in its parts.
const DEPTH: usize = 16;
/// Latest time that a token may name: two days before the end of the year 9999, where calendars end.
const LATEST: f64 = 253_402_127_999.0;

/// Verifies tokens of one issuer.
#[derive(Debug)]
pub struct Tokens {
    rules: JwtPrincipals,
    keys: Arc<Jwks>,
}

impl Tokens {
    /// Tokens that `rules` describe, by these keys.
    pub fn new(rules: JwtPrincipals, keys: Jwks) -> Self {
        Self {
            rules,
            keys: Arc::new(keys),
        }
    }

    /// Reads the keys for the first time.
    ///
    /// # Errors
    /// Why there are none.
    pub async fn load(&self) -> Result<(), String> {
        self.keys.load().await
    }

    /// Whose token it is.
    ///
    /// # Errors
    /// Why it is not taken.
    pub async fn verify(&self, token: &[u8], clock: &dyn Clock) -> Result<Caller, Fault> {
        let (claims, until) = self.verified(token, clock).await?;
        claims::caller(&claims, &self.rules, until)
    }

    /// The claims of a good token, for who reads others of them than a caller's.
    ///
    /// # Errors
    /// Why it is not taken.
    pub(crate) async fn claims(&self, token: &[u8], clock: &dyn Clock) -> Result<Document, Fault> {
        self.verified(token, clock).await.map(|(claims, _)| claims)
    }

    async fn verified(
        &self,
        token: &[u8],
        clock: &dyn Clock,
    ) -> Result<(Document, Timestamp), Fault> {
        let token = Token::read(token)?;
        if !self.rules.algorithms.contains(&token.algorithm) {
            return Err(Fault::Invalid("its algorithm is not one of `algorithms`"));
        }
        let kid = token.kid.as_deref();
        let signed = self.keys.with(kid, |keys| self.signed(&token, keys)).await;
        signed.ok_or(Fault::NoKeys)??;
        let until = self.timely(&token.claims, clock.now())?;
        Ok((token.claims, until))
    }

    /// What the library checks, with the one key that the token means.
    fn signed(&self, token: &Token<'_>, keys: &KeySet) -> Result<(), Fault> {
        let kid = token.kid.as_deref();
        let key = keys
            .find(kid, token.algorithm)
            .ok_or(Fault::Invalid("no key of the issuer fits it"))?;
        let mut validation = Validation::new(token.algorithm.library());
        validation.validate_exp = false;
        validation.required_spec_claims = ["exp", "iss", "aud"].map(str::to_owned).into();
        validation.iss = Some(HashSet::from([self.rules.issuer.to_string()]));
        validation.aud = Some(self.rules.audiences.iter().cloned().collect());
        let decoded = jsonwebtoken::decode::<IgnoredAny>(token.text, &key.public, &validation);
        match decoded.map_err(jsonwebtoken::errors::Error::into_kind) {
            Ok(_) => {}
            Err(ErrorKind::InvalidSignature) => {
                return Err(Fault::Invalid("its signature is not the issuer's"));
            }
            Err(ErrorKind::InvalidIssuer) => return Err(Fault::Invalid("its issuer is another")),
            Err(ErrorKind::InvalidAudience) => {
                return Err(Fault::Invalid("it is for another audience"));
            }
            Err(ErrorKind::MissingRequiredClaim(_)) => {
                return Err(Fault::Invalid("it lacks `exp`, `iss` or `aud`"));
            }
            Err(_) => return Err(Fault::Invalid("the library cannot read it")),
        }
        // A list of issuers is no issuer.
        match token.claims.root().get("iss").and_then(Node::as_str) {
            Some(issuer) if issuer == &*self.rules.issuer => Ok(()),
            _ => Err(Fault::Invalid("its issuer is another")),
        }
    }

    /// Until when it is good, if it is now.
    fn timely(&self, claims: &Document, now: Timestamp) -> Result<Timestamp, Fault> {
        let leeway = self.rules.leeway;
        let expiry = time(claims, "exp")?.ok_or(Fault::Invalid("it never expires"))?;
        let until = later(expiry, leeway)?;
        if until <= now {
            return Err(Fault::Expired);
        }
        for (name, early) in [
            ("nbf", "it is not yet good"),
            ("iat", "it was issued in the future"),
        ] {
            if let Some(from) = time(claims, name)?
                && from > later(now, leeway)?
            {
                return Err(Fault::Invalid(early));
            }
        }
        Ok(until)
    }
}

fn later(time: Timestamp, by: Duration) -> Result<Timestamp, Fault> {
    time.checked_add(by)
        .map_err(|_| Fault::Invalid("one of its times is out of range"))
}

/// A `NumericDate` (RFC 7519 section 2), cut to whole milliseconds.
fn time(claims: &Document, name: &str) -> Result<Option<Timestamp>, Fault> {
    let wrong = Fault::Invalid("one of its times is no number of seconds");
    let Some(node) = claims.root().get(name) else {
        return Ok(None);
    };
    if !matches!(node.kind, Kind::Number) {
        return Err(wrong);
    }
    let (value, _) = claims.value(node).map_err(|_| wrong)?;
    let seconds = value.as_f64().filter(|it| (0.0..=LATEST).contains(it));
    let millis = Duration::try_from_secs_f64(seconds.ok_or(wrong)?)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok());
    let at = millis.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    at.map(Some).ok_or(wrong)
}

/// A token whose parts are read and whose signature is not yet verified.
struct Token<'t> {
    text: &'t str,
    algorithm: Algorithm,
    kid: Option<Box<str>>,
    claims: Document,
}

impl<'t> Token<'t> {
    fn read(bytes: &'t [u8]) -> Result<Self, Fault> {
        if bytes.len() > LONGEST {
            return Err(Fault::Invalid("it is longer than 16 KiB"));
        }
        let no_token = Fault::Invalid("it is not three parts in base64url");
        let text = std::str::from_utf8(bytes).map_err(|_| no_token)?;
        let mut parts = text.split('.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(no_token);
        };
        BASE64URL_NOPAD
            .decode(signature.as_bytes())
            .map_err(|_| no_token)?;
        let (algorithm, kid) = head(&part(header)?)?;
        Ok(Self {
            text,
            algorithm,
            kid,
            claims: part(claims)?,
        })
    }
}

/// A JSON object in base64url.
fn part(text: &str) -> Result<Document, Fault> {
    let bytes = BASE64URL_NOPAD
        .decode(text.as_bytes())
        .map_err(|_| Fault::Invalid("it is not three parts in base64url"))?;
    let document = Document::read(Bytes::from(bytes), DEPTH)
        .map_err(|_| Fault::Invalid("its header or claims are not strict JSON"))?;
    if !matches!(document.root().kind, Kind::Object(_)) {
        return Err(Fault::Invalid("its header or claims are no object"));
    }
    Ok(document)
}

/// Algorithm and key id (RFC 7515 section 4). Keys and addresses of keys that a token brings along are never used.
fn head(header: &Document) -> Result<(Algorithm, Option<Box<str>>), Fault> {
    let root = header.root();
    if root.get("crit").is_some() || root.get("b64").is_some() || root.get("zip").is_some() {
        return Err(Fault::Invalid("its header asks for an extension"));
    }
    let algorithm = root.get("alg").and_then(Node::as_str);
    let algorithm = algorithm
        .and_then(Algorithm::from_name)
        .ok_or(Fault::Invalid(
            "its algorithm is unknown, symmetric or none",
        ))?;
    if let Some(kind) = root.get("typ") {
        let kind = kind.as_str().unwrap_or_default().to_ascii_lowercase();
        // Another kind of token of the same issuer, such as one for logging out, is no access token (RFC 8725 section 3.11).
        let bare = kind.strip_prefix("application/").unwrap_or(&kind);
        if !matches!(bare, "jwt" | "at+jwt") {
            return Err(Fault::Invalid("it is another kind of token"));
        }
    }
    let kid = match root.get("kid") {
        None => None,
        Some(kid) => Some(
            kid.as_str()
                .filter(|kid| !kid.is_empty() && kid.len() <= LONGEST_KID)
                .ok_or(Fault::Invalid("its key id is no text of up to 256 bytes"))?,
        ),
    };
    Ok((algorithm, kid.map(Box::from)))
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use proptest::prelude::*;

    use super::*;
    use crate::clock::SystemClock;
    use crate::identity::Fetch;
    use crate::settings::KeySource;

    struct Set(Bytes);

    impl Fetch for Set {
        fn fetch(&self) -> BoxFuture<'_, Result<Bytes, String>> {
            Box::pin(std::future::ready(Ok(self.0.clone())))
        }
    }

    /// A verifier and a token that it takes.
    fn good() -> (Tokens, Vec<u8>) {
        let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let x = BASE64URL_NOPAD.encode(key.public_key().as_ref());
        let set = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"k","x":"{x}"}}]}}"#);
        let set = Bytes::from(set);
        let rules = JwtPrincipals::new("i", "a", KeySource::Inline(set.clone()));
        let keys = Jwks::new(Box::new(Set(set)), rules.timing, SystemClock::shared());
        let tokens = Tokens::new(rules, keys);
        tokens.load().now_or_never().unwrap().unwrap();
        let part = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
        let head = part(r#"{"alg":"EdDSA","kid":"k"}"#);
        let claims = part(r#"{"iss":"i","aud":"a","sub":"ann","exp":9999999999}"#);
        let text = format!("{head}.{claims}");
        let signature = BASE64URL_NOPAD.encode(key.sign(text.as_bytes()).as_ref());
        (tokens, format!("{text}.{signature}").into_bytes())
    }

    fn verify(tokens: &Tokens, token: &[u8]) -> Result<Caller, Fault> {
        let verified = tokens.verify(token, &SystemClock).now_or_never();
        verified.unwrap()
    }

    proptest! {
        /// Whatever is changed, left out or added, in one place or in many.
        #[test]
        fn a_token_that_was_touched_is_refused(
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..3), 1..4),
        ) {
            let (tokens, token) = good();
            prop_assert!(verify(&tokens, &token).is_ok());
            let mut touched = token.clone();
            for (at, byte, how) in edits {
                let at = at.index(touched.len());
                match how {
                    0 => touched[at] = byte,
                    1 => drop(touched.remove(at)),
                    _ => touched.insert(at, byte),
                }
            }
            prop_assert_eq!(verify(&tokens, &touched).is_ok(), touched == token);
        }
    }

    /// RFC 7515 appendix A.3: its header says ES256, its claims are the example's.
    const KNOWN: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

    #[test]
    fn the_example_of_the_standard_is_read() {
        let token = Token::read(KNOWN.as_bytes()).unwrap();
        assert_eq!(token.algorithm, Algorithm::Es256);
        assert_eq!(token.kid, None);
        let expiry = time(&token.claims, "exp").unwrap().unwrap();
        assert_eq!(expiry.as_second(), 1_300_819_380);
        assert_eq!(time(&token.claims, "nbf"), Ok(None));
    }

    /// Its signature verifies with the key of appendix A.3.1, and with no other text.
    #[test]
    fn the_signature_of_the_standard_verifies() {
        let keys = KeySet::read(Bytes::from_static(br#"{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#)).unwrap();
        let key = keys.find(None, Algorithm::Es256).unwrap();
        let verify = |text: &str| {
            let (message, signature) = text.rsplit_once('.').unwrap();
            let library = Algorithm::Es256.library();
            jsonwebtoken::crypto::verify(signature, message.as_bytes(), &key.public, library)
        };
        assert!(verify(KNOWN).unwrap());
        assert!(!verify(&KNOWN.replace("LA0K", "LAkK")).unwrap());
    }

    #[test]
    fn what_is_no_token_has_no_parts() {
        let long = "a".repeat(LONGEST + 1);
        for text in [
            "",
            "a.b",
            "e30.e30.",
            "e30.e30.e30.e30",
            // RFC 7515 section 2: no padding, and no bits that say nothing.
            "e30=.e30.e30",
            "e31.e30.e30",
            &long,
            // `{"alg":"none"}`, RFC 7515 appendix A.5.
            "eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UifQ.",
        ] {
            assert!(Token::read(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_header_that_asks_for_more_is_refused() {
        for (header, fine) in [
            (r#"{"alg":"ES256"}"#, true),
            (
                r#"{"alg":"ES256","typ":"JWT","kid":"a","jku":"http://evil","jwk":{"kty":"oct","k":"AA"}}"#,
                true,
            ),
            (r#"{"alg":"ES256","typ":"application/at+jwt"}"#, true),
            (r#"{"alg":"none"}"#, false),
            (r#"{"alg":"HS256"}"#, false),
            (r#"{"alg":"es256"}"#, false),
            (r#"{"alg":"ES256","alg":"ES256"}"#, false),
            (r#"{"alg":["ES256"]}"#, false),
            (r#"{"alg":"ES256","crit":["exp"]}"#, false),
            (r#"{"alg":"ES256","b64":false}"#, false),
            (r#"{"alg":"ES256","typ":"logout+jwt"}"#, false),
            (r#"{"alg":"ES256","kid":7}"#, false),
            (r#"{"alg":"ES256","kid":""}"#, false),
            ("{}", false),
        ] {
            let document = part(&BASE64URL_NOPAD.encode(header.as_bytes()));
            assert_eq!(document.and_then(|d| head(&d)).is_ok(), fine, "{header}");
        }
    }

    #[test]
    fn times_are_seconds_that_exist() {
        for (claims, fine) in [
            (r#"{"exp":1}"#, true),
            (r#"{"exp":1.5}"#, true),
            (r#"{"exp":253402127999}"#, true),
            (r#"{"exp":253402128000}"#, false),
            (r#"{"exp":1e300}"#, false),
            (r#"{"exp":-1}"#, false),
            (r#"{"exp":"1"}"#, false),
            (r#"{"exp":null}"#, false),
        ] {
            let document = Document::read(Bytes::copy_from_slice(claims.as_bytes()), DEPTH);
            assert_eq!(time(&document.unwrap(), "exp").is_ok(), fine, "{claims}");
        }
    }
}
