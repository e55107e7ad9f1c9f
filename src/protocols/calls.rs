//! Limits of the calls that a response holds back.

use super::Malformed;

/// Most calls in one response.
pub const MAX_CALLS: usize = 128;

/// Refuses a response with more than [`MAX_CALLS`] calls, or more than `most` bytes of them.
///
/// # Errors
/// It has more.
pub fn check_held(calls: usize, bytes: usize, most: usize) -> Result<(), Malformed> {
    let message = if calls > MAX_CALLS {
        format!("the response has more than {MAX_CALLS} calls")
    } else if bytes > most {
        format!("the response's calls hold more than {most} bytes")
    } else {
        return Ok(());
    };
    Err(Malformed {
        code: "upstream_too_large",
        message,
    })
}
