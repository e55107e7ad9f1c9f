//! What people answer, and what they find out.

use rusqlite::params;

use super::Sql;
use super::calls::keep_receipt;
use super::reads::{find, read};
use super::rows::Json;
use super::writer::Tx;
use crate::names::TicketId;
use crate::store::tickets::audit::Event;
use crate::store::tickets::{
    Answer, AnswerError, Counted, Decider, Resolution, Ticket, TicketState, Vote, rules,
};

/// Judges an answer and writes it.
pub(super) fn answer(tx: &Tx<'_>, answer: &Answer) -> Sql<Result<Ticket, AnswerError>> {
    let Some(ticket) = find(tx, &answer.ticket)? else {
        return Ok(Err(AnswerError::NoSuchTicket(answer.ticket.clone())));
    };
    let counted = match answer.judge(&ticket) {
        Ok(counted) => counted,
        Err(error) => {
            refused(tx, &answer.by, &ticket, &error)?;
            return Ok(Err(error));
        }
    };
    if let Counted::Vote(state) = counted {
        let (vote, note) = rules::vote(answer, &ticket, counted, tx.now.0);
        write_vote(tx, &ticket, &vote)?;
        set_state(tx, &ticket.id, state)?;
        tx.note(note)?;
    }
    read(tx, &ticket.id).map(Ok)
}

/// Somebody who tries to approve an own request is noted.
pub(super) fn refused(tx: &Tx<'_>, by: &Decider, ticket: &Ticket, error: &AnswerError) -> Sql<()> {
    if !matches!(error, AnswerError::SelfApproval(_)) {
        return Ok(());
    }
    let mut note = rules::note(Event::SelfApprovalRefused, ticket);
    note.actor = by.record();
    tx.note(note)
}

pub(super) fn write_vote(tx: &Tx<'_>, ticket: &Ticket, vote: &Vote) -> Sql<()> {
    tx.db
        .prepare_cached(
            "INSERT INTO vote (ticket, number, issuer, subject, verdict, at, comment, channel, roles, strong)
             VALUES (?1, (SELECT count(*) + 1 FROM vote WHERE ticket = ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            ticket.id.as_str(),
            vote.by.issuer,
            vote.by.subject,
            vote.verdict.as_str(),
            tx.now,
            vote.comment,
            vote.channel.as_str(),
            Json(&vote.roles),
            vote.strong,
        ])?;
    Ok(())
}

pub(super) fn set_state(tx: &Tx<'_>, id: &TicketId, state: TicketState) -> Sql<()> {
    tx.db
        .prepare_cached(
            "UPDATE ticket SET state = ?2, ended_at = CASE WHEN ?3 THEN ?4 END WHERE id = ?1",
        )?
        .execute(params![id.as_str(), state, state.is_final(), tx.now])?;
    Ok(())
}

/// Judges what somebody found out, and writes it.
pub(super) fn resolve(tx: &Tx<'_>, resolution: &Resolution) -> Sql<Result<Ticket, AnswerError>> {
    let Some(ticket) = find(tx, &resolution.ticket)? else {
        return Ok(Err(AnswerError::NoSuchTicket(resolution.ticket.clone())));
    };
    let state = match resolution.judge(&ticket) {
        Ok(state) => state,
        Err(error) => return Ok(Err(error)),
    };
    set_state(tx, &ticket.id, state)?;
    let by = resolution.by.record();
    tx.db
        .prepare_cached(
            "UPDATE ticket SET resolved_by = ?2, resolved_at = ?3, resolved_note = ?4 WHERE id = ?1",
        )?
        .execute(params![ticket.id.as_str(), by, tx.now, resolution.note])?;
    if let Some(receipt) = &resolution.receipt {
        keep_receipt(tx, &ticket.id, receipt)?;
    }
    let event = if resolution.done {
        Event::ResolvedDone
    } else {
        super::mandates::release(tx, &ticket)?;
        Event::ResolvedNotDone
    };
    let mut note = rules::note(event, &ticket);
    note.actor = by;
    tx.note(note)?;
    read(tx, &ticket.id).map(Ok)
}
