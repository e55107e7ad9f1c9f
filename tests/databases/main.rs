//! Databases behind a network: what every kind of look-up answers and refuses, that an account which can write is found out, and what becomes of a
//! call whose look-up asks one; and what the ticket store in PostgreSQL promises. Those that need a server run with `HOLDPOINT_TEST_DATABASES` set, as `scripts/test databases` does.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr,
    clippy::too_many_lines,
    reason = "a failed set-up is a failed test"
)]

mod backend;
#[path = "../tickets/conformance/mod.rs"]
mod conformance;
mod desk;
#[path = "../tickets/killed.rs"]
mod killed;
mod lookups;
mod mysql;
mod postgres;
mod rows;
mod sandbox;
mod servers;
mod sqlite;
#[expect(dead_code, reason = "other crates of tests use the rest")]
#[path = "../support/mod.rs"]
mod support;
#[expect(dead_code, reason = "the store of one file is not the one here")]
#[path = "../tickets/table/mod.rs"]
mod table;
mod tickets;
