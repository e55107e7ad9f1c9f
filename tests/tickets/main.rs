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

/// A test of each row, on the shelf that `$shelf` gives; `None`: it cannot be had here, and says why.
macro_rules! rows {
    ($shelf:path; $($module:ident { $($row:ident)* })*) => { $($(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $row() {
            if let Some(shelf) = $shelf().await {
                $crate::table::$module::$row(&shelf).await;
            }
        }
    )*)* };
}

table::every_row!(rows, crate::shelf);
