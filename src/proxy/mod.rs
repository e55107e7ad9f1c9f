//! The proxy: one tower service that `serve` binds to a socket and `eval` calls in process.
//!
//! Requests come as HTTP says, also in process: with exactly one `host` header, or as HTTP/2 with an authority.

pub(crate) mod admission;
mod answer;
mod claims;
mod client;
mod gate;
pub(crate) mod headers;
mod hold;
pub(crate) mod identify;
mod keep_alive;
pub(crate) mod passage;
mod placeholders;
mod read;
pub(crate) mod receive;
mod recorded;
mod redeem;
pub(crate) mod redirect;
pub mod refuse;
mod relay;
mod route;
mod sessions;
pub(crate) mod shaped;
mod stream;
mod trail;
mod transit;
mod upstream;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use admission::Admission;
use arc_swap::ArcSwap;
use bytes::Bytes;
pub use client::HttpUpstream;
use futures_util::future::BoxFuture;
use gate::Gate;
use headers::Forwarding;
use hold::Holds;
use http_body_util::{BodyExt, Full};
pub(crate) use identify::Identify;
use placeholders::Placeholders;
pub use read::{Readers, readers};
pub(crate) use receive::read;
use route::Routes;
use sessions::Sessions;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
pub use upstream::{Upstream, UpstreamError};

use crate::guard::Guard;
use crate::metrics::Metrics;
use crate::protocols::Protocol;
use crate::protocols::anthropic_messages::AnthropicMessages;
use crate::protocols::http_tools::HttpTools;
use crate::protocols::mcp::Mcp;
use crate::protocols::openai_chat::OpenAiChat;
use crate::provenance;
use crate::record::Recorder;
use crate::settings::{Limits, Route, RouteProtocol, Settings};
use crate::source::Problems;
use crate::verdict::Reason;
use crate::wire::budget::Budget;
use crate::wire::seal::Sealer;

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

/// Put into a request's extensions where its head had both `Content-Length` and `Transfer-Encoding`: HTTP libraries hide
/// that, so the listener tells. Such a request is refused.
#[derive(Clone, Copy, Debug)]
pub struct TwoFramings;

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

/// What the listeners for agents share besides a [`Setup`]: the memory for bodies, and what is known of sessions.
#[derive(Clone, Debug)]
pub struct Common {
    pub(crate) memory: Budget,
    pub(crate) evidence: Arc<provenance::Sessions>,
}

/// The proxy as a tower service. It never fails: every error is a response in the route's own shape.
pub struct ProxyService<U>(Arc<Gate<U>>);

impl<U> Clone for ProxyService<U> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<U> fmt::Debug for ProxyService<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyService").finish_non_exhaustive()
    }
}

/// The proxy in front of `upstream`.
///
/// # Errors
/// Routes that cannot work, such as two tools on one method and path.
pub fn service<U: Upstream>(setup: Setup, upstream: U) -> Result<ProxyService<U>, Problems> {
    recorded_service(setup, upstream, None)
}

/// As [`service()`], with whoever records its exchanges.
///
/// # Errors
/// As [`service()`].
pub fn recorded_service<U: Upstream>(
    setup: Setup,
    upstream: U,
    recorder: Option<Arc<Recorder>>,
) -> Result<ProxyService<U>, Problems> {
    let settings = &setup.settings;
    let routes = Routes::new(settings)?;
    let codes: Vec<_> = error_codes().collect();
    for entry in routes.iter() {
        let name = &entry.route.name;
        setup
            .metrics
            .announce_route(name, entry.protocol.name(), &codes);
    }
    for name in settings.upstreams.keys() {
        setup.metrics.announce_upstream(name);
    }
    setup.metrics.policy(&setup.guard.load().policy().hash);
    let clock = Arc::clone(setup.guard.load().clock());
    let identify = Identify::new(settings, clock)?;
    let secrets = Placeholders::new(settings)?;
    let pseudonym = pseudonym();
    Ok(ProxyService(Arc::new(Gate {
        admission: Admission::new(settings, pseudonym.clone()),
        identify,
        secrets,
        forwarding: Forwarding::new(settings, pseudonym),
        permits: Arc::new(Semaphore::new(settings.limits.concurrency)),
        memory: Budget::new(settings.limits.memory),
        tasks: TaskTracker::new(),
        holds: Arc::new(Holds::new(settings.limits.concurrency)),
        sessions: Sessions::default(),
        evidence: Arc::new(provenance::Sessions::new(
            settings.limits.provenance_session,
            settings.limits.provenance_sessions,
        )),
        routes,
        recorder,
        upstream,
        setup,
    })))
}

/// Every code an agent may get: the proxy's own, then the policy's reasons.
pub fn error_codes() -> impl Iterator<Item = &'static str> {
    let own = refuse::CODES.iter().map(|code| code.code);
    own.chain(Reason::ALL.into_iter().map(Reason::as_str))
}

/// Unique to this process: a `Via` that names it is a loop.
pub(crate) fn pseudonym() -> String {
    let id = uuid::Uuid::now_v7().simple().to_string();
    let tail = id.get(id.len() - 12..).unwrap_or(&id);
    format!("holdpoint-{tail}")
}

/// The adapter of a route.
///
/// # Errors
/// Tools that cannot be told apart.
pub(crate) fn protocol(
    route: &Route,
    settings: &Settings,
    limits: &Limits,
) -> Result<Box<dyn Protocol>, Problems> {
    Ok(match &route.protocol {
        RouteProtocol::OpenAiChat(model) => Box::new(OpenAiChat::new(limits, model)),
        RouteProtocol::AnthropicMessages(model) => Box::new(AnthropicMessages::new(limits, model)),
        RouteProtocol::Mcp(mcp) => {
            let upstream = settings.upstreams.get(&route.upstream);
            let url = upstream.map(|upstream| &upstream.url);
            let adapter = Mcp::new(mcp, &route.prefix, url);
            match Sealer::new(settings.state_keys()) {
                Some(sealer) => Box::new(adapter.sealing(Arc::new(sealer))),
                None => Box::new(adapter),
            }
        }
        RouteProtocol::HttpTools(http) => Box::new(HttpTools::new(http)?),
    })
}

impl<U> ProxyService<U> {
    /// Gets what callers are verified with, where it is elsewhere: the keys of an issuer. Until then they are refused.
    ///
    /// # Errors
    /// It cannot be had.
    pub async fn load(&self) -> Result<(), Problems> {
        self.0.identify.load().await
    }

    /// Answers whoever waits for a person, and lets nobody wait from here on: the process is about to end.
    pub fn release(&self) {
        self.0.holds.release();
    }

    /// What another listener for the same agents must share.
    pub fn common(&self) -> Common {
        Common {
            memory: self.0.memory.clone(),
            evidence: Arc::clone(&self.0.evidence),
        }
    }

    /// Waits for calls that outlive their client. New ones may still begin.
    pub async fn settled(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

impl<U: Upstream> tower::Service<http::Request<Body>> for ProxyService<U> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let gate = Arc::clone(&self.0);
        Box::pin(async move { Ok(gate.answer(request).await) })
    }
}
