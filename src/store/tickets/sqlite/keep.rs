//! What is kept, and for how long.

use rusqlite::params;
use serde_json::json;

use super::Sql;
use super::writer::Tx;
use crate::store::tickets::audit::{Event, ITSELF, Note};

/// At most so many tickets in one transaction: nobody else writes meanwhile.
const AT_ONCE: u32 = 500;

/// Removes what is older than it is kept; audit rows, and tickets of unknown outcome, stay.
pub(super) fn prune(tx: &Tx<'_>) -> Sql<u64> {
    let limits = tx.limits;
    let receipts = limits.keep_receipts.max(limits.replay_window);
    tx.db
        .prepare_cached(
            "UPDATE ticket SET receipt_body = NULL WHERE rowid IN (
                SELECT rowid FROM ticket WHERE ended_at <= ?1 AND receipt_body IS NOT NULL LIMIT ?2)",
        )?
        .execute(params![tx.now.minus(receipts), AT_ONCE])?;
    let tickets = limits.keep_tickets.max(limits.replay_window);
    let before = tx.now.minus(tickets);
    let removed = tx
        .db
        .prepare_cached(
            "DELETE FROM ticket WHERE rowid IN (
                SELECT rowid FROM ticket
                 WHERE ended_at <= ?1
                   AND state IN ('denied', 'revoked', 'expired', 'cancelled', 'succeeded', 'failed', 'resolved_done', 'resolved_not_done')
                 LIMIT ?2)",
        )?
        .execute(params![before, AT_ONCE])?;
    tx.db
        .prepare_cached("DELETE FROM issued WHERE expires_at <= ?1")?
        .execute([tx.now])?;
    tx.db
        .prepare_cached("DELETE FROM mandate WHERE expires_at <= ?1")?
        .execute([before])?;
    if removed > 0 {
        tx.note(Note {
            event: Event::Pruned,
            ticket: None,
            mandate: None,
            actor: ITSELF.to_owned(),
            details: json!({"tickets": removed, "ended_before": before.0}),
        })?;
    }
    Ok(u64::try_from(removed).unwrap_or(u64::MAX))
}
