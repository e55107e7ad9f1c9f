//! Databases: those that look-ups ask, and where tickets live.

use std::path::PathBuf;

use super::Secret;
use crate::store::sql::ServerTls;
use crate::store::tickets::TicketLimits;
use crate::store::tickets::issued::Issuer;
use crate::wire::seal::SealingKey;

/// A read-only database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlStore {
    /// An SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL server.
    Postgres(SqlServer),
    /// A MySQL or MariaDB server.
    MySql(SqlServer),
}

/// A database behind a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlServer {
    /// Its URL with user and password, read from the environment.
    pub url: Secret,
    /// How the connection is kept private.
    pub tls: ServerTls,
}

/// Where tickets live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TicketPlace {
    /// An SQLite file, made if missing; one process serves it.
    File(PathBuf),
    /// A PostgreSQL database, which several processes may serve.
    Postgres(SqlServer),
}

/// The ticket store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketSettings {
    /// Where tickets live.
    pub store: TicketPlace,
    /// How much it takes, and for how long it remembers.
    pub limits: TicketLimits,
    /// What seals the states that clients carry between a question to their user and its answer, at most two: the first
    /// seals, both open. None: the process has one of its own.
    pub state_keys: Vec<SealingKey>,
    /// Whose signed tickets are taken, where a rule names them.
    pub issuers: Vec<Issuer>,
}
