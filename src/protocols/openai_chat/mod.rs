//! `OpenAI` Chat Completions, as `OpenAI`, Azure, vLLM, Ollama and others speak it.
//!
//! Requests: tool outputs and tool definitions are found and edited in place. Responses, whole or streamed: text goes
//! through at once, a call is held until it is whole and judged, and leaves in one canonical form.

mod call;
mod canaries;
mod read;
mod render;
mod stream;
mod whole;

use bytes::Bytes;
use http::response;

use super::canary::Canary;
use super::passed::Passed;
use super::strict::{
    exact_keys, exact_keys_in_request, invalid_request, invalid_response, media_type, misframed,
    present,
};
use super::{Malformed, Protocol, Refusal, Request, ResponseReader, Written, unwritable};
use crate::guard::Decision;
use crate::item::{Located, RouteKind};
use crate::settings::{Limits, ModelRoute};

/// Most choices in one response: the API's own limit of `n`.
const MAX_CHOICES: u64 = 128;

/// The adapter.
#[derive(Clone, Debug)]
pub struct OpenAiChat {
    route: ModelRoute,
    rules: ReplyRules,
}

/// How responses are read.
#[derive(Clone, Copy, Debug)]
struct ReplyRules {
    /// Most bytes of all calls that wait for their ruling.
    held: usize,
    /// Whether a blocked call leaves a note.
    note: bool,
}

impl OpenAiChat {
    /// An adapter that holds back at most `limits.held` bytes of calls, and with `route.note` leaves fixed words as assistant
    /// text in place of a blocked call.
    pub fn new(limits: &Limits, route: &ModelRoute) -> Self {
        Self {
            route: route.clone(),
            rules: ReplyRules {
                held: limits.held,
                note: route.note,
            },
        }
    }
}

impl Protocol for OpenAiChat {
    fn name(&self) -> &'static str {
        "openai_chat"
    }

    fn kind(&self) -> RouteKind {
        RouteKind::Model
    }

    fn read(&self, request: &Request) -> Result<Vec<Located>, Malformed> {
        read::items(request)
    }

    fn write(&self, request: Request, decision: &Decision) -> Result<Written, Malformed> {
        render::write(request, decision)
    }

    fn response(
        &self,
        _request: &Request,
        head: &response::Parts,
    ) -> Result<Box<dyn ResponseReader>, Malformed> {
        if !head.status.is_success() {
            return Ok(Box::new(Passed));
        }
        match media_type(&head.headers).as_deref() {
            Some("text/event-stream") => Ok(Box::new(stream::Reader::new(self.rules))),
            Some("application/json") => Ok(Box::new(whole::Reader::new(self.rules))),
            _ => Err(invalid_response(
                "the upstream's content type is neither JSON nor an event stream",
            )),
        }
    }

    fn canaries(&self) -> Vec<Canary> {
        canaries::canaries(&self.route)
    }

    fn refuse(&self, refusal: &Refusal, _to: Option<&Bytes>) -> http::Response<Bytes> {
        render::refuse(refusal)
    }
}
