//! Calls that a response proposes: as items, and how many of them it may hold back.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::{Done, Malformed, wrapped};
use crate::item::{Arguments, Item, ToolCall, UnreadableCall};
use crate::names::ToolName;
use crate::settings::Wrapped;

/// Most calls in one response.
pub const MAX_CALLS: usize = 128;

/// A proposed call as the guard must see it: the inner one, where it carries another, and one that never passes, where its
/// arguments cannot be read.
pub fn proposed(
    wrapped: &[Wrapped],
    tool: ToolName,
    call_id: Option<&str>,
    arguments: Result<Arguments, String>,
) -> Item {
    let call_id = call_id.map(Arc::from);
    match arguments {
        Ok(args) => {
            let call = ToolCall {
                call_id,
                ..ToolCall::new(tool, args)
            };
            wrapped::judged(wrapped, call)
        }
        Err(cause) => Item::Unreadable(UnreadableCall {
            tool,
            call_id,
            cause,
        }),
    }
}

/// Calls of a conversation: those that were made, and those whose outputs it has.
pub(super) struct Made<'d> {
    pub(super) calls: Vec<(&'d str, &'d str, Bytes)>,
    pub(super) answered: HashSet<&'d str>,
}

impl Made<'_> {
    /// The calls with an output, of the tools that `of` names, as the guard sees them.
    pub(super) fn done(self, wrapped: &[Wrapped], of: &dyn Fn(&ToolName) -> bool) -> Vec<Done> {
        let mut done = Vec::new();
        for (id, name, raw) in self.calls {
            let tool = ToolName::from(name);
            let may_carry = wrapped.iter().any(|rule| rule.tool == tool);
            if !self.answered.contains(id) || !(may_carry || of(&tool)) {
                continue;
            }
            let read = Arguments::read(raw).map_err(|error| error.to_string());
            match proposed(wrapped, tool, None, read) {
                Item::ToolCall(call) if of(&call.tool) => done.push(Done {
                    tool: call.tool,
                    raw: call.args.raw,
                }),
                _ => {}
            }
        }
        done
    }
}

/// Refuses a response with more than [`MAX_CALLS`] calls, or more than `most` bytes of them.
///
/// # Errors
/// It has more.
pub fn check_held(calls: usize, bytes: usize, most: usize) -> Result<(), Malformed> {
    check_count(calls)?;
    if bytes > most {
        return Err(too_large(format!(
            "the response's calls hold more than {most} bytes"
        )));
    }
    Ok(())
}

/// Refuses a response with more than [`MAX_CALLS`] calls.
///
/// # Errors
/// It has more.
pub fn check_count(calls: usize) -> Result<(), Malformed> {
    if calls > MAX_CALLS {
        return Err(too_large(format!(
            "the response has more than {MAX_CALLS} calls"
        )));
    }
    Ok(())
}

const fn too_large(message: String) -> Malformed {
    Malformed {
        code: "upstream_too_large",
        message,
    }
}
