//! What outlives a request: read-only look-ups in databases and at backends, tickets, session facts. Handed to layers as traits.

pub mod definitions;
pub mod http;
pub mod sql;
pub mod tickets;

use std::collections::HashMap;
use std::sync::Arc;

use crate::acquainted::{Acquainted, MemoryAcquainted};
use crate::clock::{Clock, SystemClock};
use crate::layers::egress::Register;
use crate::layers::injection::{MarkerKey, Recalls};
use crate::ledger::{Ledger, MemoryLedger};
use crate::names::{StoreName, UpstreamName};

/// Everything that layers may ask. Cheap to clone.
#[derive(Clone)]
pub struct Stores {
    /// Read-only databases for look-ups, by the name the config gives them.
    pub sql: HashMap<StoreName, Arc<dyn sql::ReadOnlySql>>,
    /// Backends for look-ups, by the name the config gives them.
    pub http: HashMap<UpstreamName, Arc<dyn http::HttpRead>>,
    /// Where tickets live; `None`: nobody can approve anything.
    pub tickets: Option<Arc<dyn tickets::TicketStore>>,
    /// Definitions of tools as they were last offered.
    pub definitions: Arc<definitions::Definitions>,
    /// Scheme, host and port of each upstream: part of what a ticket is bound to.
    pub origins: Arc<HashMap<UpstreamName, String>>,
    /// Whose signed tickets are taken where a rule names them.
    pub issuers: Arc<[tickets::issued::Issuer]>,
    /// Who may approve now.
    pub directory: Arc<dyn tickets::Directory>,
    /// Secrets that must not leave.
    pub register: Arc<Register>,
    /// What marks the data of sessions.
    pub marker_key: MarkerKey,
    /// What outputs of tools' routes left behind.
    pub recalls: Arc<Recalls>,
    /// Session facts.
    pub ledger: Arc<dyn Ledger>,
    /// Whom and what users have reached before.
    pub acquainted: Arc<dyn Acquainted>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl Default for Stores {
    fn default() -> Self {
        Self {
            sql: HashMap::new(),
            http: HashMap::new(),
            tickets: None,
            definitions: Arc::default(),
            origins: Arc::default(),
            issuers: Arc::from([]),
            directory: Arc::new(tickets::Nobody),
            register: Arc::default(),
            marker_key: MarkerKey::of_process(),
            recalls: Arc::default(),
            ledger: Arc::new(MemoryLedger::new(10_000)),
            acquainted: Arc::new(MemoryAcquainted::default()),
            clock: SystemClock::shared(),
        }
    }
}
