//! HTTP/2 at the agents' listener: the same service, the same refusals, streams that end as they should.

use bytes::Bytes;
use http::{HeaderMap, Request, Version};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::streams::{ASK, CHAT, gated, text};
use crate::support::client::{Client, request};
use crate::support::rig::Rig;
use crate::support::upstream::{EVENTS, Step, Upstream, chunk, json, send};

type Body = http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>;

const H2C: &str = "listen: {h2c: true}";

/// HTTP/2 over any connection.
pub async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> SendRequest<Body> {
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

pub fn get(target: &str) -> Request<Body> {
    Request::get(target)
        .body(Full::new(Bytes::new()).boxed())
        .unwrap()
}

pub fn post(target: &str, body: &'static str) -> Request<Body> {
    Request::post(target)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from_static(body.as_bytes())).boxed())
        .unwrap()
}

async fn plain(rig: &Rig) -> SendRequest<Body> {
    speak(TcpStream::connect(rig.agents()).await.unwrap()).await
}

async fn code(answer: http::Response<Incoming>) -> (u16, String) {
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let code = json["error"]["code"].as_str().or(json["error"].as_str());
    (status, code.unwrap_or_default().to_owned())
}

pub fn at(path: &str) -> String {
    format!("http://localhost{path}")
}

#[tokio::test]
async fn with_h2c_one_port_speaks_both() {
    let upstream = Upstream::start(|_| json("{\"order\":1}")).await;
    let rig = Rig::before(&upstream.url(), H2C).await;
    let mut sender = plain(&rig).await;
    for _ in 0..2 {
        let answer = sender
            .send_request(get(&at("/shop/orders/1")))
            .await
            .unwrap();
        assert_eq!(
            (answer.status().as_u16(), answer.version()),
            (200, Version::HTTP_2)
        );
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(&body[..], b"{\"order\":1}");
    }
    let answer = rig.ask(request("GET", "/shop/orders/1", &[], "")).await;
    assert_eq!(answer.status, 200);
    // One byte at a time, both beginnings alike at first.
    let mut client = Client::connect(rig.agents()).await;
    for byte in request("POST", "/shop/send", &[], "{}") {
        client.send([byte]).await;
    }
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(upstream.received().len(), 4);
    assert_eq!(upstream.received()[0].target(), "GET /orders/1");
}

#[tokio::test]
async fn without_h2c_a_plain_connection_is_http_1() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::before(&upstream.url(), "").await;
    let stream = TcpStream::connect(rig.agents()).await.unwrap();
    let refused = match handshake(TokioExecutor::new(), TokioIo::new(stream)).await {
        Err(_) => true,
        Ok((mut sender, connection)) => {
            tokio::spawn(connection);
            sender
                .send_request(get(&at("/shop/orders/1")))
                .await
                .is_err()
        }
    };
    assert!(refused);
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn the_same_heads_are_refused_as_over_http_1() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::before(&upstream.url(), H2C).await;
    let mut sender = plain(&rig).await;
    let with = |target: &str, name: &'static str, values: &[&'static str]| {
        let mut request = get(target);
        for value in values {
            request.headers_mut().append(name, value.parse().unwrap());
        }
        request
    };
    let shop = at("/shop/orders/1");
    let long: &'static str = Box::leak("v".repeat(17 << 10).into_boxed_str());
    for (request, expected) in [
        (with(&shop, "host", &["other"]), (400, "host_invalid")),
        (
            with(&shop, "host", &["localhost", "localhost"]),
            (400, "host_invalid"),
        ),
        (
            get("http://evil.example/shop/orders/1"),
            (403, "host_refused"),
        ),
        (
            with(&shop, "origin", &["https://evil.example"]),
            (403, "origin_refused"),
        ),
        (
            with(&shop, "mcp-name", &["a", "b"]),
            (400, "header_duplicate"),
        ),
        (with(&shop, "x-long", &[long]), (431, "headers_too_large")),
        (get(&at("/shop/orders/..%2f1")), (400, "path_invalid")),
        (
            {
                let mut request = post(&at("/openai/v1/models"), "{}");
                *request.method_mut() = http::Method::GET;
                request
            },
            (400, "body_unexpected"),
        ),
    ] {
        let shown = format!("{request:?}");
        let answer = sender.send_request(request).await.unwrap();
        let (status, code) = code(answer).await;
        assert_eq!((status, code.as_str()), expected, "{shown}");
    }
    assert!(upstream.received().is_empty());
    let equal = with(&shop, "host", &["LOCALHOST"]);
    assert_eq!(sender.send_request(equal).await.unwrap().status(), 200);
}

#[tokio::test]
async fn request_trailers_stay_behind() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::before(&upstream.url(), H2C).await;
    let mut trailers = HeaderMap::new();
    trailers.insert("authorization", "Bearer stolen".parse().unwrap());
    let frames = [
        Frame::data(Bytes::from_static(b"{}")),
        Frame::trailers(trailers),
    ];
    let frames = frames.map(Ok::<_, std::convert::Infallible>);
    let mut request = post(&at("/shop/send"), "");
    *request.body_mut() = StreamBody::new(futures_util::stream::iter(frames)).boxed();
    let answer = plain(&rig).await.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    let got = upstream.only();
    assert_eq!(
        (got.text(), got.header("content-length")),
        ("{}", vec!["2"])
    );
    assert!(!got.head.contains("stolen"));
}

/// Whether what is left is blank and ends as it should.
async fn ends(body: Incoming) -> bool {
    let rest = body.collect().await.unwrap().to_bytes();
    rest.trim_ascii().is_empty()
}

async fn until(body: &mut Incoming, text: &str) {
    let mut seen = String::new();
    while !seen.contains(text) {
        let frame = body.frame().await.unwrap().unwrap();
        seen.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
}

#[tokio::test]
async fn events_flow_one_by_one_beside_other_requests() {
    let (upstream, gate) = gated().await;
    let rig = Rig::before(&upstream.url(), H2C).await;
    let mut sender = plain(&rig).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let answer = sender.send_request(post(&at(CHAT), ASK)).await.unwrap();
        let mut body = answer.into_body();
        until(&mut body, "one").await;
        streams.push(body);
    }
    for mut body in streams {
        gate.open();
        until(&mut body, "[DONE]").await;
        assert!(ends(body).await);
    }
}

#[tokio::test]
async fn a_cut_stream_is_cut_for_the_client_too() {
    let upstream = Upstream::start(|_| vec![send(EVENTS), chunk(text("one")), Step::Close]).await;
    let rig = Rig::before(&upstream.url(), H2C).await;
    let mut sender = plain(&rig).await;
    let answer = sender.send_request(post(&at(CHAT), ASK)).await.unwrap();
    let mut body = answer.into_body();
    until(&mut body, "one").await;
    assert!(
        body.collect().await.is_err(),
        "a cut stream must not end cleanly"
    );
}

#[tokio::test]
async fn a_stream_that_its_client_leaves_ends_the_upstreams_request() {
    let upstream = Upstream::start(|request| match request.target() {
        "POST /base/v1/chat/completions" => vec![send(EVENTS), chunk(text("one")), Step::Hang],
        _ => vec![Step::Hang],
    })
    .await;
    let rig = Rig::before(&upstream.url(), H2C).await;
    let mut sender = plain(&rig).await;
    let answer = sender.send_request(post(&at(CHAT), ASK)).await.unwrap();
    let mut body = answer.into_body();
    until(&mut body, "one").await;
    drop(body);
    upstream.gone.pass().await;

    // Also before the head of the answer, with the connection open.
    let waiting = tokio::spawn(sender.send_request(get(&at("/shop/orders/1"))));
    while upstream.received().len() < 2 {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    upstream.gone.pass().await;
}

#[tokio::test]
async fn a_shutdown_lets_requests_end_and_ends_idle_connections() {
    let (upstream, gate) = gated().await;
    let mut rig = Rig::before(&upstream.url(), H2C).await;
    let mut sender = plain(&rig).await;
    let mut idle = plain(&rig).await;
    idle.ready().await.unwrap();
    let answer = sender.send_request(post(&at(CHAT), ASK)).await.unwrap();
    let mut body = answer.into_body();
    until(&mut body, "one").await;
    let shutdown = tokio::spawn(rig.take().shutdown());
    while !idle.is_closed() {
        tokio::task::yield_now().await;
    }
    assert!(!shutdown.is_finished());
    gate.open();
    until(&mut body, "[DONE]").await;
    assert!(ends(body).await);
    assert_eq!(shutdown.await.unwrap(), holdpoint::serve::Drained::Whole);
}
