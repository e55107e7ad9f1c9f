//! Forms: each answers for what its page showed, and leads back to the ticket's page, so that loading again sends nothing.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use rust_decimal::Decimal;

use super::ticket::seen;
use super::{broken, find};
use crate::approvals::view::leading as message;
use crate::approvals::{Approvals, Human, Posted};
use crate::names::{MandateId, TicketId};
use crate::store::tickets::{AnswerError, Decider, NewMandate, Ticket, TicketState, Verdict};

pub(super) async fn approve(
    State(approvals): State<Arc<Approvals>>,
    Path(id): Path<String>,
    form: Posted,
) -> Response {
    vote(&approvals, id, &form, Verdict::Approve).await
}

pub(super) async fn deny(
    State(approvals): State<Arc<Approvals>>,
    Path(id): Path<String>,
    form: Posted,
) -> Response {
    vote(&approvals, id, &form, Verdict::Deny).await
}

pub(super) async fn revoke(
    State(approvals): State<Arc<Approvals>>,
    Path(id): Path<String>,
    form: Posted,
) -> Response {
    vote(&approvals, id, &form, Verdict::Revoke).await
}

async fn vote(approvals: &Approvals, id: String, form: &Posted, verdict: Verdict) -> Response {
    // A no counts for whatever the request has become, as long as it can still be stopped.
    let ticket = if verdict == Verdict::Approve {
        unchanged(approvals, id, form).await
    } else {
        find(approvals, &form.human, id).await
    };
    let ticket = match ticket {
        Ok(ticket) => ticket,
        Err(answer) => return answer,
    };
    let answered = approvals
        .answer(
            form.human.voter(),
            ticket.id.clone(),
            verdict,
            digest(form),
            text(form, "comment"),
        )
        .await;
    done(&ticket.id, answered)
}

pub(super) async fn resolve(
    State(approvals): State<Arc<Approvals>>,
    Path(id): Path<String>,
    form: Posted,
) -> Response {
    let ticket = match unchanged(&approvals, id, &form).await {
        Ok(ticket) => ticket,
        Err(answer) => return answer,
    };
    let found = match form.field("found") {
        Some("done") => Some(true),
        Some("not_done") => Some(false),
        _ => None,
    };
    let (Some(carried_out), Some(note)) = (found, text(&form, "note")) else {
        let text = "Say what you found, and how you know: without both the matter stays open.";
        return again(
            StatusCode::BAD_REQUEST,
            "Something is missing",
            text,
            &ticket.id,
        );
    };
    let resolved = approvals
        .resolve(form.human.voter(), ticket.id.clone(), carried_out, note)
        .await;
    done(&ticket.id, resolved)
}

pub(super) async fn mandate(
    State(approvals): State<Arc<Approvals>>,
    Path(id): Path<String>,
    form: Posted,
) -> Response {
    let ticket = match unchanged(&approvals, id, &form).await {
        Ok(ticket) => ticket,
        Err(answer) => return answer,
    };
    let uses = form.field("uses").map(u32::from_str).transpose();
    let at_most = form
        .field("at_most")
        .map(Decimal::from_str_exact)
        .transpose();
    let (Ok(uses), Ok(at_most)) = (uses, at_most) else {
        let text = "The number of calls or the sum is not a number such as 3 or 49.90.";
        return again(StatusCode::BAD_REQUEST, "Not a number", text, &ticket.id);
    };
    let new = NewMandate {
        ticket: ticket.id.clone(),
        by: Decider::Person(form.human.voter()),
        digest_prefix: digest(&form),
        uses,
        at_most,
        within: None,
        comment: text(&form, "comment"),
    };
    done(&ticket.id, approvals.grant(new).await)
}

pub(super) async fn end_mandate(
    State(approvals): State<Arc<Approvals>>,
    Path(id): Path<String>,
    form: Posted,
) -> Response {
    match approvals
        .end_mandate(form.human.voter(), MandateId::new(id))
        .await
    {
        Ok(Some(_)) => Redirect::to("/mandates").into_response(),
        Ok(None) => {
            let text = "It was never there, or is not yours to see.";
            message(
                StatusCode::NOT_FOUND,
                "No such mandate",
                text,
                ("/mandates", "To the mandates"),
            )
        }
        Err(error) => broken(error),
    }
}

/// The ticket, if it still looks as it did when the form was made. An approval that this person has given already is let
/// through: the store knows it for a second click.
async fn unchanged(approvals: &Approvals, id: String, form: &Posted) -> Result<Ticket, Response> {
    let ticket = find(approvals, &form.human, id).await?;
    if form.field("seen") == Some(seen(&ticket).as_str()) || approved(&ticket, &form.human) {
        return Ok(ticket);
    }
    Err(stale(&ticket.id, ticket.state))
}

fn approved(ticket: &Ticket, human: &Human) -> bool {
    let person = human.voter();
    let mut votes = ticket.votes.iter();
    votes.any(|vote| vote.verdict == Verdict::Approve && person.has(&vote.by))
}

fn done<T>(ticket: &TicketId, answered: Result<T, AnswerError>) -> Response {
    let Err(error) = answered else {
        return Redirect::to(&format!("/tickets/{ticket}")).into_response();
    };
    let text = error.to_string();
    match error {
        AnswerError::AlreadyDecided { state, .. } | AnswerError::NotUnknown { state, .. } => {
            stale(ticket, state)
        }
        AnswerError::Expired(_) => stale(ticket, TicketState::Expired),
        AnswerError::DigestMismatch(_) | AnswerError::DigestPrefix => again(
            StatusCode::CONFLICT,
            "Not the call that was shown",
            &text,
            ticket,
        ),
        AnswerError::NoSuchTicket(_) => message(
            StatusCode::NOT_FOUND,
            "No such request",
            &text,
            ("/", "To the queue"),
        ),
        AnswerError::Store(error) => broken(error),
        AnswerError::FreshLogin(_) => {
            let to = format!("/login?fresh=1&next=/tickets/{ticket}");
            message(
                StatusCode::FORBIDDEN,
                "Log in once more",
                &text,
                (&to, "Log in"),
            )
        }
        AnswerError::SelfApproval(_)
        | AnswerError::NotTheRequester(_)
        | AnswerError::RoleMissing { .. }
        | AnswerError::NotOffered { .. } => {
            again(StatusCode::FORBIDDEN, "Not yours to answer", &text, ticket)
        }
    }
}

fn stale(ticket: &TicketId, state: TicketState) -> Response {
    let text = format!(
        "Somebody or something was faster: the request is now {}. Your answer changed nothing.",
        super::standing::words(state).0
    );
    again(StatusCode::CONFLICT, "Too late", &text, ticket)
}

fn again(status: StatusCode, title: &str, text: &str, ticket: &TicketId) -> Response {
    message(
        status,
        title,
        text,
        (&format!("/tickets/{ticket}"), "Look at the request anew"),
    )
}

fn digest(form: &Posted) -> Option<String> {
    form.field("digest").map(str::to_owned)
}

/// What the person wrote, without white space around it; nothing is nothing.
fn text(form: &Posted, name: &str) -> Option<String> {
    let text = form.field(name)?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
