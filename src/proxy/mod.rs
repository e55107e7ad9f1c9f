//! The proxy: one tower service that `serve` binds to a socket and `eval` calls in process.
//!
//! Requests come as HTTP/1.1 says, also in process: with exactly one `host` header.

mod upstream;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Full};
pub use upstream::{Upstream, UpstreamError};

use crate::guard::Guard;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::source::Problems;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of every request and response here: pieces of bytes, possibly without end.
pub type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;

/// A body that is there already.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// What the proxy is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Swapped whole on reload; one request sees one guard.
    pub guard: Arc<ArcSwap<Guard>>,
    /// Routes, principals, limits.
    pub settings: Arc<Settings>,
    /// Where it counts.
    pub metrics: Arc<Metrics>,
}

/// The proxy as a tower service. It never fails: every error is a response in the route's own shape.
#[derive(Clone, Debug)]
pub struct ProxyService<U> {
    setup: Setup,
    upstream: U,
}

/// The proxy in front of `upstream`.
///
/// # Errors
/// Routes that cannot work, such as two tools on one method and path.
pub fn service<U: Upstream>(setup: Setup, upstream: U) -> Result<ProxyService<U>, Problems> {
    Ok(ProxyService { setup, upstream })
}

impl<U: Upstream> tower::Service<http::Request<Body>> for ProxyService<U> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: http::Request<Body>) -> Self::Future {
        let _ = (&self.setup, &self.upstream);
        Box::pin(async { Ok(http::Response::new(full("not there yet"))) })
    }
}
