//! Tickets: listed, shown, answered, resolved; mandates and the audit.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use super::body::Members;
use super::problem::{Problem, internal};
use crate::approvals::Approvals;
use crate::layers::tickets::show::visible_json;
use crate::names::{MandateId, TicketId};
use crate::source::read_duration;
use crate::store::tickets::audit::AuditRow;
use crate::store::tickets::{
    AnswerError, Decider, Filter, Mandate, MandateFilter, NewMandate, Resolution, Resolver, Ticket,
    TicketState, Verdict, Voter,
};

/// Entries of one answer, where the caller does not say.
const DEFAULT_LIMIT: u32 = 100;

/// Entries of one answer, at most.
const MAX_LIMIT: u32 = 1000;

type Id = Result<Path<String>, PathRejection>;
type Body = Result<Bytes, BytesRejection>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    state: Option<String>,
    tenant: Option<String>,
    issuer: Option<String>,
    subject: Option<String>,
    tool: Option<String>,
    upstream: Option<String>,
    before: Option<u64>,
    limit: Option<u32>,
}

fn query_invalid(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "query_invalid", detail)
}

/// A number of a row, which stores keep as a signed one.
fn row(number: u64) -> Option<u64> {
    i64::try_from(number).is_ok().then_some(number)
}

fn limit(limit: Option<u32>) -> Option<u32> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    (1..=MAX_LIMIT).contains(&limit).then_some(limit)
}

#[derive(Serialize)]
struct Listing {
    now: jiff::Timestamp,
    tickets: Vec<Ticket>,
    /// `before` of the next page.
    next: Option<u64>,
}

pub(super) async fn list(
    State(approvals): State<Arc<Approvals>>,
    Extension(voter): Extension<Voter>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let filter = query
        .ok()
        .and_then(|Query(query)| filter(query, &voter))
        .ok_or_else(|| {
            let states = TicketState::ALL.map(TicketState::as_str).join(", ");
            query_invalid(format!(
                "`state` is one or more of {states}, with commas between; `before` is a number, `limit` is 1 to \
                 {MAX_LIMIT}; `tenant`, `issuer`, `subject`, `tool` and `upstream` are text; nothing else is known"
            ))
        })?;
    let most = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    let tickets = approvals.store.list(filter).await?;
    let last = tickets.last().map(|ticket| ticket.seq);
    let next = last.filter(|_| tickets.len() >= most);
    let now = approvals.clock.now();
    Ok(json_response(&Listing { now, tickets, next }))
}

fn filter(query: ListQuery, voter: &Voter) -> Option<Filter> {
    let states = match &query.state {
        Some(names) => names
            .split(',')
            .map(TicketState::from_name)
            .collect::<Option<_>>()?,
        None => Vec::new(),
    };
    let before = match query.before {
        Some(before) => Some(row(before)?),
        None => None,
    };
    let (issuer, subject) = owner(query.issuer, query.subject, voter);
    Some(Filter {
        states,
        tenants: tenants(query.tenant, voter),
        issuer,
        subject,
        tool: query.tool,
        upstream: query.upstream,
        before,
        limit: limit(query.limit)?,
    })
}

/// The user asked for; of a person who sees their own requests alone, themselves.
fn owner(
    issuer: Option<String>,
    subject: Option<String>,
    voter: &Voter,
) -> (Option<String>, Option<String>) {
    if !voter.own {
        return (issuer, subject);
    }
    let own = &voter.person;
    (Some(own.issuer.clone()), Some(own.subject.clone()))
}

/// Those asked for, of those that the person may see.
fn tenants(asked: Option<String>, voter: &Voter) -> Option<Vec<String>> {
    match asked {
        None => voter.tenants.clone(),
        Some(tenant) if voter.sees(&tenant) => Some(vec![tenant]),
        Some(_) => Some(Vec::new()),
    }
}

pub(super) async fn show(
    State(approvals): State<Arc<Approvals>>,
    Extension(voter): Extension<Voter>,
    id: Id,
) -> Result<Response, Problem> {
    let id = ticket_id(id)?;
    let found = approvals.store.get(id.clone()).await?;
    let known = |ticket: &Ticket| {
        let principal = &ticket.principal;
        voter.knows(&principal.tenant, &principal.issuer, &principal.subject)
    };
    match found.filter(known) {
        Some(ticket) => Ok(json_response(&ticket)),
        None => Err(AnswerError::NoSuchTicket(id).into()),
    }
}

pub(super) async fn approve(
    state: State<Arc<Approvals>>,
    voter: Extension<Voter>,
    id: Id,
    body: Body,
) -> Result<Response, Problem> {
    answer(state, voter, Verdict::Approve, id, body).await
}

pub(super) async fn deny(
    state: State<Arc<Approvals>>,
    voter: Extension<Voter>,
    id: Id,
    body: Body,
) -> Result<Response, Problem> {
    answer(state, voter, Verdict::Deny, id, body).await
}

pub(super) async fn revoke(
    state: State<Arc<Approvals>>,
    voter: Extension<Voter>,
    id: Id,
    body: Body,
) -> Result<Response, Problem> {
    answer(state, voter, Verdict::Revoke, id, body).await
}

async fn answer(
    State(approvals): State<Arc<Approvals>>,
    Extension(voter): Extension<Voter>,
    verdict: Verdict,
    id: Id,
    body: Body,
) -> Result<Response, Problem> {
    let ticket = ticket_id(id)?;
    let mut members = Members::read(body, &["digest_prefix", "comment"])?;
    let prefix = members.text("digest_prefix")?;
    let comment = members.comment("comment")?;
    let answered = approvals
        .answer(voter, ticket, verdict, prefix, comment)
        .await?;
    Ok(json_response(&answered))
}

pub(super) async fn resolve(
    State(approvals): State<Arc<Approvals>>,
    Extension(voter): Extension<Voter>,
    id: Id,
    body: Body,
) -> Result<Response, Problem> {
    let ticket = ticket_id(id)?;
    let mut members = Members::read(body, &["done", "note"])?;
    let done = members.required_bool("done")?;
    let note = members.comment("note")?.ok_or_else(|| {
        let detail = "write in `note` how you know what became of the call";
        Problem::new(StatusCode::BAD_REQUEST, "body_invalid", detail)
    })?;
    let resolved = approvals.resolve(voter, ticket, done, note).await?;
    Ok(json_response(&resolved))
}

pub(super) async fn grant(
    State(approvals): State<Arc<Approvals>>,
    Extension(voter): Extension<Voter>,
    id: Id,
    body: Body,
) -> Result<Response, Problem> {
    let known = &["digest_prefix", "uses", "at_most", "within", "comment"];
    let ticket = ticket_id(id)?;
    let mut members = Members::read(body, known)?;
    let decimal = |text: &str| {
        text.parse::<Decimal>()
            .ok()
            .filter(|it| !it.is_sign_negative())
    };
    let positive = |text: &str| read_duration(text).filter(|it: &Duration| !it.is_zero());
    let mandate = NewMandate {
        ticket,
        by: Decider::Person(voter),
        digest_prefix: members.text("digest_prefix")?,
        uses: members.count("uses")?,
        at_most: members.parsed("at_most", "a decimal such as `\"50.00\"`", decimal)?,
        within: members.parsed("within", "a duration such as `\"8h\"`", positive)?,
        comment: members.comment("comment")?,
    };
    let granted = approvals.grant(mandate).await?;
    Ok(json_response(&granted))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MandateQuery {
    live: Option<bool>,
    tenant: Option<String>,
    subject: Option<String>,
    limit: Option<u32>,
}

#[derive(Serialize)]
struct Mandates {
    now: jiff::Timestamp,
    mandates: Vec<Mandate>,
}

pub(super) async fn mandates(
    State(approvals): State<Arc<Approvals>>,
    Extension(voter): Extension<Voter>,
    query: Result<Query<MandateQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let filter = query.ok().and_then(|Query(query)| {
        Some(MandateFilter {
            live: query.live.unwrap_or(false),
            tenants: tenants(query.tenant, &voter),
            subject: owner(None, query.subject, &voter).1,
            limit: limit(query.limit)?,
        })
    });
    let filter = filter.ok_or_else(|| {
        query_invalid(format!(
            "`live` is `true` or `false`, `limit` is 1 to {MAX_LIMIT}; `tenant` and `subject` are text; nothing else is known"
        ))
    })?;
    let mut mandates = approvals.store.mandates(filter).await?;
    mandates.retain(|it| voter.knows(&it.tenant, &it.issuer, &it.subject));
    let now = approvals.clock.now();
    Ok(json_response(&Mandates { now, mandates }))
}

pub(super) async fn end_mandate(
    State(approvals): State<Arc<Approvals>>,
    Extension(voter): Extension<Voter>,
    id: Id,
) -> Result<Response, Problem> {
    let unknown = || {
        let detail = "there is no such mandate; `GET /v1/mandates` names them";
        Problem::new(StatusCode::NOT_FOUND, "mandate_unknown", detail)
    };
    let Path(id) = id.map_err(|_| unknown())?;
    let ended = approvals.end_mandate(voter, MandateId::new(id)).await?;
    ended.map(|it| json_response(&it)).ok_or_else(unknown)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditQuery {
    after: Option<u64>,
    limit: Option<u32>,
}

#[derive(Serialize)]
struct Rows {
    rows: Vec<AuditRow>,
    /// `after` of the next page.
    next: Option<u64>,
}

pub(super) async fn audit(
    State(approvals): State<Arc<Approvals>>,
    Extension(voter): Extension<Voter>,
    query: Result<Query<AuditQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    if voter.own || voter.tenants.is_some() {
        let detail =
            "the audit is one chain over all tenants: only who sees every tenant may read it";
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "every_tenant_required",
            detail,
        ));
    }
    let asked = query.ok().and_then(|Query(query)| {
        let limit = limit(query.limit)?;
        Some((row(query.after.unwrap_or(0))?, limit))
    });
    let (after, limit) = asked.ok_or_else(|| {
        query_invalid(format!(
            "`after` is a number, `limit` is 1 to {MAX_LIMIT}; nothing else is known"
        ))
    })?;
    let rows = approvals.store.audit(after, limit).await?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let last = rows.last().map(|row| row.seq);
    let next = last.filter(|_| rows.len() >= most);
    Ok(json_response(&Rows { rows, next }))
}

fn ticket_id(id: Id) -> Result<TicketId, Problem> {
    let Ok(Path(id)) = id else {
        let detail = "the ticket's id is not text";
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "ticket_unknown",
            detail,
        ));
    };
    Ok(TicketId::new(id))
}

fn json_response(value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(json) => {
            let kind = HeaderValue::from_static("application/json");
            ([(header::CONTENT_TYPE, kind)], visible_json(&json)).into_response()
        }
        Err(_) => internal().into_response(),
    }
}

impl Approvals {
    /// Says what became of a call whose outcome was unknown.
    ///
    /// # Errors
    /// It does not count.
    pub(crate) async fn resolve(
        &self,
        voter: Voter,
        ticket: TicketId,
        done: bool,
        note: String,
    ) -> Result<Ticket, AnswerError> {
        let by = Decider::Person(voter);
        let who = by.record();
        let resolution = Resolution {
            ticket,
            done,
            by: Resolver::Person(by),
            note: Some(note),
            receipt: None,
        };
        let resolved = self.store.resolve(resolution).await;
        counted(&who, resolved.as_ref());
        resolved
    }

    /// Gives a mandate.
    ///
    /// # Errors
    /// It does not count.
    pub(crate) async fn grant(&self, mandate: NewMandate) -> Result<Mandate, AnswerError> {
        let who = mandate.by.record();
        let granted = self.store.grant(mandate).await;
        match &granted {
            Ok(mandate) => tracing::info!(mandate = %mandate.id, by = who, "a mandate was given"),
            Err(error) => tracing::warn!(code = error.code(), by = who, "a mandate was not given"),
        }
        granted
    }

    /// Ends a mandate; `None`: there is none that this person may see.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn end_mandate(
        &self,
        voter: Voter,
        mandate: MandateId,
    ) -> Result<Option<Mandate>, crate::store::tickets::TicketError> {
        let by = Decider::Person(voter);
        let who = by.record();
        let ended = self.store.end_mandate(mandate, by).await?;
        if let Some(mandate) = &ended {
            tracing::info!(mandate = %mandate.id, by = who, "a mandate was ended");
        }
        Ok(ended)
    }

    /// One answer of one person, on whatever channel.
    ///
    /// # Errors
    /// It does not count.
    pub(crate) async fn answer(
        &self,
        voter: Voter,
        ticket: TicketId,
        verdict: Verdict,
        digest_prefix: Option<String>,
        comment: Option<String>,
    ) -> Result<Ticket, AnswerError> {
        let by = Decider::Person(voter);
        let who = by.record();
        let answer = crate::store::tickets::Answer {
            ticket,
            verdict,
            by,
            digest_prefix,
            comment,
        };
        let answered = self.store.answer(answer).await;
        counted(&who, answered.as_ref());
        answered
    }
}

fn counted(who: &str, answered: Result<&Ticket, &AnswerError>) {
    match answered {
        Ok(ticket) => {
            tracing::info!(ticket = %ticket.id, state = %ticket.state, by = who, "an answer was taken");
        }
        Err(error) => tracing::warn!(code = error.code(), by = who, "an answer does not count"),
    }
}
