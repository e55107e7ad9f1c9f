//! Request and response heads: what is refused, what passes, what stays behind.

use crate::support::client::{Client, request};
use crate::support::rig::Rig;
use crate::support::upstream::{Step, Upstream, json, send};

async fn pair() -> (Upstream, Rig) {
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::before(&upstream.url(), "").await;
    (upstream, rig)
}

#[tokio::test]
async fn the_upstream_gets_end_to_end_headers_only_and_its_own_host() {
    let (upstream, rig) = pair().await;
    let answer = rig
        .ask(request(
            "GET",
            "/shop/orders/1?note=a%20b",
            &[
                ("connection", "keep-alive, X-Hop"),
                ("x-hop", "1"),
                ("te", "trailers"),
                ("accept-encoding", "gzip, br"),
                ("x-forwarded-for", "6.6.6.6"),
                ("holdpoint-session", "s"),
                ("user-agent", "agent/1"),
                ("traceparent", "00-1-2-01"),
                ("range", "bytes=0-1"),
                ("x-http-method-override", "DELETE"),
                ("X_HTTP_Method_Override", "DELETE"),
                ("x-http-method", "DELETE"),
                ("x-method-override", "DELETE"),
                ("x-original-url", "/admin"),
                ("x-rewrite-url", "/admin"),
                ("x_forwarded_host", "evil"),
                ("holdpoint_session", "t"),
            ],
            "",
        ))
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let got = upstream.only();
    assert_eq!(got.target(), "GET /orders/1?note=a%20b");
    let host = upstream.address.to_string();
    assert_eq!(got.header("host"), [host.as_str()]);
    assert_eq!(got.header("accept-encoding"), ["identity"]);
    assert_eq!(got.header("user-agent"), ["agent/1"]);
    assert_eq!(got.header("traceparent"), ["00-1-2-01"]);
    assert!(got.header("via")[0].starts_with("1.1 holdpoint-"));
    for gone in [
        "x-hop",
        "te",
        "connection",
        "x-forwarded-for",
        "holdpoint-session",
        "range",
        "x-http-method-override",
        "x_http_method_override",
        "x-http-method",
        "x-method-override",
        "x-original-url",
        "x-rewrite-url",
        "x_forwarded_host",
        "holdpoint_session",
    ] {
        assert!(got.header(gone).is_empty(), "{gone}: {got:?}");
    }
    let policy = answer.header("holdpoint-policy").unwrap();
    assert_eq!(policy.len(), 12);
}

#[tokio::test]
async fn the_upstreams_credential_is_set_and_the_base_path_stands_before() {
    let (upstream, rig) = pair().await;
    let headers = [("authorization", "Bearer agents-own")];
    let answer = rig
        .ask(request("GET", "/openai/v1/models", &headers, ""))
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let got = upstream.only();
    assert_eq!(got.target(), "GET /base/v1/models");
    assert_eq!(got.header("authorization"), ["Bearer upstream-secret"]);
}

#[tokio::test]
async fn an_unknown_key_is_refused_in_the_routes_shape_and_the_key_is_not_forwarded() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let keys = "principal:
  api_keys:
    header: x-agent-key
    keys:
      - {key_env: AGENT_KEY, tenant: t, subject: ann}";
    let rig = Rig::before(&upstream.url(), keys).await;
    for (target, headers, code) in [
        ("/openai/v1/models", vec![], "credential_missing"),
        (
            "/shop/orders/1",
            vec![("x-agent-key", "other")],
            "credential_unknown",
        ),
    ] {
        let refused = rig.ask(request("GET", target, &headers, "")).await;
        assert_eq!(refused.status, 401);
        assert_eq!(refused.code(), code);
        assert_eq!(refused.header("x-should-retry"), Some("false"));
    }
    assert!(upstream.received().is_empty());
    let headers = [("x-agent-key", "the-key-of-an-agent")];
    let answer = rig
        .ask(request("GET", "/shop/orders/1", &headers, ""))
        .await;
    assert_eq!(answer.status, 200);
    assert!(upstream.only().header("x-agent-key").is_empty());
}

#[tokio::test]
async fn the_agent_gets_end_to_end_headers_only() {
    let upstream = Upstream::start(|_| {
        vec![send(
            "HTTP/1.1 201 Created\r\nconnection: x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\n\
             alt-svc: h3=\":443\"\r\nholdpoint-replayed: true\r\nx-request-id: r1\r\n\
             set-cookie: a=1\r\nset-cookie: b=2\r\netag: \"e\"\r\n\
             content-type: application/json\r\ncontent-length: 9\r\n\r\n{\"a\":\"b\"}",
        )]
    })
    .await;
    let rig = Rig::before(&upstream.url(), "").await;
    let answer = rig.ask(request("GET", "/shop/orders/1", &[], "")).await;
    assert_eq!((answer.status, answer.text()), (201, "{\"a\":\"b\"}"));
    assert_eq!(answer.header("x-request-id"), Some("r1"));
    assert_eq!(answer.header("etag"), Some("\"e\""));
    assert_eq!(answer.head.matches("set-cookie").count(), 2);
    for gone in ["x-hop", "keep-alive", "alt-svc", "holdpoint-replayed"] {
        assert_eq!(answer.header(gone), None, "{gone}");
    }
}

#[tokio::test]
async fn heads_that_two_readers_take_apart_are_refused() {
    let (upstream, rig) = pair().await;
    let post = "POST /shop/send HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n";
    for (raw, code) in [
        (
            format!(
                "{post}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
            ),
            "framing_invalid",
        ),
        (
            format!(
                "{post}transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
            ),
            "framing_invalid",
        ),
        (
            format!("{post}transfer-encoding: gzip, chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"),
            "framing_invalid",
        ),
        (
            format!("{post}host: b\r\ncontent-length: 2\r\n\r\n{{}}"),
            "host_invalid",
        ),
        (
            "POST /shop/send HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
            "host_invalid",
        ),
        (
            "GET http://other/shop/orders/1 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".to_owned(),
            "host_invalid",
        ),
        (
            format!("{post}content-type: text/plain\r\ncontent-length: 2\r\n\r\n{{}}"),
            "header_duplicate",
        ),
        (
            format!("{post}connection: authorization\r\ncontent-length: 2\r\n\r\n{{}}"),
            "connection_invalid",
        ),
    ] {
        let mut client = Client::connect(rig.agents()).await;
        client.send(&raw).await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, code),
            "{raw}"
        );
        assert_eq!(answer.header("x-should-retry"), Some("false"));
    }
    for raw in [
        format!("{post}transfer-encoding: gzip\r\n\r\n"),
        format!("{post}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}"),
        format!("{post}content-length: +2\r\n\r\n{{}}"),
        format!("{post}transfer-encoding : chunked\r\n\r\n0\r\n\r\n"),
        format!("{post} folded: 1\r\n\r\n"),
    ] {
        let mut client = Client::connect(rig.agents()).await;
        client.send(&raw).await;
        assert_eq!(client.answer().await.status, 400, "{raw}");
    }
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn nothing_after_a_request_with_two_framings_is_read() {
    let (upstream, rig) = pair().await;
    let mut client = Client::connect(rig.agents()).await;
    client
        .send(
            "POST /shop/send HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 60\r\ntransfer-encoding: chunked\r\n\r\n\
             0\r\n\r\nGET /shop/orders/smuggled HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        )
        .await;
    assert_eq!(client.answer().await.status, 400);
    assert!(client.ended().await);
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let upstream =
        Upstream::start(|request| json(&format!("{{\"target\":\"{}\"}}", request.target()))).await;
    let rig = Rig::before(&upstream.url(), "").await;
    let mut client = Client::connect(rig.agents()).await;
    let mut both = request(
        "POST",
        "/shop/send",
        &[],
        "{\"url\": \"GET / HTTP/1.1\\r\\n\"}",
    );
    both.extend(request("GET", "/shop/orders/2", &[], ""));
    client.send(both).await;
    let first = client.answer().await.json();
    let second = client.answer().await.json();
    assert_eq!(first["target"], "POST /send");
    assert_eq!(second["target"], "GET /orders/2");
}

#[tokio::test]
async fn a_loop_is_told() {
    // The upstream gives back what it was sent, so the request comes again with the proxy's own mark.
    let (upstream, rig) = pair().await;
    rig.ask(request("GET", "/shop/orders/1", &[], "")).await;
    let via = upstream.only().header("via")[0].to_owned();
    let headers = [("via", via.as_str())];
    let again = rig
        .ask(request("GET", "/shop/orders/1", &headers, ""))
        .await;
    assert_eq!(
        (again.status, again.code().as_str()),
        (400, "loop_detected")
    );
}

#[tokio::test]
async fn request_trailers_stay_behind() {
    let (upstream, rig) = pair().await;
    let answer = rig
        .ask(
            "POST /shop/send HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
             transfer-encoding: chunked\r\ntrailer: authorization\r\n\r\n\
             2\r\n{}\r\n0\r\nauthorization: Bearer stolen\r\n\r\n",
        )
        .await;
    assert_eq!(answer.status, 200);
    let got = upstream.only();
    assert_eq!(got.text(), "{}");
    assert_eq!(got.header("content-length"), ["2"]);
    assert!(!got.head.contains("stolen") && got.header("trailer").is_empty());
}

#[tokio::test]
async fn paths_that_two_readers_take_apart_are_refused() {
    let (upstream, rig) = pair().await;
    for (path, status, code) in [
        ("/shop/orders/..%2fadmin", 400, "path_invalid"),
        ("/shop/orders/../send", 400, "path_invalid"),
        ("/shop/%2e%2e/openai/v1/models", 400, "path_invalid"),
        ("/shop/orders/a%00", 400, "path_invalid"),
        ("/shopping/orders/1", 404, "route_unknown"),
        ("/", 404, "route_unknown"),
        ("/shop/unknown", 404, "endpoint_unknown"),
        ("/openai/v1/embeddings", 404, "endpoint_unknown"),
    ] {
        let refused = rig.ask(request("GET", path, &[], "")).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (status, code),
            "{path}"
        );
    }
    assert!(upstream.received().is_empty());
    let answer = rig
        .ask(request("GET", "//shop//orders/%61%2Db%20c", &[], ""))
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(upstream.only().target(), "GET /orders/a-b%20c");
}

#[tokio::test]
async fn an_upstream_that_switches_protocols_is_no_answer() {
    let upstream = Upstream::start(|_| {
        vec![
            send("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
            Step::Hang,
        ]
    })
    .await;
    let rig = Rig::before(&upstream.url(), "").await;
    let answer = rig.ask(request("GET", "/shop/orders/1", &[], "")).await;
    assert_eq!(answer.status, 502);
}

#[tokio::test]
async fn websocket_is_refused_so_that_clients_fall_back_and_other_offers_are_passed_over() {
    let (upstream, rig) = pair().await;
    let ask = async |upgrade: &'static str| {
        let headers = [("connection", "Upgrade"), ("upgrade", upgrade)];
        rig.ask(request("GET", "/shop/orders/1", &headers, ""))
            .await
    };
    for upgrade in ["websocket", "WebSocket", "h2c, websocket"] {
        let answer = ask(upgrade).await;
        assert_eq!(answer.status, 426, "{answer:?}");
        assert_eq!(answer.header("upgrade"), Some("HTTP/1.1"));
        assert!(answer.text().contains("upgrade_unsupported"), "{answer:?}");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
    }
    assert_eq!(ask("h2c").await.status, 200);
    assert_eq!(upstream.only().header("upgrade"), [""; 0]);
}
