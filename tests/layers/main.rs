//! The layers through the guard: what passes, what is denied, held or rewritten, and why.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed set-up is a failed test"
)]

mod actions;
mod belonging;
mod catalog;
mod conditions;
mod definitions;
mod destinations;
mod egress;
mod egress_data;
mod injection;
mod injection_data;
mod ownership;
mod reached;
mod recipient_vectors;
mod recipients;
mod secret_hash;
mod secrets;
mod secrets_data;
mod support;
mod vectors;
