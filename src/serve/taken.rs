//! A connection whose client must take what is sent to it: where it takes nothing for too long, the connection ends.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::metrics::Metrics;

/// A connection that is timed while a write waits.
#[derive(Debug)]
pub(super) struct Taken<S> {
    stream: S,
    limit: Duration,
    metrics: Arc<Metrics>,
    /// Since a write has begun to wait.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S> Taken<S> {
    pub(super) const fn new(stream: S, limit: Duration, metrics: Arc<Metrics>) -> Self {
        Self {
            stream,
            limit,
            metrics,
            waits: None,
        }
    }

    /// What came of a write: an error where it has waited for too long.
    fn timed<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let limit = self.limit;
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(waits.as_mut().poll(context));
        self.waits = None;
        self.metrics.stalled();
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client took nothing for `timeouts.client_idle`",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Taken<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Taken<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Its readiness says nothing of the bytes that wait: it never ends a wait.
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.timed(context, ended)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.timed(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_write_may_wait_as_long_as_something_is_taken() {
        let limit = Duration::from_secs(2);
        let (near, mut far) = duplex(4);
        let metrics = Metrics::new();
        let mut near = Taken::new(near, limit, Arc::clone(&metrics));
        let writes = tokio::spawn(async move { near.write_all(&[7; 40]).await });
        let mut four = [0; 4];
        // Together far longer than one wait may be.
        for _ in 0..9 {
            tokio::time::sleep(limit / 8).await;
            far.read_exact(&mut four).await.unwrap();
        }
        assert!(writes.await.unwrap().is_ok());
        assert!(
            metrics
                .render()
                .contains("holdpoint_stalled_clients_total 0")
        );
    }

    #[tokio::test]
    async fn a_write_of_which_nothing_is_taken_ends() {
        let (near, _far) = duplex(4);
        let metrics = Metrics::new();
        let mut near = Taken::new(near, Duration::from_millis(20), Arc::clone(&metrics));
        let error = near.write_all(&[7; 16]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(
            metrics
                .render()
                .contains("holdpoint_stalled_clients_total 1")
        );
    }
}
