//! What people answer, and what they find out.

use super::calls::{json, keep_receipt};
use super::db::{Pg, Tx};
use super::reads::{hold, read};
use crate::names::TicketId;
use crate::store::tickets::audit::Event;
use crate::store::tickets::{
    Answer, AnswerError, Counted, Decider, Resolution, Ticket, TicketState, Vote, rules,
};

/// Judges an answer and writes it.
pub(super) async fn answer(tx: &Tx, answer: &Answer) -> Pg<Result<Ticket, AnswerError>> {
    let Some(ticket) = hold(tx, &answer.ticket).await? else {
        return Ok(Err(AnswerError::NoSuchTicket(answer.ticket.clone())));
    };
    let counted = match answer.judge(&ticket) {
        Ok(counted) => counted,
        Err(error) => {
            refused(tx, &answer.by, &ticket, &error);
            return Ok(Err(error));
        }
    };
    if let Counted::Vote(state) = counted {
        let (vote, note) = rules::vote(answer, &ticket, counted, tx.at);
        write_vote(tx, &ticket, &vote).await?;
        set_state(tx, &ticket.id, state).await?;
        tx.note(note);
    }
    read(tx, &ticket.id).await.map(Ok)
}

/// Somebody who tries to approve an own request is noted.
pub(super) fn refused(tx: &Tx, by: &Decider, ticket: &Ticket, error: &AnswerError) {
    if matches!(error, AnswerError::SelfApproval(_)) {
        let mut note = rules::note(Event::SelfApprovalRefused, ticket);
        note.actor = by.record();
        tx.note(note);
    }
}

pub(super) async fn write_vote(tx: &Tx, ticket: &Ticket, vote: &Vote) -> Pg<()> {
    tx.execute(
        "INSERT INTO vote (ticket, number, issuer, subject, verdict, at, comment, channel, roles, strong)
         VALUES ($1, (SELECT count(*) + 1 FROM vote WHERE ticket = $1), $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            &ticket.id.as_str(),
            &vote.by.issuer,
            &vote.by.subject,
            &vote.verdict.as_str(),
            &tx.now,
            &vote.comment,
            &vote.channel.as_str(),
            &json(&vote.roles)?,
            &vote.strong,
        ],
    )
    .await?;
    Ok(())
}

pub(super) async fn set_state(tx: &Tx, id: &TicketId, state: TicketState) -> Pg<()> {
    tx.execute(
        "UPDATE ticket SET state = $2, ended_at = CASE WHEN $3 THEN $4::bigint END WHERE id = $1",
        &[&id.as_str(), &state.as_str(), &state.is_final(), &tx.now],
    )
    .await?;
    Ok(())
}

/// Judges what somebody found out, and writes it.
pub(super) async fn resolve(tx: &Tx, resolution: &Resolution) -> Pg<Result<Ticket, AnswerError>> {
    let Some(ticket) = hold(tx, &resolution.ticket).await? else {
        return Ok(Err(AnswerError::NoSuchTicket(resolution.ticket.clone())));
    };
    let state = match resolution.judge(&ticket) {
        Ok(state) => state,
        Err(error) => return Ok(Err(error)),
    };
    set_state(tx, &ticket.id, state).await?;
    let by = resolution.by.record();
    tx.execute(
        "UPDATE ticket SET resolved_by = $2, resolved_at = $3, resolved_note = $4 WHERE id = $1",
        &[&ticket.id.as_str(), &by, &tx.now, &resolution.note],
    )
    .await?;
    if let Some(receipt) = &resolution.receipt {
        keep_receipt(tx, &ticket.id, receipt).await?;
    }
    let event = if resolution.done {
        Event::ResolvedDone
    } else {
        super::mandates::release(tx, &ticket).await?;
        Event::ResolvedNotDone
    };
    let mut note = rules::note(event, &ticket);
    note.actor = by;
    tx.note(note);
    read(tx, &ticket.id).await.map(Ok)
}
