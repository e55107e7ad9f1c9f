//! Which processes serve the store: each with a lease that it renews, and a lock that the server takes back when it dies.
//!
//! What a process without either was redeeming is unknown: it may have been sent. A process that finds its own lease run out gets a
//! new name before it claims anything again.

use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tokio_postgres::Client;

use super::calls::note;
use super::db::{Connection, Db, Fault, Pg};
use crate::store::tickets::TicketError;
use crate::store::tickets::audit::Event;
use crate::store::tickets::columns::Columns;

/// How long a lease runs, in the server's time.
const LEASE: &str = "20 seconds";

/// Between two renewals.
const BEAT: Duration = Duration::from_secs(4);

/// To renew, or to take a new lease.
const PATIENCE: Duration = Duration::from_secs(5);

/// The locks of living processes are those of this class: `hptk`.
const CLASS: i32 = 0x6870_746b;

/// Takes a lease and keeps it as long as the store lives.
pub(super) fn serve(db: &Arc<Db>) -> Result<(), TicketError> {
    let first = Arc::clone(db);
    let enlisted = db.wait(PATIENCE * 2, async move {
        let own = enlist(&first).await.map_err(TicketError::from)?;
        recover(&first).await?;
        Ok::<_, TicketError>(own)
    });
    let own = match enlisted {
        Some(own) => own?,
        None => return Err(Fault::Other(format!("no answer within {PATIENCE:?}")).into()),
    };
    db.spawn(beat(Arc::downgrade(db), own));
    Ok(())
}

/// A connection that holds this process's lock, and under which name.
struct Own {
    connection: Connection,
    boot: String,
}

async fn enlist(db: &Db) -> Pg<Own> {
    let connection = db.connect().await?;
    let client = &connection.client;
    // It waits for its next beat for longer than a transaction may.
    client
        .batch_execute("SET search_path = holdpoint; SET idle_in_transaction_session_timeout = 0")
        .await?;
    let boot = uuid::Uuid::now_v7().simple().to_string();
    // Nobody sees the name before its lock is held, and the lock outlives the transaction.
    client.batch_execute("BEGIN").await?;
    let row = client
        .query_one(
            "INSERT INTO node (boot, lease_until) VALUES ($1, clock_timestamp() + $2::text::interval) RETURNING epoch",
            &[&boot, &LEASE],
        )
        .await?;
    let epoch: i32 = row.try_get(0)?;
    client
        .execute("SELECT pg_advisory_lock($1, $2)", &[&CLASS, &epoch])
        .await?;
    client.batch_execute("COMMIT").await?;
    name(db, Some(boot.clone()));
    Ok(Own { connection, boot })
}

fn name(db: &Db, boot: Option<String>) {
    *db.boot.lock().unwrap_or_else(PoisonError::into_inner) = boot;
}

/// `false`: the lease had run out, or another process has ended it.
async fn renew(client: &Client, boot: &str) -> Pg<bool> {
    let renewed = client
        .execute(
            "UPDATE node SET lease_until = clock_timestamp() + $2::text::interval
              WHERE boot = $1 AND lease_until > clock_timestamp()",
            &[&boot, &LEASE],
        )
        .await?;
    Ok(renewed == 1)
}

async fn beat(db: Weak<Db>, mut own: Own) {
    loop {
        tokio::time::sleep(BEAT).await;
        let Some(db) = db.upgrade() else {
            return;
        };
        let renewed = tokio::time::timeout(PATIENCE, renew(&own.connection.client, &own.boot));
        if !matches!(renewed.await, Ok(Ok(true))) {
            tracing::error!("the lease on the ticket store ran out: a new one is taken");
            name(&db, None);
            match tokio::time::timeout(PATIENCE, enlist(&db)).await {
                Ok(Ok(new)) => own = new,
                Ok(Err(fault)) => {
                    let error = TicketError::from(fault);
                    tracing::error!(%error, "no lease on the ticket store yet: nothing is redeemed");
                }
                Err(_) => tracing::error!("no lease on the ticket store yet: nothing is redeemed"),
            }
        }
        if let Err(error) = recover(&db).await {
            tracing::error!(%error, "the claims of lost processes could not be looked for");
        }
    }
}

/// Ends the names of processes that are gone; what they were redeeming is unknown.
async fn recover(db: &Arc<Db>) -> Result<(), TicketError> {
    let lost = db
        .step(|tx| {
            Box::pin(async move {
                // The lock of a process that lives cannot be had.
                tx.execute(
                    "DELETE FROM node WHERE lease_until <= clock_timestamp()
                        OR boot IS DISTINCT FROM $1 AND pg_try_advisory_xact_lock($2, epoch)",
                    &[&tx.boot, &CLASS],
                )
                .await?;
                let rows = tx
                    .rows(
                        "UPDATE ticket SET state = 'unknown', lost = lost + 1, claim = NULL
                          WHERE state = 'redeeming' AND boot NOT IN (SELECT boot FROM node)
                         RETURNING id",
                        &[],
                    )
                    .await?;
                for row in &rows {
                    note(tx, Event::Unknown, &row.text("id")?.into()).await?;
                }
                Ok(rows.len())
            })
        })
        .await?;
    if lost > 0 {
        tracing::error!(
            tickets = lost,
            "calls were on their way when their process ended: their outcome is unknown"
        );
    }
    Ok(())
}
