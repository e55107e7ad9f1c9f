//! Bodies: bounded, decoded, never half-read.
//!
//! One push-driven decoder serves whole bodies and event streams: all that a piece holds comes out with that piece. A body
//! that ends before its encoding does, or that goes on after it, is refused.

mod decode;
mod read;
#[cfg(test)]
mod tests;

use std::time::Duration;

use decode::MOST_GROWTH;
pub use decode::{Decoder, Encodings};
pub use read::{Pace, discard, next_piece, read};

/// Why a body cannot be read. Never holds text of the body.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Above the limit, encoded or decoded.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// A bomb: it grows beyond what text does.
    #[error("the body grows more than {MOST_GROWTH}-fold when decoded")]
    Expands,
    /// The bodies of all requests together fill their budget.
    #[error("no memory is left for the body")]
    NoMemory,
    /// An encoding that is not read here, or too many.
    #[error("the content encoding is not one of gzip, deflate, br, zstd, at most two of them")]
    UnknownEncoding,
    /// The bytes are not in the encoding that the header names, end early or go on after its end.
    #[error("the body is not valid in its content encoding")]
    BadEncoding,
    /// No piece came in time.
    #[error("the body stood still for {0:?}")]
    Idle(Duration),
    /// The connection ended before the body did.
    #[error("the body ended early: {0}")]
    Cut(String),
}
