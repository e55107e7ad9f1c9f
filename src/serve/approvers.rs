//! The approvers' listener: plain, or in TLS.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::approvals::{self, Approvals, Peer};

/// For a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at once.
const HANDSHAKES: usize = 128;

/// Serves until it is dropped.
pub(super) fn spawn(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    approvals: Arc<Approvals>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let service = approvals::router(approvals).into_make_service_with_connect_info::<Peer>();
        let served = match Door::new(listener, tls) {
            Ok(door) => axum::serve(door, service).await,
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            tracing::error!(%error, "the approvers' listener ended");
        }
    })
}

/// Connections that have shaken hands: one that is slow to do so holds up nobody.
struct Door {
    address: SocketAddr,
    ready: mpsc::Receiver<(Stream, SocketAddr)>,
    accepting: JoinHandle<()>,
}

impl Door {
    fn new(listener: TcpListener, tls: Option<TlsAcceptor>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (send, ready) = mpsc::channel(1);
        let accepting = tokio::spawn(accept(listener, tls, send));
        Ok(Self {
            address,
            ready,
            accepting,
        })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    mut listener: TcpListener,
    tls: Option<TlsAcceptor>,
    ready: mpsc::Sender<(Stream, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let (stream, peer) = Listener::accept(&mut listener).await;
        let Some(tls) = &tls else {
            if ready.send((Stream::Plain(stream), peer)).await.is_err() {
                return;
            }
            continue;
        };
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (shaking, ready) = (tls.accept(stream), ready.clone());
        tokio::spawn(async move {
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, shaking).await {
                let _ = ready.send((Stream::Tls(Box::new(stream)), peer)).await;
            }
            drop(place);
        });
    }
}

impl Listener for Door {
    type Io = Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Stream, SocketAddr) {
        match self.ready.recv().await {
            Some(ready) => ready,
            // Nobody accepts any more: the process stops.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Connected<IncomingStream<'_, Door>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// One connection.
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
