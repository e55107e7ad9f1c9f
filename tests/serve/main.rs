//! The server over real sockets, in front of an upstream that is exact to the byte.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a failed set-up is a failed test"
)]

mod actions;
mod bodies;
mod budgets;
mod clients;
mod definitions;
mod docs;
mod heads;
mod http2;
mod identity;
mod lifecycle;
mod origins;
mod profiles;
mod provenance;
mod recording;
mod rendered;
mod service;
mod streams;
#[expect(dead_code, reason = "other crates of tests use the rest")]
#[path = "../support/mod.rs"]
mod support;
mod taint;
mod tls;
mod tools;
