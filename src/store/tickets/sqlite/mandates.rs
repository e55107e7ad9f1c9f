//! Mandates: what is left of them is asked and taken in the transaction that makes the claim.

use rusqlite::{OptionalExtension, named_params, params};
use rust_decimal::Decimal;

use super::Sql;
use super::answers::{refused, set_state, write_vote};
use super::calls::{Taken, follow, insert, take};
use super::reads::{find, newest, read};
use super::rows::{At, Json};
use super::writer::Tx;
use crate::names::{MandateId, SessionKey, TicketId};
use crate::store::tickets::audit::ITSELF;
use crate::store::tickets::rules::{self, Step};
use crate::store::tickets::{
    AnswerError, Decider, Grants, Issued, Mandate, MandateFilter, NewMandate, Presented, Spend,
    Standing, Ticket, TicketState, columns,
};

/// What became of a call that was brought to the mandates.
pub(super) enum Under {
    None,
    Exceeded(MandateId),
    Said(Standing),
    Claimed(Taken),
}

const INSERT: &str = "
INSERT INTO mandate (id, tenant, issuer, subject, agent, session, upstream, tool, same, at_most, currency, uses, spent, used,
                     rule, ticket, by_issuer, by_subject, given, granted_at, comment, expires_at)
VALUES (:id, :tenant, :issuer, :subject, :agent, :session, :upstream, :tool, :same, :at_most, :currency, :uses, :spent, 0,
        :rule, :ticket, :by_issuer, :by_subject, :given, :granted_at, :comment, :expires_at)";

fn write(tx: &Tx<'_>, new: &Mandate) -> Sql<()> {
    tx.db.prepare_cached(INSERT)?.execute(named_params! {
        ":id": new.id.as_str(),
        ":tenant": new.tenant,
        ":issuer": new.issuer,
        ":subject": new.subject,
        ":agent": new.agent,
        ":session": new.session.as_ref().map(SessionKey::as_str),
        ":upstream": new.upstream.as_str(),
        ":tool": new.tool.as_str(),
        ":same": Json(&new.same),
        ":at_most": new.at_most.map(|sum| sum.to_string()),
        ":currency": new.currency,
        ":uses": new.uses,
        ":spent": Decimal::ZERO.to_string(),
        ":rule": new.rule.as_str(),
        ":ticket": new.ticket.as_ref().map(TicketId::as_str),
        ":by_issuer": new.granted_by.issuer,
        ":by_subject": new.granted_by.subject,
        ":given": new.given.as_ref().map(Json),
        ":granted_at": At::new(new.granted_at),
        ":comment": new.comment,
        ":expires_at": At::new(new.expires_at),
    })?;
    tx.note(rules::granted(new))
}

pub(super) fn grant(tx: &Tx<'_>, new: &NewMandate) -> Sql<Result<Mandate, AnswerError>> {
    let Some(ticket) = find(tx, &new.ticket)? else {
        return Ok(Err(AnswerError::NoSuchTicket(new.ticket.clone())));
    };
    if let Err(error) = new.judge(&ticket) {
        refused(tx, &new.by, &ticket, &error)?;
        return Ok(Err(error));
    }
    let Some(made) = rules::mandate(new, &ticket, tx.now.0) else {
        return Ok(Err(AnswerError::NotOffered {
            ticket: ticket.id,
            cause: "the request lacks an argument that its rule's `mandate` names",
        }));
    };
    write(tx, &made)?;
    get(tx, &made.id)?
        .ok_or(rusqlite::Error::QueryReturnedNoRows)
        .map(Ok)
}

fn get(tx: &Tx<'_>, id: &MandateId) -> Sql<Option<Mandate>> {
    tx.db
        .prepare_cached("SELECT * FROM mandate WHERE id = ?1")?
        .query_row([id.as_str()], |row| columns::mandate(row))
        .optional()
}

/// Newest first.
pub(super) fn list(tx: &Tx<'_>, filter: &MandateFilter) -> Sql<Vec<Mandate>> {
    tx.db
        .prepare_cached(
            "SELECT * FROM mandate
              WHERE (NOT :live OR ended_at IS NULL AND expires_at > :now AND used < uses)
                AND (:tenants IS NULL OR tenant IN (SELECT value FROM json_each(:tenants)))
                AND (:subject IS NULL OR subject = :subject)
              ORDER BY seq DESC LIMIT :limit",
        )?
        .query_map(
            named_params! {
                ":live": filter.live,
                ":now": tx.now,
                ":tenants": filter.tenants.as_ref().map(Json),
                ":subject": filter.subject,
                ":limit": filter.limit,
            },
            |row| columns::mandate(row),
        )?
        .collect()
}

pub(super) fn end(tx: &Tx<'_>, id: &MandateId, by: &Decider) -> Sql<Option<Mandate>> {
    let Some(found) = get(tx, id)?.filter(|found| rules::may_end(found, by)) else {
        return Ok(None);
    };
    if found.ended_at.is_some() {
        return Ok(Some(found));
    }
    write_end(tx, &found, by.record())?;
    get(tx, id)
}

fn write_end(tx: &Tx<'_>, found: &Mandate, by: String) -> Sql<()> {
    tx.db
        .prepare_cached("UPDATE mandate SET ended_by = ?2, ended_at = ?3 WHERE id = ?1")?
        .execute(params![found.id.as_str(), by, tx.now])?;
    tx.note(rules::mandate_ended(found, by))
}

/// What was reserved for the ticket is free again.
pub(super) fn release(tx: &Tx<'_>, ticket: &Ticket) -> Sql<()> {
    let Some(id) = &ticket.mandate else {
        return Ok(());
    };
    let Some(found) = get(tx, id)? else {
        return Ok(());
    };
    let amount: Option<String> = tx
        .db
        .prepare_cached("SELECT amount FROM ticket WHERE id = ?1")?
        .query_row([ticket.id.as_str()], |row| row.get(0))?;
    let amount = amount.and_then(|amount| Decimal::from_str_exact(&amount).ok());
    let (used, spent) = rules::released(&found, amount);
    set_spent(tx, id, used, spent)
}

fn set_spent(tx: &Tx<'_>, id: &MandateId, used: u32, spent: Decimal) -> Sql<()> {
    tx.db
        .prepare_cached("UPDATE mandate SET used = ?2, spent = ?3 WHERE id = ?1")?
        .execute(params![id.as_str(), used, spent.to_string()])?;
    Ok(())
}

/// Reserves and claims under the oldest mandate that covers the call and has enough left. What covers it and does not stand is
/// ended.
pub(super) fn claim_under(
    tx: &Tx<'_>,
    (call, spend): (&Presented, Option<&Spend>),
    stands: &dyn Fn(&Mandate) -> bool,
) -> Sql<Under> {
    if call.terms.mandate.is_none() {
        return Ok(Under::None);
    }
    let candidates: Vec<Mandate> = tx
        .db
        .prepare_cached(
            "SELECT * FROM mandate
              WHERE tenant = ?1 AND issuer = ?2 AND subject = ?3 AND tool = ?4 AND expires_at > ?5 AND ended_at IS NULL
              ORDER BY seq",
        )?
        .query_map(
            params![
                call.principal.tenant,
                call.principal.issuer,
                call.principal.subject,
                call.tool.as_str(),
                tx.now
            ],
            |row| columns::mandate(row),
        )?
        .collect::<Sql<_>>()?;
    let covering = candidates
        .iter()
        .filter(|found| rules::covers(found, call, spend, tx.now.0));
    let (covering, fallen): (Vec<_>, Vec<_>) = covering.partition(|found| stands(found));
    for found in fallen {
        write_end(tx, found, ITSELF.to_owned())?;
    }
    let Some(first) = covering.first().map(|found| found.id.clone()) else {
        return Ok(Under::None);
    };
    let pending = match rules::present(newest(tx, call)?, call, tx.now.0, tx.limits) {
        // One that ran out unanswered is no longer asked for: the mandate came meanwhile.
        Step::Request(None) | Step::TellOnce(..) => None,
        Step::Tell(Standing::Waiting { ticket, .. }) | Step::Request(Some((ticket, _))) => {
            Some(ticket)
        }
        Step::Tell(Standing::Approved(_)) => return Ok(Under::None),
        step => return follow(tx, call, step).map(Under::Said),
    };
    let fits = covering
        .into_iter()
        .find_map(|found| rules::spent(found, call, spend).map(|now| (found, now)));
    let Some((found, (used, sum))) = fits else {
        return Ok(Under::Exceeded(first));
    };
    set_spent(tx, &found.id, used, sum)?;
    if let Some(ticket) = pending {
        super::calls::void(tx, &ticket.id, crate::store::tickets::Cause::Withdrawn)?;
    }
    let amount = spend
        .map_or(Decimal::ZERO, |spend| spend.amount)
        .to_string();
    let under = Some((&found.id, amount.as_str()));
    let id = insert(tx, call, TicketState::Approved, under)?;
    let ticket = read(tx, &id)?;
    let claimed = take(tx, call, &ticket)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    Ok(Under::Claimed(claimed))
}

/// Takes a signed ticket, once ever.
pub(super) fn admit(tx: &Tx<'_>, call: &Presented, issued: &Issued) -> Sql<bool> {
    if tx.now.0 >= issued.expires_at {
        return Ok(false);
    }
    let step = rules::present(newest(tx, call)?, call, tx.now.0, tx.limits);
    let (pending, replaced) = match (&issued.grants, step) {
        (Grants::Mandate { .. }, _) | (Grants::Call, Step::Request(None) | Step::TellOnce(..)) => {
            (None, None)
        }
        (Grants::Call, Step::Tell(Standing::Waiting { ticket, .. })) => (Some(ticket), None),
        (Grants::Call, Step::Request(Some(replaced))) => (None, Some(replaced)),
        // Done, denied or under way: the signed ticket does not change that, and is not taken.
        (Grants::Call, _) => return Ok(false),
    };
    let taken = tx
        .db
        .prepare_cached(
            "INSERT INTO issued (key, id, expires_at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        )?
        .execute(params![issued.key, issued.id, At::new(issued.expires_at)])?;
    if taken == 0 {
        return Ok(false);
    }
    if let Some((ticket, cause)) = replaced {
        super::calls::void(tx, &ticket.id, cause)?;
    }
    if let Some(made) = rules::issued_mandate(issued, call, tx.now.0) {
        write(tx, &made)?;
        tx.note(rules::admitted(issued, call, None))?;
        return Ok(true);
    }
    let id = match pending {
        Some(ticket) => ticket.id,
        None => insert(tx, call, TicketState::Requested, None)?,
    };
    let ticket = read(tx, &id)?;
    write_vote(tx, &ticket, &rules::issued_vote(issued, tx.now.0))?;
    set_state(tx, &id, TicketState::Approved)?;
    tx.db
        .prepare_cached("UPDATE ticket SET expires_at = min(expires_at, ?2) WHERE id = ?1")?
        .execute(params![id.as_str(), At::new(issued.expires_at)])?;
    tx.note(rules::admitted(issued, call, Some(&ticket)))?;
    Ok(true)
}
