//! How much the ticket store takes, and for how long it remembers.

use std::time::Duration;

use super::{at_least_one, positive_duration};
use crate::source::{Field, Fields};
use crate::store::tickets::TicketLimits;

/// The keys of `tickets` that say so.
pub(super) fn limits(fields: &mut Fields<'_>) -> Option<TicketLimits> {
    let usual = TicketLimits::default();
    let replay_window = fields.optional_or("replay_window", usual.replay_window, positive_duration);
    let limits = match fields.optional("limits") {
        Some(field) => requests(&field, &usual),
        None => Some(usual.clone()),
    };
    let retention = fields.optional("retention");
    let kept = match &retention {
        Some(field) => kept(field, &usual),
        None => Some((usual.keep_tickets, usual.keep_receipts)),
    };
    let (replay_window, limits, (keep_tickets, keep_receipts)) = (replay_window?, limits?, kept?);
    if let Some(field) = &retention
        && keep_tickets.min(keep_receipts) < replay_window
    {
        field.error(
            "receipts are given back for longer than they are kept",
            "keep `tickets` and `receipts` for at least `replay_window`",
        );
        return None;
    }
    Some(TicketLimits {
        replay_window,
        keep_tickets: keep_tickets.max(replay_window),
        keep_receipts: keep_receipts.max(replay_window),
        ..limits
    })
}

fn requests(field: &Field<'_>, usual: &TicketLimits) -> Option<TicketLimits> {
    let mut fields = field.map()?;
    let pending = fields.optional_or("pending_per_session", usual.pending_per_session, count);
    let requests = fields.optional_or("requests_per_user", usual.requests_per_user, count);
    let window = fields.optional_or("request_window", usual.request_window, positive_duration);
    let denied = fields.optional_or("denied_for", usual.denied_for, positive_duration);
    Some(TicketLimits {
        pending_per_session: pending?,
        requests_per_user: requests?,
        request_window: window?,
        denied_for: denied?,
        ..usual.clone()
    })
}

fn count(field: &Field<'_>) -> Option<u32> {
    at_least_one(field).and_then(|count| u32::try_from(count).ok())
}

fn kept(field: &Field<'_>, usual: &TicketLimits) -> Option<(Duration, Duration)> {
    let mut fields = field.map()?;
    let tickets = fields.optional_or("tickets", usual.keep_tickets, positive_duration);
    let receipts = fields.optional_or("receipts", usual.keep_receipts, positive_duration);
    Some((tickets?, receipts?))
}
