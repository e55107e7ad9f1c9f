//! Tickets from the request to the receipt, through the guard, the approver API and the command line.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr,
    reason = "a failed set-up is a failed test"
)]

mod api;
mod cli;
mod conformance;
mod crash;
mod desk;
mod killed;
mod lifecycle;
mod limits;
mod login;
mod migration;
mod promises;
mod provider;
mod settle;
mod slack;
#[expect(dead_code, reason = "other test crates use the rest")]
#[path = "../support/mod.rs"]
mod support;
mod table;
mod waiting;
mod webhook;
mod world;

/// The store that a server has by default.
#[expect(clippy::unused_async, reason = "others are started")]
async fn shelf() -> Option<table::desk::Shelf> {
    Some(table::desk::Shelf::sqlite())
}

table::every_row!(crate::shelf);
