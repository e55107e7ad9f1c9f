//! The Model Context Protocol: the adapter with a closure in place of the guard, and a running proxy over real sockets.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a failed set-up is a failed test"
)]

mod answers;
mod driver;
mod live;
mod parity;
mod requests;
mod rmcp;
#[expect(dead_code, reason = "other test crates use the rest")]
#[path = "../support/mod.rs"]
mod support;
