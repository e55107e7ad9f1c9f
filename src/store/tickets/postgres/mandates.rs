//! Mandates: what is left of them is asked and taken in the transaction that makes the claim.

use rust_decimal::Decimal;

use super::Store;
use super::answers::{refused, set_state, write_vote};
use super::calls::{self, Taken, follow, insert, take};
use super::db::{Fault, Pg, Tx};
use super::reads::{find, hold, newest, read};
use crate::names::{MandateId, SessionKey, TicketId};
use crate::store::tickets::audit::ITSELF;
use crate::store::tickets::columns::{self, Columns};
use crate::store::tickets::rules::{self, Step};
use crate::store::tickets::{
    AnswerError, Cause, Decider, Grants, Issued, Mandate, MandateFilter, NewMandate, Presented,
    Spend, Standing, Stands, Ticket, TicketState,
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
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, '0', 0, $13, $14, $15, $16, $17, $18, $19, $20)";

async fn write(tx: &Tx, new: &Mandate) -> Pg<()> {
    let at_most = new.at_most.map(|sum| sum.to_string());
    tx.execute(
        INSERT,
        &[
            &new.id.as_str(),
            &new.tenant,
            &new.issuer,
            &new.subject,
            &new.agent,
            &new.session.as_ref().map(SessionKey::as_str),
            &new.upstream.as_str(),
            &new.tool.as_str(),
            &calls::json(&new.same)?,
            &at_most,
            &new.currency,
            &i64::from(new.uses),
            &new.rule.as_str(),
            &new.ticket.as_ref().map(TicketId::as_str),
            &new.granted_by.issuer,
            &new.granted_by.subject,
            &new.given.as_ref().map(calls::json).transpose()?,
            &new.granted_at.as_microsecond(),
            &new.comment,
            &new.expires_at.as_microsecond(),
        ],
    )
    .await?;
    tx.note(rules::granted(new));
    Ok(())
}

pub(super) async fn grant(tx: &Tx, new: &NewMandate) -> Pg<Result<Mandate, AnswerError>> {
    let Some(ticket) = hold(tx, &new.ticket).await? else {
        return Ok(Err(AnswerError::NoSuchTicket(new.ticket.clone())));
    };
    if let Err(error) = new.judge(&ticket) {
        refused(tx, &new.by, &ticket, &error);
        return Ok(Err(error));
    }
    let Some(made) = rules::mandate(new, &ticket, tx.at) else {
        return Ok(Err(AnswerError::NotOffered {
            ticket: ticket.id,
            cause: "the request lacks an argument that its rule's `mandate` names",
        }));
    };
    write(tx, &made).await?;
    get(tx, &made.id).await?.ok_or_else(Fault::missing).map(Ok)
}

async fn get(tx: &Tx, id: &MandateId) -> Pg<Option<Mandate>> {
    let row = tx
        .row(
            "SELECT * FROM mandate WHERE id = $1 FOR UPDATE",
            &[&id.as_str()],
        )
        .await?;
    row.as_ref().map(columns::mandate).transpose()
}

/// Newest first.
pub(super) async fn list(tx: &Tx, filter: &MandateFilter) -> Pg<Vec<Mandate>> {
    let rows = tx
        .rows(
            "SELECT * FROM mandate
              WHERE (NOT $1 OR ended_at IS NULL AND expires_at > $2 AND used < uses)
                AND ($3::text[] IS NULL OR tenant = ANY ($3)) AND ($4::text IS NULL OR subject = $4)
              ORDER BY seq DESC LIMIT $5",
            &[
                &filter.live,
                &tx.now,
                &filter.tenants,
                &filter.subject,
                &i64::from(filter.limit),
            ],
        )
        .await?;
    rows.iter().map(columns::mandate).collect()
}

pub(super) async fn end(tx: &Tx, id: &MandateId, by: &Decider) -> Pg<Option<Mandate>> {
    let found = get(tx, id).await?;
    let Some(found) = found.filter(|found| rules::may_end(found, by)) else {
        return Ok(None);
    };
    if found.ended_at.is_some() {
        return Ok(Some(found));
    }
    write_end(tx, &found, by.record()).await?;
    get(tx, id).await
}

async fn write_end(tx: &Tx, found: &Mandate, by: String) -> Pg<()> {
    tx.execute(
        "UPDATE mandate SET ended_by = $2, ended_at = $3 WHERE id = $1",
        &[&found.id.as_str(), &by, &tx.now],
    )
    .await?;
    tx.note(rules::mandate_ended(found, by));
    Ok(())
}

/// What was reserved for the ticket is free again.
pub(super) async fn release(tx: &Tx, ticket: &Ticket) -> Pg<()> {
    let Some(id) = &ticket.mandate else {
        return Ok(());
    };
    let Some(found) = get(tx, id).await? else {
        return Ok(());
    };
    let row = tx
        .row(
            "SELECT amount FROM ticket WHERE id = $1",
            &[&ticket.id.as_str()],
        )
        .await?
        .ok_or_else(Fault::missing)?;
    let amount = row.maybe_named("amount", |text| Decimal::from_str_exact(text).ok())?;
    let (used, spent) = rules::released(&found, amount);
    set_spent(tx, id, used, spent).await
}

async fn set_spent(tx: &Tx, id: &MandateId, used: u32, spent: Decimal) -> Pg<()> {
    tx.execute(
        "UPDATE mandate SET used = $2, spent = $3 WHERE id = $1",
        &[&id.as_str(), &i64::from(used), &spent.to_string()],
    )
    .await?;
    Ok(())
}

/// Reserves and claims under the oldest mandate that covers the call and has enough left. What covers it and does not stand is
/// ended.
pub(super) async fn claim_under(
    tx: &Tx,
    store: &Store,
    (call, spend): (&Presented, Option<&Spend>),
    stands: &Stands,
) -> Pg<Under> {
    if call.terms.mandate.is_none() {
        return Ok(Under::None);
    }
    let principal = &call.principal;
    tx.exclusively(&call.call.digest.to_string()).await?;
    // Locked in their order, so that two calls under the same mandates never wait for each other.
    let rows = tx
        .rows(
            "SELECT * FROM mandate
              WHERE tenant = $1 AND issuer = $2 AND subject = $3 AND tool = $4 AND expires_at > $5 AND ended_at IS NULL
              ORDER BY seq FOR UPDATE",
            &[
                &&*principal.tenant,
                &&*principal.issuer,
                &&*principal.subject,
                &call.tool.as_str(),
                &tx.now,
            ],
        )
        .await?;
    let candidates: Vec<Mandate> = rows.iter().map(columns::mandate).collect::<Pg<_>>()?;
    let covering = candidates
        .iter()
        .filter(|found| rules::covers(found, call, spend, tx.at));
    let (covering, fallen): (Vec<_>, Vec<_>) = covering.partition(|found| stands(found));
    for found in fallen {
        write_end(tx, found, ITSELF.to_owned()).await?;
    }
    let Some(first) = covering.first().map(|found| found.id.clone()) else {
        return Ok(Under::None);
    };
    let pending = match rules::present(newest(tx, call).await?, call, tx.at, &tx.limits) {
        Step::Tell(Standing::Waiting { ticket, .. }) | Step::Request(Some((ticket, _))) => {
            Some(ticket)
        }
        // Where it ran out unanswered, the mandate came meanwhile.
        Step::Request(None) | Step::TellOnce(..) => None,
        Step::Tell(Standing::Approved(_)) => return Ok(Under::None),
        step => return follow(tx, call, step).await.map(Under::Said),
    };
    let fits = covering
        .into_iter()
        .find_map(|found| rules::spent(found, call, spend).map(|now| (found, now)));
    let Some((found, (used, sum))) = fits else {
        return Ok(Under::Exceeded(first));
    };
    set_spent(tx, &found.id, used, sum).await?;
    if let Some(ticket) = pending {
        calls::void(tx, &ticket.id, Cause::Withdrawn).await?;
    }
    let amount = spend
        .map_or(Decimal::ZERO, |spend| spend.amount)
        .to_string();
    let under = Some((&found.id, amount.as_str()));
    let id = insert(tx, call, TicketState::Approved, under).await?;
    let ticket = read(tx, &id).await?;
    let claimed = take(tx, store, call, &ticket).await?;
    Ok(Under::Claimed(claimed.ok_or_else(Fault::missing)?))
}

/// Takes a signed ticket, once ever.
pub(super) async fn admit(tx: &Tx, call: &Presented, issued: &Issued) -> Pg<bool> {
    if tx.at >= issued.expires_at {
        return Ok(false);
    }
    tx.exclusively(&call.call.digest.to_string()).await?;
    let step = rules::present(newest(tx, call).await?, call, tx.at, &tx.limits);
    let (pending, replaced) = match (&issued.grants, step) {
        (Grants::Mandate { .. }, _) | (Grants::Call, Step::Request(None) | Step::TellOnce(..)) => {
            (None, None)
        }
        (Grants::Call, Step::Tell(Standing::Waiting { ticket, .. })) => (Some(ticket), None),
        (Grants::Call, Step::Request(Some(replaced))) => (None, Some(replaced)),
        // Done, denied or under way: the signed ticket does not change that, and is not taken.
        (Grants::Call, _) => return Ok(false),
    };
    let expires_at = issued.expires_at.as_microsecond();
    let taken = tx
        .execute(
            "INSERT INTO issued (key, id, expires_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            &[&issued.key, &issued.id, &expires_at],
        )
        .await?;
    if taken == 0 {
        return Ok(false);
    }
    if let Some((ticket, cause)) = replaced {
        calls::void(tx, &ticket.id, cause).await?;
    }
    if let Some(made) = rules::issued_mandate(issued, call, tx.at) {
        write(tx, &made).await?;
        tx.note(rules::admitted(issued, call, None));
        return Ok(true);
    }
    let id = match pending {
        Some(ticket) => ticket.id,
        None => insert(tx, call, TicketState::Requested, None).await?,
    };
    let ticket = find(tx, &id).await?.ok_or_else(Fault::missing)?;
    write_vote(tx, &ticket, &rules::issued_vote(issued, tx.at)).await?;
    set_state(tx, &id, TicketState::Approved).await?;
    tx.execute(
        "UPDATE ticket SET expires_at = least(expires_at, $2) WHERE id = $1",
        &[&id.as_str(), &expires_at],
    )
    .await?;
    tx.note(rules::admitted(issued, call, Some(&ticket)));
    Ok(true)
}
