//! A presented call, its claim, and its outcome.

use uuid::Uuid;

use super::claim::{Attempt, PostgresClaim};
use super::db::{Fault, Pg, Tx};
use super::reads::{find, hold, newest, read, stored};
use super::{Store, mandates};
use crate::guard::{Outcome, Receipt};
use crate::names::{MandateId, RuleId, SessionKey, TicketId};
use crate::store::tickets::audit::Event;
use crate::store::tickets::columns::{Columns, gate_name, kept};
use crate::store::tickets::digest::sha256_hex;
use crate::store::tickets::rules::{self, Step};
use crate::store::tickets::{Cap, Cause, Presented, Standing, Ticket, TicketState, new_ticket_id};

/// At most so many tickets that ran out are written off in one transaction.
const SWEPT: i64 = 100;

/// What became of a claim.
pub(super) enum Taken {
    /// Claimed; given back where it is dropped.
    Claimed(PostgresClaim),
    /// This is where the call stands.
    Lost(Standing),
}

/// As JSON text: only what the store itself has made is written so.
pub(super) fn json(value: &impl serde::Serialize) -> Pg<String> {
    serde_json::to_string(value).map_err(|error| Fault::Other(error.to_string()))
}

/// Whatever has run out by now is expired for good, even if the clock steps back later. What another transaction holds is that
/// one's to judge.
pub(super) async fn sweep(tx: &Tx) -> Pg<()> {
    let rows = tx
        .rows(
            "UPDATE ticket SET state = 'expired', ended_at = expires_at
              WHERE id IN (SELECT id FROM ticket WHERE state IN ('requested', 'approved') AND expires_at <= $1
                            ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
             RETURNING id",
            &[&tx.now, &SWEPT],
        )
        .await?;
    for row in rows {
        note(tx, Event::Expired, &row.text("id")?.into()).await?;
    }
    Ok(())
}

pub(super) async fn note(tx: &Tx, event: Event, id: &TicketId) -> Pg<()> {
    tx.note(rules::note(event, &read(tx, id).await?));
    Ok(())
}

pub(super) fn session(call: &Presented) -> Option<&str> {
    call.session.as_ref().map(SessionKey::as_str)
}

/// Does what the newest ticket of the call says. Where that is to write something, identical calls are taken one after the other.
pub(super) async fn present(tx: &Tx, call: &Presented) -> Pg<Standing> {
    if let Some(hint) = &call.hint
        && let Some(hinted) = find(tx, hint).await?
        && rules::mismatched(&hinted, call)
    {
        return Ok(Standing::Mismatch(hinted.id));
    }
    let mut step = rules::present(newest(tx, call).await?, call, tx.at, &tx.limits);
    if !matches!(step, Step::Tell(_)) {
        tx.exclusively(&call.call.digest.to_string()).await?;
        step = rules::present(newest(tx, call).await?, call, tx.at, &tx.limits);
    }
    follow(tx, call, step).await
}

/// Does what a step says.
pub(super) async fn follow(tx: &Tx, call: &Presented, step: Step) -> Pg<Standing> {
    match step {
        Step::Tell(Standing::Waiting { ticket, new }) => Ok(Standing::Waiting {
            ticket: Box::new(read(tx, &ticket.id).await?),
            new,
        }),
        Step::Tell(standing) => Ok(standing),
        Step::TellOnce(ticket, standing) => {
            tx.execute(
                "UPDATE ticket SET expiry_told = true WHERE id = $1",
                &[&ticket.id.as_str()],
            )
            .await?;
            Ok(standing)
        }
        Step::Replay(ticket) => match stored(tx, &ticket.id).await? {
            Some(receipt) => Ok(Standing::Done(receipt)),
            None => request(tx, call).await,
        },
        Step::Request(cancelled) => {
            if let Some((ticket, cause)) = cancelled {
                void(tx, &ticket.id, cause).await?;
            }
            request(tx, call).await
        }
    }
}

/// Cancels a request or an approval.
pub(super) async fn void(tx: &Tx, id: &TicketId, cause: Cause) -> Pg<bool> {
    let open = hold(tx, id)
        .await?
        .filter(|ticket| matches!(ticket.state, TicketState::Requested | TicketState::Approved));
    let Some(ticket) = open else {
        return Ok(false);
    };
    tx.execute(
        "UPDATE ticket SET state = 'cancelled', cause = $2, ended_at = $3 WHERE id = $1",
        &[&id.as_str(), &cause.as_str(), &tx.now],
    )
    .await?;
    let mut note = rules::note(Event::Cancelled, &ticket);
    rules::add(&mut note.details, "cause", cause.as_str());
    tx.note(note);
    Ok(true)
}

async fn request(tx: &Tx, call: &Presented) -> Pg<Standing> {
    if let Some(cap) = capped(tx, call).await? {
        return Ok(Standing::Capped(cap));
    }
    let id = insert(tx, call, TicketState::Requested, None).await?;
    let ticket = read(tx, &id).await?;
    tx.note(rules::note_of_call(Event::Requested, &ticket));
    Ok(Standing::Waiting {
        ticket: Box::new(ticket),
        new: true,
    })
}

const INSERT: &str = "
INSERT INTO ticket (id, state, digest, tenant, issuer, subject, agent, actors, session, route, upstream, tool, arguments,
                    policy, layer, rule, reason, gate, roles, approvals, fresh, summary, bound, said, offer, reconcile,
                    created_at, expires_at, mandate, amount)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26,
        $27, $28, $29, $30)";

/// A new row of the call; `under`: the mandate that it is made under, and what it spends.
pub(super) async fn insert(
    tx: &Tx,
    call: &Presented,
    state: TicketState,
    under: Option<(&MandateId, &str)>,
) -> Pg<TicketId> {
    let id = new_ticket_id();
    let (terms, principal) = (&call.terms, &call.principal);
    let arguments = String::from_utf8_lossy(&call.call.arguments);
    tx.execute(
        INSERT,
        &[
            &id.as_str(),
            &state.as_str(),
            &call.call.digest.to_string(),
            &&*principal.tenant,
            &&*principal.issuer,
            &&*principal.subject,
            &&*principal.agent,
            &json(&principal.actors)?,
            &session(call),
            &call.route.as_str(),
            &call.upstream.as_str(),
            &call.tool.as_str(),
            &&*arguments,
            &&*terms.policy.0,
            &terms.layer.as_str(),
            &terms.rule.as_str(),
            &terms.reason.as_str(),
            &gate_name(terms.gate),
            &json(&terms.roles)?,
            &i64::from(terms.approvals.max(1)),
            &terms.fresh,
            &terms.summary,
            &json(&call.bound)?,
            &call.said,
            &terms.mandate.as_ref().map(json).transpose()?,
            &terms.reconcile.as_ref().map(RuleId::as_str),
            &tx.now,
            &tx.later(terms.ttl),
            &under.map(|(mandate, _)| mandate.as_str()),
            &under.map(|(_, amount)| amount),
        ],
    )
    .await?;
    Ok(id)
}

/// Requests of one user are counted one after the other.
async fn capped(tx: &Tx, call: &Presented) -> Pg<Option<Cap>> {
    let principal = &call.principal;
    let (tenant, issuer, subject) = (&*principal.tenant, &*principal.issuer, &*principal.subject);
    tx.exclusively(&json(&["user", tenant, issuer, subject])?)
        .await?;
    let row = tx
        .row(
            "SELECT count(*) FILTER (WHERE state = 'requested' AND session IS NOT DISTINCT FROM $4) AS pending,
                    count(*) FILTER (WHERE created_at > $5 AND mandate IS NULL) AS made
               FROM ticket WHERE tenant = $1 AND issuer = $2 AND subject = $3
                AND (state = 'requested' OR created_at > $5)",
            &[
                &tenant,
                &issuer,
                &subject,
                &session(call),
                &tx.earlier(tx.limits.request_window),
            ],
        )
        .await?
        .ok_or_else(Fault::missing)?;
    Ok(rules::capped(
        row.count("pending")?,
        row.count("made")?,
        &tx.limits,
    ))
}

/// The claim is this one statement: whatever was read before, only a ticket of this very call that nobody else has taken is
/// taken, only once, and only by a process whose lease runs.
const CLAIM: &str = "
UPDATE ticket SET state = 'redeeming', attempt = attempt + 1, boot = $1, claim = $2, claimed_at = $3
 WHERE id = $4 AND state = $5 AND lost = $6 AND digest = $7
   AND tenant = $8 AND issuer = $9 AND subject = $10 AND session IS NOT DISTINCT FROM $11
   AND (state = 'unknown' OR expires_at > $3)
   AND EXISTS (SELECT 1 FROM node WHERE boot = $1 AND lease_until > clock_timestamp())
RETURNING attempt, arguments";

pub(super) async fn claim(tx: &Tx, store: &Store, call: &Presented, id: &TicketId) -> Pg<Taken> {
    tx.exclusively(&call.call.digest.to_string()).await?;
    let found = hold(tx, id)
        .await?
        .filter(|ticket| rules::claimable(ticket, call, tx.at));
    let Some(ticket) = found else {
        return present(tx, call).await.map(Taken::Lost);
    };
    match take(tx, store, call, &ticket).await? {
        Some(claimed) => Ok(claimed),
        None => present(tx, call).await.map(Taken::Lost),
    }
}

/// Runs the claim and notes it; `None`: it was not to be had.
pub(super) async fn take(
    tx: &Tx,
    store: &Store,
    call: &Presented,
    ticket: &Ticket,
) -> Pg<Option<Taken>> {
    let boot = leased(tx).await?;
    let (principal, token) = (&call.principal, Uuid::now_v7().simple().to_string());
    let row = tx
        .row(
            CLAIM,
            &[
                &boot,
                &token,
                &tx.now,
                &ticket.id.as_str(),
                &ticket.state.as_str(),
                &i64::from(ticket.lost),
                &call.call.digest.to_string(),
                &&*principal.tenant,
                &&*principal.issuer,
                &&*principal.subject,
                &session(call),
            ],
        )
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let number: u32 = row.count("attempt")?;
    let mut note = rules::note_of_call(Event::Claimed, ticket);
    rules::add(&mut note.details, "attempt", number);
    tx.note(note);
    let attempt = Attempt {
        ticket: ticket.id.clone(),
        number,
        token,
    };
    let arguments = row.text("arguments")?.into();
    let claim = PostgresClaim::new(store, attempt, arguments);
    Ok(Some(Taken::Claimed(claim)))
}

/// As which process this one may claim now.
async fn leased(tx: &Tx) -> Pg<String> {
    let boot = tx.boot.clone().ok_or_else(|| {
        Fault::Other(
            "this process does not serve the ticket store, so it claims nothing".to_owned(),
        )
    })?;
    let row = tx
        .row(
            "SELECT 1 AS one FROM node WHERE boot = $1 AND lease_until > clock_timestamp()",
            &[&boot],
        )
        .await?;
    if row.is_none() {
        return Err(Fault::Other(
            "this process was away from the database for longer than its lease; nothing is redeemed until it has a new one"
                .to_owned(),
        ));
    }
    Ok(boot)
}

const FINISH: &str = "
UPDATE ticket SET state = $3, cause = $4, lost = lost + $5, claim = NULL,
       ended_at = CASE WHEN $6 THEN $7::bigint END
 WHERE id = $1 AND claim = $2 AND state = 'redeeming'";

/// Ends an attempt; `false`: it is no longer under way, and nothing is changed.
pub(super) async fn finish(tx: &Tx, attempt: &Attempt, outcome: &Outcome) -> Pg<bool> {
    let Some(ticket) = hold(tx, &attempt.ticket).await? else {
        return Ok(false);
    };
    let ended = rules::ended(outcome, ticket.mandate.is_some(), ticket.lost > 0);
    let changed = tx
        .execute(
            FINISH,
            &[
                &attempt.ticket.as_str(),
                &attempt.token,
                &ended.state.as_str(),
                &ended.cause.map(Cause::as_str),
                &i64::from(matches!(outcome, Outcome::Unknown)),
                &ended.state.is_final(),
                &tx.now,
            ],
        )
        .await?;
    if changed == 0 {
        return Ok(false);
    }
    let mut note = rules::note(ended.event, &ticket);
    rules::add(&mut note.details, "attempt", attempt.number);
    if let Some(receipt) = outcome.receipt() {
        keep_receipt(tx, &attempt.ticket, receipt).await?;
        rules::add(&mut note.details, "status", receipt.status);
    }
    if ended.release {
        mandates::release(tx, &ticket).await?;
    }
    tx.note(note);
    Ok(true)
}

/// Stores a receipt.
pub(super) async fn keep_receipt(tx: &Tx, id: &TicketId, receipt: &Receipt) -> Pg<()> {
    tx.execute(
        "UPDATE ticket SET completed_at = $2, receipt_status = $3, receipt_type = $4, receipt_body = $5,
                           receipt_length = $6, receipt_sha256 = $7
          WHERE id = $1",
        &[
            &id.as_str(),
            &receipt.completed_at.as_microsecond(),
            &i64::from(receipt.status),
            &receipt.content_type,
            &&kept(&receipt.body)[..],
            &i64::try_from(receipt.body.len()).unwrap_or(i64::MAX),
            &sha256_hex(&receipt.body),
        ],
    )
    .await?;
    Ok(())
}
