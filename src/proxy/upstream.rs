//! Backends: the real HTTP client, and the trait that lets eval put its world in the network's place.

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::Body;
use crate::guard::Cleared;
use crate::metrics::UpstreamFault;
use crate::names::UpstreamName;

/// Why an upstream gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// Provably no byte of the request left: no connection, no TLS.
    #[error("cannot connect: {0}")]
    NotSent(String),
    /// No answer within the time limit. The request may have been carried out.
    #[error("no answer within the time limit")]
    TimedOut,
    /// The connection broke, or the answer was no HTTP. The request may have been carried out.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl UpstreamError {
    /// Whether provably no byte of the request left.
    pub const fn not_sent(&self) -> bool {
        matches!(self, Self::NotSent(_))
    }

    /// The label in metrics.
    pub const fn fault(&self) -> UpstreamFault {
        match self {
            Self::NotSent(_) => UpstreamFault::Connect,
            Self::TimedOut => UpstreamFault::FirstByte,
            Self::Broken(_) => UpstreamFault::Broken,
        }
    }
}

/// Where judged requests go.
pub trait Upstream: Clone + Send + Sync + 'static {
    /// Sends one request, once. The URI has path and query below the route's prefix; `host` and the upstream's credential
    /// are set. Resolves at the head of the answer.
    fn send(
        &self,
        to: &UpstreamName,
        request: Cleared<http::Request<Bytes>>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, UpstreamError>>;
}
