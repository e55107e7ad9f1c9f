//! What two readers may take apart: heads, chunks, frames and JSON, byte for byte over real sockets. Either nothing reaches
//! the upstream, or one request that every reader takes for the same.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a failed set-up is a failed test"
)]

mod chunks;
mod frames;
mod heads;
mod json;
mod raw;
#[expect(dead_code, reason = "shared with tests that use more of it")]
#[path = "../support/mod.rs"]
mod support;
