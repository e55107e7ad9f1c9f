//! `OpenAI` Chat Completions, as `OpenAI`, Azure, vLLM, Ollama and others speak it.
//!
//! Requests: untrusted texts and tool definitions are found and edited in place; what the provider is to run by itself is
//! judged where it is asked for. Responses, whole or streamed: text goes through at once, a call is held until it is whole
//! and judged, and leaves in one canonical form. Where a rule asks for it, what text would make a client fetch or follow is held
//! and judged as well. What a search model cites (`annotations`) goes to the agent as text of the
//! model, and is untrusted when it comes back in a request.

mod call;
mod canaries;
mod read;
mod render;
mod routes;
mod shown;
mod stray;
mod stream;
mod whole;

use std::sync::Arc;

use bytes::Bytes;
use http::response;

use super::canary::Canary;
use super::conversation::conversation;
use super::passed::Passed;
use super::strict::{
    exact_keys, exact_keys_in_request, invalid_request, invalid_response, media_type, misframed,
    present,
};
use super::{Done, Malformed, Protocol, Refusal, Request, ResponseReader, Written, unwritable};
use crate::guard::Decision;
use crate::item::{Located, RouteKind};
use crate::names::ToolName;
use crate::provenance::Said;
use crate::settings::{Limits, ModelRoute};

/// Most choices in one response: the API's own limit of `n`.
const MAX_CHOICES: u64 = 128;

/// The adapter.
#[derive(Clone, Debug)]
pub struct OpenAiChat {
    rules: Arc<Rules>,
}

/// How this route's messages are read.
#[derive(Debug)]
struct Rules {
    /// Most bytes of all calls that wait for their ruling.
    held: usize,
    route: ModelRoute,
}

impl OpenAiChat {
    /// An adapter for this route that holds back at most `limits.held` bytes of calls.
    pub fn new(limits: &Limits, route: &ModelRoute) -> Self {
        Self {
            rules: Arc::new(Rules {
                held: limits.held,
                route: route.clone(),
            }),
        }
    }
}

/// A refusal in the API's error shape.
pub fn refuse(refusal: &Refusal) -> http::Response<Bytes> {
    render::refuse(refusal)
}

impl Protocol for OpenAiChat {
    fn name(&self) -> &'static str {
        "openai_chat"
    }

    fn kind(&self) -> RouteKind {
        RouteKind::Model
    }

    fn read(&self, request: &Request) -> Result<Vec<Located>, Malformed> {
        read::items(request, &self.rules)
    }

    fn said(&self, request: &Request) -> Result<Vec<Said>, Malformed> {
        read::said(request, &self.rules)
    }

    fn done(&self, request: &Request, of: &dyn Fn(&ToolName) -> bool) -> Vec<Done> {
        let made = request.json.as_ref().map(read::made);
        made.map_or_else(Vec::new, |made| made.done(&self.rules.route.wrapped, of))
    }

    fn write(&self, request: Request, decision: &Decision) -> Result<Written, Malformed> {
        render::write(request, decision, &self.rules.route)
    }

    fn response(
        &self,
        request: &Request,
        head: &response::Parts,
    ) -> Result<Box<dyn ResponseReader>, Malformed> {
        self.reader(request, head, false)
    }

    fn rendered_response(
        &self,
        request: &Request,
        head: &response::Parts,
    ) -> Result<Box<dyn ResponseReader>, Malformed> {
        self.reader(request, head, true)
    }

    fn session(&self, request: &Request) -> Option<String> {
        conversation(request.json.as_ref()?.root())
    }

    fn canaries(&self) -> Vec<Canary> {
        canaries::canaries(&self.rules.route)
    }

    fn refuse(&self, refusal: &Refusal, _to: Option<&Bytes>) -> http::Response<Bytes> {
        render::refuse(refusal)
    }
}

impl OpenAiChat {
    /// `renders`: a rule asks what clients would fetch or follow in the text.
    fn reader(
        &self,
        request: &Request,
        head: &response::Parts,
        renders: bool,
    ) -> Result<Box<dyn ResponseReader>, Malformed> {
        // A list of models has no calls, and neither has an error.
        let models = routes::endpoint(&request.parts)? == routes::Endpoint::Models;
        if models || !head.status.is_success() {
            return Ok(Box::new(Passed));
        }
        let rules = Arc::clone(&self.rules);
        match media_type(&head.headers).as_deref() {
            Some("text/event-stream") => Ok(Box::new(stream::Reader::new(rules, renders))),
            Some("application/json") => Ok(Box::new(whole::Reader::new(rules, renders))),
            _ => Err(invalid_response(
                "the upstream's content type is neither JSON nor an event stream",
            )),
        }
    }
}
