//! Certificates and keys from PEM files.

use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why a file gives no certificate or key. Never holds what is in it.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// It cannot be opened or read.
    #[error("`{0}` cannot be read: {1}")]
    Unreadable(PathBuf, std::io::Error),
    /// What is in it is no PEM.
    #[error("`{0}` is not valid PEM")]
    Invalid(PathBuf),
    /// It holds nothing of what is asked for.
    #[error("`{0}` holds no {1} in PEM")]
    Empty(PathBuf, &'static str),
    /// One of its certificates cannot stand for an authority.
    #[error("`{0}` holds a certificate that cannot be an authority: {1}")]
    NoAuthority(PathBuf, rustls::Error),
}

/// Every certificate of a file, in order; at least one.
///
/// # Errors
/// Every [`PemError`] but [`PemError::NoAuthority`].
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let read = |error| of(path, "certificate", error);
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(read)?
        .collect::<Result<_, _>>()
        .map_err(read)?;
    if certificates.is_empty() {
        return Err(PemError::Empty(path.to_owned(), "certificate"));
    }
    Ok(certificates)
}

/// The first private key of a file.
///
/// # Errors
/// As [`certificates`].
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| of(path, "private key", error))
}

/// Every certificate of a file as an authority.
///
/// # Errors
/// Every [`PemError`].
pub fn authorities(path: &Path) -> Result<RootCertStore, PemError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| PemError::NoAuthority(path.to_owned(), error))?;
    }
    Ok(roots)
}

fn of(path: &Path, what: &'static str, error: pem::Error) -> PemError {
    match error {
        pem::Error::Io(error) => PemError::Unreadable(path.to_owned(), error),
        pem::Error::NoItemsFound => PemError::Empty(path.to_owned(), what),
        _ => PemError::Invalid(path.to_owned()),
    }
}
