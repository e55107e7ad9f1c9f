//! The names of a client certificate that the listener has verified.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The names in a verified client certificate's subject alternative names (RFC 5280 section 4.2.1.6). Its subject is not read:
/// names stand there no more (RFC 9525 section 2).
///
/// The listener puts it into the extensions of each request of the connection; nothing else may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientNames {
    /// URIs as they are written, such as `spiffe://shop.example/agents/desk`.
    pub uris: Vec<String>,
    /// DNS names, lower case.
    pub dns: Vec<String>,
}

impl ClientNames {
    /// Reads them; none where the certificate has none, or cannot be read.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok(certificate) = EndEntityCert::try_from(certificate) else {
            return Self::default();
        };
        Self {
            uris: certificate.valid_uri_names().map(str::to_owned).collect(),
            dns: certificate
                .valid_dns_names()
                .map(str::to_ascii_lowercase)
                .collect(),
        }
    }
}
