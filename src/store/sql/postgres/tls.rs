//! TLS to a PostgreSQL server, by the one TLS library.
//!
//! A crate for it exists (`tokio-postgres-rustls`); it brings nine others to read certificates for channel binding, which the
//! check of the certificate's name and authority makes unnecessary here.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

use crate::store::sql::ServerTls;
use crate::wire::pem;

/// What makes a connection private.
#[derive(Clone)]
pub(crate) struct Tls(Option<TlsConnector>);

impl Tls {
    pub(crate) fn new(tls: &ServerTls) -> Result<Self, String> {
        let ServerTls::On(authorities) = tls else {
            return Ok(Self(None));
        };
        let roots: RootCertStore = match authorities {
            Some(file) => pem::authorities(file).map_err(|error| error.to_string())?,
            None => webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(),
        };
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Some(TlsConnector::from(Arc::new(config)))))
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Private;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, io::Error> {
        let name = ServerName::try_from(domain.to_owned());
        Ok(Handshake {
            connector: self.0.clone(),
            name: name.ok(),
        })
    }
}

/// One handshake to come.
pub(crate) struct Handshake {
    connector: Option<TlsConnector>,
    name: Option<ServerName<'static>>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Private;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Private, io::Error>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let (Some(connector), Some(name)) = (self.connector, self.name) else {
                return Err(io::Error::other(
                    "the host's name cannot stand in a certificate",
                ));
            };
            Ok(Private(connector.connect(name, stream).await?))
        })
    }
}

/// A connection inside TLS.
pub(crate) struct Private(client::TlsStream<Socket>);

impl TlsStream for Private {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Private {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Private {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
