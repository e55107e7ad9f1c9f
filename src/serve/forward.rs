//! The forward listener: HTTP/1.1 in front of the forward proxy, plain or in TLS, and its tunnels on the connections that they began on.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use super::accept::{accept, drive};
use super::agents::{Door, HEAD_SIZE, Speech};
use super::framing::{Heads, Watched};
use super::taken::Taken;
use super::tls;
use crate::forward::{ForwardProxy, Reply, Tunnel};
use crate::identity::ClientNames;
use crate::proxy::{Body, BoxError, TwoFramings};

/// Accepts until the door stops, then lets requests and tunnels end. The door's places and patience are those of the agents'
/// listener: agents have so many connections in all.
pub(super) async fn serve(listener: TcpListener, door: Door, proxy: ForwardProxy) {
    let (stop, places) = (door.stop.clone(), door.places.clone());
    let connection = |stream| connection(stream, door.clone(), proxy.clone());
    accept(listener, stop, places, connection).await;
}

async fn connection(stream: TcpStream, door: Door, proxy: ForwardProxy) -> Result<(), BoxError> {
    let patience = &door.patience;
    let stream = Taken::new(stream, patience.limit, Arc::clone(&patience.metrics));
    match &door.speech {
        Speech::Plain { .. } => spoken(stream, door, proxy, None).await,
        Speech::Tls(acceptor) => {
            let stream = door.in_time(acceptor.accept(stream)).await?;
            let names = tls::names(&stream);
            spoken(stream, door, proxy, names).await
        }
    }
}

/// HTTP/1.1, and perhaps a tunnel behind it. `names`: of the certificate that the client has shown.
async fn spoken<S>(
    stream: S,
    door: Door,
    proxy: ForwardProxy,
    names: Option<Arc<ClientNames>>,
) -> Result<(), BoxError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (stream, heads) = Watched::new(stream);
    let begun = Begun::default();
    let connected = Connected {
        proxy,
        heads,
        names,
        begun: begun.clone(),
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(door.head)
        .max_header_size(HEAD_SIZE)
        .serve_connection(TokioIo::new(stream), connected)
        .with_upgrades();
    let end = http1::UpgradeableConnection::graceful_shutdown;
    let (stop, idle) = (door.stop, std::future::pending());
    drive(connection, end, stop.clone(), idle, door.patience.limit).await?;
    let Some((upgrade, tunnel)) = begun.take() else {
        return Ok(());
    };
    let (stream, came) = unwrapped::<S>(upgrade.await?)?;
    tunnel.run(stream, came, &stop).await;
    Ok(())
}

/// The stream below, and what of it has been read.
fn unwrapped<S>(upgraded: Upgraded) -> Result<(S, Bytes), BoxError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let parts = upgraded
        .downcast::<TokioIo<Watched<S>>>()
        .map_err(|_| "the connection is of another kind")?;
    Ok((parts.io.into_inner().into_inner(), parts.read_buf))
}

/// A tunnel, and the connection that it runs on.
type Upgrade = (OnUpgrade, Box<Tunnel>);

/// The tunnel that a connection turns into.
#[derive(Clone, Default)]
struct Begun(Arc<Mutex<Option<Upgrade>>>);

impl Begun {
    fn set(&self, upgrade: OnUpgrade, tunnel: Box<Tunnel>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, tunnel));
    }

    fn take(&self) -> Option<Upgrade> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

struct Connected {
    proxy: ForwardProxy,
    heads: Heads,
    /// Of the certificate that the client has shown.
    names: Option<Arc<ClientNames>>,
    begun: Begun,
}

impl Service<http::Request<Incoming>> for Connected {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, mut request: http::Request<Incoming>) -> Self::Future {
        if !self.heads.next_is_plain() {
            request.extensions_mut().insert(TwoFramings);
        }
        if let Some(names) = &self.names {
            request.extensions_mut().insert(Arc::clone(names));
        }
        let upgrade = hyper::upgrade::on(&mut request);
        let request = request.map(|body| body.map_err(BoxError::from).boxed_unsync());
        let (proxy, begun) = (self.proxy.clone(), self.begun.clone());
        Box::pin(async move {
            Ok(match proxy.answer(request).await {
                Reply::Answer(response) => response,
                Reply::Tunnel(response, tunnel) => {
                    begun.set(upgrade, tunnel);
                    response
                }
            })
        })
    }
}
