//! Calls that a response proposes: as items, and how many of them it may hold back.

use std::sync::Arc;

use super::{Malformed, wrapped};
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
                tool,
                args,
                call_id,
                again: false,
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
