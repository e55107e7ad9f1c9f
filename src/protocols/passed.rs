//! What has nothing to judge: a whole response such as a provider's error, or one event. It passes as it came.

use bytes::Bytes;

use super::strict::{invalid_response, misframed};
use super::{Event, Frame, Framing, Malformed, ResponseReader, Step};
use crate::guard::Decision;
use crate::wire::sse::encode;

/// A step that sends one event.
///
/// # Errors
/// As [`encoded`].
pub fn passed(event: Event) -> Result<Step, Malformed> {
    Ok(Step {
        send: vec![encoded(event)?],
        judge: Vec::new(),
    })
}

/// The event's bytes.
///
/// # Errors
/// A type or id that cannot be written.
pub fn encoded(event: Event) -> Result<Bytes, Malformed> {
    encode(event).map_err(|error| invalid_response(error.to_string()))
}

/// Passes one whole body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed;

impl ResponseReader for Passed {
    fn framing(&self) -> Framing {
        Framing::Whole
    }

    fn push(&mut self, frame: Frame) -> Result<Step, Malformed> {
        let Frame::Whole(body) = frame else {
            return Err(misframed());
        };
        Ok(Step {
            send: vec![body],
            judge: Vec::new(),
        })
    }

    fn resolve(&mut self, _decision: &Decision) -> Result<Vec<Bytes>, Malformed> {
        Ok(Vec::new())
    }

    fn finish(&mut self) -> Result<Step, Malformed> {
        Ok(Step::default())
    }
}
