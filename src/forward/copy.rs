//! Bytes of a tunnel, both ways: one buffer each, so that a slow reader holds up its writer and nobody else.

use std::future::ready;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Bytes of one direction that are held.
const BUFFER: usize = 16 << 10;

/// How long no byte may move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Before the tunnel is ended.
    pub(super) idle: Duration,
    /// The same once the server stops: what is silent then has nothing to end.
    pub(super) draining: Duration,
}

/// How a tunnel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Both sides have said all that they had to say.
    Whole,
    /// One side broke off.
    Broken,
    /// Bytes of the agent were not let out.
    Stopped,
    /// No byte moved for too long.
    Idle,
}

/// Copies until both sides have ended, one has broken off, or no byte has moved for too long. An end of one side is passed on,
/// and the other may go on. `may_leave` is asked about each piece of the agent's before it is passed on, and ends the tunnel where
/// it says no; `count` is told of each piece that has been passed on, either way.
pub(super) async fn both<'a, A, P>(
    agent: A,
    peer: P,
    patience: Patience,
    stop: &CancellationToken,
    (may_leave, count): (
        &(impl Fn(usize) -> BoxFuture<'a, bool> + Sync),
        &(impl Fn(usize) + Sync),
    ),
) -> End
where
    A: AsyncRead + AsyncWrite,
    P: AsyncRead + AsyncWrite,
{
    let (agent_reads, agent_writes) = tokio::io::split(agent);
    let (peer_reads, peer_writes) = tokio::io::split(peer);
    let moved = Moved::new();
    let up = one((agent_reads, peer_writes), &moved, may_leave, count);
    let down = one(
        (peer_reads, agent_writes),
        &moved,
        &|_| Box::pin(ready(true)),
        count,
    );
    tokio::select! {
        ended = async { tokio::try_join!(up, down) } => match ended {
            Ok(_) => End::Whole,
            Err(end) => end,
        },
        () = moved.stood_still(patience, stop) => End::Idle,
    }
}

async fn one<'a>(
    (mut from, mut to): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    moved: &Moved,
    may_pass: &impl Fn(usize) -> BoxFuture<'a, bool>,
    count: &impl Fn(usize),
) -> Result<(), End> {
    let broken = |_| End::Broken;
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = from.read(&mut buffer).await.map_err(broken)?;
        moved.now();
        if length == 0 {
            return to.shutdown().await.map_err(broken);
        }
        if !may_pass(length).await {
            return Err(End::Stopped);
        }
        let piece = buffer.get(..length).unwrap_or_default();
        to.write_all(piece).await.map_err(broken)?;
        count(length);
        moved.now();
    }
}

/// When the last byte moved.
struct Moved(Mutex<Instant>);

impl Moved {
    fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    fn now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once no byte has moved for so long, or for a shorter time once the server stops.
    async fn stood_still(&self, patience: Patience, stop: &CancellationToken) {
        let quiet = |limit: Duration| async move {
            loop {
                let end = self.last() + limit;
                if Instant::now() >= end {
                    return;
                }
                sleep_until(end).await;
            }
        };
        tokio::select! {
            () = quiet(patience.idle) => return,
            () = stop.cancelled() => {}
        }
        quiet(patience.idle.min(patience.draining)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::duplex;

    use super::*;

    const LONG: Duration = Duration::from_hours(1);
    const SHORT: Duration = Duration::from_millis(5);

    const fn patience(idle: Duration, draining: Duration) -> Patience {
        Patience { idle, draining }
    }

    #[tokio::test]
    async fn an_end_of_one_side_is_passed_on_and_the_other_goes_on() {
        let (mut agent, inner) = duplex(64);
        let (mut peer, outer) = duplex(64);
        let counted = std::sync::Arc::new(AtomicUsize::new(0));
        let told = std::sync::Arc::clone(&counted);
        let running = tokio::spawn(async move {
            let stop = CancellationToken::new();
            let count = |bytes| {
                told.fetch_add(bytes, Ordering::Relaxed);
            };
            both(
                inner,
                outer,
                patience(LONG, LONG),
                &stop,
                (&|_| Box::pin(ready(true)), &count),
            )
            .await
        });
        agent.write_all(b"ask").await.unwrap();
        agent.shutdown().await.unwrap();
        let mut asked = String::new();
        peer.read_to_string(&mut asked).await.unwrap();
        assert_eq!(asked, "ask");
        // Larger than all buffers between: it gets through as fast as it is read.
        let long = "x".repeat(100_000);
        let sent = long.clone();
        let sending = tokio::spawn(async move {
            peer.write_all(sent.as_bytes()).await.unwrap();
        });
        let mut answered = String::new();
        agent.read_to_string(&mut answered).await.unwrap();
        sending.await.unwrap();
        assert_eq!(answered, long);
        assert_eq!(running.await.unwrap(), End::Whole);
        assert_eq!(counted.load(Ordering::Relaxed), 100_003);
    }

    #[tokio::test]
    async fn a_silent_tunnel_ends_and_at_shutdown_sooner() {
        for (stopped, patience) in [
            (false, patience(SHORT, LONG)),
            (true, patience(SHORT, LONG)),
            (true, patience(LONG, SHORT)),
        ] {
            let (_agent, inner) = duplex(64);
            let (_peer, outer) = duplex(64);
            let stop = CancellationToken::new();
            if stopped {
                stop.cancel();
            }
            let end = both(
                inner,
                outer,
                patience,
                &stop,
                (&|_| Box::pin(ready(true)), &|_| {}),
            )
            .await;
            assert_eq!(end, End::Idle);
        }
    }

    #[tokio::test]
    async fn a_peer_that_breaks_off_ends_it() {
        let (agent, inner) = duplex(64);
        let (peer, outer) = duplex(64);
        let stop = CancellationToken::new();
        drop(peer);
        let mut agent = agent;
        agent.write_all(b"ask").await.unwrap();
        let end = both(
            inner,
            outer,
            patience(LONG, LONG),
            &stop,
            (&|_| Box::pin(ready(true)), &|_| {}),
        )
        .await;
        assert_eq!(end, End::Broken);
    }

    #[tokio::test]
    async fn what_may_not_leave_ends_it_before_it_is_passed_on() {
        let (mut agent, inner) = duplex(64);
        let (mut peer, outer) = duplex(64);
        agent.write_all(b"secret").await.unwrap();
        let stop = CancellationToken::new();
        let never = |_| -> BoxFuture<'_, bool> { Box::pin(ready(false)) };
        let end = both(inner, outer, patience(LONG, LONG), &stop, (&never, &|_| {})).await;
        assert_eq!(end, End::Stopped);
        let mut got = Vec::new();
        peer.read_to_end(&mut got).await.unwrap();
        assert!(got.is_empty());
    }
}
