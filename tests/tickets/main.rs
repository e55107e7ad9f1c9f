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
mod backends;
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

/// All forty rows are shown, here or where the table says.
#[test]
fn every_row_of_the_failure_table_is_shown() {
    let mut shown: Vec<usize> = Vec::new();
    for (row, file, test) in table::ELSEWHERE {
        let path = format!("{}/tests/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(test), "{file} has no `{test}`");
        shown.push(row);
    }
    let here = include_str!("table/mod.rs");
    let names = here
        .lines()
        .filter_map(|line| line.trim().strip_prefix("row_"));
    shown.extend(names.map(|name| name[..2].parse::<usize>().unwrap()));
    shown.sort_unstable();
    shown.dedup();
    assert_eq!(shown, (1..=40).collect::<Vec<_>>());
}
