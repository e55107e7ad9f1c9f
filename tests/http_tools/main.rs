//! HTTP tools: arguments from every place of a request, answers of every kind, tools from an API's description.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::too_many_lines,
    reason = "a failed set-up is a failed test"
)]

mod answers;
mod desk;
mod multipart;
mod openapi;
mod places;
mod readers;
#[expect(dead_code, reason = "other crates of tests use the rest")]
#[path = "../support/mod.rs"]
mod support;
mod tickets;
