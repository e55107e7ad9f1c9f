//! Connections of a listener: accepted until the server stops, then run to their end.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::places::Places;
use crate::proxy::BoxError;

/// After an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Between two lines of the log about connections that are refused.
const REFUSALS_TOLD: Duration = Duration::from_secs(10);

/// Accepts until `stop` is cancelled, then lets every connection end. Dropped, it drops them all.
/// A connection for which there is no place is closed as it comes.
pub(super) async fn accept<F>(
    listener: TcpListener,
    stop: CancellationToken,
    places: Places,
    connection: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let mut told: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let Some(place) = places.take(address.ip()) else {
                    if told.is_none_or(|told| told.elapsed() > REFUSALS_TOLD) {
                        told = Some(Instant::now());
                        tracing::warn!("connections are refused: too many are open");
                    }
                    continue;
                };
                // Each event leaves at once.
                let _ = stream.set_nodelay(true);
                let running = connection(stream);
                connections.spawn(async move {
                    let _place = place;
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

/// Runs a connection to its end, and lets it end where the server stops or it is idle. What an idle one does not end within
/// `patience` are streams that their client has not taken.
pub(super) async fn drive<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    end: impl Fn(Pin<&mut C>),
    stop: CancellationToken,
    idle: impl Future<Output = ()>,
    patience: Duration,
) -> Result<(), BoxError> {
    let mut connection = pin!(connection);
    let is_idle = tokio::select! {
        ended = &mut connection => return Ok(ended?),
        () = stop.cancelled() => false,
        () = idle => true,
    };
    end(connection.as_mut());
    if is_idle {
        return Ok(timeout(patience, connection).await??);
    }
    Ok(connection.await?)
}
