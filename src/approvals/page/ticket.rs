//! One ticket, with everything that an approver must see before answering.

use jiff::Timestamp;
use maud::{Markup, html};

use super::arguments::{self, Warnings};
use super::standing::{UNSEEN, badge, doubtful, flags, needs, outcome, permits, votes};
use super::text::{ascii, count, hidden, plain, short, whole, written};
use super::time::{past, past_exact, until};
use crate::policy::Gate;
use crate::store::tickets::digest::sha256_hex;
use crate::store::tickets::{AnswerError, MandateOffer, Resource, Ticket, TicketState};

/// Digits of the digest that a form carries.
const PREFIX: usize = 16;

/// A ticket and what the page says beside it.
pub(super) struct View<'a> {
    /// The ticket.
    pub ticket: &'a Ticket,
    /// Earlier acts of the same user with the same tool, newest first.
    pub similar: &'a [Ticket],
    /// What stands against an approval by whoever looks.
    pub against: Option<AnswerError>,
    /// Who looks has approved it already.
    pub voted: bool,
    /// Of the session.
    pub csrf: &'a str,
    /// Time of the answer.
    pub now: Timestamp,
}

/// The start of the digest that forms carry: an answer counts for what was shown.
pub(super) fn prefix(ticket: &Ticket) -> String {
    ticket.digest.to_string().chars().take(PREFIX).collect()
}

/// The start of the digest for the eye: two groups of four, as every channel shows it.
pub(super) fn fingerprint(ticket: &Ticket) -> String {
    let digest = ticket.digest.to_string();
    let digits: Vec<char> = digest.chars().take(12).collect();
    let groups: Vec<String> = digits
        .chunks(4)
        .map(|group| group.iter().collect())
        .collect();
    groups.join(" ")
}

/// What the ticket looked like: an answer to anything else is stale.
pub(super) fn seen(ticket: &Ticket) -> String {
    format!("{}.{}", ticket.state, ticket.votes.len())
}

impl View<'_> {
    /// The page's content.
    pub(super) fn render(&self) -> Markup {
        let ticket = self.ticket;
        html! {
            div data-live="state" data-news={ "This request is now: " (super::standing::words(ticket.state).0) } {
                div.tags {
                    (badge(ticket.state))
                    @if matches!(ticket.state, TicketState::Requested | TicketState::Approved) {
                        span.tag { "runs out " (until(ticket.expires_at, self.now)) }
                    }
                    (flags(ticket))
                }
                h1 { (written(&ticket.summary)) }
            }
            (self.care())
            div.ticket {
                div {
                    (arguments::table(ticket))
                    (objects(ticket))
                    (self.facts())
                    (self.similar())
                }
                div.decide {
                    div.stick {
                        (self.decision())
                        section.card aria-labelledby="votes" data-live="votes" {
                            h2 #votes { "Answers" }
                            (votes(ticket, self.now))
                        }
                    }
                }
                div { (said(ticket)) }
            }
        }
    }

    /// What asks for care, in words.
    fn care(&self) -> Markup {
        let ticket = self.ticket;
        let Warnings { hidden, opaque } = arguments::warnings(ticket);
        let first = ticket.bound.first_time.len();
        let any = hidden.0 > 0
            || opaque > 0
            || first > 0
            || doubtful(ticket).next().is_some()
            || ticket.earlier.is_some();
        html! {
            @if any {
                div.note.warn role="note" {
                    strong { "Look closely" }
                    ul {
                        @if let Some(earlier) = &ticket.earlier {
                            li {
                                "The identical call was sent before: " a href={ "/tickets/" (earlier.id) } { (past(earlier.created_at, self.now)) }
                                ", and is " (super::standing::words(earlier.state).0) "."
                            }
                        }
                        @if first > 0 {
                            li { (count(first, "argument")) " with a recipient that this user has never used before." }
                        }
                        @for origin in doubtful(ticket) {
                            li {
                                "The value of " (short(&origin.at))
                                @if origin.source == UNSEEN {
                                    " is in nothing that anybody said: the model made it up, or worked it out."
                                } @else {
                                    " first appeared in the output of " strong { (plain(&origin.from)) } ", not in what the user wrote."
                                }
                            }
                        }
                        @if hidden.0 > 0 {
                            li {
                                (count(hidden.0, "hidden or misleading character")) " in " (count(hidden.1, "argument"))
                                ", shown as escapes such as " span.esc { "\\u{202e}" } "."
                            }
                        }
                        @if opaque > 0 {
                            li { (count(opaque, "argument")) " cannot be inspected." }
                        }
                    }
                }
            }
        }
    }

    fn facts(&self) -> Markup {
        let ticket = self.ticket;
        let principal = &ticket.principal;
        html! {
            section.card aria-labelledby="facts" {
                h2 #facts { "Who and what" }
                dl.facts {
                    dt { "Tool" } dd { (short(ticket.tool.as_str())) }
                    dt { "Upstream" } dd { (short(ticket.upstream.as_str())) " " span.muted { "by the route " (plain(ticket.route.as_str())) } }
                    dt { "End user" }
                    dd { strong { (short(&principal.subject)) } " " span.muted { "of " (plain(&principal.issuer)) ", tenant " (plain(&principal.tenant)) } }
                    dt { "Agent" } dd { (short(&principal.agent)) }
                    @if !principal.actors.is_empty() {
                        dt { "Acting for the user" }
                        dd { @for actor in &principal.actors { (short(actor)) " " } }
                    }
                    dt { "Session" }
                    dd { @match &ticket.session { Some(session) => (short(session.as_str())), None => span.muted { "any of the user's" } } }
                    dt { "Needs" } dd { (plain(&needs(ticket))) }
                    dt { "Held by" }
                    dd { (ticket.layer) ": " (ticket.reason) " " span.muted { "(rule " (ticket.rule) ", policy " code { (ticket.policy.to_string().chars().take(12).collect::<String>()) } ")" } }
                    dt { "Asked for" } dd { (past_exact(ticket.created_at, self.now)) }
                    @if let Some(definition) = &ticket.bound.definition {
                        dt { "Tool's definition" } dd { "SHA-256 " code { (definition) } }
                    }
                    @if let Some(mandate) = &ticket.mandate {
                        dt { "Under the mandate" } dd { code { (mandate) } }
                    }
                    @if ticket.attempts > 0 {
                        dt { "Sent" } dd { (count(usize::try_from(ticket.attempts).unwrap_or(usize::MAX), "attempt")) @if let Some(at) = ticket.claimed_at { ", last " (past_exact(at, self.now)) } }
                    }
                    @if let Some(outcome) = outcome(ticket, self.now) {
                        dt { "Outcome" } dd { (outcome) }
                    }
                    dt { "Digest" } dd { code { (ticket.digest) } }
                    dt { "Ticket" } dd { code { (ticket.id) } }
                }
            }
        }
    }

    fn similar(&self) -> Markup {
        html! {
            section.card aria-labelledby="similar" {
                h2 #similar { "Earlier acts of this user with this tool" }
                @if self.similar.is_empty() {
                    p.muted { "None that the store remembers." }
                } @else {
                    dl.facts {
                        @for other in self.similar {
                            dt { (past(other.created_at, self.now)) }
                            dd { a href={ "/tickets/" (other.id) } { (written(&other.summary)) } " " (badge(other.state)) }
                        }
                    }
                }
            }
        }
    }

    /// What can be done with it, by whoever looks.
    fn decision(&self) -> Markup {
        let ticket = self.ticket;
        html! {
            section.card aria-labelledby="decision" data-live="decision" data-seen=(seen(ticket)) {
                h2 #decision { @if ticket.state == TicketState::Requested { "Your answer" } @else { "What it permits" } }
                (permits(ticket, self.now))
                p.note.warn data-stale hidden { "This request has changed while you were looking. " a href={ "/tickets/" (ticket.id) } { "Look at it anew" } "." }
                @match ticket.state {
                    TicketState::Requested => (self.answer()),
                    TicketState::Approved => (self.form("revoke", &html! {
                        (comment("comment", "Comment", "kept for the record", false))
                        div.buttons { button.deny type="submit" { "Take the approval back" } }
                    })),
                    TicketState::Unknown => (self.resolve()),
                    _ => {},
                }
            }
        }
    }

    fn answer(&self) -> Markup {
        let ticket = self.ticket;
        let yes = match ticket.gate {
            Gate::Confirm => "Confirm once",
            Gate::Approve => "Approve once",
        };
        html! {
            p.muted { "Digest " code { (fingerprint(ticket)) } }
            @if self.voted {
                div.note.good { p { "You have approved it. It waits for somebody else's approval too." } }
            }
            @match &self.against {
                Some(error) => {
                    div.note { p { strong { "You cannot approve it: " } (plain(&error.to_string())) } }
                    @if matches!(error, AnswerError::FreshLogin(_)) {
                        p { a.button href={ "/login?fresh=1&next=/tickets/" (ticket.id) } { "Log in again" } }
                    }
                    (self.form("deny", &html! {
                        (comment("comment", "Comment", "kept for the record", false))
                        div.buttons { button.deny type="submit" { "Deny" } }
                    }))
                }
                None => {
                    (self.form("approve", &html! {
                        (comment("comment", "Comment", "kept for the record", false))
                        div.buttons {
                            @if !self.voted { button.approve type="submit" { (yes) } }
                            button.deny type="submit" formaction={ "/tickets/" (ticket.id) "/deny" } { "Deny" }
                        }
                    }))
                    @if let Some(offer) = &ticket.offer { (self.mandate(offer)) }
                }
            }
        }
    }

    fn mandate(&self, offer: &MandateOffer) -> Markup {
        html! {
            details {
                summary { "Permit more than this one call" }
                p { (offered(self.ticket, offer)) }
                p.muted { "This call and later ones pass without asking anybody, until one of the limits is reached." }
                (self.form("mandate", &html! {
                    div.field {
                        label for="uses" { "Calls " span.muted { "(at most " (offer.uses) ")" } }
                        input #uses name="uses" type="number" min="1" max=(offer.uses) value=(offer.uses) required;
                    }
                    @if let Some(most) = &offer.at_most {
                        div.field {
                            label for="at_most" { "Sum of all amounts " span.muted { "(at most " (most) ")" } }
                            input #at_most name="at_most" inputmode="decimal" value=(most) required;
                        }
                    }
                    (comment("mandate-comment", "Comment", "kept for the record", false))
                    div.buttons { button type="submit" { "Give this mandate" } }
                }))
            }
        }
    }

    fn resolve(&self) -> Markup {
        html! {
            p { "Look at the upstream's own records. Then say what you found: the agent is told so, and an act that was not carried out may be asked for again." }
            (self.form("resolve", &html! {
                fieldset.field {
                    legend { "What you found" }
                    label { input type="radio" name="found" value="done" required; " It was carried out" }
                    label { input type="radio" name="found" value="not_done" required; " It was not carried out" }
                }
                (comment("note", "How do you know?", "required, kept for the record", true))
                div.buttons { button type="submit" { "Close the matter" } }
            }))
        }
    }

    /// A form that answers for what is shown here, and nothing else.
    fn form(&self, verb: &str, fields: &Markup) -> Markup {
        let ticket = self.ticket;
        html! {
            form method="post" action={ "/tickets/" (ticket.id) "/" (verb) } autocomplete="off" {
                input type="hidden" name="csrf" value=(self.csrf);
                input type="hidden" name="digest" value=(prefix(ticket));
                input type="hidden" name="seen" value=(seen(ticket));
                (fields)
            }
        }
    }
}

fn comment(id: &str, label: &str, hint: &str, required: bool) -> Markup {
    let name = if id == "note" { "note" } else { "comment" };
    html! {
        div.field {
            label for=(id) { (label) " " span.muted { "(" (hint) ")" } }
            textarea id=(id) name=(name) rows="2" maxlength="2000" required[required] {}
        }
    }
}

/// What a rule offers to widen the permission to, in words.
fn offered(ticket: &Ticket, offer: &MandateOffer) -> Markup {
    let hours = offer.within.as_secs() / 3600;
    let minutes = offer.within.as_secs() / 60 % 60;
    html! {
        "A mandate for " (short(&ticket.principal.subject)) ": up to " (offer.uses) " calls of " (short(ticket.tool.as_str()))
        @if let Some(most) = &offer.at_most { ", together at most " (most) }
        ", within " @if hours > 0 { (hours) " h " } @if minutes > 0 || hours == 0 { (minutes) " min" }
        @if !offer.same.is_empty() {
            ", with the same " @for (at, pointer) in offer.same.iter().enumerate() { @if at > 0 { ", " } (short(pointer)) }
        }
        "."
    }
}

fn objects(ticket: &Ticket) -> Markup {
    let resources = &ticket.bound.resources;
    html! {
        @if !resources.is_empty() {
            section.card aria-labelledby="objects" {
                h2 #objects { "Objects " span.muted { "(" (resources.len()) ", as they were when the agent asked)" } }
                dl.facts.arguments { @for resource in resources { (object(ticket, resource)) } }
            }
        }
    }
}

fn object(ticket: &Ticket, resource: &Resource) -> Markup {
    html! {
        dt { (short(&resource.id)) }
        dd {
            @match &resource.owner {
                Some(owner) if **owner == *ticket.principal.subject => { "belongs to the user, " (short(owner)) }
                Some(owner) => { span.tag.warn { "not the user's" } " belongs to " strong { (short(owner)) } }
                None => span.muted { "owner not known" },
            }
            @for (column, value) in &resource.state {
                span.about { (short(column)) ": " @match value { Some(value) => (short(value)), None => span.muted { "null" } } }
            }
            span.about { "named by " (short(&resource.at)) ", found by " (plain(&resource.lookup)) }
        }
    }
}

/// Last, and marked: these are the agent's words.
fn said(ticket: &Ticket) -> Markup {
    html! {
        @if let Some(said) = &ticket.said {
            section.untrusted aria-labelledby="said" {
                h2 #said { "What the agent says about it " span.tag.warn { "not to be trusted" } }
                p { (whole(said)) }
                p.muted { "The agent wrote this, perhaps on somebody else's instructions. Nothing above comes from it." }
            }
        }
    }
}

/// All of one argument.
pub(super) fn value(ticket: &Ticket, at: &str, text: &str) -> Markup {
    let lines: Vec<&str> = text.split('\n').collect();
    html! {
        p { a href={ "/tickets/" (ticket.id) } { "Back to the request" } }
        h1 { "Whole value of " (short(at)) }
        p.muted {
            (count(text.chars().count(), "character")) ", " (count(lines.len(), "line")) ", "
            (count(hidden(text), "hidden or misleading character"))
            ", SHA-256 " code { (sha256_hex(text.as_bytes())) }
        }
        section.card aria-label="The value" { ol.lines { (numbered(&lines)) } }
        @if let Some(ascii) = ascii(text) {
            section.card aria-labelledby="ascii" {
                h2 #ascii { "The same with every character beyond ASCII as an escape" }
                p { (ascii) }
            }
        }
    }
}

/// Lines under their numbers; blank ones that follow each other are told once, with how many they are.
fn numbered(lines: &[&str]) -> Markup {
    let blank = |line: &str| line.trim().is_empty();
    let mut number = 1;
    html! {
        @for run in lines.chunk_by(|a, b| blank(a) && blank(b)) {
            @match run {
                [line] => li value=(number) { (whole(line)) },
                _ => li.blank value=(number) { span.esc { (count(run.len(), "blank line")) } },
            }
            @let () = number += run.len();
        }
    }
}
