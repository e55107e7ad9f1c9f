//! The tables: how they are made, recognised and brought up to date.

use tokio_postgres::Client;

use super::db::Fault;
use crate::store::tickets::TicketError;

/// What makes each version from the one before it.
const MIGRATIONS: [&str; 3] = [
    include_str!("0001.sql"),
    include_str!("0002.sql"),
    include_str!("0003.sql"),
];

/// The newest version.
const SCHEMA: i32 = 3;

const _: () = assert!(MIGRATIONS.len() == 3);

/// Key of the lock that one process holds while it makes or changes tables: `hptk`.
const LOCK: i64 = 0x6870_746b;

/// Where the tables are, whatever else the database holds.
const MAKE: &str = "
CREATE SCHEMA IF NOT EXISTS holdpoint;
CREATE TABLE IF NOT EXISTS holdpoint.version (one boolean PRIMARY KEY DEFAULT true CHECK (one), version integer NOT NULL);
INSERT INTO holdpoint.version (version) VALUES (0) ON CONFLICT DO NOTHING;";

/// Makes what is missing; with `make` off only looks.
pub(super) async fn prepare(client: &mut Client, place: &str, make: bool) -> Result<(), Opening> {
    let transaction = client.transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await?;
    let there = transaction
        .query_one("SELECT to_regclass('holdpoint.version') IS NOT NULL", &[])
        .await?;
    if !there.try_get::<_, bool>(0)? {
        if !make {
            return Err(Opening::Ticket(TicketError::NotATicketStore {
                path: place.to_owned(),
            }));
        }
        transaction.batch_execute(MAKE).await?;
    }
    let row = transaction
        .query_one("SELECT version FROM holdpoint.version", &[])
        .await?;
    let found: i32 = row.try_get(0)?;
    let (path, version) = (place.to_owned(), i64::from(found));
    if found > SCHEMA {
        return Err(Opening::Ticket(TicketError::Newer {
            path,
            found: version,
            known: i64::from(SCHEMA),
        }));
    }
    if found < SCHEMA && !make {
        return Err(Opening::Ticket(TicketError::Older {
            path,
            found: version,
        }));
    }
    transaction
        .batch_execute("SET LOCAL search_path = holdpoint")
        .await?;
    let done = usize::try_from(found).unwrap_or_default();
    for migration in MIGRATIONS.iter().skip(done) {
        transaction.batch_execute(migration).await?;
    }
    if found < SCHEMA {
        transaction
            .execute("UPDATE holdpoint.version SET version = $1", &[&SCHEMA])
            .await?;
    }
    Ok(transaction.commit().await?)
}

/// Why the tables are not to be had.
pub(super) enum Opening {
    /// The database failed.
    Database(Fault),
    /// It is something else, or of another version.
    Ticket(TicketError),
}

impl From<tokio_postgres::Error> for Opening {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}
