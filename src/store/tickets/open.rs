//! The store that the settings name.

use std::sync::Arc;

use super::{TicketError, TicketStore, postgres, sqlite};
use crate::acquainted::Acquainted;
use crate::clock::Clock;
use crate::ledger::Ledger;
use crate::settings::{TicketPlace, TicketSettings};

/// How a database is named in errors: its URL is a secret.
const DATABASE: &str = "of `tickets.postgres`";

/// An open store.
pub struct Opened {
    /// Tickets.
    pub tickets: Arc<dyn TicketStore>,
    /// What calls came to, where every process that serves the store counts together.
    pub ledger: Option<Arc<dyn Ledger>>,
    /// Whom users have reached, where every such process knows the same.
    pub acquainted: Option<Arc<dyn Acquainted>>,
}

/// Opens the store and serves it: made if missing, and calls can be claimed.
///
/// # Errors
/// It cannot be opened, is something else, or is served by another process that shares nothing.
pub fn serve(settings: &TicketSettings, clock: Arc<dyn Clock>) -> Result<Opened, TicketError> {
    let limits = settings.limits.clone();
    match &settings.store {
        TicketPlace::File(path) => Ok(Opened {
            tickets: sqlite::open_serving(path, clock, limits)?,
            ledger: None,
            acquainted: None,
        }),
        TicketPlace::Postgres(server) => {
            postgres::open_serving(&server.url.0, &server.tls, DATABASE, clock, limits)
        }
    }
}

/// Opens the store beside the process that serves it: nothing is made, nothing can be claimed.
///
/// # Errors
/// It is missing, cannot be opened, or is something else.
pub fn existing(settings: &TicketSettings, clock: Arc<dyn Clock>) -> Result<Opened, TicketError> {
    let limits = settings.limits.clone();
    match &settings.store {
        TicketPlace::File(path) => Ok(Opened {
            tickets: sqlite::open_existing(path, clock, limits)?,
            ledger: None,
            acquainted: None,
        }),
        TicketPlace::Postgres(server) => {
            postgres::open_existing(&server.url.0, &server.tls, DATABASE, clock, limits)
        }
    }
}
