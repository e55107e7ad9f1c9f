//! The approvers' page: what waits, one request with all that an answer rests on, what was, and the records. Rendered here
//! from what is stored, without anything of another origin; scripts add live updates and are not needed.
//!
//! Reading changes nothing: whatever answers is a POST of a form that stands on the ticket's own page.

mod act;
mod arguments;
mod assets;
mod lists;
mod records;
mod shell;
mod standing;
#[cfg(test)]
mod tests;
mod text;
mod ticket;
mod time;

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::{HeaderMap, StatusCode};
use maud::Markup;
use serde::Deserialize;

use self::lists::Search;
pub(super) use self::shell::bare;
use self::shell::{Frame, Place};
pub(super) use self::text::plain;
use super::view::leading as message;
use super::{Approvals, Human};
use crate::layers::tickets::show::leaves;
use crate::names::TicketId;
use crate::store::tickets::{
    Answer, Counted, Decider, Filter, MandateFilter, Ticket, TicketError, TicketState, Verdict,
};

/// Requests on the queue's page, at most.
const QUEUE: u32 = 200;

/// Tickets on a page of a list.
const PAGE: u32 = 50;

/// Earlier acts beside a ticket.
const SIMILAR: u32 = 6;

/// Rows of the audit on its page.
const ROWS: u32 = 100;

/// The pages.
pub(super) fn router() -> Router<Arc<Approvals>> {
    Router::new()
        .route("/", get(queue))
        .route("/history", get(history))
        .route("/unknown", get(unknown))
        .route("/mandates", get(mandates))
        .route("/mandates/{id}/end", post(act::end_mandate))
        .route("/audit", get(audit))
        .route("/tickets/{id}", get(one))
        .route("/tickets/{id}/value", get(value))
        .route("/tickets/{id}/approve", post(act::approve))
        .route("/tickets/{id}/deny", post(act::deny))
        .route("/tickets/{id}/revoke", post(act::revoke))
        .route("/tickets/{id}/resolve", post(act::resolve))
        .route("/tickets/{id}/mandate", post(act::mandate))
        .route("/assets/style.css", get(assets::style))
        .route("/assets/live.js", get(assets::script))
        .route("/assets/icon.svg", get(assets::icon))
        .fallback(async || {
            let text = "There is nothing at this address.";
            message(
                StatusCode::NOT_FOUND,
                "No such page",
                text,
                ("/", "To the queue"),
            )
        })
}

/// A page for a person, in its frame.
struct Page<'a> {
    approvals: &'a Approvals,
    human: &'a Human,
    headers: &'a HeaderMap,
}

impl Page<'_> {
    fn answer(&self, place: Place, title: &str, main: &Markup) -> Response {
        let frame = Frame {
            title,
            place,
            name: &self.human.person.name,
            csrf: &self.human.csrf,
            now: self.approvals.clock.now(),
        };
        frame.answer(StatusCode::OK, self.headers, main)
    }

    fn filter(&self, states: &[TicketState], limit: u32) -> Filter {
        Filter {
            states: states.to_vec(),
            limit,
            ..self.human.person.filter()
        }
    }

    /// At most `limit` tickets, and whether there are more.
    async fn list(&self, filter: Filter) -> Result<(Vec<Ticket>, bool), Response> {
        let limit = filter.limit;
        let asked = Filter {
            limit: limit.saturating_add(1),
            ..filter
        };
        let mut found = self.approvals.store.list(asked).await.map_err(broken)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        Ok((found, more))
    }
}

async fn queue(
    State(approvals): State<Arc<Approvals>>,
    human: Human,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let page = Page {
        approvals: &approvals,
        human: &human,
        headers: &headers,
    };
    let (waiting, more) = page
        .list(page.filter(&[TicketState::Requested], QUEUE))
        .await?;
    let title = match waiting.len() {
        0 => "Waiting".to_owned(),
        n => format!("({n}) Waiting"),
    };
    let main = lists::queue(&waiting, more, approvals.clock.now());
    Ok(page.answer(Place::Queue, &title, &main))
}

/// The filters of the history, as its form sends them: an empty one is none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    state: Option<String>,
    user: Option<String>,
    tool: Option<String>,
    before: Option<u64>,
}

fn search(query: HistoryQuery) -> Option<Search> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let state = match given(query.state) {
        Some(name) => Some(TicketState::from_name(&name)?),
        None => None,
    };
    Some(Search {
        state,
        subject: given(query.user),
        tool: given(query.tool),
        before: query.before,
    })
}

async fn history(
    State(approvals): State<Arc<Approvals>>,
    human: Human,
    headers: HeaderMap,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Response, Response> {
    let search = query.ok().and_then(|Query(query)| search(query));
    let search =
        search.ok_or_else(|| unreadable("The address asks for a filter that there is not."))?;
    let page = Page {
        approvals: &approvals,
        human: &human,
        headers: &headers,
    };
    let mine = human.person.filter();
    let filter = Filter {
        states: search.state.into_iter().collect(),
        // Who sees their own requests alone looks for nobody else's.
        subject: mine.subject.or_else(|| search.subject.clone()),
        tool: search.tool.clone(),
        before: search.before,
        ..page.filter(&[], PAGE)
    };
    let (found, more) = page.list(filter).await?;
    let main = lists::history(&search, &found, more, approvals.clock.now());
    Ok(page.answer(Place::History, "History", &main))
}

async fn unknown(
    State(approvals): State<Arc<Approvals>>,
    human: Human,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let page = Page {
        approvals: &approvals,
        human: &human,
        headers: &headers,
    };
    let (found, more) = page
        .list(page.filter(&[TicketState::Unknown], QUEUE))
        .await?;
    let main = lists::unknown(&found, more, approvals.clock.now());
    Ok(page.answer(Place::Unknown, "Unknown outcomes", &main))
}

async fn mandates(
    State(approvals): State<Arc<Approvals>>,
    human: Human,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let page = Page {
        approvals: &approvals,
        human: &human,
        headers: &headers,
    };
    let Filter {
        tenants, subject, ..
    } = human.person.filter();
    let filter = MandateFilter {
        tenants,
        subject,
        limit: QUEUE,
        ..MandateFilter::default()
    };
    let mut found = approvals.store.mandates(filter).await.map_err(broken)?;
    let voter = human.voter();
    found.retain(|it| voter.knows(&it.tenant, &it.issuer, &it.subject));
    let main = records::mandates(&found, &human.csrf, approvals.clock.now());
    Ok(page.answer(Place::Mandates, "Mandates", &main))
}

async fn audit(
    State(approvals): State<Arc<Approvals>>,
    human: Human,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let page = Page {
        approvals: &approvals,
        human: &human,
        headers: &headers,
    };
    let head = approvals.store.head().await.map_err(broken)?;
    // Rows say who asked and who answered: who sees some tenants alone gets the head, which says nothing of anybody.
    let rows = if human.person.tenants.is_none() {
        let after = head.seq.saturating_sub(ROWS.into());
        approvals.store.audit(after, ROWS).await.map_err(broken)?
    } else {
        Vec::new()
    };
    let main = records::audit(head, &rows, approvals.clock.now());
    Ok(page.answer(Place::Audit, "Audit", &main))
}

async fn one(
    State(approvals): State<Arc<Approvals>>,
    human: Human,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    let ticket = find(&approvals, &human, id).await?;
    let page = Page {
        approvals: &approvals,
        human: &human,
        headers: &headers,
    };
    let filter = Filter {
        issuer: Some(ticket.principal.issuer.to_string()),
        subject: Some(ticket.principal.subject.to_string()),
        tool: Some(ticket.tool.to_string()),
        upstream: Some(ticket.upstream.to_string()),
        tenants: Some(vec![ticket.principal.tenant.to_string()]),
        before: Some(ticket.seq),
        ..page.filter(&[], SIMILAR)
    };
    let (similar, _) = page.list(filter).await?;
    let answer = Answer {
        ticket: ticket.id.clone(),
        verdict: Verdict::Approve,
        by: Decider::Person(human.voter()),
        digest_prefix: Some(ticket::prefix(&ticket)),
        comment: None,
    };
    let judged = answer.judge(&ticket);
    let view = ticket::View {
        ticket: &ticket,
        similar: &similar,
        voted: matches!(judged, Ok(Counted::Again)),
        against: judged.err(),
        csrf: &human.csrf,
        now: approvals.clock.now(),
    };
    let (state, _) = standing::words(ticket.state);
    let title = format!("{state}: {}", ticket.summary);
    Ok(page.answer(Place::Elsewhere, &title, &view.render()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ValueQuery {
    at: String,
}

async fn value(
    State(approvals): State<Arc<Approvals>>,
    human: Human,
    headers: HeaderMap,
    Path(id): Path<String>,
    query: Result<Query<ValueQuery>, QueryRejection>,
) -> Result<Response, Response> {
    let ticket = find(&approvals, &human, id).await?;
    let page = Page {
        approvals: &approvals,
        human: &human,
        headers: &headers,
    };
    let at = query.ok().map(|Query(query)| query.at);
    let leaf = at.and_then(|at| {
        leaves(&arguments::value(&ticket))
            .into_iter()
            .find(|(known, _)| *known == at)
    });
    let (at, text) = leaf.ok_or_else(|| {
        let back = format!("/tickets/{}", ticket.id);
        message(
            StatusCode::NOT_FOUND,
            "No such argument",
            "The request has no argument there.",
            (&back, "To the request"),
        )
    })?;
    let main = ticket::value(&ticket, &at, arguments::content(&text));
    Ok(page.answer(Place::Elsewhere, "Whole value", &main))
}

/// The ticket, if there is one that this person may see.
async fn find(approvals: &Approvals, human: &Human, id: String) -> Result<Ticket, Response> {
    let found = approvals
        .store
        .get(TicketId::new(id))
        .await
        .map_err(broken)?;
    found
        .filter(|ticket| human.person.sees_ticket(ticket))
        .ok_or_else(|| {
            let text = "It was never there, has been removed, or is not yours to see.";
            message(
                StatusCode::NOT_FOUND,
                "No such request",
                text,
                ("/", "To the queue"),
            )
        })
}

fn unreadable(text: &str) -> Response {
    message(
        StatusCode::BAD_REQUEST,
        "Not understood",
        text,
        ("/history", "To the history"),
    )
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn broken(error: TicketError) -> Response {
    tracing::error!(%error, "the approvers' page could not be made");
    let text = "The ticket store failed; nothing was changed. The log says why.";
    message(
        StatusCode::SERVICE_UNAVAILABLE,
        "The store failed",
        text,
        ("/", "Try again"),
    )
}
