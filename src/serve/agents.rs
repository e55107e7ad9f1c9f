//! The agents' listener: HTTP/1.1 and HTTP/2 in front of the proxy service, plain or in TLS.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::accept::{accept, drive};
use super::framing::{Heads, Watched};
use super::places::Places;
use super::sniff;
use super::taken::Taken;
use super::tls::{self, HTTP2};
use super::usage::{Patience, Usage};
use crate::identity::ClientNames;
use crate::proxy::{Body, BoxError, ProxyService, TwoFramings, Upstream};

/// Largest head in bytes.
pub(super) const HEAD_SIZE: usize = 64 << 10;

/// Requests at once on one connection of HTTP/2.
const STREAMS: u32 = 128;
/// Requests that a client has taken back before they were looked at; more end the connection (CVE-2023-44487).
const RESETS_AHEAD: usize = 16;
/// Requests that the server had to take back for a client's faults; more end the connection (CVE-2025-8671).
const RESETS_FOR_FAULTS: usize = 64;
/// Bytes of one answer that wait for a slow client; the upstream waits with it.
const SEND_BUFFER: usize = 64 << 10;
/// Between two signs of life that a client of HTTP/2 is asked for, and how long it has to give one.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// After so long without a request a connection of HTTP/2 is ended; one of HTTP/1.1 after `timeouts.request_head`.
const IDLE: Duration = Duration::from_mins(2);

/// What connections share.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) speech: Speech,
    /// For a whole head, for a TLS handshake, and for a connection of HTTP/1.1 without a request.
    pub(super) head: Duration,
    /// How long a client may take nothing of its answers.
    pub(super) patience: Patience,
    pub(super) places: Places,
    /// No new requests from then on.
    pub(super) stop: CancellationToken,
}

/// How agents may speak.
#[derive(Clone)]
pub(super) enum Speech {
    /// Plain HTTP/1.1, and HTTP/2 too where `h2c`.
    Plain { h2c: bool },
    /// TLS, with either HTTP.
    Tls(TlsAcceptor),
}

/// Accepts until the door stops, then lets every connection end its current requests. Dropped, it drops them all.
pub(super) async fn serve<U: Upstream>(
    listener: TcpListener,
    door: Door,
    service: ProxyService<U>,
) {
    let (stop, places) = (door.stop.clone(), door.places.clone());
    let connection = |stream| connection(stream, door.clone(), service.clone());
    accept(listener, stop, places, connection).await;
}

async fn connection<U: Upstream>(
    stream: TcpStream,
    door: Door,
    service: ProxyService<U>,
) -> Result<(), BoxError> {
    let patience = &door.patience;
    let stream = Taken::new(stream, patience.limit, Arc::clone(&patience.metrics));
    match &door.speech {
        Speech::Plain { h2c: false } => one(stream, door, service, None).await,
        Speech::Plain { h2c: true } => match door.in_time(sniff::is_http2(stream)).await? {
            (true, stream) => two(stream, door, service, None).await,
            (false, stream) => one(stream, door, service, None).await,
        },
        Speech::Tls(acceptor) => {
            let stream = door.in_time(acceptor.accept(stream)).await?;
            let names = tls::names(&stream);
            if stream.get_ref().1.alpn_protocol() == Some(HTTP2) {
                two(stream, door, service, names).await
            } else {
                one(stream, door, service, names).await
            }
        }
    }
}

impl Door {
    /// What comes before the first request.
    pub(super) async fn in_time<T>(
        &self,
        opening: impl Future<Output = io::Result<T>>,
    ) -> Result<T, BoxError> {
        tokio::select! {
            opened = timeout(self.head, opening) => Ok(opened??),
            () = self.stop.cancelled() => Err("the server stops".into()),
        }
    }
}

/// HTTP/1.1.
async fn one<U: Upstream>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    door: Door,
    service: ProxyService<U>,
    names: Option<Arc<ClientNames>>,
) -> Result<(), BoxError> {
    let (stream, heads) = Watched::new(stream);
    let version = Version::One(heads);
    let connected = Connected {
        service,
        version,
        names,
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(door.head)
        .max_header_size(HEAD_SIZE)
        .serve_connection(TokioIo::new(stream), connected);
    let end = http1::Connection::graceful_shutdown;
    let idle = std::future::pending();
    drive(connection, end, door.stop, idle, door.patience.limit).await
}

/// HTTP/2.
async fn two<U: Upstream>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    door: Door,
    service: ProxyService<U>,
    names: Option<Arc<ClientNames>>,
) -> Result<(), BoxError> {
    let usage = Usage::default();
    let patience = door.patience.clone();
    let limit = patience.limit;
    let version = Version::Two(usage.clone(), patience);
    let connected = Connected {
        service,
        version,
        names,
    };
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(HEAD_SIZE).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(RESETS_AHEAD)
        .max_local_error_reset_streams(RESETS_FOR_FAULTS)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .serve_connection(TokioIo::new(stream), connected);
    let end = http2::Connection::graceful_shutdown;
    drive(connection, end, door.stop, usage.idle(IDLE), limit).await
}

struct Connected<U> {
    service: ProxyService<U>,
    version: Version,
    /// Of the certificate that the client has shown.
    names: Option<Arc<ClientNames>>,
}

enum Version {
    /// What was seen of the heads.
    One(Heads),
    /// There is one framing, its own; and a connection ends when it is idle.
    Two(Usage, Patience),
}

impl<U: Upstream> Service<http::Request<Incoming>> for Connected<U> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let mut request = request.map(|body| body.map_err(BoxError::from).boxed_unsync());
        if let Some(names) = &self.names {
            request.extensions_mut().insert(Arc::clone(names));
        }
        let mut service = self.service.clone();
        match &self.version {
            Version::One(heads) => {
                if !heads.next_is_plain() {
                    request.extensions_mut().insert(TwoFramings);
                }
                service.call(request)
            }
            Version::Two(usage, patience) => {
                let used = usage.begin();
                let patience = patience.clone();
                let answering = service.call(request);
                Box::pin(async move {
                    let response = answering.await?;
                    Ok(response.map(|body| used.until_end_of(body, patience)))
                })
            }
        }
    }
}
