//! Reading from backends: the look-ups that ask a REST service in place of a database.

use futures_util::future::BoxFuture;
use serde_json::Value;

/// Why a backend gave no answer to trust.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpReadError {
    /// Nothing came, or not in time.
    #[error("the backend does not answer: {0}")]
    Silent(String),
    /// A status that is neither 200 nor 404.
    #[error("the backend answers {0}, neither 200 nor 404")]
    Status(u16),
    /// An answer that is not JSON, is not strict, or is too large.
    #[error("the backend's answer cannot be read: {0}")]
    Unreadable(String),
}

/// A backend that is only read: one method, and no body.
pub trait HttpRead: Send + Sync {
    /// GET of a path below the backend's URL, as it goes on the wire; `None` where there is no such resource (404).
    ///
    /// # Errors
    /// Whatever else the answer is: a redirect is not followed.
    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Value>, HttpReadError>>;
}
