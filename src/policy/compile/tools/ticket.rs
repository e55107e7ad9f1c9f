//! Tickets that rules ask for.

use std::time::Duration;

use super::id;
use crate::policy::{Gate, TicketRule};
use crate::source::Field;

/// Longest life of a ticket.
const LONGEST_TTL: Duration = Duration::from_hours(30 * 24);

pub(super) fn ticket(field: &Field<'_>) -> Option<TicketRule> {
    let mut fields = field.map()?;
    let gate = fields
        .required("gate")
        .and_then(|f| f.choice(&[("confirm", Gate::Confirm), ("approve", Gate::Approve)]));
    let role_field = fields.optional("role");
    let role = match &role_field {
        Some(field) => field.name().map(|role| Some(role.to_owned())),
        None => Some(None),
    };
    if let (Some(Gate::Confirm), Some(field)) = (gate, &role_field) {
        field.error(
            "`role` has no meaning with `gate: confirm`: the end user confirms",
            "remove `role`, or write `gate: approve`",
        );
    }
    let ttl = fields.required("ttl").and_then(|f| ttl(&f));
    let summary = match fields.optional("summary") {
        Some(field) => summary(&field).map(Some),
        None => Some(None),
    };
    Some(TicketRule {
        id: id(field),
        gate: gate?,
        role: role?,
        ttl: ttl?,
        hold: None,
        summary: summary?,
    })
}

fn ttl(field: &Field<'_>) -> Option<Duration> {
    let ttl = field.duration()?;
    if ttl.is_zero() || ttl > LONGEST_TTL {
        field.error(
            format!("`{}` must be more than 0 and at most 720h", field.path()),
            "write how long an approval may live, such as `15m`",
        );
        return None;
    }
    Some(ttl)
}

/// Text with `{/json/pointer}` in it.
fn summary(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let mut rest = text;
    let mut fault = None;
    while let Some((before, after)) = rest.split_once('{') {
        let closed = after.split_once('}').filter(|(p, _)| !p.contains('{'));
        let Some((pointer, after)) = closed else {
            fault = Some("a `{` is not closed".to_owned());
            break;
        };
        if before.contains('}') {
            break;
        }
        if let Err(why) = pointer_syntax(pointer) {
            fault = Some(format!("`{{{pointer}}}`: {why}"));
            break;
        }
        rest = after;
    }
    let stray = rest.split_once('{').map_or(rest, |(before, _)| before);
    if fault.is_none() && stray.contains('}') {
        fault = Some("a `}` is not opened".to_owned());
    }
    let Some(fault) = fault else {
        return Some(text.to_owned());
    };
    field.error(
        format!("the summary cannot be filled in: {fault}"),
        "name one argument between braces by its JSON Pointer, such as `{/amount}`",
    );
    None
}

/// RFC 6901.
fn pointer_syntax(pointer: &str) -> Result<(), String> {
    if !pointer.starts_with('/') {
        return Err("a JSON Pointer starts with `/`".to_owned());
    }
    if pointer.split('/').any(|step| step == "*" || step == "**") {
        return Err("a wildcard may name many arguments".to_owned());
    }
    let mut tildes = pointer.split('~').skip(1);
    if tildes.any(|after| !after.starts_with(['0', '1'])) {
        return Err("write `~0` for `~` and `~1` for `/`".to_owned());
    }
    Ok(())
}
