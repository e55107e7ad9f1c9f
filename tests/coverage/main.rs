//! What is guarded on which route: proved at start, and printed by the doctor.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a failed set-up is a failed test"
)]

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "not all of the shared parts are needed here")]
mod shared;

mod doctor;
mod proof;
mod reach;
mod sessions;
