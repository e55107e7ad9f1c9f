//! Connections of a listener: accepted until the server stops, then run to their end.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::proxy::BoxError;

/// After an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until `stop` is cancelled, then lets every connection end. Dropped, it drops them all.
pub(super) async fn accept<F>(
    listener: TcpListener,
    stop: CancellationToken,
    connection: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                // Each event leaves at once.
                let _ = stream.set_nodelay(true);
                let running = connection(stream);
                connections.spawn(async move {
                    if let Err(error) = running.await {
                        tracing::debug!(%error, "a connection ended early");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Runs a connection to its end, and lets it end where the server stops or it is idle.
pub(super) async fn drive<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    end: impl Fn(Pin<&mut C>),
    stop: CancellationToken,
    idle: impl Future<Output = ()>,
) -> Result<(), BoxError> {
    let mut connection = pin!(connection);
    tokio::select! {
        ended = &mut connection => return Ok(ended?),
        () = stop.cancelled() => {}
        () = idle => {}
    }
    end(connection.as_mut());
    Ok(connection.await?)
}
