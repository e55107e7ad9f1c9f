//! Limits, idle tunnels and the end of the server.

use std::sync::Arc;

use holdpoint::serve::Drained;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::world::{Echo, POLICY, PUBLIC, Rig};

async fn open(rig: &Rig, echo: &Echo) -> TlsStream<TcpStream> {
    rig.world.place(&format!("{PUBLIC}:443"), echo.address);
    let stream = rig.tunnel("pay.shop.test:443").await;
    echo.speak(stream, "pay.shop.test").await.unwrap()
}

async fn echoes(stream: &mut TlsStream<TcpStream>) {
    stream.write_all(b"ping").await.unwrap();
    let mut heard = [0; 4];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"ping");
}

#[tokio::test]
async fn a_tunnel_takes_its_place_until_it_ends() {
    let rig = Rig::start(POLICY, "limits: {concurrency: 1}").await;
    let echo = Echo::start("pay.shop.test").await;
    let mut stream = open(&rig, &echo).await;
    let refusal = rig.refusal("pay.shop.test:443").await;
    assert_eq!(refusal, (503, "overloaded".to_owned()));
    echoes(&mut stream).await;
    drop(stream);
    loop {
        let (head, _) = rig.connect("pay.shop.test:443").await;
        if head.starts_with("HTTP/1.1 200") {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_silent_tunnel_is_closed() {
    let rig = Rig::start(POLICY, "timeouts: {idle: 200ms}").await;
    let echo = Echo::start("pay.shop.test").await;
    let mut stream = open(&rig, &echo).await;
    echoes(&mut stream).await;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
    let idle = "holdpoint_upstream_errors_total{kind=\"idle\",upstream=\"forward\"}";
    while rig.count(idle).await == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_shutdown_lets_a_tunnel_end_and_takes_nothing_new() {
    let mut rig = Rig::start(POLICY, "").await;
    let echo = Echo::start("pay.shop.test").await;
    let mut stream = open(&rig, &echo).await;
    let forward = rig.forward();
    // A tunnel that has not begun has nothing to end.
    let mut begun = rig.tunnel("pay.shop.test:443").await;
    let shutdown = tokio::spawn(rig.take().shutdown());
    while TcpStream::connect(forward).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(begun.read(&mut [0]).await.unwrap_or(0), 0);
    assert!(!shutdown.is_finished());
    echoes(&mut stream).await;
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(shutdown.await.unwrap(), Drained::Whole);
}

#[tokio::test]
async fn a_tunnel_that_does_not_end_is_cut_when_the_time_is_up() {
    let mut rig = Rig::start(POLICY, "timeouts: {drain: 20ms}").await;
    let echo = Echo::start("pay.shop.test").await;
    let mut stream = open(&rig, &echo).await;
    echoes(&mut stream).await;
    assert_eq!(rig.take().shutdown().await, Drained::Cut);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_client_that_checks_the_peer_gets_the_peers_own_certificate() {
    let rig = Rig::start(POLICY, "").await;
    let (right, wrong) = (
        Echo::start("pay.shop.test").await,
        Echo::start("pay.shop.test").await,
    );
    rig.world.place(&format!("{PUBLIC}:443"), wrong.address);
    let stream = rig.tunnel("pay.shop.test:443").await;
    // Nothing is intercepted: another authority's certificate does not pass for the right one's.
    let config = right.client(|_| {});
    let name = ServerName::try_from("pay.shop.test").unwrap();
    let spoken = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await;
    assert!(spoken.is_err());
}
