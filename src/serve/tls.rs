//! TLS at the listeners of agents and approvers.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::identity::ClientNames;
use crate::settings::ListenTls;
use crate::source::{Problem, Problems};
use crate::wire::pem;

/// HTTP/2's name in ALPN (RFC 9113 section 3.1).
pub(super) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// HTTP/2 and HTTP/1.1.
pub(super) const BOTH: &[&[u8]] = &[HTTP2, HTTP1];

/// HTTP/1.1 alone.
pub(super) const ONE: &[&[u8]] = &[HTTP1];

/// The names in the certificate that the client has shown.
pub(super) fn names<S>(stream: &TlsStream<S>) -> Option<Arc<ClientNames>> {
    let shown = stream.get_ref().1.peer_certificates();
    let first = shown.and_then(<[_]>::first);
    first.map(|certificate| Arc::new(ClientNames::of(certificate)))
}

/// Reads the files that the config names at `at`.
///
/// # Errors
/// Every file that is missing or holds the wrong thing, and a key that does not belong to the certificate.
pub(super) fn acceptor(
    at: &str,
    files: &ListenTls,
    protocols: &[&[u8]],
) -> Result<TlsAcceptor, Problems> {
    let problem = |key: &str, error: &dyn std::fmt::Display, help| {
        Problem::new(format!("`{at}.{key}`: {error}")).help(help)
    };
    let certificates = pem::certificates(&files.certificate)
        .map_err(|error| problem("certificate", &error, "write the certificate chain in PEM"));
    let key = pem::private_key(&files.key)
        .map_err(|error| problem("key", &error, "write the unencrypted private key in PEM"));
    let authorities = files.client_ca.as_deref().map(|path| {
        pem::authorities(path)
            .map_err(|error| problem("client_ca", &error, "write the authorities in PEM"))
    });
    let (certificates, key, authorities) = match (certificates, key, authorities.transpose()) {
        (Ok(certificates), Ok(key), Ok(authorities)) => (certificates, key, authorities),
        (a, b, c) => {
            let problems = [a.err(), b.err(), c.err()];
            return Err(Problems(problems.into_iter().flatten().collect()));
        }
    };
    let provider = Arc::new(default_provider());
    let unusable = |error: &dyn std::fmt::Display| {
        let help: &str = "check that `key` is the private key of the first certificate";
        Problems::from(problem("certificate", error, help))
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let roots = Arc::new(roots);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| unusable(&error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(certificates, key)
        .map_err(|error| unusable(&error))?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}
