//! The forward proxy over real sockets: what it lets out, what it looks up, what it dials.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a failed set-up is a failed test"
)]

mod bodies;
mod budgets;
mod curl;
mod ends;
mod heads;
#[path = "../support/hello.rs"]
mod hello;
mod names;
mod plain;
mod start;
#[expect(dead_code, reason = "other crates of tests use the rest")]
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod tunnel;
mod world;
