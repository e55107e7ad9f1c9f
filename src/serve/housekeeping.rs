//! Removes what the ticket store keeps no longer.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::store::tickets::TicketStore;

/// How often.
const EVERY: Duration = Duration::from_mins(10);

/// A pause between two removals, so that calls have their turn.
const BETWEEN: Duration = Duration::from_millis(200);

/// Removes what is old, now and from time to time.
pub(super) fn spawn(store: Arc<dyn TicketStore>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            match store.prune().await {
                Ok(0) => tokio::time::sleep(EVERY).await,
                Ok(removed) => {
                    tracing::info!(tickets = removed, "old tickets were removed");
                    tokio::time::sleep(BETWEEN).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "old tickets could not be removed");
                    tokio::time::sleep(EVERY).await;
                }
            }
        }
    })
}
