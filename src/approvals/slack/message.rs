//! What a message says: everything that the page would, as plain text, for no text of an agent may become a link or markup.

use serde_json::{Value, json};

use crate::approvals::slack::click::{APPROVE, DENY};
use crate::layers::tickets::show::{escape, leaves, shorten};
use crate::policy::Gate;
use crate::store::tickets::Ticket;

/// Characters of one section, by Slack's own limit of 3000.
const SECTION: usize = 2900;
/// Sections for arguments.
const SECTIONS: usize = 10;
/// Digits of the digest that a button carries, and that are shown.
pub(super) const DIGITS: usize = 16;

fn plain(text: &str) -> Value {
    json!({"type": "plain_text", "text": cut(text, SECTION), "emoji": false})
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{head}…")
}

fn section(text: &str) -> Value {
    json!({"type": "section", "text": plain(text)})
}

/// A message that asks for an answer.
pub(super) fn asks(ticket: &Ticket, link: Option<&str>) -> Value {
    let digest: String = ticket.digest.to_string().chars().take(DIGITS).collect();
    let (arguments, whole) = arguments(ticket);
    let mut blocks = vec![
        json!({"type": "header", "text": {
            "type": "plain_text",
            "text": cut(&format!("Approval wanted: {}", shorten(ticket.tool.as_str())), 140),
            "emoji": false,
        }}),
        section(&ticket.summary),
        section(&facts(ticket, &digest)),
    ];
    blocks.extend(arguments.iter().map(|text| section(text)));
    let may_approve = whole && !ticket.fresh;
    if !whole {
        blocks.push(section(
            "There are more arguments than a message holds, so it cannot be approved here: look at the ticket itself.",
        ));
    }
    if ticket.fresh {
        blocks.push(section(
            "This needs a fresh log-in, so it cannot be approved here: open the page.",
        ));
    }
    let value = format!("{} {digest}", ticket.id);
    let button = |action: &str, text: &str, style: &str| {
        json!({
            "type": "button", "action_id": action, "value": value, "style": style,
            "text": {"type": "plain_text", "text": text, "emoji": false},
        })
    };
    let mut buttons = Vec::new();
    if may_approve {
        buttons.push(button(APPROVE, "Approve", "primary"));
    }
    buttons.push(button(DENY, "Deny", "danger"));
    if let Some(link) = link {
        buttons.push(json!({
            "type": "button", "action_id": "holdpoint_open", "url": link,
            "text": {"type": "plain_text", "text": "Open", "emoji": false},
        }));
    }
    blocks.push(json!({"type": "actions", "elements": buttons}));
    json!({"text": fallback(ticket), "blocks": blocks})
}

/// For notifications, which know no blocks: here `&`, `<` and `>` have a meaning.
fn fallback(ticket: &Ticket) -> String {
    marked(&format!("Approval wanted: {}", cut(&ticket.summary, 300)))
}

/// Text where Slack looks for markup.
pub(super) fn marked(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn facts(ticket: &Ticket, digest: &str) -> String {
    let principal = &ticket.principal;
    let mut lines = vec![
        format!(
            "Tool: {} at {} (route {})",
            shorten(ticket.tool.as_str()),
            shorten(ticket.upstream.as_str()),
            shorten(ticket.route.as_str())
        ),
        format!(
            "For: {} (issuer {}, tenant {}), agent {}",
            shorten(&principal.subject),
            shorten(&principal.issuer),
            shorten(&principal.tenant),
            shorten(&principal.agent)
        ),
    ];
    for resource in &ticket.bound.resources {
        let owner = resource
            .owner
            .as_deref()
            .map_or_else(|| "nobody".to_owned(), shorten);
        lines.push(format!(
            "{} {}: belongs to {owner}",
            escape(&resource.at),
            shorten(&resource.id)
        ));
    }
    for origin in &ticket.bound.origins {
        lines.push(format!(
            "{}: first said by {}",
            escape(&origin.at),
            shorten(&origin.from)
        ));
    }
    for at in &ticket.bound.first_time {
        lines.push(format!("{}: never used before by this user", escape(at)));
    }
    if let Some(earlier) = &ticket.earlier {
        lines.push(format!(
            "The identical call was asked for at {} and is {}",
            earlier.created_at, earlier.state
        ));
    }
    lines.push(match ticket.gate {
        Gate::Confirm => "Needs: the user's own confirmation".to_owned(),
        Gate::Approve => format!(
            "Needs: {} of somebody else{}",
            match ticket.approvals {
                1 => "the approval".to_owned(),
                n => format!("{n} approvals, {} given,", ticket.approved_by()),
            },
            match ticket.roles.as_slice() {
                [] => String::new(),
                roles => format!(" with the role {}", roles.join(" or ")),
            }
        ),
    });
    lines.push(format!(
        "Permits: this exact call, once, until {}",
        ticket.expires_at
    ));
    lines.push(format!("Ticket: {}, digest {digest}", ticket.id));
    lines.join("\n")
}

/// Every argument, in sections; `false` where they do not all fit.
fn arguments(ticket: &Ticket) -> (Vec<String>, bool) {
    let value: Value = serde_json::from_str(ticket.arguments.get()).unwrap_or_default();
    let leaves = leaves(&value);
    let mut sections = vec![format!("Arguments, {} in all:", leaves.len())];
    for (at, text) in &leaves {
        let line = format!("{}: {}", escape(at), shorten(text));
        let room = sections.last().map_or(0, |last| last.chars().count());
        if room + line.chars().count() + 1 > SECTION {
            if sections.len() == SECTIONS || line.chars().count() > SECTION {
                return (sections, false);
            }
            sections.push(line);
        } else if let Some(last) = sections.last_mut() {
            last.push('\n');
            last.push_str(&line);
        }
    }
    (sections, true)
}
