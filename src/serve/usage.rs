//! How many answers of a connection of HTTP/2 have not ended, and which of them their client does not take.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::proxy::{Body, BoxError};

/// Most bytes of an answer that are given at once.
const PIECE: usize = 16 << 10;

/// The count of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage(Arc<watch::Sender<usize>>);

/// One request; counts until it is dropped.
#[derive(Debug)]
pub(super) struct Use(Usage);

impl Usage {
    /// One more.
    pub(super) fn begin(&self) -> Use {
        self.0.send_modify(|count| *count += 1);
        Use(self.clone())
    }

    /// Returns once there was none for so long.
    pub(super) async fn idle(&self, limit: Duration) {
        let mut count = self.0.subscribe();
        loop {
            let busy = *count.borrow_and_update() > 0;
            let changed = count.changed();
            if busy {
                let _ = changed.await;
            } else if tokio::time::timeout(limit, changed).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

impl Use {
    /// The body, with this use inside. Where its client asks for nothing more of it for `patience`, it is dropped: the windows
    /// of HTTP/2 hold a stream back on which no write waits.
    pub(super) fn until_end_of(self, body: Body, patience: Patience) -> Body {
        let answer = Arc::new(Mutex::new(Answer {
            body: Some((body, self)),
            given: Some(Instant::now()),
        }));
        let watch = tokio::spawn(give_up(Arc::clone(&answer), patience));
        InUse {
            answer,
            rest: Bytes::new(),
            watch: watch.abort_handle(),
        }
        .boxed_unsync()
    }
}

/// How long a client may take nothing, and who counts where it does.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    pub(super) limit: Duration,
    pub(super) metrics: Arc<Metrics>,
}

/// What is left of an answer.
struct Answer {
    /// `None` once it has ended or was dropped.
    body: Option<(Body, Use)>,
    /// When the client was last given something, where it has asked for nothing since.
    given: Option<Instant>,
}

struct InUse {
    answer: Arc<Mutex<Answer>>,
    /// What is left of a frame that is given in pieces: only so it shows how the client gets on.
    rest: Bytes,
    watch: AbortHandle,
}

/// Drops the body of a client that takes nothing.
async fn give_up(answer: Arc<Mutex<Answer>>, patience: Patience) {
    loop {
        let now = Instant::now();
        let due = {
            let mut answer = locked(&answer);
            if answer.body.is_none() {
                return;
            }
            let due = answer.given.unwrap_or(now) + patience.limit;
            if due <= now {
                let dropped = answer.body.take();
                drop(answer);
                drop(dropped);
                patience.metrics.stalled();
                return;
            }
            due
        };
        tokio::time::sleep_until(due).await;
    }
}

fn locked(answer: &Mutex<Answer>) -> MutexGuard<'_, Answer> {
    answer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next piece.
fn given(rest: &mut Bytes) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
    let piece = rest.split_to(rest.len().min(PIECE));
    Poll::Ready(Some(Ok(Frame::data(piece))))
}

impl HttpBody for InUse {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let mut answer = locked(&this.answer);
        let Some((body, _)) = answer.body.as_mut() else {
            let late = "the client took nothing for `timeouts.client_idle`";
            return Poll::Ready(Some(Err(late.into())));
        };
        if !this.rest.is_empty() {
            answer.given = Some(Instant::now());
            return given(&mut this.rest);
        }
        let polled = Pin::new(body).poll_frame(context);
        // Behind the end there is nothing to take.
        let gives = matches!(polled, Poll::Ready(Some(_)));
        answer.given = gives.then(Instant::now);
        match ready!(polled) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    this.rest = data;
                    given(&mut this.rest)
                }
                Err(other) => Poll::Ready(Some(Ok(other))),
            },
            other => Poll::Ready(other),
        }
    }

    fn is_end_stream(&self) -> bool {
        let answer = locked(&self.answer);
        let ended = answer.body.as_ref().is_some_and(|b| b.0.is_end_stream());
        ended && self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let answer = locked(&self.answer);
        let Some((body, _)) = &answer.body else {
            return SizeHint::default();
        };
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        let inner = body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper().and_then(|upper| upper.checked_add(rest)) {
            hint.set_upper(upper);
        }
        hint
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.watch.abort();
        let dropped = locked(&self.answer).body.take();
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;
    use tokio::time::timeout;

    use super::*;
    use crate::proxy::full;

    fn patience(limit: Duration) -> Patience {
        Patience {
            limit,
            metrics: Metrics::new(),
        }
    }

    #[tokio::test]
    async fn it_is_idle_once_every_body_has_ended() {
        let limit = Duration::from_millis(1);
        let usage = Usage::default();
        let (one, two) = (usage.begin(), usage.begin());
        let body = two.until_end_of(full("x"), patience(Duration::from_hours(1)));
        let longer = limit * 20;
        assert!(timeout(longer, usage.idle(limit)).await.is_err());
        drop(one);
        assert!(timeout(longer, usage.idle(limit)).await.is_err());
        drop(body);
        usage.idle(limit).await;
    }

    #[tokio::test]
    async fn a_body_of_which_nothing_is_taken_is_dropped() {
        let limit = Duration::from_millis(20);
        let usage = Usage::default();
        let patience = patience(limit);
        let mut body = usage.begin().until_end_of(full("x"), patience.clone());
        usage.idle(limit * 2).await;
        assert!(body.frame().await.unwrap().is_err());
        let rendered = patience.metrics.render();
        assert!(rendered.contains("holdpoint_stalled_clients_total 1"));
    }

    #[tokio::test]
    async fn a_slow_client_and_a_slow_upstream_are_waited_for() {
        let limit = Duration::from_secs(2);
        let whole = Bytes::from(vec![7; 8 * PIECE + 1]);
        let usage = Usage::default();
        let patience = patience(limit);
        let mut body = usage
            .begin()
            .until_end_of(full(whole.clone()), patience.clone());
        assert_eq!(body.size_hint().exact(), Some(8 * PIECE as u64 + 1));
        let mut taken = Vec::new();
        while let Some(frame) = body.frame().await {
            taken.extend_from_slice(&frame.unwrap().into_data().unwrap());
            tokio::time::sleep(limit / 8).await;
        }
        assert_eq!(taken, whole);
        // An upstream that says nothing is timed elsewhere.
        let frames = futures_util::stream::once(async move {
            tokio::time::sleep(limit * 2).await;
            Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"late")))
        });
        let slow = StreamBody::new(frames).boxed_unsync();
        let body = usage.begin().until_end_of(slow, patience.clone());
        assert_eq!(body.collect().await.unwrap().to_bytes(), "late");
        let rendered = patience.metrics.render();
        assert!(rendered.contains("holdpoint_stalled_clients_total 0"));
    }
}
