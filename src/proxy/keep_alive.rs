//! Signs of life on an event stream while nothing else leaves: a call is held, a layer judges, or the upstream thinks.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use tokio::time::{Instant, Sleep, sleep};

use super::{Body, BoxError};

/// The body with `sign` after each `every` of silence. Pieces of `body` must be whole events: the sign stands between two.
pub(super) fn keep_alive(body: Body, sign: Bytes, every: Duration) -> Body {
    KeepAlive {
        body,
        sign,
        every,
        next: Box::pin(sleep(every)),
        ended: false,
    }
    .boxed_unsync()
}

struct KeepAlive {
    body: Body,
    sign: Bytes,
    every: Duration,
    next: Pin<Box<Sleep>>,
    ended: bool,
}

impl HttpBody for KeepAlive {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let every = self.every;
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(frame) = polled {
            self.ended = !matches!(frame, Some(Ok(_)));
            self.next.as_mut().reset(Instant::now() + every);
            return Poll::Ready(frame);
        }
        if self.next.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.next.as_mut().reset(Instant::now() + every);
        Poll::Ready(Some(Ok(Frame::data(self.sign.clone()))))
    }
}
