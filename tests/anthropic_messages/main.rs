//! Anthropic Messages: the adapter with a closure in place of the guard, and a running proxy over real sockets.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::needless_pass_by_value,
    reason = "a failed set-up is a failed test"
)]

#[path = "../support/adapter.rs"]
mod adapter;
mod driver;
mod faults;
mod hidden;
mod live;
mod members;
mod parity;
mod requests;
mod responses;
mod streams;
#[expect(dead_code, reason = "each crate of tests uses its part")]
#[path = "../support/mod.rs"]
mod support;
mod tools;
