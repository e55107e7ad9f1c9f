//! Bodies: encodings, limits, strict JSON, upstreams that answer late, wrong or not at all.

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::client::{Client, ask, request};
use crate::support::rig::{OFF, Rig, config};
use crate::support::upstream::{Gate, Step, Upstream, answer, chunk, json, send};

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

type Headers = &'static [(&'static str, &'static str)];

/// `{"url":"x"}` as brotli and zstd write it: a stored block each.
const BROTLI: &[u8] = b"\x0b\x05\x80{\"url\":\"x\"}\x03";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd\x20\x0b\x59\x00\x00{\"url\":\"x\"}";

#[tokio::test]
async fn encoded_requests_are_judged_and_forwarded_plain() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::before(&upstream.url(), "").await;
    let plain = b"{\"url\":\"x\"}";
    for (encoding, body) in [
        ("gzip", gzip(plain)),
        ("deflate", zlib(plain)),
        ("br", BROTLI.to_vec()),
        ("zstd", ZSTD.to_vec()),
        ("gzip, gzip", gzip(&gzip(plain))),
        ("identity", plain.to_vec()),
    ] {
        let headers = [("content-encoding", encoding)];
        let answer = rig.ask(request("POST", "/shop/send", &headers, body)).await;
        assert_eq!(answer.status, 200, "{encoding}: {answer:?}");
        let got = upstream.received().pop().unwrap();
        assert_eq!(got.body, plain, "{encoding}");
        assert_eq!(got.header("content-length"), ["11"]);
        assert!(got.header("content-encoding").is_empty());
    }
}

/// The plain text of [`BROTLI`] and [`ZSTD`] in any encoding.
fn encoded(encoding: &str) -> Vec<u8> {
    let plain = b"{\"url\":\"x\"}";
    match encoding {
        "gzip" => gzip(plain),
        "deflate" => zlib(plain),
        "br" => BROTLI.to_vec(),
        "zstd" => ZSTD.to_vec(),
        "zstd, gzip" => gzip(ZSTD),
        _ => plain.to_vec(),
    }
}

#[tokio::test]
async fn encoded_answers_come_back_plain_errors_too() {
    let upstream = Upstream::start(move |request| {
        let (status, encoding) = request.target().rsplit_once('/').unwrap();
        let status = if status.ends_with("failing") { "418 No" } else { "200 OK" };
        let encoding = encoding.replace("%2C%20", ", ");
        let body = encoded(&encoding);
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-encoding: {encoding}\r\n\
             etag: \"1\"\r\ndigest: sha-256=x\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        vec![send(head), send(body)]
    })
    .await;
    let routes = config(&upstream.url(), "").replace(
        "{tool: send,",
        "{tool: failing, method: GET, path: \"/failing/{order_id}\"}\n      - {tool: send,",
    );
    let rig = Rig::start(
        &routes,
        &OFF.replace("tools:", "tools:\n  - {tool: failing, effect: read}"),
    )
    .await;
    for encoding in ["gzip", "deflate", "br", "zstd", "zstd%2C%20gzip"] {
        for (path, status) in [("orders", 200), ("failing", 418)] {
            let target = format!("/shop/{path}/{encoding}");
            let answer = rig.ask(request("GET", &target, &[], "")).await;
            assert_eq!(
                (answer.status, answer.text()),
                (status, "{\"url\":\"x\"}"),
                "{target}"
            );
            assert_eq!(answer.header("content-length"), Some("11"));
            for gone in ["content-encoding", "etag", "digest"] {
                assert_eq!(answer.header(gone), None, "{gone}");
            }
        }
    }
    for unknown in ["lzw", "gzip%2C%20gzip%2C%20gzip"] {
        let target = format!("/shop/orders/{unknown}");
        let refused = rig.ask(request("GET", &target, &[], "")).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (502, "upstream_invalid_response")
        );
    }
}

#[tokio::test]
async fn an_answer_that_is_no_good_in_its_encoding_is_not_passed_on() {
    let mut trailing = gzip(b"{}");
    trailing.extend_from_slice(b"{\"smuggled\": 1}");
    let whole = gzip(b"{\"a\": \"some text\"}");
    let cut = whole[..whole.len() - 9].to_vec();
    for (body, code) in [
        (trailing, "upstream_invalid_response"),
        (cut, "upstream_invalid_response"),
        (b"{}".to_vec(), "upstream_invalid_response"),
        (gzip(&vec![b' '; 5 << 20]), "upstream_too_large"),
    ] {
        let upstream = Upstream::start(move |_| {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n";
            vec![
                send(format!("{head}content-length: {}\r\n\r\n", body.len())),
                send(&body),
            ]
        })
        .await;
        let rig = Rig::before(&upstream.url(), "").await;
        let refused = rig.ask(request("GET", "/shop/orders/1", &[], "")).await;
        assert_eq!((refused.status, refused.code().as_str()), (502, code));
    }
}

#[tokio::test]
async fn a_bomb_is_refused_long_before_the_limit() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::before(&upstream.url(), "").await;
    let bomb = gzip(&vec![b' '; 5 << 20]);
    for (encoding, body) in [("gzip", bomb.clone()), ("gzip, gzip", gzip(&bomb))] {
        let headers = [("content-encoding", encoding)];
        let refused = rig.ask(request("POST", "/shop/send", &headers, body)).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (413, "body_expands")
        );
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn bodies_beyond_the_memory_wait_for_others_to_end() {
    let gate = Gate::default();
    let wait = gate.clone();
    let upstream = Upstream::start(move |_| {
        let mut steps = vec![Step::Wait(wait.clone())];
        steps.extend(json("{}"));
        steps
    })
    .await;
    let limits = "limits: {request_body: 8KiB, response_body: 8KiB, memory: 16KiB}";
    let rig = Rig::before(&upstream.url(), limits).await;
    let body = format!("{{\"url\":\"{}\"}}", "x".repeat(7000));
    let mut first = Vec::new();
    for count in 1..=2 {
        let mut client = Client::connect(rig.agents()).await;
        client.send(request("POST", "/shop/send", &[], &body)).await;
        while upstream.received().len() < count {
            tokio::task::yield_now().await;
        }
        first.push(client);
    }
    let refused = rig.ask(request("POST", "/shop/send", &[], &body)).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "memory_exhausted")
    );
    assert_eq!(refused.header("x-should-retry"), Some("true"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    for mut client in first {
        gate.open();
        assert_eq!(client.answer().await.status, 200);
    }
    gate.open();
    let again = rig.ask(request("POST", "/shop/send", &[], &body)).await;
    assert_eq!(again.status, 200);
}

#[tokio::test]
async fn an_answer_beyond_the_memory_is_dropped_and_says_so() {
    let body = format!("{{\"a\":\"{}\"}}", "x".repeat(15 << 10));
    let upstream = Upstream::start(move |_| json(&body)).await;
    let limits = "limits: {request_body: 1KiB, response_body: 16KiB, memory: 17KiB}";
    let rig = Rig::before(&upstream.url(), limits).await;
    let ask = request("GET", "/shop/orders/1", &[], "");
    assert_eq!(rig.ask(&ask).await.status, 200);
    // An answer whose agent does not read on keeps its share.
    let mut slow = Client::connect(rig.agents()).await;
    let mut refused = None;
    for _ in 0..20_000 {
        slow.send(&ask).await;
        let answer = rig.ask(&ask).await;
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.unwrap();
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (502, "answer_not_held")
    );
    assert_eq!(refused.header("x-should-retry"), Some("false"));
}

#[tokio::test]
async fn bad_requests_are_told_why_in_the_routes_shape() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::before(&upstream.url(), "limits: {request_body: 64KiB}").await;
    let bomb = gzip(&vec![b' '; 10 << 20]);
    assert!(bomb.len() < 16 << 10);
    let mut trailing = gzip(b"{}");
    trailing.extend_from_slice(b"{\"smuggled\": 1}");
    let deep = format!("{}1{}", "[".repeat(300), "]".repeat(300));
    let cases: [(Headers, Vec<u8>, u16, &str); 13] = [
        (&[], vec![b' '; 70_000], 413, "body_too_large"),
        (&[("content-encoding", "gzip")], bomb, 413, "body_too_large"),
        (
            &[("content-encoding", "gzip")],
            trailing,
            400,
            "encoding_invalid",
        ),
        (
            &[("content-encoding", "gzip")],
            b"no gzip".to_vec(),
            400,
            "encoding_invalid",
        ),
        (
            &[("content-encoding", "compress")],
            b"{}".to_vec(),
            415,
            "encoding_unknown",
        ),
        (
            &[("content-encoding", "gzip, gzip, gzip")],
            b"{}".to_vec(),
            415,
            "encoding_unknown",
        ),
        (&[], b"{\"a\": }".to_vec(), 400, "invalid_json"),
        (&[], b"{\"to\": 1, \"to\": 2}".to_vec(), 400, "invalid_json"),
        (&[], b"\xef\xbb\xbf{}".to_vec(), 400, "invalid_json"),
        (&[], b"{\"a\": \"\xff\"}".to_vec(), 400, "invalid_json"),
        (&[], deep.into_bytes(), 400, "invalid_json"),
        (
            &[("content-type", "application/json; charset=utf-16")],
            b"{}".to_vec(),
            415,
            "unsupported_media_type",
        ),
        (
            &[("content-type", "text/plain")],
            b"{}".to_vec(),
            415,
            "unsupported_media_type",
        ),
    ];
    for (headers, body, status, code) in cases {
        for target in ["/shop/send", "/openai/v1/chat/completions"] {
            let refused = rig.ask(request("POST", target, headers, &body)).await;
            assert_eq!(
                (refused.status, refused.code().as_str()),
                (status, code),
                "{target} {headers:?}"
            );
            assert_eq!(refused.header("x-should-retry"), Some("false"));
        }
    }
    assert!(upstream.received().is_empty());
    let scrape = rig.scrape().await;
    let counted = "holdpoint_refusals_total{code=\"invalid_json\",route=\"shop\"} 5";
    assert!(scrape.contains(counted), "{scrape}");
}

#[tokio::test]
async fn an_error_names_the_place_and_never_the_text() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::before(&upstream.url(), "").await;
    let body = "{\n  \"token\": \"sk-secret\",\n  \"token\": \"sk-secret\"\n}";
    let refused = rig.ask(request("POST", "/shop/send", &[], body)).await;
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert_eq!(
        detail,
        "The body is not strict JSON: duplicate key at line 3 column 3."
    );
    let refused = rig
        .ask(request("POST", "/openai/v1/chat/completions", &[], body))
        .await;
    let error = &refused.json()["error"];
    assert!(
        error["message"].as_str().unwrap().contains("line 3"),
        "{error}"
    );
    assert!(!refused.text().contains("sk-"));
}

#[tokio::test]
async fn a_body_that_is_announced_too_large_is_refused_before_it_is_sent() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::before(&upstream.url(), "limits: {request_body: 1KiB}").await;
    let mut client = Client::connect(rig.agents()).await;
    client
        .send(
            "POST /shop/send HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
             content-length: 5000\r\nexpect: 100-continue\r\n\r\n",
        )
        .await;
    // The first thing that comes is the refusal, not `100 Continue`.
    let refused = client.answer().await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (413, "body_too_large")
    );
}

#[tokio::test]
async fn an_expected_continue_is_given() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::before(&upstream.url(), "").await;
    let mut client = Client::connect(rig.agents()).await;
    client
        .send(
            "POST /shop/send HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
             content-length: 2\r\nexpect: 100-continue\r\n\r\n",
        )
        .await;
    assert!(client.head().await.starts_with("HTTP/1.1 100"));
    client.send("{}").await;
    assert_eq!(client.answer().await.status, 200);
    assert!(upstream.only().header("expect").is_empty());
}

#[tokio::test]
async fn a_client_that_sends_too_slowly_is_cut() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let limits = "timeouts: {request_head: 100ms, request_idle: 100ms}";
    let rig = Rig::before(&upstream.url(), limits).await;
    let head = "POST /shop/send HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    // A head that never ends, and a connection on which nothing comes.
    for begun in [head, "", "\r\n"] {
        let mut client = Client::connect(rig.agents()).await;
        client.send(begun).await;
        let rest = client.rest().await;
        assert!(
            rest.is_empty() || rest.starts_with("HTTP/1.1 408"),
            "{rest}"
        );
    }
    let mut client = Client::connect(rig.agents()).await;
    client
        .send(format!("{head}content-length: 20\r\n\r\n{{"))
        .await;
    let refused = client.answer().await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (408, "body_stalled")
    );
    // One that only drips.
    let mut client = Client::connect(rig.agents()).await;
    client
        .send(format!("{head}content-length: 100000\r\n\r\n{{"))
        .await;
    let drip = async {
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            client.send(" ").await;
        }
    };
    let refused = async {
        while !rig
            .scrape()
            .await
            .contains("code=\"body_stalled\",route=\"shop\"} 2")
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = refused => {}
        () = drip => {}
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn a_request_that_ends_early_is_not_forwarded() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::before(&upstream.url(), "").await;
    for framing in [
        "content-length: 20\r\n\r\n{}",
        "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",
    ] {
        let mut client = Client::connect(rig.agents()).await;
        client
            .send(format!(
                "POST /shop/send HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{framing}"
            ))
            .await;
        client.end().await;
        let refused = client.answer().await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (400, "body_incomplete")
        );
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn an_upstream_that_is_down_is_told_with_a_hint_and_may_be_asked_again() {
    let gone = Upstream::start(|_| json("{}")).await;
    let url = gone.url();
    drop(gone);
    let rig = Rig::before(&url, "").await;
    for (method, target, body) in [
        ("GET", "/shop/orders/1", ""),
        ("POST", "/openai/v1/chat/completions", "{\"messages\":[]}"),
    ] {
        let refused = rig.ask(request(method, target, &[], body)).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (502, "upstream_unreachable")
        );
        assert_eq!(refused.header("x-should-retry"), Some("true"));
        assert!(refused.text().contains("Check its URL in the config"));
    }
    let scrape = rig.scrape().await;
    let counted = "holdpoint_upstream_errors_total{kind=\"connect\",upstream=\"shop\"} 1";
    assert!(scrape.contains(counted), "{scrape}");
}

#[tokio::test]
async fn a_request_whose_answer_never_came_is_not_sent_again() {
    let upstream = Upstream::start(|_| vec![Step::Close]).await;
    let rig = Rig::before(&upstream.url(), "").await;
    let refused = rig.ask(request("POST", "/shop/send", &[], "{}")).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (502, "upstream_broken")
    );
    assert_eq!(refused.header("x-should-retry"), Some("false"));
    assert_eq!(upstream.received().len(), 1);
}

#[tokio::test]
async fn a_pooled_connection_that_has_closed_is_no_error() {
    // Closes after each answer without saying so.
    let upstream = Upstream::start(|_| {
        let mut steps = json("{}");
        steps.push(Step::Close);
        steps
    })
    .await;
    let rig = Rig::before(&upstream.url(), "").await;
    for count in 1..=3 {
        let answer = rig.ask(request("POST", "/shop/send", &[], "{}")).await;
        assert_eq!(answer.status, 200, "{count}");
        upstream.gone.pass().await;
        assert_eq!(upstream.received().len(), count);
    }
}

#[tokio::test]
async fn a_slow_upstream_times_out() {
    let upstream = Upstream::start(|_| vec![Step::Hang]).await;
    let rig = Rig::before(&upstream.url(), "timeouts: {first_byte: 50ms}").await;
    let refused = rig.ask(request("GET", "/shop/orders/1", &[], "")).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (504, "upstream_timeout")
    );
    assert_eq!(refused.header("x-should-retry"), Some("false"));
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_whole_is_not_passed_on() {
    let upstream = Upstream::start(|request| match request.target() {
        "GET /orders/cut" => vec![
            send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{\"a\""),
            Step::Close,
        ],
        "GET /orders/chunked" => vec![
            send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"),
            chunk("{\"a\": 1}"),
            Step::Close,
        ],
        "GET /orders/large" => answer("200 OK", "application/json", vec![b'1'; 5000]),
        "GET /orders/double" => json("{\"a\": 1, \"a\": 2}"),
        _ => vec![send("no http at all\r\n\r\n"), Step::Close],
    })
    .await;
    let rig = Rig::before(&upstream.url(), "limits: {response_body: 1KiB}").await;
    for (order, status, code) in [
        ("cut", 502, "upstream_truncated"),
        ("chunked", 502, "upstream_truncated"),
        ("large", 502, "upstream_too_large"),
        ("double", 502, "upstream_invalid_response"),
        ("garbage", 502, "upstream_broken"),
    ] {
        let target = format!("/shop/orders/{order}");
        let refused = ask(rig.agents(), request("GET", &target, &[], "")).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (status, code),
            "{order}"
        );
        assert!(refused.whole);
    }
}

#[tokio::test]
async fn an_answer_that_stands_still_times_out() {
    let upstream = Upstream::start(|_| {
        vec![
            send(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{",
            ),
            Step::Hang,
        ]
    })
    .await;
    let rig = Rig::before(&upstream.url(), "timeouts: {idle: 50ms}").await;
    let refused = rig.ask(request("GET", "/shop/orders/1", &[], "")).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (504, "upstream_timeout")
    );
}

#[tokio::test]
async fn without_tls_nothing_is_sent() {
    for answers in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            if answers {
                stream.write_all(b"no tls here\r\n\r\n").await.unwrap();
            }
            let mut first = [0; 5];
            stream.read_exact(&mut first).await.unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            (first, rest)
        });
        let rig = Rig::before(&url, "timeouts: {connect: 200ms}").await;
        let refused = rig.ask(request("POST", "/shop/send", &[], "{}")).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (502, "upstream_unreachable")
        );
        let (first, rest) = server.await.unwrap();
        assert_eq!(first[..2], [0x16, 0x03], "a handshake record");
        assert!(!rest.windows(5).any(|five| five == b"/send"));
    }
}

#[tokio::test]
async fn a_whole_answer_keeps_its_bytes() {
    let body = "{ \"n\" : 12345678901234567890123, \"t\":\"a\\u0062\",  \"z\": [1 , 2.50] }";
    let upstream = Upstream::start(move |_| json(body)).await;
    let rig = Rig::before(&upstream.url(), "").await;
    let answer = rig.ask(request("POST", "/shop/send", &[], body)).await;
    assert_eq!(answer.text(), body);
    assert_eq!(upstream.only().text(), body);
}
