//! Lists of tickets: what waits, what was, and what nobody knows the outcome of.

use jiff::Timestamp;
use maud::{Markup, html};

use super::standing::{badge, flags, needs, words};
use super::text::{count, plain, written};
use super::ticket::fingerprint;
use super::time::{past, until};
use crate::store::tickets::{Ticket, TicketState};

/// What waits for an answer, the oldest first. Requests for the same act are one entry, with their number.
pub(super) fn queue(waiting: &[Ticket], more: bool, now: Timestamp) -> Markup {
    let groups = folded(waiting);
    html! {
        div data-live="queue" data-news={ (count(waiting.len(), "request")) " waiting" } {
            h1 { "Waiting for an answer " span.muted { "(" (waiting.len()) @if more { " and more" } ")" } }
            @if waiting.is_empty() {
                p.card.empty { "Nothing waits. New requests appear here by themselves." }
            } @else {
                ol.list { @for group in &groups { (waiting_entry(group, now)) } }
                @if more { p.note { "There are more requests than fit on this page; the oldest are shown." } }
            }
        }
    }
}

/// Tickets for the same act of the same user, such as from several sessions.
fn folded(waiting: &[Ticket]) -> Vec<Vec<&Ticket>> {
    let mut groups: Vec<Vec<&Ticket>> = Vec::new();
    for ticket in waiting.iter().rev() {
        let same =
            |group: &&mut Vec<&Ticket>| group.first().is_some_and(|first| same_act(first, ticket));
        match groups.iter_mut().find(same) {
            Some(group) => group.push(ticket),
            None => groups.push(vec![ticket]),
        }
    }
    groups
}

fn same_act(a: &Ticket, b: &Ticket) -> bool {
    (&a.tool, &a.upstream, a.arguments.get()) == (&b.tool, &b.upstream, b.arguments.get())
        && (
            &a.principal.tenant,
            &a.principal.issuer,
            &a.principal.subject,
        ) == (
            &b.principal.tenant,
            &b.principal.issuer,
            &b.principal.subject,
        )
}

fn waiting_entry(group: &[&Ticket], now: Timestamp) -> Markup {
    html! {
        @if let Some((ticket, others)) = group.split_first() {
            li data-id=(ticket.id) {
                a.title #{ "t-" (ticket.id) } href={ "/tickets/" (ticket.id) } { (written(&ticket.summary)) }
                div.line {
                    span { "for " (plain(&ticket.principal.subject)) }
                    span { "by " (plain(&ticket.principal.agent)) }
                    span { (plain(ticket.tool.as_str())) " at " (plain(ticket.upstream.as_str())) }
                    span { "asked " (past(ticket.created_at, now)) }
                    span { "runs out " (until(ticket.expires_at, now)) }
                    span { "digest " code { (fingerprint(ticket)) } }
                }
                div.tags {
                    (flags(ticket))
                    @if ticket.approvals > 1 { span.tag { (ticket.approved_by()) " of " (ticket.approvals) " approvals" } }
                    span.tag { "needs " (plain(&needs(ticket))) }
                }
                @if !others.is_empty() {
                    details {
                        summary { "The same act was asked for " (count(others.len(), "more time")) }
                        ul {
                            @for other in others {
                                li data-id=(other.id) {
                                    a href={ "/tickets/" (other.id) } { code { (fingerprint(other)) } }
                                    " in " @match &other.session { Some(session) => { "the session " (plain(session.as_str())) } None => "no session" }
                                    ", asked " (past(other.created_at, now)) ", runs out " (until(other.expires_at, now))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What the history shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Search {
    pub state: Option<TicketState>,
    pub subject: Option<String>,
    pub tool: Option<String>,
    pub before: Option<u64>,
}

impl Search {
    /// The query that shows the page after the ticket of this place.
    fn older(&self, before: u64) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if let Some(state) = self.state {
            query.append_pair("state", state.as_str());
        }
        for (name, value) in [("user", &self.subject), ("tool", &self.tool)] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.append_pair("before", &before.to_string());
        query.finish()
    }

    fn narrowed(&self) -> bool {
        self.state.is_some() || self.subject.is_some() || self.tool.is_some()
    }
}

/// What was, the newest first.
pub(super) fn history(search: &Search, found: &[Ticket], more: bool, now: Timestamp) -> Markup {
    html! {
        h1 { "History" }
        form.card.filters method="get" action="/history" role="search" {
            div.field {
                label for="state" { "State" }
                select #state name="state" {
                    option value="" { "every" }
                    @for state in TicketState::ALL {
                        option value=(state) selected[search.state == Some(state)] { (words(state).0) }
                    }
                }
            }
            div.field {
                label for="user" { "End user " span.muted { "(exact)" } }
                input #user name="user" value=[&search.subject] maxlength="256";
            }
            div.field {
                label for="tool" { "Tool " span.muted { "(exact)" } }
                input #tool name="tool" value=[&search.tool] maxlength="256";
            }
            div.field.buttons { button type="submit" { "Show" } }
        }
        div data-live="history" {
            (entries(found, now, if search.narrowed() { "Nothing matches." } else { "Nothing has been asked for yet." }))
            div.pages {
                @if search.before.is_some() { a href="/history" { "Newest" } }
                @if let Some(last) = found.last().filter(|_| more) {
                    a href={ "/history?" (search.older(last.seq)) } rel="next" { "Older" }
                }
            }
        }
    }
}

/// What nobody knows the outcome of.
pub(super) fn unknown(found: &[Ticket], more: bool, now: Timestamp) -> Markup {
    html! {
        div data-live="unknown" data-news={ (count(found.len(), "unknown outcome")) } {
            h1 { "Unknown outcomes " span.muted { "(" (found.len()) @if more { " and more" } ")" } }
            @if !found.is_empty() {
                p { "These calls were sent, and nobody knows what came of them. They are never sent again. Look at the upstream's records, then open each and say what you found." }
            }
            (entries(found, now, "None: the outcome of every call is known."))
        }
    }
}

fn entries(found: &[Ticket], now: Timestamp, nothing: &str) -> Markup {
    html! {
        @if found.is_empty() {
            p.card.empty { (nothing) }
        } @else {
            ol.list {
                @for ticket in found {
                    li data-id=(ticket.id) {
                        a.title #{ "t-" (ticket.id) } href={ "/tickets/" (ticket.id) } { (written(&ticket.summary)) }
                        div.line {
                            (badge(ticket.state))
                            span { "for " (plain(&ticket.principal.subject)) }
                            span { (plain(ticket.tool.as_str())) " at " (plain(ticket.upstream.as_str())) }
                            span { "asked " (past(ticket.created_at, now)) }
                            @if let Some(vote) = ticket.decided() {
                                span { "answered by " (plain(&vote.by.subject)) " " (past(vote.at, now)) }
                            }
                            span { "digest " code { (fingerprint(ticket)) } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_keeps_the_search() {
        let search = Search {
            state: Some(TicketState::Denied),
            subject: Some("ann & bob".to_owned()),
            tool: None,
            before: Some(9),
        };
        assert_eq!(search.older(4), "state=denied&user=ann+%26+bob&before=4");
    }
}
