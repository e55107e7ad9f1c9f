//! How many answers of a connection have not ended.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::watch;

use crate::proxy::{Body, BoxError};

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
    /// The body, with this use inside.
    pub(super) fn until_end_of(self, body: Body) -> Body {
        InUse { body, _until: self }.boxed_unsync()
    }
}

struct InUse {
    body: Body,
    _until: Use,
}

impl HttpBody for InUse {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::proxy::full;

    #[tokio::test]
    async fn it_is_idle_once_every_body_has_ended() {
        let limit = Duration::from_millis(1);
        let usage = Usage::default();
        let (one, two) = (usage.begin(), usage.begin());
        let body = two.until_end_of(full("x"));
        let longer = limit * 20;
        assert!(timeout(longer, usage.idle(limit)).await.is_err());
        drop(one);
        assert!(timeout(longer, usage.idle(limit)).await.is_err());
        drop(body);
        usage.idle(limit).await;
    }
}
