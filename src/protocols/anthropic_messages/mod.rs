//! Anthropic Messages, in both of its versions: `2023-06-01` and `2026-10-21`.
//!
//! Requests: whatever a tool, a document or a server gave is found at any depth and edited in place; tools that the provider
//! runs by itself are items too. Responses, whole or streamed: text goes through at once, a call is held until its block
//! ends and is judged, and leaves in one canonical form. Where a rule asks for it, what text would make a client fetch or follow
//! is held and judged as well. Calls behind signed reasoning stand or fall together: the provider
//! takes such a turn back only as it was.

mod blocks;
mod call;
mod canaries;
mod events;
mod made;
mod read;
mod render;
mod seal;
mod stream;
mod tools;
mod whole;

use std::sync::Arc;

use bytes::Bytes;
use http::response;

use super::canary::Canary;
use super::conversation::conversation;
use super::passed::Passed;
use super::strict::{invalid_response, media_type};
use super::{Done, Malformed, Protocol, Refusal, Request, ResponseReader, Written};
use crate::guard::Decision;
use crate::item::{Located, RouteKind};
use crate::names::ToolName;
use crate::provenance::Said;
use crate::settings::{Limits, ModelRoute, Untrusted, Wrapped};

/// The adapter.
#[derive(Clone, Debug)]
pub struct AnthropicMessages {
    untrusted: Untrusted,
    reply: Reply,
}

/// How responses are read.
#[derive(Clone, Debug)]
struct Reply {
    /// Most bytes of all calls that wait for their ruling, and of what waits behind them.
    held: usize,
    /// Whether a blocked call leaves a note.
    note: bool,
    /// Calls that carry another call.
    wrapped: Arc<[Wrapped]>,
}

impl AnthropicMessages {
    /// An adapter that holds back at most `limits.held` bytes of calls, and with `route.note` leaves fixed words as a text
    /// block in place of a blocked call.
    pub fn new(limits: &Limits, route: &ModelRoute) -> Self {
        Self {
            untrusted: route.untrusted.clone(),
            reply: Reply {
                held: limits.held,
                note: route.note,
                wrapped: route.wrapped.clone().into(),
            },
        }
    }
}

impl Protocol for AnthropicMessages {
    fn name(&self) -> &'static str {
        "anthropic_messages"
    }

    fn kind(&self) -> RouteKind {
        RouteKind::Model
    }

    fn read(&self, request: &Request) -> Result<Vec<Located>, Malformed> {
        read::items(request, &self.untrusted)
    }

    fn said(&self, request: &Request) -> Result<Vec<Said>, Malformed> {
        read::said(request, &self.untrusted)
    }

    fn done(&self, request: &Request, of: &dyn Fn(&ToolName) -> bool) -> Vec<Done> {
        let made = request.json.as_ref().map(made::made);
        made.map_or_else(Vec::new, |made| made.done(&self.reply.wrapped, of))
    }

    fn write(&self, request: Request, decision: &Decision) -> Result<Written, Malformed> {
        render::write(request, decision, &self.untrusted)
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
        canaries::canaries(&self.untrusted)
    }

    fn refuse(&self, refusal: &Refusal, _to: Option<&Bytes>) -> http::Response<Bytes> {
        render::refuse(refusal)
    }
}

impl AnthropicMessages {
    /// `renders`: a rule asks what clients would fetch or follow in the text.
    fn reader(
        &self,
        request: &Request,
        head: &response::Parts,
        renders: bool,
    ) -> Result<Box<dyn ResponseReader>, Malformed> {
        if !head.status.is_success() {
            return Ok(Box::new(Passed));
        }
        let endpoint = read::endpoint(&request.parts)?;
        let reply = self.reply.clone();
        match media_type(&head.headers).as_deref() {
            Some("text/event-stream") => Ok(Box::new(stream::Reader::new(reply, renders))),
            Some("application/json") => Ok(Box::new(whole::Reader::new(reply, endpoint, renders))),
            _ => Err(invalid_response(
                "the upstream's content type is neither JSON nor an event stream",
            )),
        }
    }
}
