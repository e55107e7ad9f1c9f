//! Public keys of an issuer as JSON Web Keys (RFC 7517), read strictly: what could verify nothing, or anything, is no key here.

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::DecodingKey;

use crate::wire::json::{Document, Node};

/// Most keys of a set.
const MOST_KEYS: usize = 100;
/// Deepest nesting in a set.
const DEPTH: usize = 8;
/// Longest key id, in bytes.
pub(super) const LONGEST_KID: usize = 256;
/// Shortest and longest RSA modulus, in bytes: 2048 (NIST SP 800-131A) and 8192 bits.
const MODULUS: std::ops::RangeInclusive<usize> = 256..=1024;

/// A signature algorithm (RFC 7518 section 3.1, RFC 8037). Those with a shared secret, and `none`, do not exist here: a token
/// that names one is refused before any key is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
    /// RSA PKCS #1 v1.5 with SHA-256.
    Rs256,
    /// The same with SHA-384.
    Rs384,
    /// The same with SHA-512.
    Rs512,
    /// RSA PSS with SHA-256.
    Ps256,
    /// The same with SHA-384.
    Ps384,
    /// The same with SHA-512.
    Ps512,
}

impl Algorithm {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
    ];

    /// The name in tokens, keys and configs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
        }
    }

    /// The algorithm of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }

    pub(super) const fn library(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
            Self::Es384 => jsonwebtoken::Algorithm::ES384,
            Self::EdDsa => jsonwebtoken::Algorithm::EdDSA,
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::Rs384 => jsonwebtoken::Algorithm::RS384,
            Self::Rs512 => jsonwebtoken::Algorithm::RS512,
            Self::Ps256 => jsonwebtoken::Algorithm::PS256,
            Self::Ps384 => jsonwebtoken::Algorithm::PS384,
            Self::Ps512 => jsonwebtoken::Algorithm::PS512,
        }
    }

    const fn shape(self) -> Shape {
        match self {
            Self::Es256 => Shape::P256,
            Self::Es384 => Shape::P384,
            Self::EdDsa => Shape::Ed25519,
            _ => Shape::Rsa,
        }
    }
}

/// What kind of key it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Rsa,
    P256,
    P384,
    Ed25519,
}

/// One public key.
#[derive(Debug)]
pub(super) struct Key {
    kid: Option<Box<str>>,
    shape: Shape,
    /// The one algorithm that it is for, where it says so.
    only: Option<Algorithm>,
    pub(super) public: DecodingKey,
}

impl Key {
    /// Whether a signature of this algorithm can be one of the key's.
    fn fits(&self, algorithm: Algorithm) -> bool {
        self.shape == algorithm.shape() && self.only.is_none_or(|only| only == algorithm)
    }
}

/// The public keys of an issuer.
#[derive(Debug)]
pub struct KeySet(Vec<Key>);

impl KeySet {
    /// Reads a JWK set. Keys for other uses, of other kinds, and symmetric ones are passed over.
    ///
    /// # Errors
    /// It is no set, holds a private key, or no key that could verify a token. The words hold nothing of the set.
    pub fn read(bytes: Bytes) -> Result<Self, String> {
        let document = Document::read(bytes, DEPTH)
            .map_err(|error| format!("it is not strict JSON: {error}"))?;
        let Some(listed) = document.root().get("keys") else {
            return Err("it has no `keys`".to_owned());
        };
        let listed = listed.elements();
        if listed.len() > MOST_KEYS {
            return Err(format!("it has more than {MOST_KEYS} keys"));
        }
        let mut keys = Vec::new();
        for node in listed {
            if node.get("d").is_some() {
                return Err("it holds a private key: publish the public ones alone".to_owned());
            }
            keys.extend(key(node));
        }
        if keys.is_empty() {
            return Err("it holds no public key for RSA, P-256, P-384 or Ed25519".to_owned());
        }
        Ok(Self(keys))
    }

    /// How many keys there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether some key has this id; without an id any key will do.
    pub(super) fn knows(&self, kid: Option<&str>) -> bool {
        kid.is_none_or(|kid| self.0.iter().any(|key| key.kid.as_deref() == Some(kid)))
    }

    /// The key that a token means. One without a key id means the only key that fits.
    pub(super) fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<&Key> {
        let mut fitting = self.0.iter().filter(|key| {
            key.fits(algorithm) && kid.is_none_or(|kid| key.kid.as_deref() == Some(kid))
        });
        let found = fitting.next()?;
        fitting.next().is_none().then_some(found)
    }
}

/// The key, where it can verify.
fn key(node: &Node) -> Option<Key> {
    let text = |name| node.get(name).and_then(Node::as_str);
    if node.get("use").is_some() && text("use") != Some("sig") {
        return None;
    }
    if let Some(operations) = node.get("key_ops")
        && !operations
            .elements()
            .iter()
            .any(|it| it.as_str() == Some("verify"))
    {
        return None;
    }
    let kid = match node.get("kid") {
        None => None,
        Some(kid) => Some(kid.as_str().filter(|kid| kid.len() <= LONGEST_KID)?),
    };
    let only = match node.get("alg") {
        None => None,
        Some(name) => Some(Algorithm::from_name(name.as_str()?)?),
    };
    let bytes = |name| BASE64URL_NOPAD.decode(text(name)?.as_bytes()).ok();
    let (shape, public) = match (text("kty")?, text("crv")) {
        ("RSA", _) => {
            let (modulus, exponent) = (bytes("n")?, bytes("e")?);
            let odd = exponent.last().is_some_and(|last| last & 1 == 1);
            // 1 would make every text its own signature.
            if !MODULUS.contains(&modulus.len()) || !odd || exponent == [1] {
                return None;
            }
            let public = DecodingKey::from_rsa_raw_components(&modulus, &exponent);
            (Shape::Rsa, public)
        }
        ("EC", Some("P-256")) => (Shape::P256, point(bytes("x")?, bytes("y")?, 32)?),
        ("EC", Some("P-384")) => (Shape::P384, point(bytes("x")?, bytes("y")?, 48)?),
        ("OKP", Some("Ed25519")) => {
            let x = bytes("x").filter(|x| x.len() == 32)?;
            (Shape::Ed25519, DecodingKey::from_ed_der(&x))
        }
        _ => return None,
    };
    let key = Key {
        kid: kid.map(Box::from),
        shape,
        only,
        public,
    };
    only.is_none_or(|only| key.fits(only)).then_some(key)
}

/// An uncompressed point (SEC 1 section 2.3.3); the library checks that it is on the curve.
fn point(x: Vec<u8>, y: Vec<u8>, length: usize) -> Option<DecodingKey> {
    if x.len() != length || y.len() != length {
        return None;
    }
    let mut point = vec![4];
    point.extend(x);
    point.extend(y);
    Some(DecodingKey::from_ec_der(&point))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<KeySet, String> {
        KeySet::read(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// RFC 7517 appendix A.1: an EC key for encryption and an RSA key; RFC 8037 appendix A.2.
    const KNOWN: &str = r#"{"keys":[
      {"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
       "y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","use":"enc","kid":"1"},
      {"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
       "e":"AQAB","alg":"RS256","kid":"2011-04-29"},
      {"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
      {"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow","kid":"hmac"},
      {"kty":"AKP","alg":"ML-DSA-44","pub":"unused"}]}"#;

    #[test]
    fn the_keys_that_can_verify_are_taken() {
        let set = read(KNOWN).unwrap();
        assert_eq!(set.len(), 2);
        assert!(set.find(Some("2011-04-29"), Algorithm::Rs256).is_some());
        // The key says which algorithm it is for, and what curve it is on.
        assert!(set.find(Some("2011-04-29"), Algorithm::Ps256).is_none());
        assert!(set.find(Some("2011-04-29"), Algorithm::Es256).is_none());
        assert!(set.find(None, Algorithm::EdDsa).is_some());
        assert!(set.find(None, Algorithm::Es256).is_none());
        assert!(!set.knows(Some("1")) && !set.knows(Some("hmac")));
    }

    #[test]
    fn a_token_without_key_id_means_the_only_key_that_fits() {
        let ed =
            r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo""#;
        let set = read(&format!(
            r#"{{"keys":[{ed},"kid":"a"}},{ed},"kid":"b"}}]}}"#
        ))
        .unwrap();
        assert!(set.find(None, Algorithm::EdDsa).is_none());
        assert!(set.find(Some("b"), Algorithm::EdDsa).is_some());
    }

    #[test]
    fn what_could_verify_anything_is_no_set() {
        let ed = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        for text in [
            "[]".to_owned(),
            r#"{"keys":[]}"#.to_owned(),
            r#"{"keys":[],"keys":[]}"#.to_owned(),
            // Too short, of exponent 1, even.
            r#"{"keys":[{"kty":"RSA","n":"0vx7agoebGcQ","e":"AQAB"}]}"#.to_owned(),
            format!(
                r#"{{"keys":[{{"kty":"RSA","n":"{}","e":"AQ"}}]}}"#,
                "A".repeat(342)
            ),
            format!(
                r#"{{"keys":[{{"kty":"RSA","n":"{}","e":"Ag"}}]}}"#,
                "A".repeat(342)
            ),
            // A private key was published.
            format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{ed}","d":"{ed}"}}]}}"#),
            format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{ed}","alg":"ES256"}}]}}"#),
            format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{ed}","use":"enc"}}]}}"#),
            format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed448","x":"{ed}"}}]}}"#),
        ] {
            assert!(read(&text).is_err(), "{text}");
        }
    }
}
