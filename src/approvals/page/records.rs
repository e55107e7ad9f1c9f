//! Mandates, and the head of the audit chain.

use jiff::Timestamp;
use maud::{Markup, html};

use super::text::{plain, short};
use super::time::{past, past_exact, until};
use crate::store::tickets::Mandate;
use crate::store::tickets::audit::{AuditRow, Head};

/// Mandates, the newest first, with a form that ends each live one.
pub(super) fn mandates(found: &[Mandate], csrf: &str, now: Timestamp) -> Markup {
    let seen: Vec<String> = found.iter().map(seen).collect();
    html! {
        h1 { "Mandates" }
        p.muted { "Each lets several calls of one tool pass without asking, within its limits. They are given on a request whose rule offers one." }
        div data-live="mandates" data-seen=(seen.join(" ")) {
            @if found.is_empty() {
                p.card.empty { "There are none." }
            } @else {
                ol.list { @for mandate in found { (one(mandate, csrf, now)) } }
            }
        }
    }
}

/// What of it changes.
fn seen(mandate: &Mandate) -> String {
    let ended = mandate.ended_at.is_some();
    format!("{}.{}.{ended}", mandate.used, mandate.spent)
}

fn one(mandate: &Mandate, csrf: &str, now: Timestamp) -> Markup {
    let live = mandate.ended_at.is_none() && mandate.expires_at > now;
    html! {
        li data-id=(mandate.id) {
            span.title { (plain(mandate.tool.as_str())) " at " (plain(mandate.upstream.as_str())) " for " (plain(&mandate.subject)) }
            div.line {
                @if mandate.ended_at.is_some() { span.tag { "ended" } } @else if live { span.tag.good { "live" } } @else { span.tag { "ran out" } }
                span { (mandate.used) " of " (mandate.uses) " calls used" }
                @if let Some(most) = &mandate.at_most {
                    span { (mandate.spent) " of " (most) @if let Some(currency) = &mandate.currency { " " (plain(currency)) } " spent" }
                }
                @if live { span { "runs out " (until(mandate.expires_at, now)) } }
                span { "given by " (plain(&mandate.granted_by.subject)) " " (past(mandate.granted_at, now)) }
                span { "agent " (plain(&mandate.agent)) }
                @if let Some(ticket) = &mandate.ticket { span { a href={ "/tickets/" (ticket) } { "its request" } } }
            }
            @for (pointer, value) in &mandate.same {
                div.line { span { "only with " (short(pointer)) " = " (short(&crate::layers::tickets::show::text_of(value))) } }
            }
            @if let Some(comment) = &mandate.comment { div.line { span { (short(comment)) } } }
            @if let (Some(by), Some(at)) = (&mandate.ended_by, mandate.ended_at) {
                div.line { span { "ended by " (plain(by)) " " (past(at, now)) } }
            }
            @if live {
                form.inline method="post" action={ "/mandates/" (mandate.id) "/end" } {
                    input type="hidden" name="csrf" value=(csrf);
                    button.small type="submit" { "End it" span.off { ": " (mandate.tool) " for " (plain(&mandate.subject)) } }
                }
            }
        }
    }
}

/// The head of the audit chain, to note down, and its last rows.
pub(super) fn audit(head: Head, rows: &[AuditRow], now: Timestamp) -> Markup {
    html! {
        h1 { "Audit" }
        div data-live="audit" {
            section.card aria-labelledby="head" {
                h2 #head { "Head of the chain" }
                p { "Note it down elsewhere: " code { "holdpoint audit verify --head" } " with it proves later that no row up to it was changed or removed." }
                p { code.v { (head) } }
            }
            @if !rows.is_empty() {
                h2 { "Last rows " span.muted { "(" (rows.len()) " of " (head.seq) ")" } }
                ol.list { @for row in rows.iter().rev() { (audit_row(row, now)) } }
            }
        }
    }
}

fn audit_row(row: &AuditRow, now: Timestamp) -> Markup {
    html! {
        li {
            span.title { (row.seq) " · " (row.event.as_str()) }
            div.line {
                span { (past_exact(row.at, now)) }
                span { "by " (plain(&row.actor)) }
                @if let Some(ticket) = &row.ticket { span { a href={ "/tickets/" (ticket) } { "ticket" } } }
                @if let Some(mandate) = &row.mandate { span { "mandate " code { (mandate) } } }
                span { "hash " code { (row.hash.to_string().chars().take(12).collect::<String>()) "…" } }
            }
        }
    }
}
