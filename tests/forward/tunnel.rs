//! `CONNECT`: TLS for the very name that was asked for, or nothing.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::hello::hello;
use crate::world::{Echo, Keeper, POLICY, PUBLIC, Rig};

/// A fatal alert `access_denied`, and `internal_error`, as a client gets them.
const DENIED: &[u8] = &[21, 3, 3, 0, 2, 2, 49];
const FAILED: &[u8] = &[21, 3, 3, 0, 2, 2, 80];

/// The rest of a connection.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    rest
}

#[tokio::test]
async fn a_tunnel_carries_tls_to_the_name_it_was_asked_for() {
    let rig = Rig::start(POLICY, "").await;
    let echo = Echo::start("pay.shop.test").await;
    rig.world.place(&format!("{PUBLIC}:443"), echo.address);
    let stream = rig.tunnel("pay.shop.test:443").await;
    let mut stream = echo.speak(stream, "pay.shop.test").await.unwrap();
    let said = "x".repeat(300_000);
    let (mut reads, mut writes) = tokio::io::split(&mut stream);
    let writing = async {
        writes.write_all(said.as_bytes()).await.unwrap();
        // The end of one side is passed on, and the other goes on.
        writes.shutdown().await.unwrap();
    };
    let mut heard = String::new();
    let (read, ()) = tokio::join!(reads.read_to_string(&mut heard), writing);
    read.unwrap();
    assert_eq!(heard, said);
    assert_eq!(rig.world.asked(), ["pay.shop.test"]);
    assert_eq!(rig.world.dialled(), [format!("{PUBLIC}:443")]);
    drop(stream);
    let passed = "holdpoint_unscanned_bytes_total{reason=\"tunnel\",route=\"forward\"}";
    assert!(rig.count(passed).await > 600_000);
    let ended =
        "holdpoint_requests_total{protocol=\"forward_proxy\",route=\"forward\",status=\"2xx\"}";
    while rig.count(ended).await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.count("holdpoint_in_flight").await, 0);
}

#[tokio::test]
async fn a_tunnel_for_another_name_is_never_dialled() {
    let rig = Rig::start(POLICY, "").await;
    let peer = Keeper::start().await;
    rig.world.place(&format!("{PUBLIC}:443"), peer.address);
    for (first, told) in [
        (hello("attacker.test", true), DENIED),
        (hello("a.pay.shop.test", true), DENIED),
        (hello("pay.shop.test", false), DENIED),
        (
            b"GET / HTTP/1.1\r\nhost: pay.shop.test\r\n\r\n".to_vec(),
            b"",
        ),
        (b"SSH-2.0-x\r\n".to_vec(), b""),
    ] {
        let mut stream = rig.tunnel("pay.shop.test:443").await;
        stream.write_all(&first).await.unwrap();
        assert_eq!(rest(&mut stream).await, told);
    }
    // Each was looked up and checked before its first byte, none was dialled.
    assert_eq!(rig.world.asked().len(), 5);
    assert!(rig.world.dialled().is_empty());
    assert_eq!(rig.refusals("tunnel_refused").await, 5);
    let said = "holdpoint_verdicts_total{layer=\"egress\",mode=\"enforce\",verdict=\"deny\"}";
    assert_eq!(rig.count(said).await, 5);
}

#[tokio::test]
async fn a_hello_may_come_slowly_and_in_many_records() {
    let rig = Rig::start(POLICY, "").await;
    let hello = hello("pay.shop.test", true);
    let records: Vec<u8> = hello[5..]
        .chunks(40)
        .flat_map(|piece| {
            let length = u16::try_from(piece.len()).unwrap().to_be_bytes();
            [&[22, 3, 1][..], &length, piece].concat()
        })
        .collect();
    for bytes in [hello, records] {
        let peer = Keeper::start().await;
        rig.world.place(&format!("{PUBLIC}:443"), peer.address);
        let mut stream = rig.tunnel("pay.shop.test:443").await;
        for byte in &bytes {
            stream.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        peer.gets(&bytes).await;
    }
}

#[tokio::test]
async fn a_hello_sent_along_with_the_head_is_not_lost() {
    let rig = Rig::start(POLICY, "").await;
    let peer = Keeper::start().await;
    rig.world.place(&format!("{PUBLIC}:443"), peer.address);
    let hello = hello("pay.shop.test", true);
    let mut stream = TcpStream::connect(rig.forward()).await.unwrap();
    let head = b"CONNECT pay.shop.test:443 HTTP/1.1\r\nhost: pay.shop.test:443\r\n\r\n";
    stream
        .write_all(&[head, &hello[..]].concat())
        .await
        .unwrap();
    peer.gets(&hello).await;
}

#[tokio::test]
async fn a_tunnel_that_says_nothing_is_closed() {
    let rig = Rig::start(POLICY, "timeouts: {request_head: 50ms}").await;
    let mut stream = rig.tunnel("pay.shop.test:443").await;
    let hello = hello("pay.shop.test", true);
    stream.write_all(&hello[..hello.len() - 1]).await.unwrap();
    assert_eq!(rest(&mut stream).await, b"");
    rig.refused("tunnel_stalled").await;
    assert!(rig.world.dialled().is_empty());
}

#[tokio::test]
async fn a_peer_that_is_not_there_is_told_and_counted() {
    let rig = Rig::start(POLICY, "").await;
    let mut stream = rig.tunnel("pay.shop.test:443").await;
    stream
        .write_all(&hello("pay.shop.test", true))
        .await
        .unwrap();
    assert_eq!(rest(&mut stream).await, FAILED);
    rig.refused("upstream_unreachable").await;
    let fault = "holdpoint_upstream_errors_total{kind=\"connect\",upstream=\"forward\"}";
    assert_eq!(rig.count(fault).await, 1);
}

#[tokio::test]
async fn a_connect_may_be_of_http_1_0_or_name_its_host_without_the_port() {
    let rig = Rig::start(POLICY, "").await;
    for head in [
        "CONNECT pay.shop.test:443 HTTP/1.0\r\n\r\n",
        "CONNECT pay.shop.test:443 HTTP/1.1\r\nhost: pay.shop.test\r\n\r\n",
        "CONNECT Pay.Shop.Test:443 HTTP/1.1\r\nhost: pay.shop.test:443\r\n\r\n",
    ] {
        let (answer, _stream) = rig.connect_with(head).await;
        assert!(answer.contains(" 200 "), "{head}: {answer}");
    }
}
