//! A request of a model API after the rulings, and what such an API's refusals have in common.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue};
use serde_json::Value;

use super::texts::{Found, Slot};
use super::{Malformed, Refusal, Request, Written, unwritable};
use crate::guard::Decision;
use crate::verdict::{Ruling, Verdict};
use crate::wire::json::{BODY_DEPTH, Document};

/// What becomes of a body.
#[derive(Debug)]
pub enum Edited {
    /// It is sent so.
    Body(Bytes),
    /// It cannot be sent.
    Refused(Box<Refusal>),
}

/// Writes rulings into a request. One that no ruling touches goes on as it came.
///
/// # Errors
/// A ruling that cannot be written.
pub fn write(
    mut request: Request,
    decision: &Decision,
    edit: impl FnOnce(&Document) -> Result<Edited, Malformed>,
) -> Result<Written, Malformed> {
    let allowed = |ruling: &Ruling| matches!(ruling.verdict, Verdict::Allow);
    if decision.preface.is_none() && decision.rulings.iter().all(allowed) {
        return Ok(Written::Forward(request));
    }
    let document = request.json.take().ok_or_else(unwritable)?;
    let body = match edit(&document)? {
        Edited::Body(body) => body,
        Edited::Refused(refusal) => return Ok(Written::Refuse(*refusal)),
    };
    request.json = Some(Document::read(body.clone(), BODY_DEPTH).map_err(|_| unwritable())?);
    request.body = body;
    Ok(Written::Forward(request))
}

/// The rulings without those that would only clean or mark what `is_stuck`: it stays as it came.
pub fn settled<'r>(
    found: &[Found<'_>],
    rulings: &'r [Ruling],
    is_stuck: impl Fn(&Found<'_>) -> bool,
) -> Cow<'r, [Ruling]> {
    let is_light = |(found, ruling): (&Found<'_>, &Ruling)| match &ruling.verdict {
        Verdict::Rewrite(rewrite) => rewrite.says_all() && is_stuck(found),
        _ => false,
    };
    let light: Vec<bool> = found.iter().zip(rulings).map(is_light).collect();
    if !light.contains(&true) {
        return Cow::Borrowed(rulings);
    }
    let mut settled = rulings.to_vec();
    for (ruling, _) in settled.iter_mut().zip(light).filter(|(_, light)| *light) {
        ruling.verdict = Verdict::Allow;
    }
    Cow::Owned(settled)
}

/// The refusal of a request that cannot be sent without what was ruled against: a tool that the provider would run, or
/// something else that `is_stuck`.
pub fn refused(
    found: &[Found<'_>],
    rulings: &[Ruling],
    is_stuck: impl Fn(&Found<'_>) -> bool,
) -> Option<Refusal> {
    found.iter().zip(rulings).find_map(|(found, ruling)| {
        let finding = ruling
            .verdict
            .finding()
            .filter(|_| !ruling.verdict.says_all())?;
        let hold = match &ruling.verdict {
            Verdict::Hold(hold) => Some(hold),
            _ => None,
        };
        let stuck = matches!(found.slot, Slot::Whole) || is_stuck(found);
        stuck.then(|| Refusal::of(finding, hold))
    })
}

/// The ticket that waits and when it runs out, for the message of a refusal.
pub fn facts(refusal: &Refusal) -> Vec<String> {
    let hold = refusal.hold.as_ref();
    let ticket = hold.and_then(|hold| hold.ticket.as_ref());
    let expires = hold.and_then(|hold| hold.expires_at.as_ref());
    let facts = [
        ticket.map(|id| format!("ticket: {id}")),
        expires.map(|at| format!("expires: {at}")),
    ];
    facts.into_iter().flatten().collect()
}

/// A refusal with this body, which no SDK repeats by itself unless it may.
pub fn refusal(refusal: &Refusal, body: &Value) -> http::Response<Bytes> {
    let mut response = http::Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = refusal.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if !refusal.retry {
        let name = HeaderName::from_static("x-should-retry");
        headers.insert(name, HeaderValue::from_static("false"));
    }
    response
}
