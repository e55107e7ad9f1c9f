//! Who waits for a ticket to change, in this process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::names::TicketId;

/// Tickets that somebody waits for.
#[derive(Default)]
pub(super) struct Waiting(Mutex<HashMap<TicketId, watch::Sender<()>>>);

impl Waiting {
    /// Told as soon as a transaction of this process that changed the ticket is on disk.
    pub(super) fn watch(&self, ticket: &TicketId) -> watch::Receiver<()> {
        let mut waiting = self.lock();
        waiting.retain(|_, sender| sender.receiver_count() > 0);
        let sender = waiting
            .entry(ticket.clone())
            .or_insert_with(|| watch::channel(()).0);
        sender.subscribe()
    }

    /// Tells whoever waits for one of these.
    pub(super) fn wake(&self, changed: &[TicketId]) {
        let waiting = self.lock();
        for ticket in changed {
            if let Some(sender) = waiting.get(ticket) {
                sender.send_replace(());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TicketId, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
