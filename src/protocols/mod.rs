//! Wire protocols. An adapter finds the items in a message and writes the rulings back. It never judges.

pub mod anthropic_messages;
pub mod calls;
pub mod canary;
pub mod conversation;
pub mod edited;
pub mod endpoint;
pub mod fates;
pub mod http_tools;
pub mod mcp;
pub mod note;
pub mod object;
pub mod openai_chat;
pub mod passed;
mod refusal;
pub mod rendered;
pub mod strict;
pub mod texts;
pub mod unjudged;
pub mod untrusted;
mod wish;
pub mod wrapped;

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
pub use refusal::Refusal;
pub use unjudged::Unjudged;

use crate::guard::{Decision, Receipt};
use crate::item::{Arguments, Located, RouteKind};
use crate::names::ToolName;
use crate::provenance::Said;
use crate::wire::json::Document;

/// Most texts of one message: each costs a verdict, many times the memory of the few bytes it may have.
pub const MOST_TEXTS: usize = 1 << 17;

/// A request, whole, decoded and bounded.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method, URI and headers as they came; the URI's path is below the route's prefix.
    pub parts: http::request::Parts,
    /// The body without content encoding.
    pub body: Bytes,
    /// The body as strict JSON, where the content type is JSON and the body is not empty.
    pub json: Option<Document>,
}

/// Why a message cannot be read or written. Becomes 400 (request) or 502 (response); never passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Malformed {
    /// Closed code, listed in `docs/reference/errors.md`.
    pub code: &'static str,
    /// One line for the peer: names the field and what to do, never holds payload text.
    pub message: String,
}

/// A ruling that does not fit the message it is about.
pub fn unwritable() -> Malformed {
    Malformed {
        code: "ruling_unwritable",
        message: "a ruling does not fit the message it is about".to_owned(),
    }
}

/// A request after the rulings.
#[derive(Debug)]
pub enum Written {
    /// Send this: edited where ruled, in its stored canonical form where a ticket is redeemed.
    Forward(Request),
    /// Send nothing, answer with this.
    Refuse(Refusal),
    /// Send nothing: the answer asks the agent's user, which stands for this refusal.
    Ask(http::Response<Bytes>, Refusal),
    /// Done before: answer with the receipt.
    Replay(Receipt),
}

/// How a response body comes in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One frame: the whole body.
    Whole,
    /// Server-sent events.
    Events,
}

/// One server-sent event (WHATWG HTML section 9.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// `event:`.
    pub event: Option<String>,
    /// `data:` lines joined by newline.
    pub data: Option<String>,
    /// `id:`.
    pub id: Option<String>,
    /// `retry:` in milliseconds.
    pub retry: Option<u64>,
}

/// One frame of a response.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// The whole body, decoded.
    Whole(Bytes),
    /// One event.
    Event(Event),
}

/// What a frame gives.
#[derive(Debug, Default)]
pub struct Step {
    /// Encoded bytes that may leave at once, in order, before anything that is judged.
    pub send: Vec<Bytes>,
    /// Items that are now whole. Where there are any, [`ResponseReader::resolve`] is called before the next frame.
    pub judge: Vec<Located>,
}

/// Reads one response, frame by frame: the unstreamed one has a single frame. Holds back what is not judged yet.
pub trait ResponseReader: Send {
    /// How the body is to be cut into frames.
    fn framing(&self) -> Framing;

    /// Takes the next frame.
    ///
    /// # Errors
    /// What is not valid in this protocol, or more held back than `limits` allow: the response is aborted.
    fn push(&mut self, frame: Frame) -> Result<Step, Malformed>;

    /// Writes the rulings over the items of the last step, and gives the bytes that may now leave.
    ///
    /// # Errors
    /// A ruling that cannot be written in this protocol.
    fn resolve(&mut self, decision: &Decision) -> Result<Vec<Bytes>, Malformed>;

    /// The body has ended.
    ///
    /// # Errors
    /// It ended early: what is held is dropped and the client's connection is aborted as the upstream's was.
    fn finish(&mut self) -> Result<Step, Malformed>;

    /// What may be sent between two pieces of an event stream while nothing else leaves, so that nobody on the way takes the
    /// stream for dead: a comment, unless the protocol's clients want something else.
    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(b": keep-alive\n\n")
    }

    /// Bytes that it holds back until they are ruled, as far as they are not few.
    fn held(&self) -> usize {
        0
    }

    /// What of the body so far passed without a text that could be judged.
    fn unjudged(&self) -> Unjudged {
        Unjudged::default()
    }

    /// Which items of the last step are calls that stand or fall together: what is left of such a group without one of them
    /// would not be taken back.
    fn together(&self) -> Vec<Range<usize>> {
        Vec::new()
    }

    /// Whether the answer to the request itself has come; `None` where nothing else can come with it.
    fn is_answered(&self) -> Option<bool> {
        None
    }

    /// Whether the answer says that what was asked is done. Asked at the end of an answer whose status is no error.
    fn is_done(&self) -> bool {
        true
    }

    /// Whether the stream may stand still for as long as it likes: nothing is awaited on it.
    fn is_endless(&self) -> bool {
        false
    }
}

/// A call whose output an agent has seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The tool.
    pub tool: ToolName,
    /// Its arguments, as they came.
    pub raw: Bytes,
}

impl Done {
    /// Whether it is the same act: the same tool, and arguments of the same value.
    pub fn is(&self, tool: &ToolName, args: &Arguments) -> bool {
        self.tool == *tool
            && Arguments::read(self.raw.clone())
                .is_ok_and(|own| own.exact && own.value == args.value)
    }
}

/// Signs of life for a client whose request waits. Each is a whole event.
pub trait Signs: Send {
    /// The next one.
    fn next(&mut self) -> Bytes;
}

/// One wire protocol.
pub trait Protocol: Send + Sync {
    /// Label in metrics and config.
    fn name(&self) -> &'static str;

    /// Kind of upstream.
    fn kind(&self) -> RouteKind;

    /// The messages of a request that has several, as requests of their own: each is judged and sent by itself.
    ///
    /// # Errors
    /// Messages that cannot come together.
    fn several(&self, _request: &Request) -> Result<Option<Vec<Request>>, Malformed> {
        Ok(None)
    }

    /// The answers to such messages as one.
    fn joined(&self, _answers: &[http::Response<Bytes>]) -> http::Response<Bytes> {
        http::Response::new(Bytes::new())
    }

    /// Takes out of a request what is for the proxy alone, such as what an agent sends back of a question that the proxy asked.
    /// Before anything else is read; the principal stands in the request's extensions.
    ///
    /// # Errors
    /// What is not the proxy's own, or not for this caller.
    fn admit(&self, request: Request) -> Result<Request, Malformed> {
        Ok(request)
    }

    /// Finds what to judge in a request. Default deny: an endpoint that is not understood is malformed.
    ///
    /// # Errors
    /// What is not valid in this protocol.
    fn read(&self, request: &Request) -> Result<Vec<Located>, Malformed>;

    /// Who said what in a request that `read` takes, in message order: nothing of it is judged, but calls are judged by it.
    ///
    /// # Errors
    /// Those of `read`.
    fn said(&self, _request: &Request) -> Result<Vec<Said>, Malformed> {
        Ok(Vec::new())
    }

    /// Writes the decision over the items that `read` found, in the same order.
    ///
    /// # Errors
    /// A ruling that cannot be written.
    fn write(&self, request: Request, decision: &Decision) -> Result<Written, Malformed>;

    /// Whether a held call of this request has the agent's user asked in the answer, so that nobody waits before it.
    fn asks(&self, _request: &Request, _decision: &Decision) -> bool {
        false
    }

    /// How long the agent waits for an answer to the request's ticket, also where no rule says so: its user has just been asked.
    fn patience(&self, _request: &Request) -> Option<Duration> {
        None
    }

    /// How a client is told that its request waits; `None` where it can only be left waiting.
    fn signs(&self, _request: &Request) -> Option<Box<dyn Signs>> {
        None
    }

    /// Calls of the tools that `of` names whose outputs the request already has: the conversation has seen what came of them.
    /// What cannot be read is left out.
    fn done(&self, _request: &Request, _of: &dyn Fn(&ToolName) -> bool) -> Vec<Done> {
        Vec::new()
    }

    /// How to read the answer to this (written) request.
    ///
    /// # Errors
    /// A response head that cannot belong to this protocol.
    fn response(
        &self,
        request: &Request,
        head: &http::response::Parts,
    ) -> Result<Box<dyn ResponseReader>, Malformed>;

    /// As [`Protocol::response`], where a rule asks what clients would fetch or follow in a model's text: pieces of that text are
    /// items too.
    ///
    /// # Errors
    /// As [`Protocol::response`].
    fn rendered_response(
        &self,
        request: &Request,
        head: &http::response::Parts,
    ) -> Result<Box<dyn ResponseReader>, Malformed> {
        self.response(request, head)
    }

    /// What a refusal of this request must name, such as the id of a JSON-RPC request, as JSON text.
    fn address(&self, _request: &Request) -> Option<Bytes> {
        None
    }

    /// Messages with a mark in every place where this protocol has content, as this route is set up.
    fn canaries(&self) -> Vec<canary::Canary> {
        Vec::new()
    }

    /// What of the body passes without a text that could be judged, besides these items.
    fn unjudged(&self, request: &Request, items: &[Located]) -> Unjudged {
        let document = request.json.as_ref();
        document.map_or_else(Unjudged::default, |d| Unjudged::below(d.root(), items))
    }

    /// The session that the protocol itself knows of, where no header of the config names one. It is scoped to the principal.
    fn session(&self, _request: &Request) -> Option<String> {
        None
    }

    /// The upstream's own session that the request uses: only who opened it may.
    fn uses(&self, _request: &Request) -> Option<String> {
        None
    }

    /// The upstream's own session that this answer opens.
    fn opens(&self, _headers: &http::HeaderMap) -> Option<String> {
        None
    }

    /// A stored answer as the answer to this request.
    fn replayed(&self, _request: &Request, receipt: Receipt) -> Receipt {
        receipt
    }

    /// Renders a refusal in the protocol's own error shape. `to`: what [`Protocol::address`] gave, where the request was read.
    fn refuse(&self, refusal: &Refusal, to: Option<&Bytes>) -> http::Response<Bytes>;
}
