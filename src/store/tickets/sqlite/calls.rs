//! A presented call, its claim, and its outcome.

use bytes::Bytes;
use rusqlite::{OptionalExtension, named_params, params};

use super::reads::{find, newest, read, stored};
use super::rows::{At, Json};
use super::writer::Tx;
use super::{Sql, mandates};
use crate::guard::Outcome;
use crate::names::{MandateId, RuleId, SessionKey, TicketId};
use crate::store::tickets::audit::Event;
use crate::store::tickets::columns::{gate_name, kept};
use crate::store::tickets::digest::sha256_hex;
use crate::store::tickets::rules::{self, Step};
use crate::store::tickets::{Cap, Cause, Presented, Standing, Ticket, TicketState, new_ticket_id};

/// One claim of a ticket: no other, earlier or later, has the same three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) ticket: TicketId,
    pub(super) number: u32,
    pub(super) boot: String,
}

/// What became of a claim.
pub(super) enum Taken {
    /// Claimed; to be bound to its store.
    Claimed(Attempt, Bytes),
    /// This is where the call stands.
    Lost(Standing),
}

/// Whatever has run out by now is expired for good, even if the clock steps back later.
pub(super) fn sweep(tx: &Tx<'_>) -> Sql<()> {
    let ids: Vec<String> = tx
        .db
        .prepare_cached(
            "UPDATE ticket SET state = 'expired', ended_at = expires_at
              WHERE state IN ('requested', 'approved') AND expires_at <= ?1
             RETURNING id",
        )?
        .query_map([tx.now], |row| row.get(0))?
        .collect::<Sql<_>>()?;
    for id in ids {
        note(tx, Event::Expired, &TicketId::new(id))?;
    }
    Ok(())
}

/// Claims that an earlier process left behind: the call may have been sent.
pub(super) fn recover(tx: &Tx<'_>) -> Sql<usize> {
    let ids: Vec<String> = tx
        .db
        .prepare_cached(
            "UPDATE ticket SET state = 'unknown', lost = lost + 1
              WHERE state = 'redeeming' AND boot IS NOT ?1
             RETURNING id",
        )?
        .query_map([tx.boot], |row| row.get(0))?
        .collect::<Sql<_>>()?;
    for id in &ids {
        note(tx, Event::Unknown, &TicketId::from(id.as_str()))?;
    }
    Ok(ids.len())
}

fn note(tx: &Tx<'_>, event: Event, id: &TicketId) -> Sql<()> {
    tx.note(rules::note(event, &read(tx, id)?))
}

pub(super) fn session(call: &Presented) -> Option<&str> {
    call.session.as_ref().map(SessionKey::as_str)
}

/// Does what the newest ticket of the call says.
pub(super) fn present(tx: &Tx<'_>, call: &Presented) -> Sql<Standing> {
    if let Some(hint) = &call.hint
        && let Some(hinted) = find(tx, hint)?
        && rules::mismatched(&hinted, call)
    {
        return Ok(Standing::Mismatch(hinted.id));
    }
    let step = rules::present(newest(tx, call)?, call, tx.now.0, tx.limits);
    follow(tx, call, step)
}

/// Does what a step says.
pub(super) fn follow(tx: &Tx<'_>, call: &Presented, step: Step) -> Sql<Standing> {
    match step {
        Step::Tell(Standing::Waiting { ticket, new }) => Ok(Standing::Waiting {
            ticket: Box::new(read(tx, &ticket.id)?),
            new,
        }),
        Step::Tell(standing) => Ok(standing),
        Step::TellOnce(ticket, standing) => {
            tx.db
                .prepare_cached("UPDATE ticket SET expiry_told = 1 WHERE id = ?1")?
                .execute([ticket.id.as_str()])?;
            Ok(standing)
        }
        Step::Replay(ticket) => match stored(tx, &ticket.id)? {
            Some(receipt) => Ok(Standing::Done(receipt)),
            None => request(tx, call),
        },
        Step::Request(cancelled) => {
            if let Some((ticket, cause)) = cancelled {
                cancel(tx, &ticket, cause)?;
            }
            request(tx, call)
        }
    }
}

fn cancel(tx: &Tx<'_>, ticket: &Ticket, cause: Cause) -> Sql<()> {
    tx.db
        .prepare_cached(
            "UPDATE ticket SET state = 'cancelled', cause = ?2, ended_at = ?3 WHERE id = ?1",
        )?
        .execute(params![ticket.id.as_str(), cause.as_str(), tx.now])?;
    let mut note = rules::note(Event::Cancelled, ticket);
    rules::add(&mut note.details, "cause", cause.as_str());
    tx.note(note)
}

/// Cancels a request or an approval.
pub(super) fn void(tx: &Tx<'_>, id: &TicketId, cause: Cause) -> Sql<bool> {
    let open = find(tx, id)?
        .filter(|ticket| matches!(ticket.state, TicketState::Requested | TicketState::Approved));
    let Some(ticket) = open else {
        return Ok(false);
    };
    cancel(tx, &ticket, cause)?;
    Ok(true)
}

fn request(tx: &Tx<'_>, call: &Presented) -> Sql<Standing> {
    if let Some(cap) = capped(tx, call)? {
        return Ok(Standing::Capped(cap));
    }
    let id = insert(tx, call, TicketState::Requested, None)?;
    let ticket = read(tx, &id)?;
    tx.note(rules::note_of_call(Event::Requested, &ticket))?;
    Ok(Standing::Waiting {
        ticket: Box::new(ticket),
        new: true,
    })
}

const INSERT: &str = "
INSERT INTO ticket (id, state, digest, tenant, issuer, subject, agent, actors, session, route, upstream, tool, arguments,
                    policy, layer, rule, reason, gate, roles, approvals, fresh, summary, bound, said, offer, reconcile,
                    created_at, expires_at, mandate, amount)
VALUES (:id, :state, :digest, :tenant, :issuer, :subject, :agent, :actors, :session, :route, :upstream, :tool, :arguments,
        :policy, :layer, :rule, :reason, :gate, :roles, :approvals, :fresh, :summary, :bound, :said, :offer, :reconcile,
        :created_at, :expires_at, :mandate, :amount)";

/// A new row of the call; `under`: the mandate that it is made under, and what it spends.
pub(super) fn insert(
    tx: &Tx<'_>,
    call: &Presented,
    state: TicketState,
    under: Option<(&MandateId, &str)>,
) -> Sql<TicketId> {
    let id = new_ticket_id();
    let terms = &call.terms;
    tx.db.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id.as_str(),
        ":state": state,
        ":digest": call.call.digest.to_string(),
        ":tenant": call.principal.tenant,
        ":issuer": call.principal.issuer,
        ":subject": call.principal.subject,
        ":agent": call.principal.agent,
        ":actors": Json(&call.principal.actors),
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
        ":roles": Json(&terms.roles),
        ":approvals": terms.approvals.max(1),
        ":fresh": terms.fresh,
        ":summary": terms.summary,
        ":bound": Json(&call.bound),
        ":said": call.said,
        ":offer": terms.mandate.as_ref().map(Json),
        ":reconcile": terms.reconcile.as_ref().map(RuleId::as_str),
        ":created_at": tx.now,
        ":expires_at": tx.now.plus(terms.ttl),
        ":mandate": under.map(|(mandate, _)| mandate.as_str()),
        ":amount": under.map(|(_, amount)| amount),
    })?;
    Ok(id)
}

fn capped(tx: &Tx<'_>, call: &Presented) -> Sql<Option<Cap>> {
    let principal = &call.principal;
    let pending: i64 = tx
        .db
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
    let made: i64 = tx
        .db
        .prepare_cached(
            "SELECT count(*) FROM ticket
              WHERE tenant = ?1 AND issuer = ?2 AND subject = ?3 AND created_at > ?4 AND mandate IS NULL",
        )?
        .query_row(
            params![
                principal.tenant,
                principal.issuer,
                principal.subject,
                tx.now.minus(tx.limits.request_window)
            ],
            |row| row.get(0),
        )?;
    Ok(rules::capped(
        pending.unsigned_abs(),
        made.unsigned_abs(),
        tx.limits,
    ))
}

/// The claim is this one statement: whatever was read before, only a ticket of this very call that nobody else has taken is
/// taken, and only once.
const CLAIM: &str = "
UPDATE ticket SET state = 'redeeming', attempt = attempt + 1, boot = :boot, claimed_at = :now
 WHERE id = :id AND state = :state AND lost = :lost AND digest = :digest
   AND tenant = :tenant AND issuer = :issuer AND subject = :subject AND session IS :session
   AND (state = 'unknown' OR expires_at > :now)
RETURNING attempt, arguments";

pub(super) fn claim(tx: &Tx<'_>, call: &Presented, id: &TicketId) -> Sql<Taken> {
    let found = find(tx, id)?.filter(|ticket| rules::claimable(ticket, call, tx.now.0));
    let Some(ticket) = found else {
        return present(tx, call).map(Taken::Lost);
    };
    match take(tx, call, &ticket)? {
        Some(claimed) => Ok(claimed),
        None => present(tx, call).map(Taken::Lost),
    }
}

/// Runs the claim and notes it; `None`: it was not to be had.
pub(super) fn take(tx: &Tx<'_>, call: &Presented, ticket: &Ticket) -> Sql<Option<Taken>> {
    let claimed: Option<(u32, String)> = tx
        .db
        .prepare_cached(CLAIM)?
        .query_row(
            named_params! {
                ":boot": tx.boot,
                ":id": ticket.id.as_str(),
                ":state": ticket.state,
                ":lost": ticket.lost,
                ":digest": call.call.digest.to_string(),
                ":tenant": call.principal.tenant,
                ":issuer": call.principal.issuer,
                ":subject": call.principal.subject,
                ":session": session(call),
                ":now": tx.now,
            },
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((number, arguments)) = claimed else {
        return Ok(None);
    };
    let mut note = rules::note_of_call(Event::Claimed, ticket);
    rules::add(&mut note.details, "attempt", number);
    tx.note(note)?;
    let attempt = Attempt {
        ticket: ticket.id.clone(),
        number,
        boot: tx.boot.to_owned(),
    };
    Ok(Some(Taken::Claimed(attempt, arguments.into())))
}

const FINISH: &str = "
UPDATE ticket SET state = :state, cause = :cause, lost = lost + :lost,
       ended_at = CASE WHEN :final THEN :now END
 WHERE id = :id AND attempt = :attempt AND boot = :boot AND state = 'redeeming'";

/// Ends an attempt; `false`: it is no longer under way, and nothing is changed.
pub(super) fn finish(tx: &Tx<'_>, attempt: &Attempt, outcome: &Outcome) -> Sql<bool> {
    let Some(ticket) = find(tx, &attempt.ticket)? else {
        return Ok(false);
    };
    let ended = rules::ended(outcome, ticket.mandate.is_some(), ticket.lost > 0);
    let changed = tx.db.prepare_cached(FINISH)?.execute(named_params! {
        ":id": attempt.ticket.as_str(),
        ":attempt": attempt.number,
        ":boot": attempt.boot,
        ":state": ended.state,
        ":cause": ended.cause.map(Cause::as_str),
        ":lost": matches!(outcome, Outcome::Unknown),
        ":final": ended.state.is_final(),
        ":now": tx.now,
    })?;
    if changed == 0 {
        return Ok(false);
    }
    let mut note = rules::note(ended.event, &ticket);
    rules::add(&mut note.details, "attempt", attempt.number);
    if let Some(receipt) = outcome.receipt() {
        keep_receipt(tx, &attempt.ticket, receipt)?;
        rules::add(&mut note.details, "status", receipt.status);
    }
    if ended.release {
        mandates::release(tx, &ticket)?;
    }
    tx.note(note)?;
    Ok(true)
}

/// Stores a receipt.
pub(super) fn keep_receipt(tx: &Tx<'_>, id: &TicketId, receipt: &crate::guard::Receipt) -> Sql<()> {
    tx.db
        .prepare_cached(
            "UPDATE ticket SET completed_at = ?2, receipt_status = ?3, receipt_type = ?4, receipt_body = ?5,
                               receipt_length = ?6, receipt_sha256 = ?7
              WHERE id = ?1",
        )?
        .execute(params![
            id.as_str(),
            At::new(receipt.completed_at),
            receipt.status,
            receipt.content_type,
            &kept(&receipt.body)[..],
            i64::try_from(receipt.body.len()).unwrap_or(i64::MAX),
            sha256_hex(&receipt.body),
        ])?;
    Ok(())
}
