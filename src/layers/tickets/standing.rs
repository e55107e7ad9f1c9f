//! What the store says of a call, as the guard takes it.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::json;

use crate::guard::{Receipt, Settlement};
use crate::names::TicketId;
use crate::policy::Gate;
use crate::store::tickets::{Standing, Ticket, TicketLimits};
use crate::verdict::{Finding, Hold, Reason};

pub(super) fn settlement(
    standing: Standing,
    finding: Finding,
    (limits, now): (&TicketLimits, Timestamp),
) -> Settlement {
    match standing {
        Standing::Done(receipt) => Settlement::Replay(receipt),
        Standing::Waiting { ticket, new } => Settlement::Hold(waiting(&ticket, new, finding)),
        // Approved between two looks: a repeat takes it.
        Standing::Approved(ticket) => refused(finding, Reason::InProgress, &ticket.id),
        Standing::Redeeming(ticket) => refused(finding, Reason::InProgress, &ticket),
        Standing::Unknown(ticket) => refused(finding, Reason::OutcomeUnknown, &ticket),
        Standing::ResolvedDone(ticket) => Settlement::Replay(found_done(ticket, now)),
        Standing::Denied { ticket, comment } => {
            let hold = named(finding, Reason::ApprovalDenied, &ticket);
            Settlement::Refuse(Hold { comment, ..hold })
        }
        Standing::Expired(ticket) => refused(finding, Reason::ApprovalExpired, &ticket),
        Standing::StateChanged(ticket) => refused(finding, Reason::StateChanged, &ticket),
        Standing::Mismatch(ticket) => refused(finding, Reason::TicketMismatch, &ticket),
        Standing::Capped(cap) => {
            Settlement::Deny(told(finding, Reason::ApprovalLimit, cap.detail(limits)))
        }
    }
}

/// For a call of which a person has said that it was carried out: nobody knows what it answered.
fn found_done(ticket: TicketId, now: Timestamp) -> Receipt {
    let body = json!({"holdpoint_receipt": ticket, "reconciled": true}).to_string();
    Receipt {
        ticket,
        status: 200,
        content_type: Some("application/json".to_owned()),
        body: body.into(),
        completed_at: now,
    }
}

/// Refused by a ticket.
pub(super) fn refused(finding: Finding, reason: Reason, ticket: &TicketId) -> Settlement {
    Settlement::Refuse(named(finding, reason, ticket))
}

fn named(finding: Finding, reason: Reason, ticket: &TicketId) -> Hold {
    let finding = told(finding, reason, format!("ticket {ticket}"));
    Hold {
        ticket: Some(ticket.clone()),
        ..Hold::new(finding)
    }
}

fn waiting(ticket: &Ticket, new: bool, finding: Finding) -> Hold {
    let (reason, detail) = if new {
        (Reason::ApprovalRequired, "a request was made")
    } else {
        (Reason::ApprovalPending, "a request waits for an answer")
    };
    Hold {
        ticket: Some(ticket.id.clone()),
        summary: Some(ticket.summary.clone()),
        expires_at: Some(ticket.expires_at.to_string()),
        confirm: ticket.gate == Gate::Confirm,
        ..Hold::new(told(finding, reason, detail))
    }
}

/// The same objection of the same rule, as the tickets leave it.
pub(super) fn told(
    finding: Finding,
    reason: Reason,
    detail: impl Into<Cow<'static, str>>,
) -> Finding {
    Finding {
        reason,
        detail: detail.into(),
        ..finding
    }
}
