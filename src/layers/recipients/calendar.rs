//! Calendar events: attendees get mail, so they are recipients; guests who may bring others, public events and dial-outs reach
//! people that nobody listed.

use std::collections::HashSet;

use super::code::{Code, Fault};
use super::judge::Found;
use super::words::{each_member, flag, squashed};
use crate::item::Place;
use crate::policy::Permit;
use crate::wire::json::{Document, Kind, Node};

/// Words for people who get the event (Google Calendar, Microsoft Graph, iCalendar).
const GUEST: [&str; 4] = ["attendee", "guest", "invitee", "participant"];

/// What may stand around such a word, or `s` behind it, in the key of a list of them: `optionalAttendees`, `guestEmails`.
const AROUND: [&str; 12] = [
    "",
    "additional",
    "extra",
    "external",
    "new",
    "optional",
    "other",
    "required",
    "resource",
    "address",
    "email",
    "list",
];

/// Keys of who gets the answers.
const HOSTS: [&str; 3] = ["organizer", "organiser", "creator"];

/// Keys of texts about a person that are no address.
const ABOUT: [&str; 10] = [
    "displayname",
    "name",
    "comment",
    "responsestatus",
    "response",
    "status",
    "type",
    "id",
    "role",
    "timezone",
];

/// Keys that let guests reach others.
const GUESTS: [&str; 6] = [
    "guestscaninviteothers",
    "guestscaninvite",
    "allowguestinvite",
    "guestscanmodify",
    "anyonecanaddself",
    "allowforwarding",
];

/// Values of `visibility` that show the event to those who see the calendar anyway.
const HIDDEN: [&str; 6] = [
    "",
    "default",
    "private",
    "confidential",
    "normal",
    "personal",
];

/// Finds people outside the rule's places, and what reaches further.
pub(super) fn find(found: &mut Found<'_>, document: &Document) {
    // By identity: pointers of long keys are cut.
    let mut declared: HashSet<*const Node> = HashSet::new();
    for selector in &found.rule.at {
        selector.each_below(document.root(), |_, node: &Node| {
            declared.insert(std::ptr::from_ref(node));
        });
    }
    let mut people = People {
        declared,
        others: Vec::new(),
    };
    each_member(document.root(), &mut String::new(), &mut |at, key, node| {
        if lists_guests(key) {
            // `additionalGuests: 2` says how many, not who.
            let counts = matches!(node.kind, Kind::Number)
                && !GUEST.iter().any(|word| key.starts_with(word));
            people.add(at, node, !counts);
        } else if HOSTS.contains(&key) {
            people.add(at, node, false);
        }
    });
    for (at, text) in people.others {
        match text {
            Some(text) => found.mailboxes(&at, text),
            None => found.fault(at, Fault::malformed("a person without an address")),
        }
    }
    flags(found, document);
}

/// Whether the kind looks at what stands under this squashed key by itself.
pub(super) fn covers(key: &str) -> bool {
    lists_guests(key) || HOSTS.contains(&key)
}

/// Whether such a squashed key is one of guests.
fn lists_guests(key: &str) -> bool {
    GUEST.iter().any(|word| {
        key.split_once(word).is_some_and(|(before, after)| {
            let after = after.strip_prefix('s').unwrap_or(after);
            let after = after.strip_suffix('s').unwrap_or(after);
            let after = if after == "addresse" {
                "address"
            } else {
                after
            };
            let addresses = ["emailaddress", "emailaddresse"];
            AROUND.contains(&before) && (AROUND.contains(&after) || addresses.contains(&after))
        })
    })
}

/// Addresses that the rule's places leave out.
struct People<'n> {
    declared: HashSet<*const Node>,
    others: Vec<(String, Option<&'n str>)>,
}

impl<'n> People<'n> {
    /// Adds what stands at or below a value and tells whether there is an address; where one must be there, a person without is
    /// added as such.
    fn add(&mut self, at: &str, node: &'n Node, needed: bool) -> bool {
        let any = match &node.kind {
            Kind::Null | Kind::Bool(false) => return false,
            Kind::String(text) if text.trim().is_empty() => return false,
            Kind::String(text) => {
                if !self.declared.contains(&std::ptr::from_ref(node)) {
                    self.others.push((at.to_owned(), Some(text)));
                }
                true
            }
            Kind::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    self.add(&format!("{at}/{index}"), element, needed);
                }
                return !elements.is_empty();
            }
            Kind::Object(members) => {
                let mut below = String::from(at);
                let mut any = false;
                for member in members {
                    // Flags such as `optional` and counts such as `additionalGuests` are no address.
                    let flag = matches!(member.value.kind, Kind::Bool(_) | Kind::Number);
                    if flag || ABOUT.contains(&squashed(&member.key).as_str()) {
                        continue;
                    }
                    Place::push_step(&mut below, &member.key);
                    any |= self.add(&below, &member.value, false);
                    below.truncate(at.len());
                }
                any
            }
            Kind::Bool(true) | Kind::Number => false,
        };
        if needed && !any {
            self.others.push((at.to_owned(), None));
        }
        any
    }
}

fn flags(found: &mut Found<'_>, document: &Document) {
    let rule = found.rule;
    let mut faults = Vec::new();
    each_member(document.root(), &mut String::new(), &mut |at, key, node| {
        let raw = document.bytes().get(node.span.clone()).unwrap_or_default();
        let on = || flag(node, raw) != Some(false);
        let fault = if GUESTS.contains(&key) {
            let open = on() && !rule.permits(Permit::GuestInvite);
            open.then_some((Code::GuestEscalation, "guests may bring others"))
        } else if key.contains("dialout") || key == "callme" {
            let calls = is_filled(node) && on() && !rule.permits(Permit::DialOut);
            calls.then_some((Code::GuestEscalation, "the event calls people up"))
        } else if matches!(key, "public" | "ispublic") {
            let open = on() && !rule.permits(Permit::Public);
            open.then_some((Code::PublicShare, "a public event"))
        } else if key == "visibility" {
            let hidden = match &node.kind {
                Kind::Null => true,
                Kind::String(text) => HIDDEN.contains(&text.trim().to_ascii_lowercase().as_str()),
                _ => false,
            };
            let open = !hidden && !rule.permits(Permit::Public);
            open.then_some((Code::PublicShare, "a public event"))
        } else {
            None
        };
        faults.extend(fault.map(|(code, why)| (at.to_owned(), Fault::new(code, why))));
    });
    for (at, fault) in faults {
        found.fault(at, fault);
    }
}

/// Whether there is anything in it.
fn is_filled(node: &Node) -> bool {
    match &node.kind {
        Kind::Array(elements) => !elements.is_empty(),
        Kind::Object(members) => !members.is_empty(),
        _ => true,
    }
}
