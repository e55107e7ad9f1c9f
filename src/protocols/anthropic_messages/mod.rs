//! Anthropic Messages.

use bytes::Bytes;
use http::response;

use super::{Malformed, Protocol, Refusal, Request, ResponseReader, Written};
use crate::guard::Decision;
use crate::item::{Located, RouteKind};
use crate::settings::{Limits, ModelRoute};

/// The adapter.
#[derive(Clone, Debug)]
pub struct AnthropicMessages {
    held: usize,
    route: ModelRoute,
}

impl AnthropicMessages {
    /// An adapter that holds back at most `limits.held` bytes.
    pub fn new(limits: &Limits, route: &ModelRoute) -> Self {
        Self {
            held: limits.held,
            route: route.clone(),
        }
    }
}

fn unknown() -> Malformed {
    Malformed {
        code: "endpoint_unknown",
        message: "this build does not read this endpoint".to_owned(),
    }
}

impl Protocol for AnthropicMessages {
    fn name(&self) -> &'static str {
        "anthropic_messages"
    }

    fn kind(&self) -> RouteKind {
        RouteKind::Model
    }

    fn read(&self, _request: &Request) -> Result<Vec<Located>, Malformed> {
        let _ = (self.held, &self.route);
        Err(unknown())
    }

    fn write(&self, _request: Request, _decision: &Decision) -> Result<Written, Malformed> {
        Err(unknown())
    }

    fn response(
        &self,
        _request: &Request,
        _head: &response::Parts,
    ) -> Result<Box<dyn ResponseReader>, Malformed> {
        Err(unknown())
    }

    fn refuse(&self, refusal: &Refusal, _to: Option<&Bytes>) -> http::Response<Bytes> {
        super::http_tools::problem(refusal)
    }
}
