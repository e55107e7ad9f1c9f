//! `holdpoint mcp-wrap` as its client sees it: lines in, lines out, and a server behind it that is a few lines of shell.

#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]

mod docs;
mod ends;
mod messages;
mod rules;
mod unreadable;
mod wrapped;
