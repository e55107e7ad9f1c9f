//! The agents' listener: HTTP/1.1 in front of the proxy service.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::framing::{Heads, Watched};
use crate::proxy::{Body, BoxError, ProxyService, TwoFramings, Upstream};

/// For a whole head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest head in bytes.
const HEAD_SIZE: usize = 64 << 10;
/// After an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until `stop`, then lets every connection end its current request. Dropped, it drops them all.
pub(super) async fn serve<U: Upstream>(
    listener: TcpListener,
    service: ProxyService<U>,
    stop: CancellationToken,
) {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, service.clone(), &graceful));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
}

fn connection<U: Upstream>(
    stream: TcpStream,
    service: ProxyService<U>,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + use<U> {
    // Each event leaves at once.
    let _ = stream.set_nodelay(true);
    let (stream, heads) = Watched::new(stream);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(HEAD_SIZE)
        .serve_connection(TokioIo::new(stream), Connected { service, heads });
    let watched = graceful.watch(connection);
    async move {
        if let Err(error) = watched.await {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

struct Connected<U> {
    service: ProxyService<U>,
    heads: Heads,
}

impl<U: Upstream> Service<http::Request<Incoming>> for Connected<U> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let mut request = request.map(|body| body.map_err(BoxError::from).boxed_unsync());
        if !self.heads.next_is_plain() {
            request.extensions_mut().insert(TwoFramings);
        }
        self.service.clone().call(request)
    }
}
