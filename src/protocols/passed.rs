//! A response without anything to judge, such as a provider's error: passed as it came.

use super::strict::misframed;
use super::{Frame, Framing, Malformed, ResponseReader, Step};
use crate::guard::Decision;

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

    fn resolve(&mut self, _decision: &Decision) -> Result<Vec<bytes::Bytes>, Malformed> {
        Ok(Vec::new())
    }

    fn finish(&mut self) -> Result<Step, Malformed> {
        Ok(Step::default())
    }
}
