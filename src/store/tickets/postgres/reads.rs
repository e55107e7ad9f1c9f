//! What is read of tickets.

use std::collections::BTreeMap;

use super::calls::session;
use super::db::{Fault, Pg, Tx};
use crate::guard::Receipt;
use crate::names::TicketId;
use crate::store::tickets::columns::{self, Columns};
use crate::store::tickets::{Filter, Presented, Ticket, TicketState};

/// The newest ticket of the identical call.
pub(super) async fn newest(tx: &Tx, call: &Presented) -> Pg<Option<Ticket>> {
    let principal = &call.principal;
    let row = tx
        .row(
            "SELECT * FROM ticket
              WHERE digest = $1 AND tenant = $2 AND issuer = $3 AND subject = $4 AND session IS NOT DISTINCT FROM $5
              ORDER BY seq DESC LIMIT 1",
            &[
                &call.call.digest.to_string(),
                &&*principal.tenant,
                &&*principal.issuer,
                &&*principal.subject,
                &session(call),
            ],
        )
        .await?;
    match row {
        Some(row) => voted(tx, columns::ticket(&row)?).await.map(Some),
        None => Ok(None),
    }
}

/// The receipt of a ticket, where its body is still kept.
pub(super) async fn stored(tx: &Tx, id: &TicketId) -> Pg<Option<Receipt>> {
    let row = tx
        .row("SELECT * FROM ticket WHERE id = $1", &[&id.as_str()])
        .await?;
    row.map_or(Ok(None), |row| columns::receipt(&row))
}

async fn voted(tx: &Tx, mut found: Ticket) -> Pg<Ticket> {
    let rows = tx
        .rows(
            "SELECT * FROM vote WHERE ticket = $1 ORDER BY number",
            &[&found.id.as_str()],
        )
        .await?;
    found.votes = rows.iter().map(columns::vote).collect::<Pg<_>>()?;
    Ok(found)
}

async fn all_voted(tx: &Tx, rows: &[tokio_postgres::Row]) -> Pg<Vec<Ticket>> {
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        all.push(voted(tx, columns::ticket(row)?).await?);
    }
    Ok(all)
}

/// A ticket with its votes; `earlier` is left out.
pub(super) async fn find(tx: &Tx, id: &TicketId) -> Pg<Option<Ticket>> {
    let row = tx
        .row("SELECT * FROM ticket WHERE id = $1", &[&id.as_str()])
        .await?;
    match row {
        Some(row) => voted(tx, columns::ticket(&row)?).await.map(Some),
        None => Ok(None),
    }
}

/// As [`find`]; nobody else changes the ticket until this transaction ends.
pub(super) async fn hold(tx: &Tx, id: &TicketId) -> Pg<Option<Ticket>> {
    let row = tx
        .row(
            "SELECT * FROM ticket WHERE id = $1 FOR UPDATE",
            &[&id.as_str()],
        )
        .await?;
    match row {
        Some(row) => voted(tx, columns::ticket(&row)?).await.map(Some),
        None => Ok(None),
    }
}

/// A ticket that is there, with the newest earlier one of the identical call that was sent.
pub(super) async fn read(tx: &Tx, id: &TicketId) -> Pg<Ticket> {
    whole(tx, id).await?.ok_or_else(Fault::missing)
}

/// A ticket with the newest earlier one of the identical call that was sent.
pub(super) async fn whole(tx: &Tx, id: &TicketId) -> Pg<Option<Ticket>> {
    let Some(mut found) = find(tx, id).await? else {
        return Ok(None);
    };
    let row = tx
        .row(
            "SELECT id, state, created_at FROM ticket
              WHERE digest = $1 AND seq < $2
                AND state IN ('succeeded', 'failed', 'unknown', 'resolved_done', 'resolved_not_done')
              ORDER BY seq DESC LIMIT 1",
            &[&found.digest.to_string(), &found.seq.cast_signed()],
        )
        .await?;
    found.earlier = row.as_ref().map(columns::earlier).transpose()?;
    Ok(Some(found))
}

/// Where a ticket stands.
pub(super) async fn state(tx: &Tx, id: &TicketId) -> Pg<Option<TicketState>> {
    let row = tx
        .row("SELECT state FROM ticket WHERE id = $1", &[&id.as_str()])
        .await?;
    row.map(|row| row.named("state", TicketState::from_name))
        .transpose()
}

/// Newest first.
pub(super) async fn list(tx: &Tx, filter: &Filter) -> Pg<Vec<Ticket>> {
    let states: Option<Vec<&str>> = (!filter.states.is_empty())
        .then(|| filter.states.iter().map(|state| state.as_str()).collect());
    let rows = tx
        .rows(
            "SELECT * FROM ticket
              WHERE ($1::text[] IS NULL OR state = ANY ($1)) AND ($2::text[] IS NULL OR tenant = ANY ($2))
                AND ($3::text IS NULL OR issuer = $3) AND ($4::text IS NULL OR subject = $4)
                AND ($5::text IS NULL OR tool = $5) AND ($6::text IS NULL OR upstream = $6)
                AND ($7::bigint IS NULL OR seq < $7)
              ORDER BY seq DESC LIMIT $8",
            &[
                &states,
                &filter.tenants,
                &filter.issuer,
                &filter.subject,
                &filter.tool,
                &filter.upstream,
                &filter.before.map(u64::cast_signed),
                &i64::from(filter.limit),
            ],
        )
        .await?;
    all_voted(tx, &rows).await
}

/// Oldest first.
pub(super) async fn unknown(tx: &Tx, limit: u32) -> Pg<Vec<Ticket>> {
    let rows = tx
        .rows(
            "SELECT * FROM ticket WHERE state = 'unknown' ORDER BY seq LIMIT $1",
            &[&i64::from(limit)],
        )
        .await?;
    all_voted(tx, &rows).await
}

/// Every state is named.
pub(super) async fn counts(tx: &Tx) -> Pg<BTreeMap<TicketState, u64>> {
    let mut counts: BTreeMap<_, _> = TicketState::ALL.map(|state| (state, 0)).into();
    let rows = tx
        .rows(
            "SELECT state, count(*) AS tickets FROM ticket GROUP BY state",
            &[],
        )
        .await?;
    for row in rows {
        counts.insert(
            row.named("state", TicketState::from_name)?,
            row.count("tickets")?,
        );
    }
    Ok(counts)
}
