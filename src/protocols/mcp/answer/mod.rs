//! What a server sends: one JSON message, or a stream of them. A message leaves when it is judged, in the order it came.

mod coded;
mod find;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use find::Finder;
pub(super) use find::is_response;

use super::asked::{Conversations, Key, Question};
use super::endpoint::Bases;
use super::message::id_text;
use super::schemas::Schemas;
use crate::guard::Decision;
use crate::item::{Item, Located, Origin, Place, ToolOutput, keep_sources};
use crate::protocols::strict::{invalid_response, misframed};
use crate::protocols::{
    Event, Frame, Framing, Malformed, ResponseReader, Step, Unjudged, note, unwritable,
};
use crate::unscanned::Unscanned;
use crate::verdict::Verdict;
use crate::wire::json::{BODY_DEPTH, Document, Kind, Node};
use crate::wire::sse::encode;

/// Which bodies an answer may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// Server-sent events with JSON-RPC messages.
    Events,
    /// One JSON-RPC message.
    Message,
    /// Any JSON: an error of something before the server.
    Json,
    /// Anything that can be read as text.
    Text,
    /// Nothing.
    Empty,
}

/// What is known of an answer before it comes.
pub(super) struct Expected {
    pub(super) body: Body,
    /// What was asked with the request itself, and under which id.
    pub(super) asked: Option<(Arc<str>, Question)>,
    /// The conversation, where there is one.
    pub(super) key: Option<Key>,
    pub(super) conversations: Arc<Conversations>,
    pub(super) schemas: Arc<Schemas>,
    /// Where the stream was asked for, if it may announce an endpoint.
    pub(super) stream: Option<(Arc<Bases>, http::Uri)>,
    /// Nothing is awaited: the stream may be silent.
    pub(super) endless: bool,
}

/// Reads an answer.
pub(super) struct Reader {
    expected: Expected,
    held: Option<Held>,
    /// The answer to the request has come: whether it is a result that is no error.
    answered: Option<bool>,
    /// An event had an id: the client may come back for what follows.
    resumable: bool,
    /// The conversation that this stream has opened, and that ends with it.
    opened: Option<Key>,
    /// Something has come.
    begun: bool,
    /// Bytes so far that no text can be made of.
    binary: usize,
}

/// A document with what its messages answer.
pub(super) struct Content {
    pub(super) document: Document,
    /// One per message; `None`: the document is no JSON-RPC.
    questions: Option<Vec<Option<Question>>>,
}

enum Held {
    Json(Option<Event>, Content),
    Text(Option<Event>, Bytes, Arc<str>),
}

/// The messages of a document: some revisions let a server send several at once.
pub(super) fn messages(document: &Document) -> Vec<&Node> {
    match &document.root().kind {
        Kind::Array(elements) => elements.iter().collect(),
        _ => vec![document.root()],
    }
}

impl Content {
    fn find(&self) -> Result<Finder<'_>, Malformed> {
        let mut finder = Finder::default();
        let root = self.document.root();
        let Some(questions) = &self.questions else {
            finder.plain(root);
            return Ok(finder);
        };
        let several = matches!(root.kind, Kind::Array(_));
        for (index, node) in messages(&self.document).into_iter().enumerate() {
            let mut pointer = if several {
                format!("/{index}")
            } else {
                String::new()
            };
            let question = questions.get(index).and_then(Option::as_ref);
            finder.message(&self.document, index, node, question, &mut pointer)?;
        }
        Ok(finder)
    }

    /// The items, and how many bytes are binary.
    fn items(&self) -> Result<(Vec<Located>, usize), Malformed> {
        let finder = self.find()?;
        let found = finder.texts.finish("upstream_too_large")?;
        let mut items: Vec<_> = found.into_iter().map(|found| found.located).collect();
        keep_sources(&mut items, self.document.bytes());
        Ok((items, finder.binary))
    }
}

impl Reader {
    pub(super) const fn new(expected: Expected) -> Self {
        Self {
            expected,
            held: None,
            answered: None,
            resumable: false,
            opened: None,
            begun: false,
            binary: 0,
        }
    }

    /// What a message answers. The answer to the request itself is told by its id, any other by the conversation.
    fn question(&mut self, document: &Document, node: &Node) -> Option<Question> {
        if !is_response(node) {
            return None;
        }
        let id = id_text(document, node.get("id")?)?;
        let noted = self
            .expected
            .key
            .as_ref()
            .and_then(|key| self.expected.conversations.answered(key, &id));
        match &self.expected.asked {
            Some((asked, question)) if *asked == id => {
                self.answered = Some(is_done(node));
                Some(question.clone())
            }
            _ => noted,
        }
    }

    fn json(&mut self, event: Option<Event>, bytes: Bytes, rpc: bool) -> Result<Step, Malformed> {
        let document = Document::read(bytes, BODY_DEPTH).map_err(|error| {
            invalid_response(format!("the server's message is not strict JSON: {error}"))
        })?;
        let questions = if rpc {
            let nodes = messages(&document);
            let questions: Vec<_> = nodes
                .into_iter()
                .map(|node| self.question(&document, node))
                .collect();
            for (node, question) in messages(&document).into_iter().zip(&questions) {
                if question
                    .as_ref()
                    .is_some_and(|q| &*q.method == "tools/list")
                    && let Some(result) = node.get("result")
                {
                    self.expected.schemas.learn(result);
                }
            }
            if let [
                Some(Question {
                    instead: Some(instead),
                    ..
                }),
            ] = questions.as_slice()
            {
                let send = vec![written(event, instead.clone())?];
                let judge = Vec::new();
                return Ok(Step { send, judge });
            }
            Some(questions)
        } else {
            None
        };
        let content = Content {
            document,
            questions,
        };
        let (judge, binary) = content.items()?;
        self.binary += binary;
        if judge.is_empty() {
            let send = vec![written(event, content.document.bytes().clone())?];
            return Ok(Step { send, judge });
        }
        self.held = Some(Held::Json(event, content));
        Ok(Step {
            send: Vec::new(),
            judge,
        })
    }

    /// Bytes that are not UTF-8 are judged as a lenient reader shows them.
    fn text(&mut self, event: Option<Event>, bytes: Bytes) -> Step {
        let text: Arc<str> = String::from_utf8_lossy(&bytes).into();
        let judge = vec![Located {
            place: Place {
                pointer: String::new(),
                span: Some(0..bytes.len()),
            },
            item: Item::ToolOutput(ToolOutput {
                tool: None,
                call_id: None,
                origin: Origin::Tool,
                text: Arc::clone(&text),
            }),
        }];
        self.held = Some(Held::Text(event, bytes, text));
        Step {
            send: Vec::new(),
            judge,
        }
    }

    fn event(&mut self, mut event: Event) -> Result<Step, Malformed> {
        self.resumable |= event.id.is_some();
        let first = !std::mem::replace(&mut self.begun, true);
        let data = event.data.take().filter(|data| !data.is_empty());
        let Some(data) = data else {
            // It primes the client for a resumption.
            event.data = Some(String::new());
            let send = vec![encode(event).map_err(|error| invalid_response(error.to_string()))?];
            return Ok(Step {
                send,
                judge: Vec::new(),
            });
        };
        match event.event.as_deref() {
            None | Some("message" | "") => self.json(Some(event), data.into(), true),
            Some("endpoint") => self.endpoint(event, &data, first),
            // Some clients read any event as a message.
            Some(_) => match Document::read(data.clone().into(), BODY_DEPTH) {
                Ok(document) if messages(&document).into_iter().all(find::is_message) => {
                    self.json(Some(event), data.into(), true)
                }
                Ok(_) => self.json(Some(event), data.into(), false),
                Err(_) => Ok(self.text(Some(event), data.into())),
            },
        }
    }

    /// The server says where messages are to be posted: the client is told the proxy's own place for it.
    fn endpoint(&mut self, event: Event, data: &str, first: bool) -> Result<Step, Malformed> {
        let Some((bases, stream)) = self.expected.stream.as_ref().filter(|_| first) else {
            return Err(invalid_response(
                "an endpoint is announced where no client expects it",
            ));
        };
        let announced = bases.announced(stream, data)?;
        let key = Key::Endpoint(announced.below.into());
        self.expected.conversations.open(&key);
        self.expected.key = Some(key.clone());
        self.opened = Some(key);
        Ok(Step {
            send: vec![written(Some(event), announced.shown.into())?],
            judge: Vec::new(),
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(key) = &self.opened {
            self.expected.conversations.close(key);
        }
    }
}

/// Whether the response is a result that does not call itself an error.
fn is_done(response: &Node) -> bool {
    let result = response.get("result");
    let error = |result: &Node| {
        result
            .get("isError")
            .map(|error| error.kind == Kind::Bool(true))
    };
    result.is_some_and(|result| error(result) != Some(true))
}

/// The body itself, or the event around it.
fn written(event: Option<Event>, body: Bytes) -> Result<Bytes, Malformed> {
    let Some(mut event) = event else {
        return Ok(body);
    };
    let data = String::from_utf8(body.to_vec()).map_err(|_| unwritable())?;
    event.data = Some(data);
    encode(event).map_err(|error| invalid_response(error.to_string()))
}

impl ResponseReader for Reader {
    fn is_done(&self) -> bool {
        self.answered == Some(true)
    }

    fn framing(&self) -> Framing {
        match self.expected.body {
            Body::Events => Framing::Events,
            _ => Framing::Whole,
        }
    }

    fn push(&mut self, frame: Frame) -> Result<Step, Malformed> {
        let bytes = match (frame, self.expected.body) {
            (Frame::Event(event), Body::Events) => return self.event(event),
            (Frame::Event(_), _) | (_, Body::Events) => return Err(misframed()),
            (Frame::Whole(bytes), _) => bytes,
        };
        if bytes.is_empty() {
            return Ok(Step {
                send: vec![bytes],
                judge: Vec::new(),
            });
        }
        match self.expected.body {
            Body::Message => self.json(None, bytes, true),
            Body::Json => {
                let document = Document::read(bytes.clone(), BODY_DEPTH);
                let rpc = document
                    .is_ok_and(|document| messages(&document).into_iter().all(find::is_message));
                self.json(None, bytes, rpc)
            }
            Body::Text => Ok(self.text(None, bytes)),
            Body::Empty | Body::Events => Err(invalid_response(
                "the server's answer is neither JSON nor an event stream",
            )),
        }
    }

    fn resolve(&mut self, decision: &Decision) -> Result<Vec<Bytes>, Malformed> {
        match self.held.take().ok_or_else(unwritable)? {
            Held::Json(event, content) => {
                let body = write::write(&content, &decision.rulings)?;
                Ok(vec![written(event, body)?])
            }
            Held::Text(event, bytes, text) => {
                let ruling = decision.rulings.first().ok_or_else(unwritable)?;
                let body = match &ruling.verdict {
                    Verdict::Allow => bytes,
                    // To clean the text of bytes that are none would break them.
                    Verdict::Rewrite(rewrite)
                        if rewrite.says_all() && text.as_bytes() != &bytes[..] =>
                    {
                        bytes
                    }
                    Verdict::Deny(finding) => note::withheld(finding.reason).into(),
                    Verdict::Rewrite(rewrite) => {
                        rewrite.apply(&text).ok_or_else(unwritable)?.into()
                    }
                    Verdict::Hold(_) => return Err(unwritable()),
                };
                Ok(vec![written(event, body)?])
            }
        }
    }

    fn finish(&mut self) -> Result<Step, Malformed> {
        let stream = self.expected.body == Body::Events;
        let missing = stream && self.expected.asked.is_some() && self.answered.is_none();
        if self.held.is_some() || (missing && !self.resumable && !self.expected.endless) {
            return Err(invalid_response(
                "the server's stream ended before its answer",
            ));
        }
        Ok(Step::default())
    }

    fn unjudged(&self) -> Unjudged {
        Unjudged::of(Unscanned::Binary, self.binary)
    }

    fn held(&self) -> usize {
        match &self.held {
            Some(Held::Json(_, content)) => content.document.bytes().len(),
            Some(Held::Text(_, bytes, _)) => bytes.len(),
            None => 0,
        }
    }

    fn is_answered(&self) -> Option<bool> {
        let asks = self.expected.body == Body::Events && self.expected.asked.is_some();
        asks.then_some(self.answered.is_some())
    }

    fn is_endless(&self) -> bool {
        self.expected.endless
    }
}
