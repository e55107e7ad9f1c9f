//! What every ticket store promises, on a file.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use holdpoint::clock::Clock;
use holdpoint::store::tickets::{TicketLimits, TicketStore, sqlite};
use tempfile::TempDir;

use crate::conformance::Bed;

struct Files(TempDir);

impl Files {
    fn path(&self) -> PathBuf {
        self.0.path().join("tickets.db")
    }
}

impl Bed for Files {
    fn serve(
        &self,
        clock: Arc<dyn Clock>,
        limits: TicketLimits,
    ) -> BoxFuture<'_, Arc<dyn TicketStore>> {
        Box::pin(async move { sqlite::open_serving(&self.path(), clock, limits).unwrap() })
    }

    fn beside(
        &self,
        clock: Arc<dyn Clock>,
        limits: TicketLimits,
    ) -> BoxFuture<'_, Arc<dyn TicketStore>> {
        Box::pin(async move { sqlite::open_existing(&self.path(), clock, limits).unwrap() })
    }
}

#[expect(clippy::unused_async, reason = "others are started")]
async fn bed() -> Option<Files> {
    Some(Files(tempfile::tempdir().unwrap()))
}

/// A test of each promise, on the bed that `$bed` gives; `None`: it cannot be had here, and says why.
macro_rules! promises {
    ($bed:path; $($module:ident { $($promise:ident)* })*) => { $(mod $module { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $promise() {
            if let Some(bed) = $bed().await {
                $crate::conformance::$module::$promise(&bed).await;
            }
        }
    )* })* };
}

crate::conformance::every_promise!(promises, crate::promises::bed);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_carried_out_twice_and_no_loss_is_silent() {
    // Another database than the one that `scripts/test databases` starts.
    crate::killed::rounds(std::env::var("HOLDPOINT_KILL_POSTGRES").ok()).await;
}

#[tokio::test]
async fn a_memory_of_one_process_knows_whom_users_have_reached() {
    let memory = Arc::new(holdpoint::acquainted::MemoryAcquainted::default());
    crate::conformance::acquainted::knows([memory.clone(), memory]).await;
}
