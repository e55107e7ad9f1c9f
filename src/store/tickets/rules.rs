//! What a presented call, an outcome or a mandate leads to: pure, and the same for every store. A store reads, asks here, and
//! writes, all in one transaction.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rust_decimal::Decimal;
use serde_json::{Value, json};

use super::audit::{Event, ITSELF, Note};
use super::limits::TicketLimits;
use super::model::{
    Cap, Cause, Channel, Decider, Given, Grants, Issued, Mandate, MandateOffer, NewMandate,
    Presented, Spend, Standing, Ticket, TicketState, Verdict, Vote,
};
use super::{Answer, Counted};
use crate::guard::Outcome;
use crate::policy::Selector;

/// What a store does for a presented call.
#[derive(Debug)]
pub enum Step {
    /// Say this; nothing is written.
    Tell(Standing),
    /// Note that the agent was told, and say this.
    TellOnce(Box<Ticket>, Standing),
    /// Give the stored receipt of this ticket back; where there is none any more, make a new request.
    Replay(Box<Ticket>),
    /// Make a new request, if [`capped`] lets it; first cancel this one.
    Request(Option<(Box<Ticket>, Cause)>),
}

/// A moment so much later; the end of time where there is no such moment.
pub fn plus(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| at.checked_add(by).ok())
        .unwrap_or(Timestamp::MAX)
}

/// A moment so much earlier; the beginning of time where there is no such moment.
pub fn minus(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| at.checked_sub(by).ok())
        .unwrap_or(Timestamp::MIN)
}

/// What the newest ticket of the identical call (same digest, tenant, issuer, subject and session) says. Whatever has run out
/// is expired already.
pub fn present(
    newest: Option<Ticket>,
    call: &Presented,
    now: Timestamp,
    limits: &TicketLimits,
) -> Step {
    let Some(ticket) = newest else {
        return Step::Request(None);
    };
    let ticket = Box::new(ticket);
    let id = ticket.id.clone();
    match ticket.state {
        TicketState::Requested | TicketState::Approved if !same_terms(&ticket, call) => {
            Step::Request(Some((ticket, Cause::TermsChanged)))
        }
        // Nobody is to approve what has changed since it was shown.
        TicketState::Requested if !ticket.bound.holds(&call.bound) => {
            Step::Request(Some((ticket, Cause::StateChanged)))
        }
        TicketState::Requested => Step::Tell(Standing::Waiting { ticket, new: false }),
        TicketState::Approved => Step::Tell(Standing::Approved(ticket)),
        TicketState::Redeeming => Step::Tell(Standing::Redeeming(id)),
        TicketState::Unknown => Step::Tell(Standing::Unknown(id)),
        TicketState::Denied | TicketState::Revoked => match ticket.refusal() {
            Some(no) if now < plus(no.at, limits.denied_for) => Step::Tell(Standing::Denied {
                ticket: id,
                comment: no.comment.clone(),
            }),
            _ => Step::Request(None),
        },
        TicketState::Expired if !ticket.told => Step::TellOnce(ticket, Standing::Expired(id)),
        TicketState::Succeeded | TicketState::Failed | TicketState::ResolvedDone => {
            done(ticket, call, now, limits)
        }
        TicketState::Expired | TicketState::Cancelled | TicketState::ResolvedNotDone => {
            Step::Request(None)
        }
    }
}

fn done(ticket: Box<Ticket>, call: &Presented, now: Timestamp, limits: &TicketLimits) -> Step {
    let completed = ticket.completed.as_ref().map(|completed| completed.at);
    let at = completed.or_else(|| ticket.resolved.as_ref().map(|resolved| resolved.at));
    let fresh = at.is_some_and(|at| now < plus(at, limits.replay_window));
    if call.again || !fresh {
        return Step::Request(None);
    }
    if completed.is_none() {
        return Step::Tell(Standing::ResolvedDone(ticket.id.clone()));
    }
    Step::Replay(ticket)
}

/// Whether today's policy asks for what the request asked for.
fn same_terms(ticket: &Ticket, call: &Presented) -> bool {
    let terms = &call.terms;
    ticket.gate == terms.gate
        && ticket.roles == terms.roles
        && ticket.approvals == terms.approvals
        && ticket.fresh == terms.fresh
}

/// Whether the ticket that the caller named as a hint makes the call a mistake: it is the caller's own, of another call, and
/// spent or under way. What is somebody else's does not exist.
pub fn mismatched(hinted: &Ticket, call: &Presented) -> bool {
    let principal = &call.principal;
    let own = hinted.principal.tenant == principal.tenant
        && hinted.principal.issuer == principal.issuer
        && hinted.principal.subject == principal.subject
        && hinted.session == call.session;
    let spent = matches!(
        hinted.state,
        TicketState::Redeeming
            | TicketState::Succeeded
            | TicketState::Failed
            | TicketState::Unknown
            | TicketState::ResolvedDone
            | TicketState::ResolvedNotDone
    );
    own && spent && hinted.digest != call.call.digest
}

/// Whether another request is one too many: `pending` wait in the same session of the same user, `made` were made by the user
/// after [`TicketLimits::request_window`] ago.
pub fn capped(pending: u64, made: u64, limits: &TicketLimits) -> Option<Cap> {
    if pending >= u64::from(limits.pending_per_session) {
        return Some(Cap::PendingPerSession);
    }
    (made >= u64::from(limits.requests_per_user)).then_some(Cap::RequestsPerUser)
}

/// Whether a call may claim this ticket: it is approved, or unknown for the first time and the upstream still honours its key.
pub fn claimable(ticket: &Ticket, call: &Presented, now: Timestamp) -> bool {
    match ticket.state {
        TicketState::Approved => now < ticket.expires_at,
        TicketState::Unknown => {
            let alive = call.terms.idempotent.zip(ticket.claimed_at);
            ticket.lost == 1
                && ticket.mandate.is_none()
                && alive.is_some_and(|(life, claimed)| now < plus(claimed, life))
        }
        _ => false,
    }
}

/// What an outcome makes of a claimed ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Where it stands from now on.
    pub state: TicketState,
    /// Why it was cancelled.
    pub cause: Option<Cause>,
    /// What is noted.
    pub event: Event,
    /// What was reserved of a mandate is free again.
    pub release: bool,
}

/// What an outcome makes of a claimed ticket. `under`: it was claimed under a mandate. `again`: it was unknown before, so that
/// nobody knows whether the first attempt was carried out.
pub fn ended(outcome: &Outcome, under: bool, again: bool) -> Ended {
    let (state, cause, event, release) = match outcome {
        Outcome::NotSent if again => (TicketState::Unknown, None, Event::NotSent, false),
        Outcome::NotSent if under => {
            let cause = Some(Cause::Withdrawn);
            (TicketState::Cancelled, cause, Event::NotSent, true)
        }
        Outcome::NotSent => (TicketState::Approved, None, Event::NotSent, false),
        Outcome::Unknown => (TicketState::Unknown, None, Event::Unknown, false),
        Outcome::Answered(receipt) | Outcome::Withheld(receipt) => {
            let (state, event) = if receipt.status < 400 {
                (TicketState::Succeeded, Event::Succeeded)
            } else {
                (TicketState::Failed, Event::Failed)
            };
            // Who refuses has not acted. One that fails may have, and so may one whose answer is withheld.
            let refused =
                matches!(outcome, Outcome::Answered(_)) && (400..500).contains(&receipt.status);
            (state, None, event, refused)
        }
    };
    Ended {
        state,
        cause,
        event,
        release: release && under,
    }
}

/// The vote that an answer writes, and what is noted of it.
pub fn vote(answer: &Answer, ticket: &Ticket, counted: Counted, at: Timestamp) -> (Vote, Note) {
    let (roles, strong) = authority(&answer.by);
    let vote = Vote {
        by: answer.by.person(),
        verdict: answer.verdict,
        at,
        comment: answer.comment.clone(),
        channel: answer.by.channel(),
        roles,
        strong,
    };
    let event = match counted {
        Counted::Vote(TicketState::Approved) => Event::Approved,
        Counted::Vote(TicketState::Denied) => Event::Denied,
        Counted::Vote(TicketState::Revoked) => Event::Revoked,
        Counted::Vote(_) | Counted::Again => Event::Answered,
    };
    let mut details = about(ticket);
    add(&mut details, "verdict", answer.verdict.as_str());
    add(&mut details, "channel", vote.channel.as_str());
    add(&mut details, "strong", vote.strong);
    let note = Note {
        event,
        ticket: Some(ticket.id.clone()),
        mandate: None,
        actor: answer.by.record(),
        details,
    };
    (vote, note)
}

/// The roles of who answers, and whether they have just shown who they are.
fn authority(by: &Decider) -> (Vec<String>, bool) {
    match by {
        Decider::Local(_) => (Vec::new(), false),
        Decider::Person(voter) => (voter.roles.clone(), voter.strong),
    }
}

/// A note of something that happened to a ticket by itself.
pub fn note(event: Event, ticket: &Ticket) -> Note {
    Note {
        event,
        ticket: Some(ticket.id.clone()),
        mandate: ticket.mandate.clone(),
        actor: ITSELF.to_owned(),
        details: about(ticket),
    }
}

/// A note of something that the agent's call did to a ticket.
pub fn note_of_call(event: Event, ticket: &Ticket) -> Note {
    Note {
        actor: format!("agent:{}", ticket.principal.agent),
        ..note(event, ticket)
    }
}

/// What every note of a ticket says.
fn about(ticket: &Ticket) -> Value {
    json!({
        "digest": ticket.digest,
        "tenant": ticket.principal.tenant,
        "issuer": ticket.principal.issuer,
        "subject": ticket.principal.subject,
        "tool": ticket.tool,
        "upstream": ticket.upstream,
        "rule": ticket.rule,
    })
}

/// Adds a member to an object.
pub fn add(details: &mut Value, name: &str, value: impl Into<Value>) {
    if let Value::Object(members) = details {
        members.insert(name.to_owned(), value.into());
    }
}

/// The mandate that a person gives on a request: never more than the rule offers. `None`: the request does not have what the
/// offer counts.
pub fn mandate(new: &NewMandate, ticket: &Ticket, now: Timestamp) -> Option<Mandate> {
    let offer = ticket.offer.as_ref()?;
    let arguments: Value = serde_json::from_str(ticket.arguments.get()).ok()?;
    let currency = match &offer.currency {
        None => None,
        Some(at) => Some(only(&arguments, at)?.as_str()?.to_owned()),
    };
    let mut same = std::collections::BTreeMap::new();
    for at in &offer.same {
        same.insert(at.clone(), only(&arguments, at)?.clone());
    }
    let at_most = match (offer.at_most, new.at_most) {
        (Some(offered), Some(asked)) => Some(offered.min(asked)),
        (offered, asked) => offered.or(asked.filter(|_| offer.amount.is_some())),
    };
    let within = new
        .within
        .map_or(offer.within, |asked| asked.min(offer.within));
    let (roles, strong) = authority(&new.by);
    let principal = &ticket.principal;
    Some(Mandate {
        id: super::new_mandate_id(),
        tenant: principal.tenant.to_string(),
        issuer: principal.issuer.to_string(),
        subject: principal.subject.to_string(),
        agent: principal.agent.to_string(),
        session: ticket.session.clone(),
        upstream: ticket.upstream.clone(),
        tool: ticket.tool.clone(),
        same,
        at_most,
        currency,
        uses: new.uses.map_or(offer.uses, |asked| asked.min(offer.uses)),
        spent: Decimal::ZERO,
        used: 0,
        rule: ticket.rule.clone(),
        ticket: Some(ticket.id.clone()),
        granted_by: new.by.person(),
        given: Some(Given {
            gate: ticket.gate,
            roles,
            strong,
        }),
        granted_at: now,
        comment: new.comment.clone(),
        expires_at: plus(now, within),
        ended_by: None,
        ended_at: None,
    })
}

/// A note of a mandate that was given.
pub fn granted(new: &Mandate) -> Note {
    Note {
        event: Event::MandateGranted,
        ticket: new.ticket.clone(),
        mandate: Some(new.id.clone()),
        actor: new.granted_by.record(),
        details: json!({
            "tenant": new.tenant, "issuer": new.issuer, "subject": new.subject, "tool": new.tool,
            "upstream": new.upstream, "rule": new.rule, "uses": new.uses,
            "at_most": new.at_most.map(|sum| sum.to_string()), "currency": new.currency,
            "expires_at": new.expires_at,
        }),
    }
}

/// A note of a mandate that is ended early, by whom.
pub fn mandate_ended(found: &Mandate, by: String) -> Note {
    Note {
        event: Event::MandateEnded,
        ticket: None,
        mandate: Some(found.id.clone()),
        actor: by,
        details: json!({"tenant": found.tenant, "used": found.used, "spent": found.spent.to_string()}),
    }
}

/// What is spent of a mandate when this much of it is free again.
pub fn released(found: &Mandate, amount: Option<Decimal>) -> (u32, Decimal) {
    let spent = found.spent.checked_sub(amount.unwrap_or_default());
    let spent = spent.unwrap_or(found.spent).max(Decimal::ZERO);
    (found.used.saturating_sub(1), spent)
}

/// Whether a mandate of this user, agent, tool and upstream covers the call, whatever is left of it.
pub fn covers(mandate: &Mandate, call: &Presented, spend: Option<&Spend>, now: Timestamp) -> bool {
    let Some(offer) = &call.terms.mandate else {
        return false;
    };
    let principal = &call.principal;
    let own = mandate.tenant == *principal.tenant
        && mandate.issuer == *principal.issuer
        && mandate.subject == *principal.subject
        && mandate.agent == *principal.agent
        && mandate.upstream == call.upstream
        && mandate.tool == call.tool
        && mandate.rule == call.terms.rule
        && (mandate.session.is_none() || mandate.session == call.session);
    if !own || mandate.ended_at.is_some() || now >= mandate.expires_at {
        return false;
    }
    // Today's rule may let it hold for less long, or pin more.
    let within = now < plus(mandate.granted_at, offer.within);
    if !within || !offer.same.iter().all(|at| mandate.same.contains_key(at)) {
        return false;
    }
    // What is limited must be known, and of the same currency.
    let counted = match (limit(mandate, offer), spend) {
        (None, None) => true,
        (Some(_), None) => false,
        (_, Some(spend)) => spend.currency == mandate.currency,
    };
    counted && pinned(mandate, call)
}

fn pinned(mandate: &Mandate, call: &Presented) -> bool {
    if mandate.same.is_empty() {
        return true;
    }
    serde_json::from_slice::<Value>(&call.call.arguments).is_ok_and(|arguments| {
        mandate
            .same
            .iter()
            .all(|(at, value)| only(&arguments, at) == Some(value))
    })
}

/// The one argument that any reader takes for the named one: to many backends `Payee` is `payee`.
fn only<'a>(arguments: &'a Value, at: &str) -> Option<&'a Value> {
    let mut found = Selector::parse(at).ok()?.select(arguments).into_iter();
    let (_, value) = found.next()?;
    found.next().is_none().then_some(value)
}

/// Whether this person may end a mandate early: whoever may see it.
pub fn may_end(mandate: &Mandate, by: &Decider) -> bool {
    match by {
        Decider::Local(_) => true,
        Decider::Person(voter) => voter.knows(&mandate.tenant, &mandate.issuer, &mandate.subject),
    }
}

/// The mandate that a signed ticket gives to the user of the call that presents it; `None`: it is for one call.
pub fn issued_mandate(issued: &Issued, call: &Presented, now: Timestamp) -> Option<Mandate> {
    let Grants::Mandate {
        uses,
        at_most,
        currency,
        same,
        session,
    } = &issued.grants
    else {
        return None;
    };
    let offer = call.terms.mandate.as_ref();
    let within = offer.map_or(Duration::MAX, |offer| offer.within);
    let principal = &call.principal;
    Some(Mandate {
        id: super::new_mandate_id(),
        tenant: principal.tenant.to_string(),
        issuer: principal.issuer.to_string(),
        subject: principal.subject.to_string(),
        agent: principal.agent.to_string(),
        session: call.session.clone().filter(|_| *session),
        upstream: call.upstream.clone(),
        tool: call.tool.clone(),
        same: same.clone(),
        at_most: *at_most,
        currency: currency.clone(),
        uses: *uses,
        spent: Decimal::ZERO,
        used: 0,
        rule: call.terms.rule.clone(),
        ticket: None,
        granted_by: issued.by.clone(),
        given: None,
        granted_at: now,
        comment: None,
        expires_at: issued.expires_at.min(plus(now, within)),
        ended_by: None,
        ended_at: None,
    })
}

/// The vote that a signed ticket stands for.
pub fn issued_vote(issued: &Issued, at: Timestamp) -> Vote {
    Vote {
        by: issued.by.clone(),
        verdict: Verdict::Approve,
        at,
        comment: None,
        channel: Channel::Issued,
        roles: Vec::new(),
        strong: false,
    }
}

/// A note of a signed ticket that was taken.
pub fn admitted(issued: &Issued, call: &Presented, ticket: Option<&Ticket>) -> Note {
    Note {
        event: Event::Admitted,
        ticket: ticket.map(|ticket| ticket.id.clone()),
        mandate: None,
        actor: issued.by.record(),
        details: json!({
            "issued": issued.id,
            "key": issued.key,
            "digest": call.call.digest,
            "tenant": call.principal.tenant,
            "tool": call.tool,
        }),
    }
}

/// Both the mandate and today's policy limit the sum.
fn limit(mandate: &Mandate, offer: &MandateOffer) -> Option<Decimal> {
    match (mandate.at_most, offer.at_most) {
        (Some(given), Some(offered)) => Some(given.min(offered)),
        (given, offered) => given.or(offered),
    }
}

/// The mandate's count and sum with this call; `None`: a limit would be passed.
pub fn spent(mandate: &Mandate, call: &Presented, spend: Option<&Spend>) -> Option<(u32, Decimal)> {
    let offer = call.terms.mandate.as_ref()?;
    let used = mandate.used.checked_add(1)?;
    let amount = spend.map_or(Decimal::ZERO, |spend| spend.amount);
    if amount.is_sign_negative() && !amount.is_zero() {
        return None;
    }
    let sum = mandate.spent.checked_add(amount)?;
    let fits = used <= mandate.uses.min(offer.uses)
        && limit(mandate, offer).is_none_or(|limit| sum <= limit);
    fits.then_some((used, sum))
}
