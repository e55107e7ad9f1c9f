//! One request in flight, from its head to the last byte of its answer: counted, timed, and holding its permit.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::OwnedSemaphorePermit;

use super::{Body, BoxError};
use crate::metrics::{Metrics, NO_ROUTE};
use crate::names::RouteName;

/// Lives as long as the answer's body: a stream counts until it ends.
pub(crate) struct Passage {
    metrics: Arc<Metrics>,
    /// The route and its protocol, where there is one.
    route: Option<(RouteName, &'static str)>,
    started: Instant,
    /// `None` until the head of the answer is there.
    status: Option<StatusCode>,
    /// The refusal's code, where Holdpoint itself answered.
    code: Option<&'static str>,
    permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl Passage {
    pub(crate) fn begin(metrics: &Arc<Metrics>, route: Option<(RouteName, &'static str)>) -> Self {
        metrics.started();
        Self {
            metrics: Arc::clone(metrics),
            route,
            started: Instant::now(),
            status: None,
            code: None,
            permit: None,
        }
    }

    pub(crate) fn hold(&mut self, permit: Arc<OwnedSemaphorePermit>) {
        self.permit = Some(permit);
    }

    pub(crate) fn refused(&mut self, code: &'static str) {
        self.code = Some(code);
        self.metrics.refused(self.route(), code);
    }

    fn route(&self) -> &str {
        self.route
            .as_ref()
            .map_or(NO_ROUTE, |(name, _)| name.as_str())
    }

    /// The head of the answer is about to leave, and its body is not an answer's.
    pub(crate) const fn answered(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    /// The answer, with this passage inside its body.
    pub(crate) fn carried_by(mut self, response: http::Response<Body>) -> http::Response<Body> {
        self.status = Some(response.status());
        response.map(|body| {
            Carried {
                body,
                _passage: self,
            }
            .boxed_unsync()
        })
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let elapsed = self.started.elapsed();
        let protocol = self.route.as_ref().map_or(NO_ROUTE, |(_, name)| *name);
        self.metrics
            .request(self.route(), protocol, self.status, elapsed);
        tracing::info!(
            route = self.route(),
            status = self.status.map(|status| status.as_u16()),
            code = self.code,
            ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            "request"
        );
    }
}

struct Carried {
    body: Body,
    _passage: Passage,
}

impl HttpBody for Carried {
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
