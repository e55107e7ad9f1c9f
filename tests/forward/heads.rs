//! Heads that two readers may take for different requests, and who asks.

use data_encoding::BASE64;

use crate::support::client::Client;
use crate::support::upstream::{Upstream, json};
use crate::world::{POLICY, PUBLIC, Rig};

#[tokio::test]
async fn what_is_ambiguous_or_no_proxys_request_is_refused() {
    let rig = Rig::start(POLICY, "").await;
    let connect = |more: &str| format!("CONNECT pay.shop.test:443 HTTP/1.1\r\n{more}\r\n");
    let get = |more: &str| format!("GET http://plain.shop.test/ HTTP/1.1\r\n{more}\r\n");
    let host = "host: plain.shop.test\r\n";
    for (head, code) in [
        (connect(""), "host_invalid"),
        (connect("host: attacker.test:443\r\n"), "host_invalid"),
        (connect("host: pay.shop.test:8443\r\n"), "host_invalid"),
        (
            connect("host: pay.shop.test:443\r\nhost: pay.shop.test:443\r\n"),
            "host_invalid",
        ),
        (
            connect("host: pay.shop.test:443\r\ncontent-length: 3\r\n"),
            "framing_invalid",
        ),
        (
            connect("host: pay.shop.test:443\r\ntransfer-encoding: chunked\r\n"),
            "framing_invalid",
        ),
        (
            "CONNECT pay.shop.test HTTP/1.1\r\nhost: pay.shop.test\r\n\r\n".to_owned(),
            "proxy_form_invalid",
        ),
        (
            "CONNECT u@pay.shop.test:443 HTTP/1.1\r\nhost: pay.shop.test:443\r\n\r\n".to_owned(),
            "proxy_form_invalid",
        ),
        (
            "CONNECT http://pay.shop.test:443/ HTTP/1.1\r\nhost: pay.shop.test:443\r\n\r\n"
                .to_owned(),
            "proxy_form_invalid",
        ),
        (get("host: attacker.test\r\n"), "host_invalid"),
        (get("host: plain.shop.test:8080\r\n"), "host_invalid"),
        (get(""), "host_invalid"),
        (get(&format!("{host}{host}")), "host_invalid"),
        (
            get(&format!("{host}content-length: 1\r\ncontent-length: 1\r\n")),
            "framing_invalid",
        ),
        (
            get(&format!(
                "{host}content-length: 0\r\ntransfer-encoding: chunked\r\n"
            )),
            "framing_invalid",
        ),
        (
            get(&format!("{host}transfer-encoding: gzip, chunked\r\n")),
            "framing_invalid",
        ),
        (
            get(&format!("{host}connection: host\r\n")),
            "connection_invalid",
        ),
        (
            get(&format!(
                "{host}upgrade: websocket\r\nconnection: upgrade\r\n"
            )),
            "upgrade_unsupported",
        ),
        (
            get(&format!("{host}transfer-encoding: chunked\r\n")) + "1\r\na\r\n0\r\n\r\n",
            "body_unexpected",
        ),
        (
            format!("GET / HTTP/1.1\r\n{host}\r\n"),
            "proxy_form_invalid",
        ),
        (
            format!("GET https://plain.shop.test/ HTTP/1.1\r\n{host}\r\n"),
            "proxy_form_invalid",
        ),
        (
            format!("GET http://u:p@plain.shop.test/ HTTP/1.1\r\n{host}\r\n"),
            "proxy_form_invalid",
        ),
        (
            "OPTIONS * HTTP/1.1\r\nhost: plain.shop.test\r\n\r\n".to_owned(),
            "proxy_form_invalid",
        ),
    ] {
        let got = rig.ask(&head).await;
        assert_eq!(got.code(), code, "{head}");
        assert!(
            got.status < 430 && got.status >= 400,
            "{head}: {}",
            got.status
        );
    }
    assert!(rig.world.asked().is_empty());
    assert!(rig.world.dialled().is_empty());
}

#[tokio::test]
async fn what_comes_behind_a_refused_connect_is_no_request() {
    let rig = Rig::start(POLICY, "").await;
    let mut client = Client::connect(rig.forward()).await;
    client
        .send(
            "CONNECT attacker.test:443 HTTP/1.1\r\nhost: attacker.test:443\r\n\r\n\
             GET http://plain.shop.test/ HTTP/1.1\r\nhost: plain.shop.test\r\n\r\n",
        )
        .await;
    let answer = client.answer().await;
    assert_eq!(answer.code(), "host_not_allowed");
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(client.ended().await);
    assert!(rig.world.asked().is_empty());
}

#[tokio::test]
async fn a_request_that_comes_round_again_is_refused() {
    let rig = Rig::start(POLICY, "").await;
    let upstream = Upstream::start(|_| json("{}")).await;
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    rig.get("http://plain.shop.test/").await;
    let via = upstream.only().header("via")[0].to_owned();
    let again = format!(
        "GET http://plain.shop.test/ HTTP/1.1\r\nhost: plain.shop.test\r\nvia: {via}\r\n\r\n"
    );
    assert_eq!(rig.ask(again).await.code(), "loop_detected");
}

#[tokio::test]
async fn where_agents_have_keys_the_proxy_asks_for_one_and_keeps_it() {
    let principal = "principal: {api_keys: {header: authorization, keys: [{key_env: AGENT_KEY, tenant: t, subject: ann}]}}";
    let rig = Rig::start(POLICY, principal).await;
    let upstream = Upstream::start(|_| json("{}")).await;
    rig.world.place(&format!("{PUBLIC}:80"), upstream.address);
    let get = |more: &str| {
        format!("GET http://plain.shop.test/ HTTP/1.1\r\nhost: plain.shop.test\r\n{more}\r\n")
    };
    let basic = |pair: &str| {
        format!(
            "proxy-authorization: Basic {}\r\n",
            BASE64.encode(pair.as_bytes())
        )
    };
    for more in [
        String::new(),
        // The peer's credential is not the proxy's.
        "authorization: Bearer the-key-of-an-agent\r\n".to_owned(),
        "proxy-authorization: Bearer other\r\n".to_owned(),
        basic("agent:other"),
    ] {
        let got = rig.ask(get(&more)).await;
        assert_eq!(
            (got.status, &*got.code()),
            (407, "proxy_credential_unknown"),
            "{more}"
        );
        assert_eq!(
            got.header("proxy-authenticate"),
            Some("Basic realm=\"holdpoint\"")
        );
    }
    let (head, _) = rig.connect("pay.shop.test:443").await;
    assert!(head.starts_with("HTTP/1.1 407 "), "{head}");
    assert!(rig.world.asked().is_empty());
    for more in [
        "proxy-authorization: Bearer the-key-of-an-agent\r\nauthorization: Bearer peers\r\n"
            .to_owned(),
        basic("agent:the-key-of-an-agent") + "authorization: Bearer peers\r\n",
    ] {
        assert_eq!(rig.ask(get(&more)).await.status, 200, "{more}");
    }
    for received in upstream.received() {
        assert!(!received.head.contains("the-key"), "{}", received.head);
        assert!(received.header("proxy-authorization").is_empty());
        assert_eq!(received.header("authorization"), ["Bearer peers"]);
    }
    let tunnel = format!(
        "CONNECT pay.shop.test:443 HTTP/1.1\r\nhost: pay.shop.test:443\r\n{}\r\n",
        basic("agent:the-key-of-an-agent")
    );
    let (head, _stream) = rig.connect_with(&tunnel).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
}
