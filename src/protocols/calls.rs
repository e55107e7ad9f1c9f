//! Limits of the calls that a response holds back.

use super::Malformed;

/// Most calls in one response.
pub const MAX_CALLS: usize = 128;

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
