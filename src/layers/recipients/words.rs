//! Names and flags as the many calendars and drives write them.

use crate::item::Place;
use crate::wire::json::{Kind, Node, folded};

/// A key without case and without what separates its words: `guestsCanInviteOthers`, `guests_can_invite_others`.
pub(super) fn squashed(name: &str) -> String {
    folded(name)
        .chars()
        .filter(|c| c.is_alphanumeric())
        .collect()
}

/// What a flag says; `None` where it cannot be told.
pub(super) fn flag(node: &Node, raw: &[u8]) -> Option<bool> {
    match &node.kind {
        Kind::Null => Some(false),
        Kind::Bool(value) => Some(*value),
        Kind::Number if matches!(raw, b"0" | b"1") => Some(raw == b"1"),
        Kind::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "" | "false" | "no" | "off" | "0" => Some(false),
            "true" | "yes" | "on" | "1" => Some(true),
            _ => None,
        },
        _ => None,
    }
}

/// Shows every member at any depth, with its pointer and its squashed key.
pub(super) fn each_member<'n>(
    node: &'n Node,
    at: &mut String,
    visit: &mut dyn FnMut(&str, &str, &'n Node),
) {
    let length = at.len();
    for member in node.members() {
        Place::push_step(at, &member.key);
        visit(at, &squashed(&member.key), &member.value);
        each_member(&member.value, at, visit);
        at.truncate(length);
    }
    for (index, element) in node.elements().iter().enumerate() {
        Place::push_step(at, &index.to_string());
        each_member(element, at, visit);
        at.truncate(length);
    }
}

/// Shows every text at or below a value, with its pointer and the squashed key that it stands under.
pub(super) fn each_text(
    node: &Node,
    at: &mut String,
    key: &str,
    visit: &mut dyn FnMut(&str, &str, &str),
) {
    if let Some(text) = node.as_str() {
        visit(at, key, text);
    }
    let length = at.len();
    for member in node.members() {
        Place::push_step(at, &member.key);
        each_text(&member.value, at, &squashed(&member.key), visit);
        at.truncate(length);
    }
    for (index, element) in node.elements().iter().enumerate() {
        Place::push_step(at, &index.to_string());
        each_text(element, at, key, visit);
        at.truncate(length);
    }
}
