//! Good tokens, and every way to make a bad one.

use serde_json::{Value, json};

use super::issuer::{ISSUER, Issuer, Key, claims, encoded};
use crate::support::client::{Answer, request};
use crate::support::rig::Rig;
use crate::support::upstream::{Upstream, json as ok};

async fn ask(rig: &Rig, token: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    rig.ask(request("GET", "/shop/orders/1", &headers, ""))
        .await
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

#[tokio::test]
async fn tokens_of_every_kind_of_key_are_taken_and_none_is_forwarded() {
    let upstream = Upstream::start(|_| ok("{}")).await;
    let keys = [Key::ed("a"), Key::ec("b"), Key::rsa("c")];
    let issuer = Issuer::of(&[&keys[0], &keys[1], &keys[2]]).await;
    let rig = Rig::before(&upstream.url(), &issuer.principal("")).await;
    for key in &keys {
        let answer = ask(&rig, &key.token(&json!({}))).await;
        assert_eq!(answer.status, 200, "{} {answer:?}", key.algorithm());
    }
    // The only key that fits need not be named.
    let bare = keys[0].signed(r#"{"alg":"EdDSA"}"#, &claims(&json!({})).to_string());
    assert_eq!(ask(&rig, &bare).await.status, 200);
    let received = upstream.received();
    assert_eq!(received.len(), 4);
    for request in received {
        assert!(request.header("authorization").is_empty());
    }
    // The library's own reading of the same tokens.
    for key in &keys {
        let jwk = serde_json::from_value(key.jwk()).unwrap();
        let public = jsonwebtoken::DecodingKey::from_jwk(&jwk).unwrap();
        let algorithm = key.algorithm().parse().unwrap();
        let mut validation = jsonwebtoken::Validation::new(algorithm);
        validation.set_audience(&["holdpoint"]);
        let token = key.token(&json!({}));
        assert!(jsonwebtoken::decode::<Value>(&token, &public, &validation).is_ok());
    }
}

/// Name, token, error code.
type Case = (&'static str, String, &'static str);

#[expect(clippy::too_many_lines, reason = "one token for each forgery")]
fn bad(key: &Key, other: &Key) -> Vec<Case> {
    let good = key.token(&json!({}));
    let (body, signature) = good.rsplit_once('.').unwrap();
    let header = |change: &Value| {
        let mut header = key.header();
        for (name, value) in change.as_object().unwrap() {
            header[name] = value.clone();
        }
        key.signed(&header.to_string(), &claims(&json!({})).to_string())
    };
    let with = |change: Value| key.token(&change);
    let text = claims(&json!({})).to_string();
    let twice = format!("{},\"sub\":\"bob\"}}", &text[..text.len() - 1]);
    let head = key.header().to_string();
    let plain = encoded(&text);
    let secret = jsonwebtoken::EncodingKey::from_secret(&key.public()).unwrap();
    let mut confused = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::HS256);
    confused.kid = Some(key.kid.to_owned());
    let confused = jsonwebtoken::encode(&confused, &claims(&json!({})), &secret).unwrap();
    let invalid = "token_invalid";
    vec![
        ("no token at all", "nonsense".to_owned(), invalid),
        (
            "alg none",
            format!("{}.{plain}.", encoded(r#"{"alg":"none"}"#)),
            invalid,
        ),
        ("alg none, signed", header(&json!({"alg": "none"})), invalid),
        ("alg nOnE", header(&json!({"alg": "nOnE"})), invalid),
        ("HS256 with the public key", confused, invalid),
        (
            "another algorithm",
            header(&json!({"alg": "ES256"})),
            invalid,
        ),
        ("unknown key id", header(&json!({"kid": "zz"})), invalid),
        (
            "key id of another kind",
            header(&json!({"kid": 1})),
            invalid,
        ),
        ("another's signature", other.signed(&head, &text), invalid),
        ("no signature", format!("{body}."), invalid),
        ("cut signature", good[..good.len() - 2].to_owned(), invalid),
        (
            "of other claims",
            {
                let other = key.token(&json!({"sub": "bob"}));
                format!("{}.{signature}", other.rsplit_once('.').unwrap().0)
            },
            invalid,
        ),
        (
            "critical header",
            header(&json!({"crit": ["exp"]})),
            invalid,
        ),
        (
            "critical b64",
            header(&json!({"crit": ["b64"], "b64": true})),
            invalid,
        ),
        (
            "another kind",
            header(&json!({"typ": "logout+jwt"})),
            invalid,
        ),
        (
            "key in the header",
            {
                let mut head = other.header();
                head["jwk"] = other.jwk();
                other.signed(&head.to_string(), &text)
            },
            invalid,
        ),
        ("subject twice", key.signed(&head, &twice), invalid),
        ("claims no object", key.signed(&head, "[]"), invalid),
        ("not JSON", key.signed(&head, "{"), invalid),
        ("other audience", with(json!({"aud": "else"})), invalid),
        ("no audience", with(json!({"aud": null})), invalid),
        ("empty audience", with(json!({"aud": []})), invalid),
        (
            "other issuer",
            with(json!({"iss": "https://else"})),
            invalid,
        ),
        ("list of issuers", with(json!({"iss": [ISSUER]})), invalid),
        ("no issuer", with(json!({"iss": null})), invalid),
        ("no expiry", with(json!({"exp": null})), invalid),
        (
            "expiry as text",
            with(json!({"exp": "9999999999"})),
            invalid,
        ),
        ("endless expiry", with(json!({"exp": 1e300})), invalid),
        ("expired", with(json!({"exp": now() - 31})), "token_expired"),
        ("not yet good", with(json!({"nbf": now() + 3600})), invalid),
        (
            "issued tomorrow",
            with(json!({"iat": now() + 86400})),
            invalid,
        ),
        ("no subject", with(json!({"sub": null})), invalid),
        ("subject of blanks", with(json!({"sub": " ann"})), invalid),
        (
            "subject of a NUL",
            with(json!({"sub": "ann\u{0}"})),
            invalid,
        ),
        ("scopes of numbers", with(json!({"scope": [1]})), invalid),
        ("actor as text", with(json!({"act": "desk"})), invalid),
        (
            "two actors",
            with(json!({"act": {"sub": "desk", "act": {"sub": "x"}}})),
            "delegation_refused",
        ),
        (
            "actor not listed",
            with(json!({"act": {"sub": "stranger"}})),
            "delegation_refused",
        ),
        (
            "may_act another",
            with(json!({"may_act": {"sub": "x"}})),
            "delegation_refused",
        ),
    ]
}

#[tokio::test]
async fn a_bad_token_is_refused_with_a_code_and_nothing_is_sent() {
    let upstream = Upstream::start(|_| ok("{}")).await;
    let (key, other) = (Key::ed("a"), Key::ed("a"));
    let issuer = Issuer::of(&[&key]).await;
    let principal = issuer.principal("actors: [desk], algorithms: [EdDSA]");
    let rig = Rig::before(&upstream.url(), &principal).await;
    for (name, token, code) in bad(&key, &other) {
        let refused = ask(&rig, &token).await;
        assert_eq!(refused.code(), code, "{name}");
        let status = if code == "delegation_refused" {
            403
        } else {
            401
        };
        assert_eq!(refused.status, status, "{name}");
        let challenge = refused.header("www-authenticate");
        match code {
            "token_invalid" => assert_eq!(challenge, Some("Bearer error=\"invalid_token\"")),
            "token_expired" => assert!(challenge.unwrap().contains("expired")),
            _ => assert_eq!(challenge, None),
        }
        // Nothing of the token or of why comes back.
        let (head, text) = (&refused.head, refused.text());
        assert!(!head.contains(&token) && !text.contains(&token), "{name}");
    }
    let long = "a".repeat(16 * 1024 - 100);
    assert_eq!(ask(&rig, &long).await.code(), "token_invalid");
    for headers in [vec![], vec![("authorization", "Bearer ")]] {
        let refused = rig
            .ask(request("GET", "/openai/v1/models", &headers, ""))
            .await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (401, "credential_missing")
        );
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }
    // Within the leeway an old one is good, and so is one from a clock that is a little ahead.
    for change in [
        json!({"exp": now() - 20}),
        json!({"nbf": now() + 20, "iat": now() + 20}),
    ] {
        assert_eq!(ask(&rig, &key.token(&change)).await.status, 200, "{change}");
    }
    assert_eq!(upstream.received().len(), 2);
}

#[tokio::test]
async fn a_token_may_come_in_a_header_of_its_own() {
    let upstream = Upstream::start(|_| ok("{}")).await;
    let key = Key::ec("a");
    let issuer = Issuer::of(&[&key]).await;
    let rig = Rig::before(&upstream.url(), &issuer.principal("header: x-agent-token")).await;
    let token = key.token(&json!({}));
    let headers = [
        ("x-agent-token", token.as_str()),
        ("authorization", "Bearer backend"),
    ];
    let answer = rig
        .ask(request("GET", "/shop/orders/1", &headers, ""))
        .await;
    assert_eq!(answer.status, 200);
    let sent = upstream.only();
    assert!(sent.header("x-agent-token").is_empty());
    assert_eq!(sent.header("authorization"), ["Bearer backend"]);
}
