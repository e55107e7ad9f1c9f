//! Secrets in plain requests: in the URL, the header fields and the body, in any type and encoding.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use holdpoint::layers::egress::Registered;
use serde_json::json;

use crate::support::client::{Client, request};
use crate::support::rig::config;
use crate::support::upstream::{Upstream, json as answer};
use crate::world::{POLICY, PUBLIC, Rig};

/// Header fields.
type Fields<'f> = Vec<(&'f str, &'f str)>;

/// Split, so that no scanner of repositories takes it for one.
fn key() -> String {
    ["sk-ant-", "api03-Zx81kQv7Lm2Pq9Rt4Ws6Yb3N"].concat()
}

async fn before(policy: &str, more: &str) -> (Rig, Upstream) {
    let rig = Rig::start(policy, more).await;
    let upstream = Upstream::start(|_| answer("{}")).await;
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    (rig, upstream)
}

fn post(headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let mut all = vec![("content-type", "text/plain")];
    if headers.iter().any(|(name, _)| *name == "content-type") {
        all.clear();
    }
    all.extend(headers);
    let bytes = request("POST", "http://plain.shop.test/in", &all, body);
    let text = String::from_utf8_lossy(&bytes[..60]).into_owned();
    assert!(text.contains("host: localhost"));
    let at = text.find("localhost").unwrap();
    [&bytes[..at], b"plain.shop.test", &bytes[at + 9..]].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_credential_in_a_body_never_leaves() {
    let (rig, upstream) = before(POLICY, "").await;
    let key = key();
    let (head, tail) = key.split_at(12);
    let part = format!(
        "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.bin\"\r\n\r\n\u{0}{key}\r\n--b--\r\n"
    );
    let plain = key.as_bytes();
    let cases: Vec<(Fields<'_>, Vec<u8>)> = vec![
        (vec![], format!("note: {key}.").into_bytes()),
        (
            vec![("content-type", "application/json")],
            json!({"a": {"b": [1, key]}}).to_string().into_bytes(),
        ),
        (
            vec![("content-type", "application/json")],
            json!({"a": [head, tail]}).to_string().into_bytes(),
        ),
        (
            vec![("content-type", "application/json")],
            json!({key.as_str(): 1}).to_string().into_bytes(),
        ),
        (
            vec![("content-type", "application/x-www-form-urlencoded")],
            format!("a=b+c&d={}", key.replace('-', "%2D")).into_bytes(),
        ),
        (
            vec![("content-type", "multipart/form-data; boundary=b")],
            part.into_bytes(),
        ),
        (
            vec![("content-type", "application/octet-stream")],
            [b"\xff\x00\xfe", plain, b"\x80"].concat(),
        ),
        (vec![("content-encoding", "gzip")], gzip(plain)),
        (
            vec![("content-encoding", "deflate, gzip")],
            gzip(&deflate(plain)),
        ),
    ];
    for (headers, body) in &cases {
        let got = rig.ask(post(headers, body)).await;
        assert_eq!(
            (got.status, &*got.code()),
            (403, "secret_detected"),
            "{headers:?}"
        );
        assert!(!got.text().contains(tail));
    }
    let chunked = format!(
        "PUT http://plain.shop.test/in HTTP/1.1\r\nhost: plain.shop.test\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{head}\r\n{:x}\r\n{tail}\r\n0\r\n\r\n",
        head.len(),
        tail.len()
    );
    assert_eq!(rig.ask(chunked).await.code(), "secret_detected");
    let scrape = rig.scrape().await;
    assert!(!scrape.contains(tail));
    // Nobody was asked for an address, nobody was called.
    assert!(rig.world.asked().is_empty());
    assert!(rig.world.dialled().is_empty());
    assert!(upstream.received().is_empty());
    assert_eq!(rig.refusals("secret_detected").await, 10);
}

#[tokio::test]
async fn a_credential_in_the_url_or_a_header_never_leaves() {
    let (rig, upstream) = before(POLICY, "").await;
    let key = key();
    for query in [
        format!("a=1&k={key}"),
        format!("k={}", key.replace('-', "%2D")),
    ] {
        let got = rig.get(&format!("http://plain.shop.test/x?{query}")).await;
        assert_eq!(
            (got.status, &*got.code()),
            (403, "secret_detected"),
            "{query}"
        );
    }
    let got = rig.ask(post(&[("x-note", &key)], "hello")).await;
    assert_eq!((got.status, &*got.code()), (403, "secret_detected"));
    // Where a client says who it is, a key is at home.
    let got = rig.ask(post(&[("x-api-key", &key)], "hello")).await;
    assert_eq!(got.status, 200);
    assert_eq!(upstream.only().text(), "hello");
}

#[tokio::test]
async fn a_body_that_is_clean_arrives_as_it_came() {
    let (rig, upstream) = before(POLICY, "").await;
    let text = "nothing to see ".repeat(50);
    let packed = gzip(text.as_bytes());
    let got = rig
        .ask(post(&[("content-encoding", "gzip")], &packed))
        .await;
    assert_eq!(got.status, 200);
    let received = upstream.only();
    assert_eq!(received.body, packed);
    assert_eq!(received.header("content-encoding"), ["gzip"]);
    assert_eq!(
        received.header("content-length"),
        [packed.len().to_string()]
    );
    let scanned = "holdpoint_scanned_bytes_total{route=\"forward\"}";
    assert!(rig.count(scanned).await >= text.len() as u64);
}

#[tokio::test]
async fn what_cannot_be_decoded_is_refused() {
    let (rig, upstream) = before(POLICY, "limits: {request_body: 64KiB}").await;
    let bomb = gzip(&vec![b'a'; 1 << 20]);
    assert!(bomb.len() < 64 << 10);
    for (headers, body, status, code) in [
        (
            vec![("content-encoding", "compress")],
            b"x".to_vec(),
            415,
            "encoding_unknown",
        ),
        (
            vec![("content-encoding", "gzip, gzip, gzip")],
            b"x".to_vec(),
            415,
            "encoding_unknown",
        ),
        (
            vec![("content-encoding", "gzip")],
            b"plain".to_vec(),
            400,
            "encoding_invalid",
        ),
        (
            vec![("content-encoding", "gzip")],
            gzip(b"cut")[..12].to_vec(),
            400,
            "encoding_invalid",
        ),
        (
            vec![("content-encoding", "gzip")],
            bomb,
            413,
            "body_too_large",
        ),
        (
            vec![("content-type", "text/plain; charset=utf-7")],
            b"x".to_vec(),
            415,
            "unsupported_media_type",
        ),
    ] {
        let got = rig.ask(post(&headers, body)).await;
        assert_eq!((got.status, &*got.code()), (status, code), "{headers:?}");
    }
    assert!(upstream.received().is_empty());
    assert!(rig.world.dialled().is_empty());
    // The place comes first: nobody reads a body for one that is not allowed.
    let elsewhere = "POST http://attacker.test/ HTTP/1.1\r\nhost: attacker.test\r\ncontent-encoding: compress\r\ncontent-length: 1\r\n\r\nx";
    assert_eq!(rig.ask(elsewhere).await.code(), "host_not_allowed");
}

#[tokio::test]
async fn a_registered_secret_is_found_wherever_it_stands() {
    let secret = "Tr0ub4dor&3-and-more/than=that";
    let line = Registered::new(secret).unwrap();
    let (rig, upstream) = before(POLICY, &format!("registered_secrets: [\"{line}\"]")).await;
    for body in [
        format!("x{secret}y").into_bytes(),
        [b"\xff\xfe\x00", secret.as_bytes(), b"\x00"].concat(),
        json!({"s": secret}).to_string().into_bytes(),
    ] {
        let got = rig.ask(post(&[], &body)).await;
        assert_eq!((got.status, &*got.code()), (403, "secret_detected"));
    }
    let got = rig
        .ask(post(&[("authorization", &format!("Bearer {secret}"))], "x"))
        .await;
    assert_eq!(got.code(), "secret_detected");
    assert!(upstream.received().is_empty());
    assert_eq!(rig.ask(post(&[], "Tr0ub4dor&3")).await.status, 200);
}

#[tokio::test]
async fn what_a_tool_gave_for_the_session_does_not_leave_through_the_proxy() {
    let policy = format!("{POLICY}private: [{{tool: get_customer, fields: ssn}}]\n");
    let (rig, upstream) = before(&policy, "").await;
    // The model's route hears what the tool gave back; that the model itself is not there does not matter.
    let conversation = json!({"model": "m", "messages": [
        {"role": "user", "content": "look her up"},
        {"role": "assistant", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_customer", "arguments": "{}"}}
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "{\"ssn\": \"123-45-6789\", \"city\": \"Bristol\"}"},
    ]});
    let headers = [("holdpoint-session", "s1")];
    let asked = request(
        "POST",
        "/openai/v1/chat/completions",
        &headers,
        conversation.to_string(),
    );
    let agents = rig.running().addresses().agents;
    let mut client = Client::connect(agents).await;
    client.send(asked).await;
    assert_eq!(client.answer().await.code(), "upstream_unreachable");
    for body in [
        "no. 123 45 6789",
        "{\"n\": 123456789}",
        "MTIzLTQ1LTY3ODkgaXMgaXQ=",
    ] {
        let got = rig.ask(post(&headers, body)).await;
        assert_eq!((got.status, &*got.code()), (403, "private_value"), "{body}");
    }
    let got = rig
        .ask(post(&[("x-note", "123-45-6789"), headers[0]], "x"))
        .await;
    assert_eq!(got.code(), "private_value");
    assert!(upstream.received().is_empty());
    // Another session never saw it, and a city is no secret.
    for (session, body) in [("s2", "123-45-6789"), ("s1", "Bristol")] {
        let got = rig.ask(post(&[("holdpoint-session", session)], body)).await;
        assert_eq!(got.status, 200, "{session}");
    }
}

#[tokio::test]
async fn where_the_layer_only_watches_or_nothing_is_looked_for_bodies_pass() {
    let shadow = POLICY.replace("egress: enforce", "egress: shadow");
    let off = format!("{POLICY}secrets: off\n");
    for (policy, denied) in [(shadow, 1), (off, 0)] {
        let (rig, upstream) = before(&policy, "").await;
        assert_eq!(rig.ask(post(&[], key())).await.status, 200);
        assert_eq!(upstream.only().text(), key());
        let verdicts = rig.scrape().await;
        let said = "holdpoint_verdicts_total{layer=\"egress\",mode=\"shadow\",verdict=\"deny\"} 1";
        assert_eq!(verdicts.contains(said), denied == 1, "{verdicts}");
    }
}

#[tokio::test]
async fn a_client_keeps_its_connection_and_each_request_gets_one_of_its_own() {
    let (rig, upstream) = before(POLICY, "").await;
    rig.world.name("a.img.shop.test", &[&[PUBLIC]]);
    let mut client = Client::connect(rig.forward()).await;
    for host in ["plain.shop.test", "a.img.shop.test", "plain.shop.test"] {
        client
            .send(format!(
                "GET http://{host}/ HTTP/1.1\r\nhost: {host}\r\n\r\n"
            ))
            .await;
        assert_eq!(client.answer().await.status, 200);
    }
    // A refusal ends it: what comes behind is read by nobody.
    client
        .send("GET http://attacker.test/ HTTP/1.1\r\nhost: attacker.test\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 403);
    assert!(client.ended().await);
    let connections: Vec<_> = upstream.received().iter().map(|r| r.connection).collect();
    assert_eq!(connections, [0, 1, 2]);
    assert_eq!(rig.world.asked().len(), 3);
}

#[tokio::test]
async fn a_proxy_may_run_without_any_route() {
    let config = "listen: {forward: \"127.0.0.1:0\"}\nprincipal: {fixed: {subject: ann}}\n";
    let policy = POLICY.replace("tools: [{tool: '*', effect: read}]\n", "");
    let rig = Rig::of(&policy, config).await.unwrap();
    let upstream = Upstream::start(|_| answer("{}")).await;
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    assert_eq!(rig.get("http://plain.shop.test/").await.status, 200);
    assert_eq!(rig.ask(post(&[], key())).await.code(), "secret_detected");
    assert_eq!(rig.get("http://attacker.test/").await.status, 403);
    // Nothing is behind the other listener.
    let mut client = Client::connect(rig.running().addresses().agents).await;
    client.send(request("GET", "/", &[], "")).await;
    assert_eq!(client.answer().await.code(), "route_unknown");
    // With routes beside it, it is the same proxy.
    let listed = config_with_routes();
    assert!(Rig::of(POLICY, &listed).await.is_ok());
}

fn config_with_routes() -> String {
    config("http://127.0.0.1:1", "listen: {forward: \"127.0.0.1:0\"}")
}
