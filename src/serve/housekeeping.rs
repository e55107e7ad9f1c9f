//! What goes on beside requests where there is a ticket store: finds out what became of calls of unknown outcome, and removes
//! what the store keeps no longer.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::layers::tickets::reconcile::Reconciler;
use crate::policy::Policy;
use crate::source::Problems;
use crate::store::Stores;
use crate::store::tickets::TicketStore;
use crate::verdict::{LayerId, Mode};

/// How often.
const EVERY: Duration = Duration::from_mins(10);

/// A pause between two removals, so that calls have their turn.
const BETWEEN: Duration = Duration::from_millis(200);

/// Ready to go on.
pub(crate) struct Housekeeping {
    tickets: Option<Arc<dyn TicketStore>>,
    reconciler: Option<Reconciler>,
}

/// Goes on until it is dropped.
#[derive(Debug)]
pub(crate) struct Kept(Vec<JoinHandle<()>>);

impl Drop for Kept {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

impl Housekeeping {
    /// # Errors
    /// Recipes (`reconcile`) whose look-up cannot run.
    pub(crate) fn new(policy: &Arc<Policy>, stores: &Stores) -> Result<Self, Problems> {
        let reconciler = if policy.modes.of(LayerId::Tickets) == Mode::Enforce {
            Reconciler::new(policy, stores)?.filter(Reconciler::has_recipes)
        } else {
            None
        };
        Ok(Self {
            tickets: stores.tickets.clone(),
            reconciler,
        })
    }

    /// From now on.
    pub(crate) fn begin(self) -> Kept {
        let pruning = self.tickets.map(|store| tokio::spawn(prune(store)));
        let finding = self
            .reconciler
            .map(|reconciler| tokio::spawn(reconciler.run()));
        Kept(pruning.into_iter().chain(finding).collect())
    }
}

/// Removes what is old, now and from time to time.
async fn prune(store: Arc<dyn TicketStore>) {
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
}
