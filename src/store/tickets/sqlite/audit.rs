//! The audit's rows, and followers of it.

use rusqlite::{Connection, OptionalExtension, params};

use super::rows::At;
use super::writer::Tx;
use crate::names::{MandateId, TicketId};
use crate::store::tickets::audit::{AuditRow, Head, Note};
use crate::store::tickets::columns;

type Sql<T> = rusqlite::Result<T>;

/// Writes the row that follows the last one.
pub(super) fn append(db: &Connection, now: At, note: Note) -> Sql<()> {
    let row = AuditRow::after(head(db)?, now.0, note);
    db.prepare_cached(
        "INSERT INTO audit (seq, at, event, ticket, mandate, actor, details, prev, hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        row.seq.cast_signed(),
        At::new(row.at),
        row.event.as_str(),
        row.ticket.as_ref().map(TicketId::as_str),
        row.mandate.as_ref().map(MandateId::as_str),
        row.actor,
        row.details.to_string(),
        row.prev.to_string(),
        row.hash.to_string(),
    ])?;
    Ok(())
}

pub(super) fn head(db: &Connection) -> Sql<Head> {
    let last = db
        .prepare_cached("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")?
        .query_row([], |row| columns::head(row))
        .optional()?;
    Ok(last.unwrap_or_default())
}

/// In order.
pub(super) fn rows(tx: &Tx<'_>, after: u64, limit: u32) -> Sql<Vec<AuditRow>> {
    tx.db
        .prepare_cached("SELECT * FROM audit WHERE seq > ?1 ORDER BY seq LIMIT ?2")?
        .query_map(params![after.cast_signed(), limit], |row| {
            columns::audit(row)
        })?
        .collect()
}

pub(super) fn cursor(tx: &Tx<'_>, name: &str) -> Sql<u64> {
    let seq: Option<i64> = tx
        .db
        .prepare_cached("SELECT seq FROM cursor WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    Ok(seq.unwrap_or_default().cast_unsigned())
}

pub(super) fn advance(tx: &Tx<'_>, name: &str, from: u64, to: u64) -> Sql<bool> {
    if cursor(tx, name)? != from {
        return Ok(false);
    }
    tx.db
        .prepare_cached(
            "INSERT INTO cursor (name, seq) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET seq = excluded.seq",
        )?
        .execute(params![name, to.cast_signed()])?;
    Ok(true)
}
