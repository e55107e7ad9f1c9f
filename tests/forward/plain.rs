//! Plain `http` in absolute form.

use crate::support::client::Client;
use crate::support::upstream::{Gate, Step, Upstream, answer, chunk, json, send};
use crate::world::{POLICY, PUBLIC, Rig};

async fn before(steps: Vec<Step>, more: &str) -> (Rig, Upstream) {
    let rig = Rig::start(POLICY, more).await;
    let upstream = Upstream::start(move |_| steps.clone()).await;
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    (rig, upstream)
}

fn post(more: &str) -> String {
    format!("POST http://plain.shop.test/in HTTP/1.1\r\nhost: plain.shop.test\r\n{more}\r\n")
}

#[tokio::test]
async fn a_request_leaves_in_origin_form_without_what_is_the_proxys() {
    let (rig, upstream) = before(json("{\"ok\":true}"), "").await;
    let got = rig
        .ask(
            "POST http://Plain.Shop.Test:80/a/b?c=d%20e HTTP/1.1\r\nhost: plain.shop.test\r\n\
             content-length: 4\r\ncontent-type: text/plain\r\nproxy-connection: keep-alive\r\n\
             proxy-authorization: Basic eDp5\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\n\
             te: trailers\r\nholdpoint-session: s1\r\nx-http-method-override: DELETE\r\n\
             accept-encoding: gzip\r\nauthorization: Bearer peers\r\ncookie: a=b\r\n\r\nbody",
        )
        .await;
    assert_eq!((got.status, got.text()), (200, "{\"ok\":true}"));
    assert!(got.header("holdpoint-policy").is_some());
    let received = upstream.only();
    assert_eq!(received.target(), "POST /a/b?c=d%20e");
    assert_eq!(received.text(), "body");
    let mut lines: Vec<_> = received
        .head
        .lines()
        .skip(1)
        .map(str::to_ascii_lowercase)
        .collect();
    lines.retain(|line| !line.starts_with("via: 1.1 holdpoint-"));
    lines.sort();
    assert_eq!(
        lines,
        [
            "accept-encoding: gzip",
            "authorization: bearer peers",
            "content-length: 4",
            "content-type: text/plain",
            "cookie: a=b",
            "host: plain.shop.test",
        ]
    );
    let passed = "holdpoint_unscanned_bytes_total{reason=\"forward\",route=\"forward\"}";
    // The request's body is read; the answer's is not.
    assert_eq!(rig.count(passed).await, 11);
}

#[tokio::test]
async fn an_answer_is_streamed_as_it_comes() {
    let gate = Gate::default();
    let steps = vec![
        send(
            "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nalt-svc: h3\r\nrefresh: 0;url=http://x/\r\nproxy-x: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        ),
        chunk("one"),
        Step::Wait(gate.clone()),
        chunk("two"),
        chunk(""),
    ];
    let (rig, _upstream) = before(steps, "").await;
    let mut client = Client::connect(rig.forward()).await;
    client.send(post("content-length: 0\r\n")).await;
    let head = client.head().await.to_ascii_lowercase();
    assert!(head.contains("content-encoding: gzip"), "{head}");
    for gone in ["alt-svc", "refresh", "proxy-x"] {
        assert!(!head.contains(gone), "{head}");
    }
    client.until("one").await;
    gate.open();
    client.until("two\r\n0\r\n\r\n").await;
}

#[tokio::test]
async fn a_redirect_is_judged_before_the_agent_hears_of_it() {
    for (location, code) in [
        (
            "http://169.254.169.254/latest/meta-data/",
            Some("host_not_allowed"),
        ),
        ("http://attacker.test/?secret", Some("host_not_allowed")),
        ("//attacker.test/", Some("host_not_allowed")),
        ("https://pay.shop.test:25/", Some("host_not_allowed")),
        (
            "http://plain.shop.test@attacker.test/",
            Some("url_unreadable"),
        ),
        ("/\\attacker.test/", Some("url_unreadable")),
        ("http:/attacker.test/", Some("url_unreadable")),
        ("http:attacker.test", Some("url_unreadable")),
        ("\thttp://attacker.test/", Some("host_not_allowed")),
        ("javascript:alert(1)", Some("host_not_allowed")),
        ("https://pay.shop.test/next", None),
        ("/next", None),
        ("next?a=http://x", None),
    ] {
        let head =
            format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let (rig, _upstream) = before(vec![send(head)], "").await;
        let got = rig.get("http://plain.shop.test/").await;
        if let Some(code) = code {
            assert_eq!((got.status, &*got.code()), (403, code), "{location}");
            assert_eq!(got.header("location"), None);
            assert!(!got.text().contains("attacker"), "{location}");
        } else {
            assert_eq!(got.status, 302, "{location}");
            assert_eq!(got.header("location"), Some(location));
        }
        // It is never followed here.
        assert_eq!(rig.world.dialled(), [format!("{PUBLIC}:80")]);
    }
    let twice = "HTTP/1.1 302 Found\r\nlocation: /a\r\nlocation: http://attacker.test/\r\ncontent-length: 0\r\n\r\n";
    let (rig, _upstream) = before(vec![send(twice)], "").await;
    let got = rig.get("http://plain.shop.test/").await;
    assert_eq!(
        (got.status, &*got.code()),
        (502, "upstream_invalid_response")
    );
}

#[tokio::test]
async fn a_body_above_the_limit_never_arrives_whole() {
    let (rig, upstream) = before(json("{}"), "limits: {request_body: 8B}").await;
    let got = rig.ask(post("content-length: 9\r\n") + "123456789").await;
    assert_eq!((got.status, &*got.code()), (413, "body_too_large"));
    assert!(rig.world.dialled().is_empty());
    let chunked = post("transfer-encoding: chunked\r\n") + "5\r\n12345\r\n5\r\n12345\r\n0\r\n\r\n";
    let got = rig.ask(chunked).await;
    assert_eq!((got.status, &*got.code()), (413, "body_too_large"));
    assert!(upstream.received().is_empty());
    let got = rig
        .ask(post("transfer-encoding: chunked\r\n") + "5\r\n12345\r\n0\r\n\r\n")
        .await;
    assert_eq!(got.status, 200);
    assert_eq!(upstream.only().text(), "12345");
}

#[tokio::test]
async fn faults_of_a_peer_are_told_apart() {
    let cut = vec![
        send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"),
        Step::Close,
    ];
    let (rig, _upstream) = before(cut, "").await;
    let got = rig.get("http://plain.shop.test/").await;
    assert!(!got.whole);
    let count = |kind: &str| {
        format!("holdpoint_upstream_errors_total{{kind=\"{kind}\",upstream=\"forward\"}}")
    };
    assert_eq!(rig.count(&count("cut")).await, 1);
    for (steps, more, status, code, kind) in [
        (vec![Step::Close], "", 502, "upstream_broken", "broken"),
        (
            vec![send("no http\r\n\r\n")],
            "",
            502,
            "upstream_broken",
            "broken",
        ),
        (
            vec![Step::Hang],
            "timeouts: {first_byte: 50ms}",
            504,
            "upstream_timeout",
            "first_byte",
        ),
    ] {
        let (rig, _upstream) = before(steps, more).await;
        let got = rig.get("http://plain.shop.test/").await;
        assert_eq!((got.status, &*got.code()), (status, code));
        assert_eq!(rig.count(&count(kind)).await, 1, "{kind}");
    }
    let rig = Rig::start(POLICY, "").await;
    let got = rig.get("http://plain.shop.test/").await;
    assert_eq!((got.status, &*got.code()), (502, "upstream_unreachable"));
    assert_eq!(rig.count(&count("connect")).await, 1);
}

#[tokio::test]
async fn an_answer_that_stands_still_is_cut() {
    let steps = vec![
        send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"),
        Step::Hang,
    ];
    let (rig, _upstream) = before(steps, "timeouts: {idle: 50ms}").await;
    let got = rig.get("http://plain.shop.test/").await;
    assert!(!got.whole);
    let idle = "holdpoint_upstream_errors_total{kind=\"idle\",upstream=\"forward\"}";
    assert_eq!(rig.count(idle).await, 1);
}

#[tokio::test]
async fn a_client_that_leaves_takes_the_peers_connection_with_it() {
    let steps = vec![
        send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        chunk("one"),
        Step::Hang,
    ];
    let (rig, upstream) = before(steps, "").await;
    let mut client = Client::connect(rig.forward()).await;
    client.send(post("content-length: 0\r\n")).await;
    client.until("one").await;
    drop(client);
    upstream.gone.pass().await;
}

#[tokio::test]
async fn heads_without_a_body_keep_their_length() {
    let rig = Rig::start(POLICY, "").await;
    let upstream = Upstream::start(|request| {
        let head = request.target().starts_with("HEAD");
        if head {
            vec![send("HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n")]
        } else {
            answer("304 Not Modified", "text/plain", "")
        }
    })
    .await;
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    let mut client = Client::connect(rig.forward()).await;
    client
        .send("HEAD http://plain.shop.test/ HTTP/1.1\r\nhost: plain.shop.test\r\n\r\n")
        .await;
    let head = client.head().await.to_ascii_lowercase();
    assert!(head.contains("content-length: 12"), "{head}");
    assert_eq!(rig.get("http://plain.shop.test/").await.status, 304);
}
