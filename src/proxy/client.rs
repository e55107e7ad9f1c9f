//! The real upstream: HTTP/1.1 over TCP, that or HTTP/2 over TLS, pooled by upstream. A request is put on the wire once.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore};

use super::upstream::{Upstream, UpstreamError};
use super::{Body, BoxError};
use crate::guard::Cleared;
use crate::names::UpstreamName;
use crate::settings::{self, Settings};
use crate::source::{Problem, Problems};
use crate::wire::pem;

/// Idle connections live so long: less than what servers commonly allow.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// Between two packets that ask a silent peer whether it is there.
const TCP_KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Bytes of one answer over HTTP/2 that wait for its agent.
const STREAM_WINDOW: u32 = 256 << 10;
/// Of all answers on one connection: so many that slow agents never hold up the others.
const CONNECTION_WINDOW: u32 = 1 << 30;

pub(super) type Connector = Bounded<HttpsConnector<HttpConnector>>;

/// Sends to the upstreams of the settings.
#[derive(Clone)]
pub struct HttpUpstream {
    peers: Arc<HashMap<UpstreamName, Peer>>,
    first_byte: Duration,
}

/// One upstream, with connections that no other upstream uses: another may send another credential to the same place.
pub(super) struct Peer {
    pub(super) client: Client<Connector, Full<Bytes>>,
    connector: Connector,
    pub(super) base: Base,
}

pub(super) struct Base {
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
    /// A client with pools of its own.
    ///
    /// # Errors
    /// Every upstream whose URL is no base or whose authorities cannot be read, and a TLS library that cannot start.
    pub fn new(settings: &Settings) -> Result<Self, Problems> {
        let mut peers = HashMap::new();
        let mut problems = Vec::new();
        for (name, upstream) in &settings.upstreams {
            match Peer::new(name, upstream, settings.timeouts.connect) {
                Ok(peer) => drop(peers.insert(name.clone(), peer)),
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        Ok(Self {
            peers: Arc::new(peers),
            first_byte: settings.timeouts.first_byte,
        })
    }
}

impl HttpUpstream {
    pub(super) fn peer(&self, name: &UpstreamName) -> Option<&Peer> {
        self.peers.get(name)
    }

    /// Tries a connection, with TLS where the URL says so, and closes it: nothing is sent.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connect(&self, to: &UpstreamName) -> Result<(), String> {
        let peer = self.peers.get(to);
        let target = peer.and_then(|peer| Some((peer, peer.base.join(&Uri::from_static("/"))?)));
        let Some((peer, target)) = target else {
            return Err(format!("there is no upstream `{to}`"));
        };
        let connecting = tower::ServiceExt::oneshot(peer.connector.clone(), target);
        match connecting.await {
            Ok(_) => Ok(()),
            Err(error) => Err(chain(&*error)),
        }
    }
}

impl Peer {
    fn new(
        name: &UpstreamName,
        upstream: &settings::Upstream,
        connect: Duration,
    ) -> Result<Self, Problem> {
        let base = Base::of(&upstream.url).ok_or_else(|| {
            Problem::new(format!("upstream `{name}`: the URL has no scheme or host"))
                .help("write it as http://HOST:PORT or https://HOST/PATH")
        })?;
        let authorities = upstream.ca.as_deref().map(pem::authorities).transpose();
        let authorities = authorities.map_err(|error| {
            Problem::new(format!("`upstreams.{name}.tls.ca`: {error}"))
                .help("write the certificates of the authorities in PEM")
        })?;
        let connector = connector(authorities, connect)
            .map_err(|error| Problem::new(format!("TLS to upstreams cannot start: {error}")))?;
        // A request that was given to a pooled connection which then closed before it took it up goes to the next
        // connection: its first byte has not left. Nothing else is ever sent again, over HTTP/2 neither.
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .timer(TokioTimer::new())
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .set_host(false)
            .build(connector.clone());
        Ok(Self {
            client,
            connector,
            base,
        })
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

    pub(super) fn join(&self, below: &Uri) -> Option<Uri> {
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
        let peer = self.peers.get(to);
        let target = peer.and_then(|peer| Some((peer, peer.base.join(&parts.uri)?)));
        let Some((peer, target)) = target else {
            let cause = format!("upstream `{to}` has no such path");
            return Box::pin(std::future::ready(Err(UpstreamError::NotSent(cause))));
        };
        parts.uri = target;
        let sent = peer
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

/// Gets one URL of the operator's: no redirects are followed, and the whole takes bounded time and bytes.
pub(crate) struct Getter {
    client: Client<Connector, Full<Bytes>>,
    url: Uri,
}

/// For the whole of a [`Getter::get`] besides connecting.
const GET: Duration = Duration::from_secs(10);

impl Getter {
    /// Trusts the authorities in the file, or else the public ones.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn new(url: Uri, ca: Option<&Path>, connect: Duration) -> Result<Self, String> {
        let authorities = ca.map(pem::authorities).transpose();
        let authorities = authorities.map_err(|error| error.to_string())?;
        let connector = connector(authorities, connect)
            .map_err(|error| format!("TLS cannot start: {error}"))?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .build(connector);
        Ok(Self { client, url })
    }

    /// The body of a 200, at most `most` bytes of it.
    ///
    /// # Errors
    /// Why there is none. The words hold nothing of the answer.
    pub(crate) async fn get(&self, most: usize) -> Result<Bytes, String> {
        let whole = async {
            let mut request = http::Request::new(Full::new(Bytes::new()));
            *request.uri_mut() = self.url.clone();
            let accept = http::HeaderValue::from_static("application/json");
            request.headers_mut().insert(http::header::ACCEPT, accept);
            let asked = self.client.request(request).await;
            let response = asked.map_err(|error| chain(&error))?;
            if response.status() != http::StatusCode::OK {
                return Err(format!("it is answered with {}", response.status()));
            }
            let body = Limited::new(response.into_body(), most).collect().await;
            let body = body.map_err(|error| chain(&*error))?;
            Ok(body.to_bytes())
        };
        let got = tokio::time::timeout(GET, whole).await;
        got.map_err(|_| format!("it is not answered within {GET:?}"))?
    }
}

/// The error and what caused it, one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
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

/// Trusts `authorities`, or else the public ones.
fn connector(
    authorities: Option<RootCertStore>,
    connect: Duration,
) -> Result<Connector, Box<dyn std::error::Error>> {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(TCP_KEEP_ALIVE));
    tcp.enforce_http(false);
    let builder = HttpsConnectorBuilder::new();
    let builder = match authorities {
        None => builder.with_provider_and_webpki_roots(default_provider())?,
        Some(roots) => builder.with_tls_config(
            ClientConfig::builder_with_provider(Arc::new(default_provider()))
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_no_client_auth(),
        ),
    };
    Ok(Bounded {
        inner: builder
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp),
        limit: connect,
    })
}

/// Bounds the whole of connecting: name look-up, TCP and TLS.
#[derive(Clone)]
pub(super) struct Bounded<C> {
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
