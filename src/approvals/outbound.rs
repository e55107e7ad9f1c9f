//! Requests that this room sends: to the identity provider, to webhooks, to Slack. No redirect is followed, the whole takes
//! bounded time and bytes, and where nobody has said otherwise no private address is connected to.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::vec::IntoIter;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs::default_provider;

use crate::layers::egress::{is_metadata, is_private};
use crate::wire::pem;

/// For the whole of one request.
const TIME: Duration = Duration::from_secs(10);
/// For connecting.
const CONNECT: Duration = Duration::from_secs(5);
/// Idle connections live so long.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// Where a client may connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Public addresses alone.
    Public,
    /// Whatever the operator names, but not where clouds serve credentials.
    Private,
}

impl Reach {
    fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Public => !is_private(address) && !is_metadata(address),
            Self::Private => !is_metadata(address),
        }
    }
}

/// A client.
#[derive(Clone)]
pub(crate) struct Outbound {
    client: Client<HttpsConnector<HttpConnector<Resolve>>, Full<Bytes>>,
    reach: Reach,
}

impl std::fmt::Debug for Outbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbound").finish_non_exhaustive()
    }
}

impl Outbound {
    /// Trusts the authorities in the file, or else the public ones.
    ///
    /// # Errors
    /// They cannot be read, or TLS cannot start.
    pub(crate) fn new(ca: Option<&Path>, reach: Reach) -> Result<Self, String> {
        let mut tcp = HttpConnector::new_with_resolver(Resolve(reach));
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.enforce_http(false);
        let no_tls = |error: &dyn std::fmt::Display| format!("TLS cannot start: {error}");
        let builder = HttpsConnectorBuilder::new();
        let builder = match ca {
            None => builder
                .with_provider_and_webpki_roots(default_provider())
                .map_err(|error| no_tls(&error))?,
            Some(path) => {
                let roots = pem::authorities(path).map_err(|error| error.to_string())?;
                let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
                    .with_safe_default_protocol_versions()
                    .map_err(|error| no_tls(&error))?;
                builder.with_tls_config(config.with_root_certificates(roots).with_no_client_auth())
            }
        };
        let connector = builder
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .build(connector);
        Ok(Self { client, reach })
    }

    /// Status and body of the answer, at most `most` bytes of it.
    ///
    /// # Errors
    /// Why there is none. The words hold nothing of the request or the answer.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        most: usize,
    ) -> Result<(StatusCode, Bytes), String> {
        let agent = HeaderValue::from_static(concat!("holdpoint/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(header::USER_AGENT, agent);
        // An address in the URL is looked up by nobody.
        let host = request.uri().host().unwrap_or_default();
        let bare = host.trim_matches(['[', ']']);
        if let Ok(address) = bare.parse::<IpAddr>()
            && !self.reach.allows(address)
        {
            return Err(REFUSED.to_owned());
        }
        let whole = async {
            let asked = self.client.request(request).await;
            let response = asked.map_err(|error| chain(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), most).collect().await;
            let body = body.map_err(|error| chain(&*error))?;
            Ok((status, body.to_bytes()))
        };
        let sent = tokio::time::timeout(TIME, whole).await;
        sent.map_err(|_| format!("it is not answered within {TIME:?}"))?
    }
}

const REFUSED: &str = "its address is private, and `private: true` is not set";

/// Looks names up; an answer that may not be connected to spoils all of them.
#[derive(Clone, Copy, Debug)]
struct Resolve(Reach);

impl tower::Service<Name> for Resolve {
    type Response = IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let reach = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<_> = found.collect();
            if found.iter().any(|address| !reach.allows(address.ip())) {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, REFUSED));
            }
            Ok(found.into_iter())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn private_addresses_are_not_connected_to_under_any_name() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let public = Outbound::new(None, Reach::Public).unwrap();
        for host in ["127.0.0.1", "localhost", "[::1]", "169.254.169.254"] {
            let request = Request::get(format!("http://{host}:{port}/")).body(Full::default());
            let error = public.send(request.unwrap(), 1024).await.unwrap_err();
            assert!(error.contains(REFUSED), "{host}: {error}");
        }
        let private = Outbound::new(None, Reach::Private).unwrap();
        let request = Request::get("http://169.254.169.254/").body(Full::default());
        let error = private.send(request.unwrap(), 1024).await.unwrap_err();
        assert!(error.contains(REFUSED), "{error}");
    }
}
