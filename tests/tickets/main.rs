//! Tickets from the request to the receipt, through the guard, the approver API and the command line.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a failed set-up is a failed test"
)]

mod api;
mod cli;
mod conformance;
mod crash;
mod killed;
mod lifecycle;
mod limits;
mod migration;
mod promises;
#[expect(dead_code, reason = "other crates of tests use the rest")]
#[path = "../support/mod.rs"]
mod support;
mod world;
