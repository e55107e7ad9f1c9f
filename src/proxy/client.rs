//! The real upstream: HTTP/1.1 over TCP or TLS, pooled. A request is put on the wire once.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::upstream::{Upstream, UpstreamError};
use super::{Body, BoxError};
use crate::guard::Cleared;
use crate::names::UpstreamName;
use crate::settings::Settings;
use crate::source::{Problem, Problems};

/// Idle connections live so long: less than what servers commonly allow.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// Sends to the upstreams of the settings.
#[derive(Clone)]
pub struct HttpUpstream {
    client: Client<Bounded<HttpsConnector<HttpConnector>>, Full<Bytes>>,
    bases: Arc<HashMap<UpstreamName, Base>>,
    first_byte: Duration,
}

struct Base {
    scheme: Scheme,
    authority: Authority,
    /// Without trailing slash.
    path: String,
}

impl std::fmt::Debug for HttpUpstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpUpstream").finish_non_exhaustive()
    }
}

impl HttpUpstream {
    /// A client with a pool of its own.
    ///
    /// # Errors
    /// Every upstream whose URL is no base, and a TLS library that cannot start.
    pub fn new(settings: &Settings) -> Result<Self, Problems> {
        let mut bases = HashMap::new();
        let mut problems = Vec::new();
        for (name, upstream) in &settings.upstreams {
            match Base::of(&upstream.url) {
                Some(base) => drop(bases.insert(name.clone(), base)),
                None => problems.push(
                    Problem::new(format!("upstream `{name}`: the URL has no scheme or host"))
                        .help("write it as http://HOST:PORT or https://HOST/PATH"),
                ),
            }
        }
        let connector = connector(settings.timeouts.connect).map_err(|error| {
            Problems::from(Problem::new(format!(
                "TLS to upstreams cannot start: {error}"
            )))
        });
        match connector {
            Err(found) => problems.extend(found.0),
            Ok(connector) if problems.is_empty() => {
                // An unstarted request on a pooled connection that has just closed goes to the next connection: its first
                // byte has not left. Nothing else is ever sent again.
                let client = Client::builder(TokioExecutor::new())
                    .pool_timer(TokioTimer::new())
                    .pool_idle_timeout(POOL_IDLE)
                    .timer(TokioTimer::new())
                    .set_host(false)
                    .build(connector);
                return Ok(Self {
                    client,
                    bases: Arc::new(bases),
                    first_byte: settings.timeouts.first_byte,
                });
            }
            Ok(_) => {}
        }
        Err(Problems(problems))
    }
}

impl Base {
    fn of(url: &Uri) -> Option<Self> {
        Some(Self {
            scheme: url.scheme()?.clone(),
            authority: url.authority()?.clone(),
            path: url.path().to_owned(),
        })
    }

    fn join(&self, below: &Uri) -> Option<Uri> {
        let rest = below.path_and_query().map_or("/", PathAndQuery::as_str);
        // The route's prefix itself is the base itself: `/mcp` and `/mcp/` may be two resources, and only one of them is there.
        let (path, rest) = match rest.strip_prefix('/') {
            Some(query) if query.is_empty() || query.starts_with('?') => (&*self.path, query),
            _ => (self.path.trim_end_matches('/'), rest),
        };
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(format!("{path}{rest}"))
            .build()
            .ok()
    }
}

impl Upstream for HttpUpstream {
    fn send(
        &self,
        to: &UpstreamName,
        request: Cleared<http::Request<Bytes>>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, UpstreamError>> {
        let (mut parts, body) = request.into_message().into_parts();
        let target = self.bases.get(to).and_then(|base| base.join(&parts.uri));
        let Some(target) = target else {
            let cause = format!("upstream `{to}` has no such path");
            return Box::pin(std::future::ready(Err(UpstreamError::NotSent(cause))));
        };
        parts.uri = target;
        let sent = self
            .client
            .request(http::Request::from_parts(parts, Full::new(body)));
        let first_byte = self.first_byte;
        Box::pin(async move {
            match tokio::time::timeout(first_byte, sent).await {
                Err(_) => Err(UpstreamError::TimedOut),
                Ok(Err(error)) if error.is_connect() => Err(UpstreamError::NotSent(chain(&error))),
                Ok(Err(error)) => Err(UpstreamError::Broken(chain(&error))),
                Ok(Ok(response)) => {
                    Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
                }
            }
        })
    }
}

/// The error and what caused it, one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

fn connector(connect: Duration) -> Result<Bounded<HttpsConnector<HttpConnector>>, std::io::Error> {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    let tls = HttpsConnectorBuilder::new()
        .with_provider_and_webpki_roots(rustls::crypto::aws_lc_rs::default_provider())
        .map_err(std::io::Error::other)?
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    Ok(Bounded {
        inner: tls,
        limit: connect,
    })
}

/// Bounds the whole of connecting: name look-up, TCP and TLS.
#[derive(Clone)]
struct Bounded<C> {
    inner: C,
    limit: Duration,
}

impl<C> tower::Service<Uri> for Bounded<C>
where
    C: tower::Service<Uri, Error = BoxError>,
    C::Future: Send + 'static,
    C::Response: 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<C::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let connecting = self.inner.call(target);
        let limit = self.limit;
        Box::pin(async move {
            tokio::time::timeout(limit, connecting)
                .await
                .map_err(|_| format!("no connection within {limit:?}"))?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_path_stands_before_every_path() {
        let join = |base: &str, below: &str| {
            let base = Base::of(&base.parse().unwrap()).unwrap();
            base.join(&below.parse().unwrap()).unwrap().to_string()
        };
        assert_eq!(join("https://h/v1/", "/chat?x=1"), "https://h/v1/chat?x=1");
        assert_eq!(join("http://h:9", "/"), "http://h:9/");
        assert_eq!(join("http://h:9", "/?a=1"), "http://h:9/?a=1");
        assert_eq!(join("http://h/mcp", "/"), "http://h/mcp");
        assert_eq!(join("http://h/mcp/", "/?a=/"), "http://h/mcp/?a=/");
        assert_eq!(join("http://h/mcp/", "/sub"), "http://h/mcp/sub");
        assert!(Base::of(&"/only/path".parse().unwrap()).is_none());
    }
}
