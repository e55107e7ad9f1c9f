//! Tickets on a terminal. Whatever an agent or a tool wrote is escaped.

use std::fmt::Write as _;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::Serialize;
use serde_json::Value;

use crate::cli::{Failure, print};
use crate::layers::tickets::show::{escape, leaves, shorten, visible_json};
use crate::policy::Gate;
use crate::store::tickets::{Mandate, Ticket, TicketState};

/// Digits of a digest where the whole one has no room.
const SHORT_DIGEST: usize = 12;

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table
}

fn lines(table: &Table) -> String {
    let lines: Vec<_> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}

fn short_digest(ticket: &Ticket) -> String {
    ticket
        .digest
        .to_string()
        .chars()
        .take(SHORT_DIGEST)
        .collect()
}

/// Prints a value as JSON that is safe for a terminal.
pub(super) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Failed(format!("error: cannot write JSON: {error}")))?;
    print(visible_json(&json));
    Ok(())
}

/// One line per ticket.
pub(super) fn list(tickets: &[Ticket]) -> String {
    if tickets.is_empty() {
        return "no tickets".to_owned();
    }
    let mut table = table();
    table.set_header(["TICKET", "STATE", "FOR", "ASKS", "EXPIRES", "DIGEST"]);
    for ticket in tickets {
        table.add_row([
            ticket.id.to_string(),
            ticket.state.to_string(),
            shorten(&ticket.principal.subject),
            ticket.summary.clone(),
            ticket.expires_at.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
            short_digest(ticket),
        ]);
    }
    lines(&table)
}

/// What is known of one ticket, every argument included.
pub(super) fn show(ticket: &Ticket, full: bool) -> String {
    let mut table = table();
    for (name, value) in facts(ticket) {
        table.add_row([name.to_owned(), value]);
    }
    let value: Value = serde_json::from_str(ticket.arguments.get()).unwrap_or_default();
    let arguments = leaves(&value);
    table.add_row([
        "arguments".to_owned(),
        format!("{} in all", arguments.len()),
    ]);
    for (at, text) in arguments {
        let text = if full { escape(&text) } else { shorten(&text) };
        table.add_row([format!("  {}", escape(&at)), text]);
    }
    if let Some(said) = &ticket.said {
        let said = format!(
            "{} (the agent's own words, not to be trusted)",
            shorten(said)
        );
        table.add_row(["agent says".to_owned(), said]);
    }
    lines(&table)
}

fn facts(ticket: &Ticket) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("ticket", ticket.id.to_string()),
        ("state", ticket.state.to_string()),
        ("asks", ticket.summary.clone()),
        ("permits", permits(ticket)),
        (
            "tool",
            format!(
                "{} at {} (route {})",
                escape(ticket.tool.as_str()),
                escape(ticket.upstream.as_str()),
                escape(ticket.route.as_str())
            ),
        ),
        ("for", requester(ticket)),
        ("needs", needs(ticket)),
        (
            "because",
            format!("{}: {} (rule {})", ticket.layer, ticket.reason, ticket.rule),
        ),
        ("policy", ticket.policy.to_string()),
        ("digest", ticket.digest.to_string()),
        ("asked", ticket.created_at.to_string()),
        ("expires", ticket.expires_at.to_string()),
    ];
    for vote in &ticket.votes {
        let comment = vote
            .comment
            .as_deref()
            .map(|text| format!(", \"{}\"", shorten(text)));
        let text = format!(
            "{} by {} at {}{}",
            vote.verdict.as_str(),
            escape(&vote.by.record()),
            vote.at,
            comment.unwrap_or_default()
        );
        facts.push(("answered", text));
    }
    facts.extend(context(ticket));
    if let Some(completed) = &ticket.completed {
        let kind = completed
            .content_type
            .as_deref()
            .unwrap_or("no content type");
        facts.push((
            "outcome",
            format!(
                "status {}, {}, {} bytes, sha256 {}, at {}",
                completed.status,
                shorten(kind),
                completed.length,
                completed.sha256,
                completed.at
            ),
        ));
    }
    if let Some(earlier) = &ticket.earlier {
        facts.push((
            "earlier",
            format!(
                "the identical call was asked for at {} as {} and is {}",
                earlier.created_at, earlier.id, earlier.state
            ),
        ));
    }
    facts
}

/// Objects and their owners, where values came from, what is new, and what was found out.
fn context(ticket: &Ticket) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    for resource in &ticket.bound.resources {
        let owner = resource.owner.as_deref();
        let owner = owner.map_or_else(|| "nobody".to_owned(), shorten);
        let mut text = format!(
            "{} {} belongs to {owner}",
            escape(&resource.at),
            shorten(&resource.id)
        );
        for (column, value) in &resource.state {
            let value = value.as_deref().map_or_else(|| "null".to_owned(), shorten);
            // Writing to a string cannot fail.
            let _ = write!(text, ", {} {value}", escape(column));
        }
        facts.push(("object", text));
    }
    for origin in &ticket.bound.origins {
        let (at, from) = (escape(&origin.at), shorten(&origin.from));
        facts.push(("origin", format!("{at} was first said by {from}")));
    }
    for at in &ticket.bound.first_time {
        let text = format!("{} was never used before by this user", escape(at));
        facts.push(("first time", text));
    }
    if let Some(resolved) = &ticket.resolved {
        let note = resolved.note.as_deref();
        let note = note.map(|note| format!(", \"{}\"", shorten(note)));
        let text = format!(
            "found out by {} at {}{}",
            escape(&resolved.by),
            resolved.at,
            note.unwrap_or_default()
        );
        facts.push(("resolved", text));
    }
    if let Some(mandate) = &ticket.mandate {
        facts.push(("mandate", mandate.to_string()));
    }
    facts
}

fn requester(ticket: &Ticket) -> String {
    let principal = &ticket.principal;
    let session = match &ticket.session {
        Some(session) => format!("session {}", shorten(session.as_str())),
        None => "no session".to_owned(),
    };
    format!(
        "{} (issuer {}, tenant {}), agent {}, {session}",
        shorten(&principal.subject),
        shorten(&principal.issuer),
        shorten(&principal.tenant),
        shorten(&principal.agent)
    )
}

fn needs(ticket: &Ticket) -> String {
    let role = match ticket.roles.as_slice() {
        [] => String::new(),
        roles => format!(" with the role {}", escape(&roles.join(" or "))),
    };
    match ticket.gate {
        Gate::Confirm => format!("the user's own confirmation{role}"),
        Gate::Approve if ticket.approvals > 1 => format!(
            "approvals of {} others{role}; {} so far",
            ticket.approvals,
            ticket.approved_by()
        ),
        Gate::Approve => format!("somebody else's approval{role}"),
    }
}

/// What the ticket permits, and until when.
fn permits(ticket: &Ticket) -> String {
    let until = ticket.expires_at;
    match ticket.state {
        TicketState::Requested => {
            format!("nothing yet; approved: this exact call, once, until {until}")
        }
        TicketState::Approved => format!("this exact call, once, until {until}"),
        TicketState::Redeeming => "nothing more: the call is on its way".to_owned(),
        TicketState::Succeeded | TicketState::Failed => {
            "nothing more: the call was carried out; repeats get its receipt".to_owned()
        }
        TicketState::Unknown => {
            "nothing more: the call was sent and its outcome is unknown".to_owned()
        }
        TicketState::ResolvedDone => {
            "nothing more: the call turned out to have been carried out".to_owned()
        }
        TicketState::ResolvedNotDone => {
            "nothing: the call turned out not to have been carried out".to_owned()
        }
        TicketState::Denied
        | TicketState::Revoked
        | TicketState::Expired
        | TicketState::Cancelled => "nothing".to_owned(),
    }
}

/// What an answer did.
pub(super) fn answered(ticket: &Ticket) -> String {
    format!(
        "{} {} (digest {}): {}\npermits {}",
        ticket.state,
        ticket.id,
        short_digest(ticket),
        ticket.summary,
        permits(ticket)
    )
}

/// One line per mandate.
pub(super) fn mandates(mandates: &[Mandate]) -> String {
    if mandates.is_empty() {
        return "no mandates".to_owned();
    }
    let mut table = table();
    table.set_header([
        "MANDATE", "FOR", "TOOL", "USED", "SPENT", "EXPIRES", "GIVEN BY",
    ]);
    for mandate in mandates {
        let currency = mandate.currency.as_deref();
        let currency = currency.map(|it| format!(" {}", shorten(it)));
        let spent = match mandate.at_most {
            Some(most) => format!(
                "{} of {most}{}",
                mandate.spent,
                currency.unwrap_or_default()
            ),
            None => "-".to_owned(),
        };
        let time = |at: jiff::Timestamp| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string();
        let end = match mandate.ended_at {
            Some(at) => format!("ended {}", time(at)),
            None => time(mandate.expires_at),
        };
        table.add_row([
            mandate.id.to_string(),
            shorten(&mandate.subject),
            format!(
                "{} at {}",
                shorten(mandate.tool.as_str()),
                shorten(mandate.upstream.as_str())
            ),
            format!("{} of {}", mandate.used, mandate.uses),
            spent,
            end,
            shorten(&mandate.granted_by.record()),
        ]);
    }
    lines(&table)
}
