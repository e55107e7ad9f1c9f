//! Clients that take nothing of their answers, and clients that come too many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::http2::{at, post, speak};
use crate::streams::{ASK, CHAT, chat, text};
use crate::support::client::{Client, request};
use crate::support::rig::Rig;
use crate::support::upstream::{EVENTS, Gate, Step, Upstream, chunk, json, send};

/// An upstream that streams for as long as somebody takes it.
pub struct Flood {
    pub url: String,
    /// Bytes that were taken.
    pub sent: Arc<AtomicUsize>,
    /// One permit for each request that was dropped.
    pub gone: Gate,
}

pub async fn flood() -> Flood {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sent, gone) = (Arc::<AtomicUsize>::default(), Gate::default());
    let (counter, dropped) = (Arc::clone(&sent), gone.clone());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await.unwrap();
            stream.write_all(EVENTS.as_bytes()).await.unwrap();
            let event = text(&"x".repeat(64 << 10));
            let piece = format!("{:x}\r\n{event}\r\n", event.len());
            while stream.write_all(piece.as_bytes()).await.is_ok() {
                counter.fetch_add(piece.len(), Ordering::SeqCst);
            }
            dropped.open();
        }
    });
    Flood { url, sent, gone }
}

/// Asks until there is a place.
async fn is_let_in(rig: &Rig) {
    loop {
        let answer = rig.ask(request("GET", "/shop/unknown", &[], "")).await;
        if answer.status == 404 {
            return;
        }
        assert_eq!(answer.code(), "overloaded");
        tokio::task::yield_now().await;
    }
}

const IMPATIENT: &str = "limits: {concurrency: 1}\ntimeouts: {client_idle: 100ms}";

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_place_and_its_connection() {
    let flood = flood().await;
    let rig = Rig::before(&flood.url, IMPATIENT).await;
    let mut client = chat(&rig).await;
    // Its socket is open, and nobody reads from it.
    flood.gone.pass().await;
    is_let_in(&rig).await;
    let rest = client.rest().await;
    assert!(!rest.ends_with("\r\n0\r\n\r\n"), "a cut answer looks whole");
    let scrape = rig.scrape().await;
    assert!(scrape.contains("holdpoint_stalled_clients_total 1\n"));
}

#[tokio::test]
async fn a_stream_of_http_2_that_is_not_read_is_dropped_alone() {
    let flood = flood().await;
    let more = format!("listen: {{h2c: true}}\n{IMPATIENT}");
    let rig = Rig::before(&flood.url, &more).await;
    let mut sender = speak(TcpStream::connect(rig.agents()).await.unwrap()).await;
    let answer = sender.send_request(post(&at(CHAT), ASK)).await.unwrap();
    assert_eq!(answer.status(), 200);
    // Its window is full, and nobody makes room.
    flood.gone.pass().await;
    is_let_in(&rig).await;
    assert!(answer.into_body().collect().await.is_err());
    let other = sender.send_request(post(&at("/shop/unknown"), "{}")).await;
    assert_eq!(other.unwrap().status(), 404, "the connection lives");
    let scrape = rig.scrape().await;
    assert!(scrape.contains("holdpoint_stalled_clients_total 1\n"));
}

#[tokio::test]
async fn connections_above_a_limit_are_closed_and_a_closed_one_makes_room() {
    for (limit, name) in [
        ("{connections: 2}", "connections"),
        (
            "{connections: 9, connections_per_address: 2}",
            "connections_per_address",
        ),
    ] {
        let upstream = Upstream::start(|_| json("{}")).await;
        let rig = Rig::before(&upstream.url(), &format!("limits: {limit}")).await;
        let mut one = Client::connect(rig.agents()).await;
        let _two = Client::connect(rig.agents()).await;
        assert!(Client::connect(rig.agents()).await.ended().await, "{limit}");
        let scrape = rig.scrape().await;
        let refused = format!("holdpoint_connections_refused_total{{limit=\"{name}\"}} 1\n");
        assert!(scrape.contains(&refused), "{scrape}");
        assert!(scrape.contains("holdpoint_connections 2\n"), "{scrape}");
        one.send(request("GET", "/shop/orders/1", &[], "")).await;
        assert_eq!(one.answer().await.status, 200, "who is in stays in");
        drop(one);
        loop {
            let mut late = Client::connect(rig.agents()).await;
            if late
                .is_answered(request("GET", "/shop/unknown", &[], ""))
                .await
            {
                break;
            }
        }
    }
}

#[tokio::test]
async fn what_streams_hold_counts_as_memory_and_is_given_back() {
    let gate = Gate::default();
    let wait = gate.clone();
    let upstream = Upstream::start(move |received| {
        if received.target() == "POST /send" {
            return json("{}");
        }
        // An event that does not end.
        let begun = format!("data: {}", "x".repeat(60 << 10));
        vec![
            send(EVENTS),
            chunk(begun),
            Step::Wait(wait.clone()),
            Step::Close,
        ]
    })
    .await;
    let limits = "limits: {request_body: 64KiB, response_body: 64KiB, memory: 128KiB}";
    let rig = Rig::before(&upstream.url(), limits).await;
    let text = format!("{{\"text\":\"{}\"}}", "y".repeat(20 << 10));
    let ask = || rig.ask(request("POST", "/shop/send", &[], &text));
    assert_eq!(ask().await.status, 200);
    let (_one, _two) = (chat(&rig).await, chat(&rig).await);
    loop {
        let answer = ask().await;
        if answer.status == 503 {
            assert_eq!(answer.code(), "memory_exhausted");
            break;
        }
    }
    gate.open();
    gate.open();
    while ask().await.status != 200 {
        tokio::task::yield_now().await;
    }
}
