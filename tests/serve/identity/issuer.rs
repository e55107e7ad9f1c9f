//! An identity provider: keys that sign, and a server that publishes them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use data_encoding::BASE64URL_NOPAD;
use holdpoint::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::upstream::{Upstream, answer, json as ok};

pub const ISSUER: &str = "https://id.example";

/// A key pair with its id.
pub struct Key {
    pub kid: &'static str,
    pair: Pair,
}

enum Pair {
    Ed(Ed25519KeyPair),
    Ec(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
}

pub fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64URL_NOPAD.encode(bytes.as_ref())
}

impl Key {
    pub fn ed(kid: &'static str) -> Self {
        let pair = Pair::Ed(Ed25519KeyPair::generate().unwrap());
        Self { kid, pair }
    }

    pub fn ec(kid: &'static str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let pair = Pair::Ec(pair);
        Self { kid, pair }
    }

    pub fn rsa(kid: &'static str) -> Self {
        let pair = RsaKeyPair::generate(rsa::KeySize::Rsa2048).unwrap();
        let pair = Pair::Rsa(Box::new(pair));
        Self { kid, pair }
    }

    pub fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Ed(_) => "EdDSA",
            Pair::Ec(_) => "ES256",
            Pair::Rsa(_) => "RS256",
        }
    }

    /// The bytes of the public key, as whoever confuses algorithms would use them for a secret.
    pub fn public(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Ed(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Ec(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Rsa(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    pub fn jwk(&self) -> Value {
        match &self.pair {
            Pair::Ed(pair) => {
                let x = encoded(pair.public_key());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": self.kid, "x": x, "use": "sig"})
            }
            Pair::Ec(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (encoded(&point[1..33]), encoded(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "kid": self.kid, "x": x, "y": y})
            }
            Pair::Rsa(pair) => {
                let public = pair.public_key();
                let n = encoded(public.modulus().big_endian_without_leading_zero());
                let e = encoded(public.exponent().big_endian_without_leading_zero());
                json!({"kty": "RSA", "kid": self.kid, "n": n, "e": e, "alg": "RS256"})
            }
        }
    }

    fn signature(&self, text: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ed(pair) => pair.sign(text).as_ref().to_vec(),
            Pair::Ec(pair) => pair.sign(&random, text).unwrap().as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature)
                    .unwrap();
                signature
            }
        }
    }

    /// A token with exactly these texts as header and claims.
    pub fn signed(&self, header: &str, claims: &str) -> String {
        let text = format!("{}.{}", encoded(header), encoded(claims));
        let signature = self.signature(text.as_bytes());
        format!("{text}.{}", encoded(signature))
    }

    pub fn header(&self) -> Value {
        json!({"alg": self.algorithm(), "typ": "JWT", "kid": self.kid})
    }

    /// A good token of ann, with these claims besides or instead; `null` leaves one out.
    pub fn token(&self, change: &Value) -> String {
        self.signed(&self.header().to_string(), &claims(change).to_string())
    }
}

/// Claims of a good token, changed.
pub fn claims(change: &Value) -> Value {
    let now = Timestamp::now().as_second();
    let mut claims = json!({
        "iss": ISSUER, "aud": ["other", "holdpoint"], "sub": "ann", "act": {"sub": "desk"},
        "scope": "orders:read", "iat": now, "nbf": now, "exp": now + 3600,
    });
    for (name, value) in change.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    claims
}

/// Serves the keys.
pub struct Issuer {
    pub server: Upstream,
    keys: Arc<Mutex<Value>>,
    down: Arc<AtomicBool>,
}

impl Issuer {
    pub async fn of(keys: &[&Key]) -> Self {
        let published = Arc::new(Mutex::new(Value::Null));
        let down = Arc::new(AtomicBool::new(false));
        let (shown, is_down) = (Arc::clone(&published), Arc::clone(&down));
        let server = Upstream::start(move |_| {
            if is_down.load(Ordering::SeqCst) {
                answer("503 Service Unavailable", "text/plain", "down")
            } else {
                ok(&shown.lock().unwrap().to_string())
            }
        })
        .await;
        let issuer = Self {
            server,
            keys: published,
            down,
        };
        issuer.publish(keys);
        issuer
    }

    pub fn publish(&self, keys: &[&Key]) {
        let keys: Vec<_> = keys.iter().map(|key| key.jwk()).collect();
        *self.keys.lock().unwrap() = json!({"keys": keys});
    }

    pub fn is_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// How often the keys were asked for.
    pub fn asked(&self) -> usize {
        self.server.received().len()
    }

    /// `principal` of a config, with more keys of `jwt`.
    pub fn principal(&self, more: &str) -> String {
        let url = self.server.url();
        format!(
            "principal: {{jwt: {{issuer: \"{ISSUER}\", audience: holdpoint, jwks_url: \"{url}/keys\", {more}}}}}"
        )
    }
}

/// A clock that the test sets.
#[derive(Clone)]
pub struct Hands(Arc<Mutex<Timestamp>>);

impl Hands {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Timestamp::now())))
    }

    pub fn forward(&self, seconds: i64) {
        let mut now = self.0.lock().unwrap();
        *now += SignedDuration::from_secs(seconds);
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}
