//! Calls in members that nobody knows: providers add members all the time, and a client that knows one acts on it. Whatever
//! has the shape of a call, a name and arguments, is judged as one where it stands, and its member goes where it is refused.

use std::collections::HashSet;

use bytes::Bytes;

use super::invalid_response;
use crate::item::{Arguments, Located, Place};
use crate::protocols::calls::{MAX_CALLS, proposed};
use crate::protocols::fates::Fate;
use crate::protocols::{Malformed, unwritable, wrapped};
use crate::settings::Wrapped;
use crate::wire::json::{Document, Kind, Member, Node};
use crate::wire::splice::{Splice, quote};

/// Members of a message or a delta that hold calls, or nothing of the kind.
const KNOWN: [&str; 3] = ["tool_calls", "function_call", "role"];

/// Members of a choice that are read, or hold nothing of the kind.
pub(super) const OF_CHOICE: [&str; 5] = ["index", "message", "delta", "finish_reason", "logprobs"];

/// Members of a response that are read, or hold nothing of the kind.
pub(super) const OF_RESPONSE: [&str; 3] = ["choices", "usage", "error"];

/// Keys of the name and of the arguments.
const NAMES: [&str; 5] = ["name", "tool", "tool_name", "toolName", "function"];
const ARGUMENTS: [&str; 8] = [
    "arguments",
    "args",
    "input",
    "action",
    "parameters",
    "params",
    "tool_input",
    "toolInput",
];

/// One of them.
#[derive(Debug)]
pub(super) struct Stray<'d> {
    /// The member of the message that it stands in.
    pub member: &'d str,
    pointer: String,
    node: &'d Node,
}

/// All below a message or a delta of the choice with this index.
pub(super) fn find(choice: u64, message: &Node) -> Vec<Stray<'_>> {
    let mut found = Vec::new();
    for member in places(message) {
        let mut pointer = format!("/choices/{choice}");
        Place::push_step(&mut pointer, &member.key);
        search(&member.value, &member.key, &mut pointer, &mut found);
    }
    found
}

/// Refuses them as and below any other object of a response: no client has a reason to look there.
pub(super) fn none_in(object: &Node, known: &[&str]) -> Result<(), Malformed> {
    none_as(object)?;
    let mut found = Vec::new();
    for member in object.members() {
        if !known.contains(&&*member.key) {
            search(&member.value, "", &mut String::new(), &mut found);
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(invalid_response("a call stands where none can be"))
    }
}

/// Refuses an object of a response that is one itself, by its own members.
pub(super) fn none_as(object: &Node) -> Result<(), Malformed> {
    if Shape::of(object) == Some(Shape::Call) {
        return Err(invalid_response("a call stands where none can be"));
    }
    Ok(())
}

/// Whether anything in a value is one.
pub(super) fn is_in(node: &Node) -> bool {
    let mut found = Vec::new();
    search(node, "", &mut String::new(), &mut found);
    !found.is_empty()
}

/// Whether a key is one of a call's name.
pub(super) fn names(key: &str) -> bool {
    NAMES.contains(&key)
}

/// Whether a key is one of arguments.
pub(super) fn argues(key: &str) -> bool {
    ARGUMENTS.contains(&key)
}

fn search<'d>(node: &'d Node, member: &'d str, pointer: &mut String, found: &mut Vec<Stray<'d>>) {
    // One more than may be is enough to refuse the response.
    if found.len() > MAX_CALLS {
        return;
    }
    let length = pointer.len();
    match &node.kind {
        Kind::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                Place::push_step(pointer, &index.to_string());
                search(element, member, pointer, found);
                pointer.truncate(length);
            }
        }
        Kind::Object(_) if Shape::of(node) == Some(Shape::Call) => {
            found.push(Stray {
                member,
                pointer: pointer.clone(),
                node,
            });
        }
        Kind::Object(members) => {
            for inner in members {
                Place::push_step(pointer, &inner.key);
                search(&inner.value, member, pointer, found);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

/// What an object has of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Name,
    Arguments,
    Call,
}

impl Shape {
    /// `None` for what has nothing of one.
    pub fn of(node: &Node) -> Option<Self> {
        match (name(node), arguments(node).next()) {
            (Some(_), Some(_)) => Some(Self::Call),
            (Some(_), None) => Some(Self::Name),
            (None, Some(_)) => Some(Self::Arguments),
            (None, None) => None,
        }
    }
}

/// The members of a message or a delta that may hold such calls.
pub(super) fn places(message: &Node) -> impl Iterator<Item = &Member> {
    let members = message.members().iter();
    members.filter(|member| !KNOWN.contains(&&*member.key))
}

fn name(node: &Node) -> Option<&str> {
    NAMES.iter().find_map(|key| node.get(key)?.as_str())
}

fn arguments(node: &Node) -> impl Iterator<Item = &Node> {
    ARGUMENTS.iter().filter_map(|key| node.get(key))
}

impl Stray<'_> {
    /// The call as an item.
    pub fn located(&self, document: &Document, wrapped: &[Wrapped]) -> Located {
        let id = ["id", "call_id"]
            .iter()
            .find_map(|key| self.node.get(key)?.as_str());
        let tool = name(self.node).unwrap_or_default().into();
        Located {
            place: Place {
                pointer: self.pointer.clone(),
                span: None,
            },
            item: proposed(wrapped, tool, id, self.arguments(document)),
        }
    }

    fn arguments(&self, document: &Document) -> Result<Arguments, String> {
        let names = NAMES.iter().filter_map(|key| self.node.get(key));
        let mut all = arguments(self.node);
        let (Some(node), None, 1) = (all.next(), all.next(), names.count()) else {
            return Err("the call is of two forms".to_owned());
        };
        let raw = match &node.kind {
            Kind::String(text) => Bytes::copy_from_slice(text.as_bytes()),
            _ => document.raw(node),
        };
        Arguments::read(raw).map_err(|error| error.to_string())
    }

    fn write(
        &self,
        splice: &mut Splice<'_>,
        document: &Document,
        stored: &Bytes,
        wrapped: &[Wrapped],
    ) -> Option<()> {
        let own = self.arguments(document).ok()?.raw;
        let tool = name(self.node)?.into();
        let written = wrapped::rewrapped(wrapped, &tool, &own, stored)?;
        let node = arguments(self.node).next()?;
        if node.as_str().is_some() {
            splice.replace(node, quote(std::str::from_utf8(&written).ok()?));
        } else {
            splice.replace(node, written);
        }
        Some(())
    }
}

/// Writes what becomes of them, and gives the members that go with all that stands in them.
pub(super) fn write<'d>(
    splice: &mut Splice<'_>,
    document: &Document,
    strays: &[Stray<'d>],
    fates: &[Fate],
    wrapped: &[Wrapped],
) -> Result<HashSet<&'d str>, Malformed> {
    let gone = gone(strays, fates);
    for (stray, fate) in strays.iter().zip(fates) {
        if let Fate::Release(Some(stored)) = fate
            && !gone.contains(stray.member)
        {
            stray
                .write(splice, document, stored, wrapped)
                .ok_or_else(unwritable)?;
        }
    }
    Ok(gone)
}

/// The members that go.
pub(super) fn gone<'d>(strays: &[Stray<'d>], fates: &[Fate]) -> HashSet<&'d str> {
    strays
        .iter()
        .zip(fates)
        .filter(|(_, fate)| fate.is_dropped())
        .map(|(stray, _)| stray.member)
        .collect()
}
