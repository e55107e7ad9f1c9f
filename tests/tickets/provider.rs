//! An identity provider: the code flow of `OpenID` Connect over real HTTP, strict about what it is asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde_json::{Value, json};

use crate::support::upstream::{Received, Step, Upstream, answer, json as ok};

pub const CLIENT: &str = "holdpoint";

/// What a code stands for.
struct Issued {
    challenge: String,
    redirect: String,
    nonce: String,
}

struct State {
    key: Ed25519KeyPair,
    codes: HashMap<String, Issued>,
    /// Claims of the next ID token, over the good ones; `null` leaves one out.
    claims: Value,
    url: String,
}

pub struct Provider {
    server: Upstream,
    state: Arc<Mutex<State>>,
}

fn encoded(text: &str) -> String {
    BASE64URL_NOPAD.encode(text.as_bytes())
}

impl State {
    fn token(&self, claims: &Value) -> String {
        let head = encoded(r#"{"alg":"EdDSA","typ":"JWT","kid":"k"}"#);
        let text = format!("{head}.{}", encoded(&claims.to_string()));
        let signature = self.key.sign(text.as_bytes());
        format!("{text}.{}", BASE64URL_NOPAD.encode(signature.as_ref()))
    }

    fn answer(&mut self, request: &Received) -> Vec<Step> {
        let target = request.target().to_owned();
        let url = self.url.clone();
        match target.as_str() {
            "GET /.well-known/openid-configuration" => ok(&json!({
                "issuer": url,
                "authorization_endpoint": format!("{url}/authorize"),
                "token_endpoint": format!("{url}/token"),
                "jwks_uri": format!("{url}/keys"),
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            })
            .to_string()),
            "GET /keys" => {
                let x = BASE64URL_NOPAD.encode(self.key.public_key().as_ref());
                ok(
                    &json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]})
                        .to_string(),
                )
            }
            "POST /token" => self.exchange(request),
            _ => answer("404 Not Found", "text/plain", "no"),
        }
    }

    fn exchange(&mut self, request: &Received) -> Vec<Step> {
        let refused = |why: &str| answer("400 Bad Request", "text/plain", why);
        let form: HashMap<String, String> = url::form_urlencoded::parse(&request.body)
            .into_owned()
            .collect();
        // RFC 6749 section 2.3.1: form-encoded before base64.
        let pair = BASE64.encode(b"holdpoint:client%2Bsecret%2Fwith%3Dsigns");
        if request.header("authorization") != [format!("Basic {pair}")] {
            return refused("client");
        }
        if form["grant_type"] != "authorization_code" {
            return refused("grant");
        }
        // A code is good once.
        let Some(issued) = self.codes.remove(&form["code"]) else {
            return refused("code");
        };
        let challenge = digest(&SHA256, form["code_verifier"].as_bytes());
        if BASE64URL_NOPAD.encode(challenge.as_ref()) != issued.challenge {
            return refused("verifier");
        }
        if form["redirect_uri"] != issued.redirect {
            return refused("redirect");
        }
        let mut claims = json!({
            "iss": self.url, "aud": CLIENT, "sub": "u-17", "nonce": issued.nonce,
            "name": "Carol <script>", "groups": ["finance"], "org": ["acme"],
            // The desk's clock stands at noon.
            "iat": NOON, "exp": NOON + 3600,
        });
        merge(&mut claims, &self.claims);
        let token = self.token(&claims);
        ok(&json!({"access_token": "x", "token_type": "Bearer", "id_token": token}).to_string())
    }
}

/// 2026-11-30T12:00:00Z.
pub const NOON: i64 = 1_796_040_000;

fn merge(claims: &mut Value, change: &Value) {
    for (name, value) in change.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
}

impl Provider {
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(State {
            key: Ed25519KeyPair::generate().unwrap(),
            codes: HashMap::new(),
            claims: json!({}),
            url: String::new(),
        }));
        let shared = Arc::clone(&state);
        let server = Upstream::start(move |request| shared.lock().unwrap().answer(request)).await;
        state.lock().unwrap().url = server.url();
        Self { server, state }
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Changes the claims of ID tokens from now on.
    pub fn claims(&self, change: Value) {
        self.state.lock().unwrap().claims = change;
    }

    /// A token of the issuer's with these claims.
    pub fn token(&self, claims: &Value) -> String {
        self.state.lock().unwrap().token(claims)
    }

    /// A person logs in here and consents: the query that their browser brings back.
    pub fn consent(&self, location: &str) -> HashMap<String, String> {
        let asked = url::Url::parse(location).unwrap();
        assert_eq!(asked.path(), "/authorize");
        assert_eq!(asked.origin().ascii_serialization(), self.url());
        let query: HashMap<String, String> = asked.query_pairs().into_owned().collect();
        for (name, value) in [
            ("response_type", "code"),
            ("client_id", CLIENT),
            ("code_challenge_method", "S256"),
            ("scope", "openid groups"),
        ] {
            assert_eq!(query[name], value);
        }
        let mut state = self.state.lock().unwrap();
        let code = format!("code-{}", state.codes.len());
        let issued = Issued {
            challenge: query["code_challenge"].clone(),
            redirect: query["redirect_uri"].clone(),
            nonce: query["nonce"].clone(),
        };
        assert!(query["state"].len() >= 43 && issued.nonce.len() >= 43);
        state.codes.insert(code.clone(), issued);
        let mut back = HashMap::from([
            ("code".to_owned(), code),
            ("state".to_owned(), query["state"].clone()),
            ("iss".to_owned(), state.url.clone()),
        ]);
        for name in ["prompt", "max_age"] {
            if let Some(value) = query.get(name) {
                back.insert(name.to_owned(), value.clone());
            }
        }
        back
    }
}
