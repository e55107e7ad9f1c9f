//! What is read of tickets.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row, named_params, params};

use super::Sql;
use super::calls::session;
use super::rows::Json;
use super::writer::Tx;
use crate::guard::Receipt;
use crate::names::TicketId;
use crate::store::tickets::{Filter, Presented, Ticket, TicketState, columns};

fn one<T>(tx: &Tx<'_>, id: &TicketId, map: impl FnOnce(&Row<'_>) -> Sql<T>) -> Sql<Option<T>> {
    tx.db
        .prepare_cached("SELECT * FROM ticket WHERE id = ?1")?
        .query_row([id.as_str()], map)
        .optional()
}

const NEWEST: &str = "
SELECT * FROM ticket
 WHERE digest = :digest AND tenant = :tenant AND issuer = :issuer AND subject = :subject AND session IS :session
 ORDER BY seq DESC LIMIT 1";

/// The newest ticket of the identical call.
pub(super) fn newest(tx: &Tx<'_>, call: &Presented) -> Sql<Option<Ticket>> {
    let found = tx
        .db
        .prepare_cached(NEWEST)?
        .query_row(
            named_params! {
                ":digest": call.call.digest.to_string(),
                ":tenant": call.principal.tenant,
                ":issuer": call.principal.issuer,
                ":subject": call.principal.subject,
                ":session": session(call),
            },
            |row| columns::ticket(row),
        )
        .optional()?;
    found.map(|found| voted(tx, found)).transpose()
}

/// The receipt of a ticket, where its body is still kept.
pub(super) fn stored(tx: &Tx<'_>, id: &TicketId) -> Sql<Option<Receipt>> {
    one(tx, id, |row| columns::receipt(row)).map(Option::flatten)
}

fn voted(tx: &Tx<'_>, mut found: Ticket) -> Sql<Ticket> {
    found.votes = tx
        .db
        .prepare_cached("SELECT * FROM vote WHERE ticket = ?1 ORDER BY number")?
        .query_map([found.id.as_str()], |row| columns::vote(row))?
        .collect::<Sql<_>>()?;
    Ok(found)
}

/// A ticket with its votes; `earlier` is left out.
pub(super) fn find(tx: &Tx<'_>, id: &TicketId) -> Sql<Option<Ticket>> {
    let found = one(tx, id, |row| columns::ticket(row))?;
    found.map(|found| voted(tx, found)).transpose()
}

/// A ticket that is there, with the newest earlier one of the identical call that was sent.
pub(super) fn read(tx: &Tx<'_>, id: &TicketId) -> Sql<Ticket> {
    whole(tx, id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)
}

/// A ticket with the newest earlier one of the identical call that was sent.
pub(super) fn whole(tx: &Tx<'_>, id: &TicketId) -> Sql<Option<Ticket>> {
    let Some(mut found) = find(tx, id)? else {
        return Ok(None);
    };
    found.earlier = tx
        .db
        .prepare_cached(
            "SELECT id, state, created_at FROM ticket
              WHERE digest = ?1 AND seq < ?2
                AND state IN ('succeeded', 'failed', 'unknown', 'resolved_done', 'resolved_not_done')
              ORDER BY seq DESC LIMIT 1",
        )?
        .query_row(
            params![found.digest.to_string(), found.seq.cast_signed()],
            |row| columns::earlier(row),
        )
        .optional()?;
    Ok(Some(found))
}

/// Where a ticket stands.
pub(super) fn state(tx: &Tx<'_>, id: &TicketId) -> Sql<Option<TicketState>> {
    tx.db
        .prepare_cached("SELECT state FROM ticket WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()
}

/// Whatever the filter leaves out is `NULL`.
macro_rules! list {
    ($states:literal) => {
        concat!(
            "SELECT * FROM ticket WHERE ",
            $states,
            " AND (:tenants IS NULL OR tenant IN (SELECT value FROM json_each(:tenants)))
              AND (:issuer IS NULL OR issuer = :issuer) AND (:subject IS NULL OR subject = :subject)
              AND (:tool IS NULL OR tool = :tool) AND (:upstream IS NULL OR upstream = :upstream)
              ORDER BY seq DESC LIMIT :limit"
        )
    };
}

/// From the newest on.
const LIST: &str = list!(
    "seq < coalesce(:before, 9223372036854775807)
     AND (:states IS NULL OR +state IN (SELECT value FROM json_each(:states)))"
);

/// States that few tickets are in are looked up by their index: `+seq` keeps the order from being walked.
const LIST_OPEN: &str = list!(
    "state IN (SELECT value FROM json_each(:states)) AND +seq < coalesce(:before, 9223372036854775807)"
);

/// Newest first.
pub(super) fn list(tx: &Tx<'_>, filter: &Filter) -> Sql<Vec<Ticket>> {
    let states = (!filter.states.is_empty()).then_some(Json(&filter.states));
    let few = states.is_some() && !filter.states.iter().any(|state| state.is_final());
    let sql = if few { LIST_OPEN } else { LIST };
    let found: Vec<Ticket> = tx
        .db
        .prepare_cached(sql)?
        .query_map(
            named_params! {
                ":states": states,
                ":tenants": filter.tenants.as_ref().map(Json),
                ":issuer": filter.issuer,
                ":subject": filter.subject,
                ":tool": filter.tool,
                ":upstream": filter.upstream,
                ":before": filter.before.map(u64::cast_signed),
                ":limit": filter.limit,
            },
            |row| columns::ticket(row),
        )?
        .collect::<Sql<_>>()?;
    found.into_iter().map(|found| voted(tx, found)).collect()
}

/// Oldest first.
pub(super) fn unknown(tx: &Tx<'_>, limit: u32) -> Sql<Vec<Ticket>> {
    let found: Vec<Ticket> = tx
        .db
        .prepare_cached("SELECT * FROM ticket WHERE state = 'unknown' ORDER BY seq LIMIT ?1")?
        .query_map([limit], |row| columns::ticket(row))?
        .collect::<Sql<_>>()?;
    found.into_iter().map(|found| voted(tx, found)).collect()
}

/// Every state is named.
pub(super) fn counts(tx: &Tx<'_>) -> Sql<BTreeMap<TicketState, u64>> {
    let mut counts: BTreeMap<_, _> = TicketState::ALL.map(|state| (state, 0)).into();
    let mut statement = tx
        .db
        .prepare_cached("SELECT state, count(*) FROM ticket GROUP BY state")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        counts.insert(row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs());
    }
    Ok(counts)
}
