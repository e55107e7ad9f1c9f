//! What happens inside one transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use uuid::Uuid;

use super::rows::{At, gate_name, kept, receipt, ticket};
use crate::guard::{Outcome, Receipt};
use crate::names::{SessionKey, TicketId};
use crate::store::tickets::digest::sha256_hex;
use crate::store::tickets::{
    Answer, AnswerError, Cap, DENIED_FOR, Earlier, Filter, PENDING_PER_SESSION, Presented,
    REQUEST_WINDOW, REQUESTS_PER_USER, Standing, Ticket, TicketState,
};

type Sql<T> = rusqlite::Result<T>;

/// One claim of a ticket: no other, earlier or later, has the same three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) ticket: TicketId,
    pub(super) number: u32,
    pub(super) boot: String,
}

/// What became of a presented call.
pub(super) enum Found {
    /// Claimed; to be bound to its store.
    Claimed(Attempt, Bytes),
    /// Anything else.
    Said(Standing),
}

/// Whatever has run out by now is expired for good, even if the clock steps back later.
pub(super) fn sweep(db: &Connection, now: At) -> Sql<()> {
    db.prepare_cached(
        "UPDATE ticket SET state = 'expired' WHERE state IN ('requested', 'approved') AND expires_at <= ?1",
    )?
    .execute([now])?;
    Ok(())
}

/// Claims that an earlier process left behind: the call may have been sent.
pub(super) fn recover(db: &Connection, boot: &str) -> Sql<usize> {
    db.execute(
        "UPDATE ticket SET state = 'unknown' WHERE state = 'redeeming' AND boot IS NOT ?1",
        [boot],
    )
}

/// The newest ticket of the identical call, as far as it decides what comes next.
struct Newest {
    id: TicketId,
    state: TicketState,
    same_terms: bool,
    expiry_told: bool,
    answered_at: Option<At>,
    completed_at: Option<At>,
}

const NEWEST: &str = "
SELECT id, state, gate = :gate AND role IS :role AS same_terms, expiry_told, answered_at, completed_at
  FROM ticket
 WHERE digest = :digest AND tenant = :tenant AND issuer = :issuer AND subject = :subject AND session IS :session
 ORDER BY seq DESC LIMIT 1";

fn newest(db: &Connection, call: &Presented) -> Sql<Option<Newest>> {
    db.prepare_cached(NEWEST)?
        .query_row(
            named_params! {
                ":gate": gate_name(call.terms.gate),
                ":role": call.terms.role,
                ":digest": call.call.digest.to_string(),
                ":tenant": call.principal.tenant,
                ":issuer": call.principal.issuer,
                ":subject": call.principal.subject,
                ":session": session(call),
            },
            |row| {
                Ok(Newest {
                    id: TicketId::new(row.get::<_, String>("id")?),
                    state: row.get("state")?,
                    same_terms: row.get("same_terms")?,
                    expiry_told: row.get("expiry_told")?,
                    answered_at: row.get("answered_at")?,
                    completed_at: row.get("completed_at")?,
                })
            },
        )
        .optional()
}

fn session(call: &Presented) -> Option<&str> {
    call.session.as_ref().map(SessionKey::as_str)
}

/// Does what the newest ticket of the call says.
pub(super) fn present(
    db: &Connection,
    call: &Presented,
    now: At,
    replay_window: Duration,
    boot: &str,
) -> Sql<Found> {
    let Some(newest) = newest(db, call)? else {
        return request(db, call, now);
    };
    let Newest { id, state, .. } = newest;
    match state {
        TicketState::Requested | TicketState::Approved if !newest.same_terms => {
            set_state(db, &id, TicketState::Cancelled)?;
            request(db, call, now)
        }
        TicketState::Requested => Ok(waiting(read(db, &id)?, false)),
        TicketState::Approved => claim(db, call, &id, now, boot),
        TicketState::Redeeming => Ok(Found::Said(Standing::Redeeming(id))),
        TicketState::Unknown => Ok(Found::Said(Standing::Unknown(id))),
        TicketState::Denied
            if newest
                .answered_at
                .is_some_and(|at| now < at.plus(DENIED_FOR)) =>
        {
            Ok(Found::Said(Standing::Denied(id)))
        }
        TicketState::Expired if !newest.expiry_told => {
            db.execute(
                "UPDATE ticket SET expiry_told = 1 WHERE id = ?1",
                [id.as_str()],
            )?;
            Ok(Found::Said(Standing::Expired(id)))
        }
        TicketState::Succeeded | TicketState::Failed if !call.again => {
            let fresh = newest
                .completed_at
                .is_some_and(|at| now < at.plus(replay_window));
            match stored(db, &id)? {
                Some(receipt) if fresh => Ok(Found::Said(Standing::Done(receipt))),
                _ => request(db, call, now),
            }
        }
        TicketState::Denied
        | TicketState::Expired
        | TicketState::Cancelled
        | TicketState::Succeeded
        | TicketState::Failed => request(db, call, now),
    }
}

/// The claim is this one statement: whatever was read before, only an approved, unexpired ticket of this very call is taken,
/// and only once.
const CLAIM: &str = "
UPDATE ticket SET state = 'redeeming', attempt = attempt + 1, boot = :boot
 WHERE id = :id AND state = 'approved' AND digest = :digest
   AND tenant = :tenant AND issuer = :issuer AND subject = :subject AND session IS :session
   AND expires_at > :now
RETURNING attempt, arguments";

fn claim(db: &Connection, call: &Presented, id: &TicketId, now: At, boot: &str) -> Sql<Found> {
    let claimed: Option<(u32, String)> = db
        .prepare_cached(CLAIM)?
        .query_row(
            named_params! {
                ":boot": boot,
                ":id": id.as_str(),
                ":digest": call.call.digest.to_string(),
                ":tenant": call.principal.tenant,
                ":issuer": call.principal.issuer,
                ":subject": call.principal.subject,
                ":session": session(call),
                ":now": now,
            },
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    Ok(match claimed {
        Some((number, arguments)) => {
            let attempt = Attempt {
                ticket: id.clone(),
                number,
                boot: boot.to_owned(),
            };
            Found::Claimed(attempt, arguments.into())
        }
        None => Found::Said(Standing::Redeeming(id.clone())),
    })
}

const REQUEST: &str = "
INSERT INTO ticket (id, state, digest, tenant, issuer, subject, agent, session, route, upstream, tool, arguments,
                    policy, layer, rule, reason, gate, role, summary, created_at, expires_at)
VALUES (:id, 'requested', :digest, :tenant, :issuer, :subject, :agent, :session, :route, :upstream, :tool, :arguments,
        :policy, :layer, :rule, :reason, :gate, :role, :summary, :created_at, :expires_at)";

fn request(db: &Connection, call: &Presented, now: At) -> Sql<Found> {
    if let Some(cap) = capped(db, call, now)? {
        return Ok(Found::Said(Standing::Capped(cap)));
    }
    let id = TicketId::new(format!("tkt_{}", Uuid::now_v7().simple()));
    let terms = &call.terms;
    db.prepare_cached(REQUEST)?.execute(named_params! {
        ":id": id.as_str(),
        ":digest": call.call.digest.to_string(),
        ":tenant": call.principal.tenant,
        ":issuer": call.principal.issuer,
        ":subject": call.principal.subject,
        ":agent": call.principal.agent,
        ":session": session(call),
        ":route": call.route.as_str(),
        ":upstream": call.upstream.as_str(),
        ":tool": call.tool.as_str(),
        ":arguments": String::from_utf8_lossy(&call.call.arguments),
        ":policy": terms.policy.0,
        ":layer": terms.layer.as_str(),
        ":rule": terms.rule.as_str(),
        ":reason": terms.reason.as_str(),
        ":gate": gate_name(terms.gate),
        ":role": terms.role,
        ":summary": terms.summary,
        ":created_at": now,
        ":expires_at": now.plus(terms.ttl),
    })?;
    Ok(waiting(read(db, &id)?, true))
}

fn capped(db: &Connection, call: &Presented, now: At) -> Sql<Option<Cap>> {
    let Presented { principal, .. } = call;
    let pending: u32 = db
        .prepare_cached(
            "SELECT count(*) FROM ticket WHERE state = 'requested'
                AND tenant = ?1 AND issuer = ?2 AND subject = ?3 AND session IS ?4",
        )?
        .query_row(
            params![
                principal.tenant,
                principal.issuer,
                principal.subject,
                session(call)
            ],
            |row| row.get(0),
        )?;
    if pending >= PENDING_PER_SESSION {
        return Ok(Some(Cap::PendingPerSession));
    }
    let made: u32 = db
        .prepare_cached(
            "SELECT count(*) FROM ticket
              WHERE tenant = ?1 AND issuer = ?2 AND subject = ?3 AND created_at > ?4",
        )?
        .query_row(
            params![
                principal.tenant,
                principal.issuer,
                principal.subject,
                now.minus(REQUEST_WINDOW)
            ],
            |row| row.get(0),
        )?;
    Ok((made >= REQUESTS_PER_USER).then_some(Cap::RequestsPerUser))
}

fn waiting(ticket: Ticket, new: bool) -> Found {
    Found::Said(Standing::Waiting {
        ticket: Box::new(ticket),
        new,
    })
}

fn set_state(db: &Connection, id: &TicketId, state: TicketState) -> Sql<()> {
    db.execute(
        "UPDATE ticket SET state = ?2 WHERE id = ?1",
        params![id.as_str(), state],
    )?;
    Ok(())
}

/// Ends an attempt; `false`: it is no longer under way, and nothing is changed.
pub(super) fn finish(db: &Connection, attempt: &Attempt, outcome: &Outcome) -> Sql<bool> {
    let state = match outcome {
        Outcome::NotSent => TicketState::Approved,
        Outcome::Unknown => TicketState::Unknown,
        Outcome::Answered(receipt) if receipt.status < 400 => TicketState::Succeeded,
        Outcome::Answered(_) => TicketState::Failed,
    };
    let changed = db
        .prepare_cached(
            "UPDATE ticket SET state = ?4 WHERE id = ?1 AND attempt = ?2 AND boot = ?3 AND state = 'redeeming'",
        )?
        .execute(params![
            attempt.ticket.as_str(),
            attempt.number,
            attempt.boot,
            state
        ])?;
    if changed == 0 {
        return Ok(false);
    }
    if let Outcome::Answered(receipt) = outcome {
        db.prepare_cached(
            "UPDATE ticket SET completed_at = ?2, receipt_status = ?3, receipt_type = ?4, receipt_body = ?5,
                               receipt_length = ?6, receipt_sha256 = ?7
              WHERE id = ?1",
        )?
        .execute(params![
            attempt.ticket.as_str(),
            At::new(receipt.completed_at),
            receipt.status,
            receipt.content_type,
            &kept(&receipt.body)[..],
            i64::try_from(receipt.body.len()).unwrap_or(i64::MAX),
            sha256_hex(&receipt.body),
        ])?;
    }
    Ok(true)
}

/// Judges an answer and writes it.
pub(super) fn answer(
    db: &Connection,
    answer: &Answer,
    now: At,
) -> Sql<Result<Ticket, AnswerError>> {
    let Some(ticket) = find(db, &answer.ticket)? else {
        return Ok(Err(AnswerError::NoSuchTicket(answer.ticket.clone())));
    };
    let state = match answer.judge(&ticket) {
        Ok(state) => state,
        Err(error) => return Ok(Err(error)),
    };
    db.execute(
        "UPDATE ticket SET state = ?2, answered_by = ?3, answered_at = ?4, comment = ?5 WHERE id = ?1",
        params![
            ticket.id.as_str(),
            state,
            answer.by.record(),
            now,
            answer.comment
        ],
    )?;
    read(db, &ticket.id).map(Ok)
}

fn one<T>(db: &Connection, id: &TicketId, map: impl FnOnce(&Row<'_>) -> Sql<T>) -> Sql<Option<T>> {
    db.prepare_cached("SELECT * FROM ticket WHERE id = ?1")?
        .query_row([id.as_str()], map)
        .optional()
}

fn stored(db: &Connection, id: &TicketId) -> Sql<Option<Receipt>> {
    one(db, id, receipt).map(Option::flatten)
}

fn read(db: &Connection, id: &TicketId) -> Sql<Ticket> {
    find(db, id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)
}

/// A ticket with the newest earlier one of the identical call that was sent.
pub(super) fn find(db: &Connection, id: &TicketId) -> Sql<Option<Ticket>> {
    let Some(mut found) = one(db, id, ticket)? else {
        return Ok(None);
    };
    found.earlier = db
        .prepare_cached(
            "SELECT id, state, created_at FROM ticket
              WHERE digest = ?1 AND seq < (SELECT seq FROM ticket WHERE id = ?2)
                AND state IN ('succeeded', 'failed', 'unknown')
              ORDER BY seq DESC LIMIT 1",
        )?
        .query_row(params![found.digest.to_string(), id.as_str()], |row| {
            Ok(Earlier {
                id: TicketId::new(row.get::<_, String>(0)?),
                state: row.get(1)?,
                created_at: row.get::<_, At>(2)?.0,
            })
        })
        .optional()?;
    Ok(Some(found))
}

/// Newest first.
pub(super) fn list(db: &Connection, filter: Filter) -> Sql<Vec<Ticket>> {
    db.prepare_cached(
        "SELECT * FROM ticket WHERE ?1 IS NULL OR state = ?1 ORDER BY seq DESC LIMIT ?2",
    )?
    .query_map(params![filter.state, filter.limit], ticket)?
    .collect()
}

/// Every state is named.
pub(super) fn counts(db: &Connection) -> Sql<BTreeMap<TicketState, u64>> {
    let mut counts: BTreeMap<_, _> = TicketState::ALL.map(|state| (state, 0)).into();
    let mut statement = db.prepare_cached("SELECT state, count(*) FROM ticket GROUP BY state")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        counts.insert(row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs());
    }
    Ok(counts)
}
