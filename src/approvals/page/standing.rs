//! What a ticket's state means to the person who looks at it.

use jiff::Timestamp;
use maud::{Markup, html};

use super::arguments::{self, Warnings};
use super::text::{count, plain, short};
use super::time::{exact, past, past_exact, until};
use crate::policy::Gate;
use crate::store::tickets::{Cause, Origin, Ticket, TicketState, Verdict, Vote};

/// [`Origin::source`] of a value that first stood in a tool's output.
pub(super) const TOOL_OUTPUT: &str = "tool_output";

/// And of one that nobody has said in the conversation.
pub(super) const UNSEEN: &str = "unseen";

/// The state as a person says it, and how it looks.
pub(super) const fn words(state: TicketState) -> (&'static str, &'static str) {
    match state {
        TicketState::Requested => ("waiting", "info"),
        TicketState::Approved => ("approved, not used yet", "good"),
        TicketState::Denied => ("denied", "bad"),
        TicketState::Revoked => ("taken back", "bad"),
        TicketState::Expired => ("expired", ""),
        TicketState::Cancelled => ("withdrawn", ""),
        TicketState::Redeeming => ("under way", "info"),
        TicketState::Succeeded => ("carried out", "good"),
        TicketState::Failed => ("carried out, refused by the upstream", "bad"),
        TicketState::Unknown => ("outcome unknown", "bad"),
        TicketState::ResolvedDone => ("found to be carried out", "good"),
        TicketState::ResolvedNotDone => ("found not to be carried out", ""),
    }
}

/// The state as a tag.
pub(super) fn badge(state: TicketState) -> Markup {
    let (words, class) = words(state);
    html! { span.tag.(class) { (words) } }
}

/// What of a ticket asks for care, as tags.
pub(super) fn flags(ticket: &Ticket) -> Markup {
    let bound = &ticket.bound;
    let foreign = bound.resources.iter().any(|resource| {
        resource
            .owner
            .as_deref()
            .is_some_and(|owner| owner != &*ticket.principal.subject)
    });
    html! {
        @if !bound.first_time.is_empty() { span.tag.warn { "first-time recipient" } }
        @if doubtful(ticket).any(|origin| origin.source == TOOL_OUTPUT) { span.tag.warn { "value from a tool output" } }
        @if doubtful(ticket).any(|origin| origin.source == UNSEEN) { span.tag.warn { "value that nobody said" } }
        @if foreign { span.tag.warn { "somebody else's object" } }
        @if ticket.earlier.is_some() { span.tag.warn { "done before" } }
        @match arguments::glance(ticket) {
            None => span.tag.warn { "long arguments" },
            Some(Warnings { hidden, opaque }) => {
                @if hidden.0 > 0 { span.tag.warn { "hidden characters" } }
                @if opaque > 0 { span.tag.bad { "cannot be inspected" } }
            }
        }
    }
}

/// Origins that no person stands behind: values that a tool's output brought in, and, of arguments that matter most, such as
/// nobody has said.
pub(super) fn doubtful(ticket: &Ticket) -> impl Iterator<Item = &Origin> {
    let bound = &ticket.bound;
    let matters = |at: &String| bound.key.contains(at) || bound.first_time.contains(at);
    bound
        .origins
        .iter()
        .filter(move |origin| match origin.source.as_str() {
            TOOL_OUTPUT => true,
            UNSEEN => matters(&origin.at),
            _ => false,
        })
}

/// What the ticket permits, and until when.
pub(super) fn permits(ticket: &Ticket, now: Timestamp) -> Markup {
    let end = html! { (until(ticket.expires_at, now)) " (" (exact(ticket.expires_at)) ")" };
    html! {
        @match ticket.state {
            TicketState::Requested => {
                p { "Nothing yet. Once approved: this exact call, once, with these arguments, for this user and agent." }
                p { "Runs out " (end) ". An approval carries nothing out by itself: the agent has to repeat the call before then." }
            }
            TicketState::Approved => {
                p { "This exact call, once, if the agent repeats it. Runs out " (end) "." }
            }
            TicketState::Redeeming => p { "Nothing more: the call is on its way and cannot be stopped from here." },
            TicketState::Succeeded | TicketState::Failed => p { "Nothing more: the call was carried out. A repeat gets the stored answer." },
            TicketState::Unknown => p { "Nothing more. The call was sent and nobody knows what came of it; it is never sent again." },
            TicketState::ResolvedDone | TicketState::ResolvedNotDone => p { "Nothing more: the matter is closed." },
            TicketState::Denied | TicketState::Revoked | TicketState::Expired => p { "Nothing." },
            TicketState::Cancelled => {
                p { "Nothing. " @if let Some(cause) = ticket.cause { (because(cause)) } }
            }
        }
    }
}

const fn because(cause: Cause) -> &'static str {
    match cause {
        Cause::TermsChanged => "The policy now asks for something else; the agent must ask again.",
        Cause::StateChanged => {
            "An object's owner or state, or the tool's definition, is no longer what was shown; the agent must ask again."
        }
        Cause::ApproverLost => {
            "Somebody whose approval it needed is no longer an approver; the agent must ask again."
        }
        Cause::Withdrawn => "Nobody asks for it any more.",
    }
}

/// Who must answer.
pub(super) fn needs(ticket: &Ticket) -> String {
    let roles = match ticket.roles.as_slice() {
        [] => String::new(),
        [role] => format!(" with the role {role}"),
        roles => format!(" with one of the roles {}", roles.join(", ")),
    };
    let fresh = if ticket.fresh {
        ", freshly logged in"
    } else {
        ""
    };
    match (ticket.gate, ticket.approvals) {
        (Gate::Confirm, _) => format!("the user's own confirmation{roles}{fresh}"),
        (Gate::Approve, 1) => format!("one other person{roles}{fresh}"),
        (Gate::Approve, n) => format!("{n} other people{roles}{fresh}"),
    }
}

/// Who has answered so far.
pub(super) fn votes(ticket: &Ticket, now: Timestamp) -> Markup {
    let yes = ticket.approved_by();
    html! {
        @if ticket.gate == Gate::Approve && ticket.approvals > 1 {
            p { strong { (yes) " of " (ticket.approvals) " approvals" } }
        }
        @if ticket.votes.is_empty() {
            p.muted { "Nobody has answered yet." }
        }
        @for vote in &ticket.votes { (one_vote(vote, now)) }
        @if let Some(resolved) = &ticket.resolved {
            p {
                (plain(&resolved.by)) " closed the matter " (past(resolved.at, now))
                @if let Some(note) = &resolved.note { ": " (short(note)) }
            }
        }
    }
}

fn one_vote(vote: &Vote, now: Timestamp) -> Markup {
    let verb = match vote.verdict {
        Verdict::Approve => "approved",
        Verdict::Deny => "denied",
        Verdict::Revoke => "took the approval back",
    };
    html! {
        p {
            strong { (plain(&vote.by.subject)) } " " (verb) " " (past(vote.at, now)) " "
            span.muted { "(" (vote.channel.as_str()) @if vote.strong { ", freshly logged in" } ", vouched for by " (plain(&vote.by.issuer)) ")" }
            @if let Some(comment) = &vote.comment { br; (short(comment)) }
        }
    }
}

/// What came of the call.
pub(super) fn outcome(ticket: &Ticket, now: Timestamp) -> Option<Markup> {
    let completed = ticket.completed.as_ref()?;
    let bytes = usize::try_from(completed.length).unwrap_or(usize::MAX);
    Some(html! {
        "status " (completed.status) ", "
        @match &completed.content_type {
            Some(kind) => (plain(kind)),
            None => "no content type",
        }
        ", " (count(bytes, "byte")) ", at " (past_exact(completed.at, now))
        br;
        "SHA-256 " code { (completed.sha256) }
        @if !completed.whole { " (only its start is kept)" }
    })
}
