//! Who calls: tokens of an identity provider, keys of agents, names in client certificates. What is here verifies a credential
//! and says whose it is; it decides nothing about a call and sends no credential anywhere.

pub mod api_key;
mod claims;
mod jwk;
mod jwks;
mod names;
mod token;

pub use claims::Caller;
pub(crate) use claims::{at as claim, scopes as words, text};
pub use jwk::{Algorithm, KeySet};
pub use jwks::{Fetch, Jwks, LARGEST_JWKS, Timing};
pub use names::ClientNames;
pub use token::Tokens;

/// Why a credential is not taken. The cause is for the log: it has fixed words and no text of the credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is no token of the issuer for this proxy, or says something that no token may say.
    #[error("the token is invalid: {0}")]
    Invalid(&'static str),
    /// It was good once.
    #[error("the token is expired")]
    Expired,
    /// It is good, and those who act by it may not.
    #[error("the token's delegation is refused: {0}")]
    Delegation(&'static str),
    /// The issuer's keys are not known, or have not been for too long.
    #[error("there are no keys to verify tokens with")]
    NoKeys,
}
