//! Endpoints of model APIs: what their requests have in common.

use super::strict::media_type;
use super::{Malformed, Request};
use crate::wire::json::Node;

/// `/models`, or `/models/` and an id, which may have slashes but no segment that a server could resolve to another path.
pub fn is_model_path(path: &str) -> bool {
    let Some(rest) = path.strip_prefix("/models") else {
        return false;
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:@".contains(&b);
    rest.is_empty()
        || rest.strip_prefix('/').is_some_and(|id| {
            id.split('/')
                .all(|part| part.bytes().all(plain) && !matches!(part, "" | "." | ".."))
        })
}

/// The body of a request that must have one.
///
/// # Errors
/// None, or not JSON.
pub fn body(request: &Request) -> Result<&Node, Malformed> {
    if media_type(&request.parts.headers).as_deref() != Some("application/json") {
        return Err(Malformed {
            code: "unsupported_media_type",
            message: "send the request with content-type: application/json".to_owned(),
        });
    }
    let document = request.json.as_ref().ok_or_else(|| Malformed {
        code: "invalid_json",
        message: "the request has no body".to_owned(),
    })?;
    Ok(document.root())
}

/// Refuses a body where none can be.
///
/// # Errors
/// There is one.
pub fn no_body(request: &Request) -> Result<(), Malformed> {
    if request.body.is_empty() {
        return Ok(());
    }
    Err(Malformed {
        code: "invalid_request",
        message: "a GET request must not have a body".to_owned(),
    })
}
