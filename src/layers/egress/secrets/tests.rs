//! Tokens are made here piece by piece: none stands whole in this file, where scanners of repositories would find it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const LETTERS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Characters in no order, the same ones each time.
fn random(length: usize, seed: u64, of: &[u8]) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(of[usize::try_from(state % of.len() as u64).unwrap()])
        })
        .collect()
}

fn base62(length: usize, seed: u64) -> String {
    random(length, seed, LETTERS)
}

fn hexadecimal(length: usize, seed: u64) -> String {
    random(length, seed, b"0123456789abcdef")
}

fn with_checksum(random: &str) -> String {
    let mut left = crc32fast::hash(random.as_bytes());
    let mut tail = Vec::new();
    for _ in 0..6 {
        tail.push(char::from(LETTERS[usize::try_from(left % 62).unwrap()]));
        left /= 62;
    }
    random.chars().chain(tail.into_iter().rev()).collect()
}

/// One of every form that is known, with what it is.
#[expect(clippy::too_many_lines, reason = "one line for each form")]
fn tokens(seed: u64) -> Vec<(Kind, String)> {
    let upper = |length| random(length, seed, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
    let jwt = |claims: &Value| {
        let head = BASE64URL_NOPAD.encode(br#"{"alg":"HS256","typ":"JWT"}"#);
        let body = BASE64URL_NOPAD.encode(claims.to_string().as_bytes());
        format!("{head}.{body}.{}", base62(43, seed))
    };
    let armour = |label: &str| {
        let dashes = "-".repeat(5);
        let body = BASE64.encode(base62(180, seed).as_bytes());
        format!("{dashes}BEGIN {label}{dashes}\n{body}\n{dashes}END {label}{dashes}")
    };
    let macaroon = [&[2, 1, 8][..], b"location", base62(90, seed).as_bytes()].concat();
    let login = BASE64.encode(format!("robot:{}", base62(16, seed)).as_bytes());
    let id = BASE64URL_NOPAD.encode(b"283746501928374650");
    let password = base62(14, seed);
    vec![
        (
            Kind::GitHub,
            format!("ghp_{}", with_checksum(&base62(30, seed))),
        ),
        (Kind::GitHub, format!("ghs_{}", base62(36, seed))),
        (
            Kind::GitHub,
            format!("github_pat_{}_{}", base62(22, seed), base62(59, seed)),
        ),
        (Kind::GitLab, format!("glpat-{}", base62(20, seed))),
        (Kind::Aws, format!("AKIA{}", upper(16))),
        (Kind::Aws, format!("ASIA{}", upper(16))),
        (
            Kind::Aws,
            format!("aws_secret_access_key = {}", base62(40, seed)),
        ),
        (Kind::Google, format!("AIza{}", base62(35, seed))),
        (Kind::Azure, format!("AccountKey={}==", base62(86, seed))),
        (
            Kind::Azure,
            format!(
                "https://a.example/b?sv=2022-11-02&se=2026-01-01&sig={}%3D",
                base62(43, seed)
            ),
        ),
        (
            Kind::Slack,
            format!("xoxb-{}-{}", hexadecimal(12, seed), base62(24, seed)),
        ),
        (
            Kind::Slack,
            format!(
                "hooks.slack.com/services/T{}/B{}/{}",
                upper(8),
                upper(8),
                base62(24, seed)
            ),
        ),
        (Kind::Stripe, format!("sk_live_{}", base62(24, seed))),
        (Kind::Stripe, format!("rk_live_{}", base62(24, seed))),
        (Kind::Model, format!("sk-proj-{}", base62(48, seed))),
        (Kind::Model, format!("sk-{}", base62(48, seed))),
        (Kind::Model, format!("sk-ant-api03-{}", base62(93, seed))),
        (
            Kind::Registry,
            format!("npm_{}", with_checksum(&base62(30, seed))),
        ),
        (
            Kind::Registry,
            format!("pypi-{}", BASE64URL_NOPAD.encode(&macaroon)),
        ),
        (
            Kind::Messaging,
            format!("SG.{}.{}", base62(22, seed), base62(43, seed)),
        ),
        (Kind::Messaging, format!("SK{}", hexadecimal(32, seed))),
        (Kind::Messaging, format!("123456789:AA{}", base62(33, seed))),
        (
            Kind::Messaging,
            format!("{id}.{}.{}", base62(6, seed), base62(38, seed)),
        ),
        (Kind::Jwt, jwt(&json!({"sub": "ann"}))),
        (Kind::PrivateKey, armour("RSA PRIVATE KEY")),
        (Kind::PrivateKey, armour("OPENSSH PRIVATE KEY")),
        (Kind::PrivateKey, armour("PGP PRIVATE KEY BLOCK")),
        (
            Kind::UrlPassword,
            format!("postgres://app:{password}@db.example/shop"),
        ),
        (
            Kind::UrlPassword,
            format!("https://robot:{password}@git.example/x"),
        ),
        (
            Kind::ConnectionString,
            format!("Server=db;User Id=app;Password={password};"),
        ),
        (
            Kind::Authorization,
            format!("Authorization: Bearer {}", base62(40, seed)),
        ),
        (Kind::Authorization, format!("authorization: basic {login}")),
        (
            Kind::Shadow,
            format!(
                "root:$6${}${}:19000:0:99999:7:::",
                base62(16, seed),
                base62(86, seed)
            ),
        ),
        (
            Kind::LoginFile,
            format!("machine git.example login ann password {password}"),
        ),
        (
            Kind::LoginFile,
            format!(r#"{{"auths": {{"r.example": {{"auth": "{login}"}}}}}}"#),
        ),
        (
            Kind::LoginFile,
            format!(
                "client-key-data: {}",
                BASE64.encode(base62(200, seed).as_bytes())
            ),
        ),
    ]
}

fn scanner(classes: impl IntoIterator<Item = Class>) -> Scanner {
    Scanner {
        classes: classes.into_iter().collect(),
        register: Arc::default(),
    }
}

fn found(scanner: &Scanner, args: &Value) -> Vec<(String, Kind)> {
    let mut found = Vec::new();
    scanner.value(args, &[], None, |at, kind| {
        found.push((at.to_owned(), kind));
    });
    found
}

#[test]
fn every_form_is_found_and_named() {
    for seed in 1..40 {
        for (kind, token) in tokens(seed) {
            assert_eq!(credential(&token), Some(kind), "{token}");
            assert_eq!(
                credential(&format!("see {token}, please")),
                Some(kind),
                "{token}"
            );
        }
    }
    let told: BTreeSet<_> = tokens(1).into_iter().map(|(kind, _)| kind).collect();
    let credentials = Kind::ALL
        .iter()
        .filter(|kind| kind.class() == Class::Credentials);
    let untried: Vec<_> = credentials.filter(|kind| !told.contains(kind)).collect();
    assert_eq!(untried, [&Kind::Service]);
    assert_eq!(
        credential(&format!("dop_v1_{}", hexadecimal(64, 3))),
        Some(Kind::Service)
    );
}

#[test]
fn what_stands_for_a_secret_is_none() {
    for text in [
        "AKIAIOSFODNN7EXAMPLE".to_owned(),
        format!("ghp_{}", "x".repeat(36)),
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx".to_owned(),
        "Authorization: Bearer <token>".to_owned(),
        "Authorization: Bearer $TOKEN_OF_THE_DEPLOYMENT".to_owned(),
        "Authorization: Bearer YOUR_API_KEY_1234567890ab".to_owned(),
        "postgres://user:password@localhost/db".to_owned(),
        "postgres://postgres:postgres@db/shop".to_owned(),
        "https://${USER}:${PASSWORD}@git.example/".to_owned(),
        "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----".to_owned(),
        "-----BEGIN CERTIFICATE-----".to_owned(),
        "the basic authentication of the bearer is sufficient".to_owned(),
        "machine learning login page password reset".to_owned(),
        "see https://a.example/x:y@z and mail ann@b.example".to_owned(),
        "password=hunter2".to_owned(),
    ] {
        assert_eq!(credential(&text), None, "{text}");
    }
}

#[test]
fn other_forms_of_a_key_are_read_once() {
    let scanner = scanner([Class::Credentials]);
    let key = format!("ghp_{}", with_checksum(&base62(30, 7)));
    let (a, b) = key.split_at(17);
    let spaced: String = key.chars().flat_map(|c| [c, '\u{200b}']).collect();
    let percent = key.bytes().fold(String::new(), |mut text, b| {
        let _ = write!(text, "%{b:02X}");
        text
    });
    for args in [
        json!({"x": BASE64.encode(key.as_bytes())}),
        json!({"x": BASE64URL_NOPAD.encode(format!("token={key}\n").as_bytes())}),
        json!({"x": HEXLOWER.encode(key.as_bytes())}),
        json!({"x": percent}),
        json!({"x": json!({"inner": {"deep": key}}).to_string()}),
        json!({"x": json!({"inner": BASE64.encode(key.as_bytes())}).to_string()}),
        json!({"x": spaced}),
        json!({"x": [a, b]}),
        json!({"x": {key.clone(): 1}}),
        json!({"x": format!("glued{key}glued")}),
    ] {
        assert_eq!(
            found(&scanner, &args).first().map(|(_, kind)| *kind),
            Some(Kind::GitHub),
            "{args}"
        );
    }
    let (at, _) = found(&scanner, &json!({"a": [{"b": key}]})).remove(0);
    assert_eq!(at, "/a/0/b");
    let except = [Selector::parse("/token").unwrap()];
    let mut left = Vec::new();
    let args = json!({"token": {"value": key}, "body": key});
    scanner.value(&args, &except, None, |at, _| left.push(at.to_owned()));
    assert_eq!(left, ["/body"]);
}

#[test]
fn cards_have_an_issuer_and_a_check_digit() {
    let scanner = scanner([Class::Cards]);
    for card in [
        "4111 1111 1111 1111",
        "5555-5555-5555-4444",
        "378282246310005",
        "card:6011111111111117.",
    ] {
        assert_eq!(scanner.text(card, None), Some(Kind::Card), "{card}");
    }
    assert_eq!(
        found(&scanner, &json!({"n": 4_111_111_111_111_111_u64})).len(),
        1
    );
    for other in [
        "4111111111111112",
        "1234567812345670",
        "0.4111111111111111",
        "41111111111111111111",
        "id_4111111111111111",
        "1700000000000",
        "4111  1111  1111  1111",
    ] {
        assert_eq!(scanner.text(other, None), None, "{other}");
    }
}

#[test]
fn credential_files_are_told_by_where_they_lie() {
    let scanner = scanner([Class::CredentialFiles]);
    for path in [
        "cat ~/.ssh/id_ed25519",
        "/home/ann/.aws/credentials",
        "$HOME/.kube/config",
        "C:\\Users\\ann\\.npmrc",
        "cat /etc/shadow|head",
        "/proc/self/environ",
        "/home/ann/.env",
        "/run/secrets/db-password",
        "/etc/ssl/private/server.key",
        "~/.gnupg/secring.gpg",
        "tail -50 /var/log/auth.log",
        "zcat /var/log/auth.log.2.gz",
        "/var/log/audit/audit.log",
        "sudo cat /private/etc/master.passwd",
        "reg save C:\\Windows\\System32\\config\\SAM x",
        ".env",
        "./.env.production",
    ] {
        assert_eq!(
            scanner.text(path, None),
            Some(Kind::CredentialFile),
            "{path}"
        );
    }
    for path in [
        "tests/fixtures/.aws/credentials",
        "/repo/.npmrc",
        "~/.ssh/id_ed25519.pub",
        "/etc/passwd",
        "C:\\Users\\ann\\.ssh\\id_rsa.pub",
        "/etc/hosts",
        "~/.environment/readme",
        "docs about /etc/shadows",
        "/var/log/syslog",
        "/var/log/auth.logger",
        ".env.example",
        "copy .env.example to .env first",
        "src/.env",
        ".environment",
    ] {
        assert_eq!(scanner.text(path, None), None, "{path}");
    }
}

#[test]
fn credentials_are_at_home_in_some_headers_and_registered_secrets_in_none() {
    let secret = "correct-horse-battery-staple";
    let mut scanner = scanner([Class::Credentials, Class::Registered]);
    scanner.register = Arc::new(Register::new([Registered::new(secret).unwrap()]).unwrap());
    let key = format!("sk_live_{}", base62(24, 5));
    let say = |name: &'static str, value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        scanner
            .headers(&headers, None)
            .map(|(name, kind)| (name.to_string(), kind))
    };
    assert_eq!(say("authorization", &format!("Bearer {key}")), None);
    assert_eq!(
        say("x-note", &key),
        Some(("x-note".to_owned(), Kind::Stripe))
    );
    assert_eq!(
        say("authorization", &format!("Bearer {secret}")),
        Some(("authorization".to_owned(), Kind::Registered))
    );
    assert_eq!(
        scanner.body(None, format!("a={key}").as_bytes(), None),
        Some(Kind::Stripe)
    );
}

fn ids() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
        "[0-9a-f]{7}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}",
        "[0-7][0-9A-HJKMNP-TV-Z]{25}",
        "(ord|cus|evt|req|tkt)_[0-9A-Za-z]{16,28}",
        "[0-9]{6,20}",
        "[A-Za-z0-9_-]{21}",
        "[A-Za-z0-9+/]{44}",
        "sha256:[0-9a-f]{64}",
        "(A|B)-[0-9]{4,8}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn ids_are_no_secrets(ids in prop::collection::vec(ids(), 1..12)) {
        let scanner = scanner([Class::Credentials]);
        let args = json!({"ids": ids, "text": ids.join(" "), "by": {ids[0].clone(): true}});
        prop_assert_eq!(found(&scanner, &args), Vec::new());
    }

    #[test]
    fn a_key_is_found_anywhere_in_the_arguments(
        seed in 1_u64..1_000_000,
        pick in any::<prop::sample::Index>(),
        before in "[ a-z\"\\\\{}:,\n]{0,30}[ ,:\n]",
        after in "[ ,\n][ a-z\"\\\\{}:,\n]{0,30}",
        path in prop::collection::vec(prop_oneof![Just(None), "[a-z]{1,6}".prop_map(Some)], 1..5),
        nested in any::<bool>(),
    ) {
        let all = tokens(seed);
        let (kind, token) = &all[pick.index(all.len())];
        let mut value = json!(format!("{before}{token}{after}"));
        if nested {
            value = json!(json!({"inner": value}).to_string());
        }
        for step in &path {
            value = match step {
                Some(key) => json!({"n": 1, key.as_str(): value}),
                None => json!(["x", value]),
            };
        }
        let scanner = scanner([Class::Credentials]);
        let found = found(&scanner, &json!({"args": value}));
        prop_assert!(!found.is_empty(), "{kind:?}: {token}");
    }

    #[test]
    fn no_text_breaks_the_readers(text in "\\PC{0,200}", mark in 0_usize..FORMED.len(), tail in "[A-Za-z0-9+/=.$:@ -]{0,120}") {
        let all = scanner(Class::SCANNED);
        let (anchor, _) = FORMED[mark];
        all.text(&format!("{text}{anchor}{tail}{text}"), None);
    }
}

#[test]
fn a_recording_holds_no_secret_wherever_it_stood() {
    use crate::record::redact::Redactor;
    use crate::record::{Content, Withheld};

    let redactor = Redactor::by_shape();
    let written =
        |media: &str, body: &str| match redactor.body(Some(media), body.as_bytes()).content {
            Content::Body(text) => text,
            Content::Withheld(why) => {
                assert_eq!(why, Withheld::Secret, "{body}");
                String::new()
            }
        };
    for (kind, token) in tokens(7) {
        // A token of several lines is told by its inner ones.
        let told = token.lines().max_by_key(|line| line.len()).unwrap();
        let told = told
            .rsplit(['=', ' '])
            .find(|part| part.len() > 8)
            .unwrap_or(told);
        let arguments = json!({"to": "ann", "note": format!("use {token} for it")}).to_string();
        let chat = json!({"messages": [{"role": "user", "content": format!("My key: {token}")},
            {"role": "assistant", "tool_calls": [{"function": {"name": "send", "arguments": arguments}}]}]});
        let json = written("application/json", &chat.to_string());
        assert!(!json.contains(told), "{kind:?}: {json}");
        let text = written(
            "text/plain",
            &format!("first line\nMy key: {token}\nlast line"),
        );
        assert!(!text.contains(told), "{kind:?}: {text}");

        let half = token.floor_char_boundary(token.len() / 2);
        let (before, after) = token.split_at(half);
        let events = ["the key: ", before, after, " is mine"].map(|piece| {
            let chunk = json!({"choices": [{"index": 0, "delta": {"content": piece}}]});
            format!("data: {chunk}\n\n")
        });
        let events = events.concat();
        let stream = written("text/event-stream", &events);
        let pieces: String = stream
            .lines()
            .filter_map(|line| {
                let value: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
                Some(
                    value
                        .pointer("/choices/0/delta/content")?
                        .as_str()?
                        .to_owned(),
                )
            })
            .collect();
        assert!(!pieces.contains(told), "{kind:?}: {pieces}");
        assert!(!stream.contains(told), "{kind:?}: {stream}");
    }
    let plain =
        json!({"messages": [{"role": "user", "content": "Order 4711, please."}]}).to_string();
    assert_eq!(
        written("application/json", &plain),
        plain,
        "what has no secret stays as it is"
    );
    let events = "event: a\ndata: {\"delta\": \"one\"}\n\n: sign\n\ndata: [DONE]\n\n";
    assert_eq!(written("text/event-stream; charset=utf-8", events), events);
    assert_eq!(
        redactor.body(None, &[0xff, 0xfe]).content,
        Content::Withheld(Withheld::Binary)
    );
}
