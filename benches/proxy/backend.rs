//! A backend that answers at once from memory, and the bare proxy to compare with.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

use crate::{load, messages, support};

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// Accepts connections for as long as the process lives.
async fn serve<S, F>(listener: TcpListener, service: S)
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let service = service.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let answer = service(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            // A client that has gone away is the end of its connection, nothing more.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn failed() -> Response<Body> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

/// How long a paused stream stands still behind its first text.
const PAUSE: Duration = Duration::from_millis(2);

/// The bytes up to the end of the event with the first text, and the rest.
fn at_first_text(mut stream: Bytes) -> Option<[Bytes; 2]> {
    let end = {
        let text = std::str::from_utf8(&stream).ok()?;
        // Messages opens with two events, Chat Completions with one; then comes text.
        let events = if text.starts_with("event:") { 3 } else { 2 };
        text.match_indices("\n\n").nth(events - 1)?.0 + 2
    };
    let first = stream.split_to(end);
    Some([first, stream])
}

/// A body of both, with the pause between.
fn paused([first, rest]: [Bytes; 2]) -> Body {
    let pieces = stream::unfold(vec![rest, first], |mut left| async move {
        let piece = left.pop()?;
        if left.is_empty() {
            tokio::time::sleep(PAUSE).await;
        }
        Some((Ok(Frame::data(piece)), left))
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// Starts the backend: an 8 KB answer, or a stream of 200 events where the client accepts events.
pub async fn start() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("the backend cannot listen")?;
    let address = listener.local_addr()?;
    let whole = Bytes::from(support::chat_answer(8 << 10));
    let chat = Bytes::from(support::chat_stream(200));
    let messages = Bytes::from(messages::stream(200));
    tokio::spawn(serve(listener, move |request: Request<Incoming>| {
        let events = if request.uri().path() == "/v1/messages" {
            messages.clone()
        } else {
            chat.clone()
        };
        let whole = whole.clone();
        async move {
            let streamed = request.headers().get(header::ACCEPT)
                == Some(&HeaderValue::from_static("text/event-stream"));
            let pauses = request.headers().contains_key(load::PAUSE);
            let mut body = request.into_body();
            while let Some(Ok(_)) = body.frame().await {}
            let kind = if streamed {
                "text/event-stream"
            } else {
                "application/json"
            };
            let body = match streamed.then(|| events.clone()) {
                None => full(whole),
                Some(events) => match at_first_text(events.clone()) {
                    Some(halves) if pauses => paused(halves),
                    _ => full(events),
                },
            };
            let mut response = Response::new(body);
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            response
        }
    }));
    Ok(address)
}

/// The bare proxy: forwards heads and bytes, judges nothing. Runs until it is killed.
pub async fn passthru(listen: SocketAddr, backend: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen)
        .await
        .context("the bare proxy cannot listen")?;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Arc::new(Client::builder(TokioExecutor::new()).build::<_, Incoming>(connector));
    serve(listener, move |mut request: Request<Incoming>| {
        let client = Arc::clone(&client);
        async move {
            let path = request
                .uri()
                .path_and_query()
                .map_or("/", |path| path.as_str());
            let Ok(uri) = Uri::builder()
                .scheme("http")
                .authority(backend.to_string())
                .path_and_query(path)
                .build()
            else {
                return failed();
            };
            *request.uri_mut() = uri;
            request.headers_mut().remove(header::HOST);
            client.request(request).await.map_or_else(
                |_| failed(),
                |answer| answer.map(http_body_util::BodyExt::boxed_unsync),
            )
        }
    })
    .await;
    Ok(())
}
