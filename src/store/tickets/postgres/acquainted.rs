//! Whom and what users have reached, in the same database, so that a target known to one process is known to all.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::db::{Db, Pg, Tx};
use crate::acquainted::{Acquainted, Digest, EACH, Who};
use crate::store::tickets::TicketError;

/// Acquaintances that several processes share: of each user the newest [`EACH`].
pub(super) struct PostgresAcquainted(pub(super) Arc<Db>);

async fn known(tx: &Tx, who: &Who, targets: &[Digest]) -> Pg<Vec<bool>> {
    let asked: Vec<&[u8]> = targets.iter().map(|digest| &digest.0[..]).collect();
    let rows = tx
        .rows(
            "SELECT digest FROM target WHERE tenant = $1 AND issuer = $2 AND subject = $3 AND digest = ANY($4)",
            &[&&*who.tenant, &&*who.issuer, &&*who.subject, &asked],
        )
        .await?;
    let found = rows
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<Vec<Vec<u8>>, _>>()?;
    let is_known = |digest: &Digest| found.iter().any(|one| one[..] == digest.0);
    Ok(targets.iter().map(is_known).collect())
}

async fn record(tx: &Tx, who: &Who, targets: &[Digest], now: i64) -> Pg<()> {
    let whose: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
        [&&*who.tenant, &&*who.issuer, &&*who.subject];
    let [tenant, issuer, subject] = whose;
    // In one order, so that two transactions never wait for each other.
    let mut digests: Vec<&[u8]> = targets.iter().map(|digest| &digest.0[..]).collect();
    digests.sort_unstable();
    digests.dedup();
    let written = tx
        .execute(
            "INSERT INTO target (tenant, issuer, subject, digest, used)
             SELECT $1, $2, $3, digest, $5 FROM unnest($4::bytea[]) AS digest ORDER BY digest
             ON CONFLICT (tenant, issuer, subject, digest) DO UPDATE SET used = greatest(target.used, excluded.used)",
            &[tenant, issuer, subject, &digests, &now],
        )
        .await?;
    if written > 0 {
        let each = i64::try_from(EACH).unwrap_or(i64::MAX);
        tx.execute(
            "DELETE FROM target WHERE (tenant, issuer, subject, digest) IN (
                SELECT tenant, issuer, subject, digest FROM target
                 WHERE tenant = $1 AND issuer = $2 AND subject = $3
                 ORDER BY used DESC, digest OFFSET $4 FOR UPDATE SKIP LOCKED)",
            &[tenant, issuer, subject, &each],
        )
        .await?;
    }
    Ok(())
}

fn said(error: &TicketError) -> String {
    error.to_string()
}

impl Acquainted for PostgresAcquainted {
    fn known<'a>(
        &'a self,
        who: &'a Who,
        targets: &'a [Digest],
    ) -> BoxFuture<'a, Result<Vec<bool>, String>> {
        if targets.is_empty() {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        let asked = Arc::new((who.clone(), targets.to_vec()));
        Box::pin(async move {
            let found = self.0.step(move |tx| {
                let asked = Arc::clone(&asked);
                Box::pin(async move { known(tx, &asked.0, &asked.1).await })
            });
            found.await.map_err(|error| said(&error))
        })
    }

    fn record<'a>(
        &'a self,
        who: &'a Who,
        targets: &'a [Digest],
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), String>> {
        if targets.is_empty() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let reached = Arc::new((who.clone(), targets.to_vec()));
        Box::pin(async move {
            let done = self.0.step(move |tx| {
                let reached = Arc::clone(&reached);
                let now = now.as_microsecond();
                Box::pin(async move { record(tx, &reached.0, &reached.1, now).await })
            });
            done.await.map_err(|error| said(&error))
        })
    }
}
