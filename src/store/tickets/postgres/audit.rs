//! The audit's rows, and followers of it.

use futures_util::future::join3;

use super::db::{Fault, Pg, Tx};
use crate::names::{MandateId, TicketId};
use crate::store::tickets::audit::{AuditRow, Head, Note};
use crate::store::tickets::columns::{self, Columns};

const INSERT: &str = "
INSERT INTO audit (seq, at, event, ticket, mandate, actor, details, prev, hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

const MOVE: &str = "UPDATE audit_head SET seq = $1, hash = $2";

/// Writes the rows that follow the last one, and commits; the last of them, if there is one.
///
/// The head is locked until the commit is on disk, by which all who write wait: the rest is sent at once. Of a row that cannot be
/// written the error is told, and the server makes a rollback of the commit behind it.
pub(super) async fn append_and_commit(tx: &Tx, notes: Vec<Note>) -> Pg<Option<Head>> {
    if notes.is_empty() {
        tx.commit().await?;
        return Ok(None);
    }
    // Now, for what had to be prepared first would be sent behind the commit.
    tx.prepared(INSERT).await?;
    tx.prepared(MOVE).await?;
    let last = tx
        .row("SELECT seq, hash FROM audit_head FOR UPDATE", &[])
        .await?;
    let mut head = columns::head(&last.ok_or_else(Fault::missing)?)?;
    let mut newest = None;
    for note in notes {
        if let Some(row) = &newest {
            insert(tx, row).await?;
        }
        let row = AuditRow::after(head, tx.at, note);
        head = row.head();
        newest = Some(row);
    }
    let moved = async {
        let (seq, hash) = (head.seq.cast_signed(), head.hash.to_string());
        tx.execute(MOVE, &[&seq, &hash]).await
    };
    let written = async {
        match &newest {
            Some(row) => insert(tx, row).await,
            None => Ok(()),
        }
    };
    // Sent in this order: each sends when it is polled first.
    let (written, moved, committed) = join3(written, moved, tx.commit()).await;
    written?;
    if moved? != 1 {
        return Err(Fault::missing());
    }
    committed?;
    Ok(Some(head))
}

async fn insert(tx: &Tx, row: &AuditRow) -> Pg<()> {
    tx.execute(
        INSERT,
        &[
            &row.seq.cast_signed(),
            &row.at.as_microsecond(),
            &row.event.as_str(),
            &row.ticket.as_ref().map(TicketId::as_str),
            &row.mandate.as_ref().map(MandateId::as_str),
            &row.actor,
            &row.details.to_string(),
            &row.prev.to_string(),
            &row.hash.to_string(),
        ],
    )
    .await?;
    Ok(())
}

/// In order.
pub(super) async fn rows(tx: &Tx, after: u64, limit: u32) -> Pg<Vec<AuditRow>> {
    let rows = tx
        .rows(
            "SELECT * FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2",
            &[&after.cast_signed(), &i64::from(limit)],
        )
        .await?;
    rows.iter().map(columns::audit).collect()
}

pub(super) async fn cursor(tx: &Tx, name: &str) -> Pg<u64> {
    let row = tx
        .row("SELECT seq FROM cursor WHERE name = $1", &[&name])
        .await?;
    row.map_or(Ok(0), |row| row.count("seq"))
}

pub(super) async fn advance(tx: &Tx, name: &str, from: u64, to: u64) -> Pg<bool> {
    tx.execute(
        "INSERT INTO cursor (name, seq) VALUES ($1, 0) ON CONFLICT DO NOTHING",
        &[&name],
    )
    .await?;
    let moved = tx
        .execute(
            "UPDATE cursor SET seq = $3 WHERE name = $1 AND seq = $2",
            &[&name, &from.cast_signed(), &to.cast_signed()],
        )
        .await?;
    Ok(moved == 1)
}

/// The last row's number and hash.
pub(super) async fn head(tx: &Tx) -> Pg<Head> {
    let row = tx.row("SELECT seq, hash FROM audit_head", &[]).await?;
    columns::head(&row.ok_or_else(Fault::missing)?)
}
