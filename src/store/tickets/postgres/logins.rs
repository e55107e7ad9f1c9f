//! Log-ins, in the same database, so that a person may be sent to any process.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::db::{Db, Pg, Tx};
use crate::store::tickets::columns::Columns;
use crate::store::tickets::logins::{LogIn, LogInLife, LogInName, LogIns};
use crate::store::tickets::{Answering, rules};

/// A use is written so long after the last one that was: pages ask often.
const NOTED: Duration = Duration::from_secs(30);

/// Log-ins that several processes share.
pub(super) struct PostgresLogIns(pub(super) Arc<Db>);

/// The earliest last use, and the earliest beginning, of a log-in that is alive.
fn bounds(now: Timestamp, life: LogInLife) -> (i64, i64) {
    let before = |by| rules::minus(now, by).as_microsecond();
    (before(life.idle), before(life.absolute))
}

async fn begin(
    tx: &Tx,
    (name, log_in): (&LogInName, &LogIn),
    instead_of: Option<&LogInName>,
    life: LogInLife,
) -> Pg<()> {
    tx.exclusively(&log_in.human).await?;
    if let Some(old) = instead_of {
        end(tx, old).await?;
    }
    let (used, since) = bounds(log_in.used, life);
    tx.execute("DELETE FROM login WHERE used < $1", &[&used])
        .await?;
    tx.execute("DELETE FROM login WHERE since < $1", &[&since])
        .await?;
    // The new one has its place.
    let others = i64::from(life.each.saturating_sub(1));
    tx.execute(
        "DELETE FROM login WHERE name IN (
            SELECT name FROM login WHERE human = $1 ORDER BY used DESC, name OFFSET $2)",
        &[&log_in.human, &others],
    )
    .await?;
    tx.execute(
        "INSERT INTO login (name, human, facts, since, used) VALUES ($1, $2, $3, $4, $5)",
        &[
            &&name[..],
            &log_in.human,
            &log_in.facts,
            &log_in.since.as_microsecond(),
            &log_in.used.as_microsecond(),
        ],
    )
    .await?;
    Ok(())
}

async fn get(tx: &Tx, name: &LogInName, now: Timestamp, life: LogInLife) -> Pg<Option<LogIn>> {
    let (used, since) = bounds(now, life);
    let row = tx
        .row(
            "SELECT human, facts, since, used FROM login WHERE name = $1 AND used >= $2 AND since >= $3",
            &[&&name[..], &used, &since],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let log_in = LogIn {
        human: row.text("human")?,
        facts: row.text("facts")?,
        since: row.at("since")?,
        used: row.at("used")?,
    };
    if rules::plus(log_in.used, NOTED) <= now {
        tx.execute(
            "UPDATE login SET used = greatest(used, $2) WHERE name = $1",
            &[&&name[..], &now.as_microsecond()],
        )
        .await?;
    }
    Ok(Some(log_in))
}

async fn end(tx: &Tx, name: &LogInName) -> Pg<()> {
    tx.execute("DELETE FROM login WHERE name = $1", &[&&name[..]])
        .await?;
    Ok(())
}

impl LogIns for PostgresLogIns {
    fn begin(
        &self,
        name: LogInName,
        log_in: LogIn,
        instead_of: Option<LogInName>,
        life: LogInLife,
    ) -> Answering<'_, ()> {
        let log_in = Arc::new(log_in);
        Box::pin(self.0.step(move |tx| {
            let log_in = Arc::clone(&log_in);
            Box::pin(async move { begin(tx, (&name, &log_in), instead_of.as_ref(), life).await })
        }))
    }

    fn get(
        &self,
        name: LogInName,
        now: Timestamp,
        life: LogInLife,
    ) -> Answering<'_, Option<LogIn>> {
        Box::pin(
            self.0
                .step(move |tx| Box::pin(async move { get(tx, &name, now, life).await })),
        )
    }

    fn end(&self, name: LogInName) -> Answering<'_, ()> {
        Box::pin(
            self.0
                .step(move |tx| Box::pin(async move { end(tx, &name).await })),
        )
    }
}
