//! What is kept, and for how long.

use serde_json::json;

use super::db::{Pg, Tx};
use crate::store::tickets::audit::{Event, ITSELF, Note};

/// At most so many tickets in one transaction.
const AT_ONCE: i64 = 500;

/// Removes what is older than it is kept; audit rows, and tickets of unknown outcome, stay.
pub(super) async fn prune(tx: &Tx) -> Pg<u64> {
    let limits = &tx.limits;
    let receipts = tx.earlier(limits.keep_receipts.max(limits.replay_window));
    tx.execute(
        "UPDATE ticket SET receipt_body = NULL WHERE seq IN (
            SELECT seq FROM ticket WHERE ended_at <= $1 AND receipt_body IS NOT NULL LIMIT $2 FOR UPDATE SKIP LOCKED)",
        &[&receipts, &AT_ONCE],
    )
    .await?;
    let before = tx.earlier(limits.keep_tickets.max(limits.replay_window));
    let removed = tx
        .execute(
            "DELETE FROM ticket WHERE seq IN (
                SELECT seq FROM ticket
                 WHERE ended_at <= $1
                   AND state IN ('denied', 'revoked', 'expired', 'cancelled', 'succeeded', 'failed', 'resolved_done', 'resolved_not_done')
                 LIMIT $2 FOR UPDATE SKIP LOCKED)",
            &[&before, &AT_ONCE],
        )
        .await?;
    tx.execute("DELETE FROM issued WHERE expires_at <= $1", &[&tx.now])
        .await?;
    tx.execute("DELETE FROM mandate WHERE expires_at <= $1", &[&before])
        .await?;
    tx.execute("DELETE FROM ledger WHERE until <= $1", &[&(tx.now / 1000)])
        .await?;
    tx.execute("DELETE FROM target WHERE used <= $1", &[&before])
        .await?;
    if removed > 0 {
        let ended_before = jiff::Timestamp::from_microsecond(before).unwrap_or(tx.at);
        tx.note(Note {
            event: Event::Pruned,
            ticket: None,
            mandate: None,
            actor: ITSELF.to_owned(),
            details: json!({"tickets": removed, "ended_before": ended_before}),
        });
    }
    Ok(removed)
}
