//! `OpenAI` Chat Completions, as `OpenAI`, Azure, vLLM, Ollama and others speak it.
//!
//! Requests: tool outputs and tool definitions are found and edited in place. Responses, whole or streamed: text goes
//! through at once, a call is held until it is whole and judged, and leaves in one canonical form.

mod call;
mod read;
mod render;
mod stream;
mod whole;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, response};

use super::{Frame, Framing, Malformed, Protocol, Refusal, Request, ResponseReader, Step, Written};
use crate::guard::Decision;
use crate::item::{Located, RouteKind};
use crate::settings::Limits;
use crate::wire::json::Node;

/// Most calls in one response.
const MAX_CALLS: usize = 128;

/// Most choices in one response: the API's own limit of `n`.
const MAX_CHOICES: u64 = 128;

/// Code of a response that cannot be read.
const INVALID_RESPONSE: &str = "upstream_invalid_response";

/// The adapter.
#[derive(Clone, Debug)]
pub struct OpenAiChat {
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
    /// An adapter that holds back at most `limits.held` bytes of calls, and with `note` leaves fixed words as assistant
    /// text in place of a blocked call.
    pub const fn new(limits: &Limits, note: bool) -> Self {
        Self {
            rules: ReplyRules {
                held: limits.held,
                note,
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
            return Ok(Box::new(Unjudged));
        }
        match media_type(&head.headers).as_deref() {
            Some("text/event-stream") => Ok(Box::new(stream::Reader::new(self.rules))),
            Some("application/json") => Ok(Box::new(whole::Reader::new(self.rules))),
            _ => Err(invalid_response(
                "the upstream's content type is neither JSON nor an event stream",
            )),
        }
    }

    fn refuse(&self, refusal: &Refusal) -> http::Response<Bytes> {
        render::refuse(refusal)
    }
}

/// An error of the upstream, which has no calls: passed as it came.
struct Unjudged;

impl ResponseReader for Unjudged {
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

/// Type and subtype, lower case, without parameters.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next()?;
    Some(essence.trim().to_ascii_lowercase())
}

fn invalid_request(pointer: &str, what: &str) -> Malformed {
    Malformed {
        code: "invalid_request",
        message: format!("`{pointer}` {what}"),
    }
}

fn invalid_response(message: impl Into<String>) -> Malformed {
    Malformed {
        code: INVALID_RESPONSE,
        message: message.into(),
    }
}

fn misframed() -> Malformed {
    invalid_response("the response was cut into the wrong kind of frames")
}

/// What is there and not `null`.
fn present<'d>(object: &'d Node, key: &str) -> Option<&'d Node> {
    object.get(key).filter(|node| !node.is_null())
}

/// The first of `known` that another reader could see in a key that is not it: in other case (Go), or with a NUL behind it.
fn lookalike<'k>(object: &Node, known: &[&'k str]) -> Option<&'k str> {
    object.members().iter().find_map(|member| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        if member.key.bytes().all(plain) {
            return None;
        }
        let folded: String = member
            .key
            .chars()
            .filter(|c| !c.is_control())
            .flat_map(char::to_lowercase)
            .map(|c| if c == 'ſ' { 's' } else { c })
            .collect();
        known.iter().copied().find(|known| *known == folded)
    })
}

fn exact_keys(object: &Node, known: &[&str]) -> Result<(), Malformed> {
    match lookalike(object, known) {
        Some(key) => Err(invalid_response(format!(
            "the response has a key that some readers take for `{key}`"
        ))),
        None => Ok(()),
    }
}
