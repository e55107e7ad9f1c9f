//! The Model Context Protocol over HTTP.

use bytes::Bytes;
use http::response;

use super::{Malformed, Protocol, Refusal, Request, ResponseReader, Written};
use crate::guard::Decision;
use crate::item::{Located, RouteKind};
use crate::settings::{Limits, McpRoute};

/// The adapter.
#[derive(Clone, Debug)]
pub struct Mcp {
    held: usize,
    route: McpRoute,
}

impl Mcp {
    /// An adapter that holds back at most `limits.held` bytes.
    pub fn new(limits: &Limits, route: &McpRoute) -> Self {
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

impl Protocol for Mcp {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn kind(&self) -> RouteKind {
        RouteKind::Mcp
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
