//! The Model Context Protocol over HTTP: Streamable HTTP of 2025-03-26, 2025-06-18 and 2025-11-25 with its sessions, the
//! stateless 2026-07-28, and HTTP with SSE (2024-11-05).
//!
//! A call is judged before it leaves, whatever its method; everything that a server says is untrusted, whatever its kind.

mod answer;
mod asked;
mod asking;
mod batch;
mod call;
mod canaries;
mod endpoint;
mod headers;
mod message;
mod render;
mod schemas;
mod signs;

use std::sync::Arc;
use std::time::Duration;

use answer::{Body, Expected, Reader};
use asked::{Conversations, Key, Question};
use bytes::Bytes;
use endpoint::{Bases, Way};
use http::{StatusCode, Uri, response};
use message::{Message, document, id_text};
use render::Address;
use schemas::Schemas;
use signs::Waits;

use super::canary::Canary;
use super::strict::invalid_response;
use super::{
    Malformed, Protocol, Refusal, Request, ResponseReader, Signs, Unjudged, Written, unwritable,
};
use crate::guard::{Decision, Receipt};
use crate::item::{Item, Located, RouteKind};
use crate::names::ToolName;
use crate::settings::{McpRoute, Wrapped};
use crate::verdict::Verdict;
use crate::wire::json::{BODY_DEPTH, Document};
use crate::wire::media::{Media, media};
use crate::wire::seal::Sealer;

/// The adapter of one route.
#[derive(Clone, Debug)]
pub struct Mcp {
    route: McpRoute,
    bases: Option<Arc<Bases>>,
    conversations: Arc<Conversations>,
    schemas: Arc<Schemas>,
    /// Seals what clients carry between a question to their user and its answer.
    sealer: Option<Arc<Sealer>>,
}

/// What the client's message is, read once.
struct Sent<'d> {
    document: &'d Document,
    message: Message<'d>,
    asked: Option<call::Asked<'d>>,
}

impl Mcp {
    /// An adapter for the route at `prefix`, with an upstream at this URL.
    pub fn new(route: &McpRoute, prefix: &str, upstream: Option<&Uri>) -> Self {
        Self {
            route: route.clone(),
            bases: upstream
                .and_then(|url| Bases::new(prefix, url))
                .map(Arc::new),
            conversations: Arc::default(),
            schemas: Arc::default(),
            sealer: None,
        }
    }

    /// The same, which asks users with states that are sealed so.
    #[must_use]
    pub fn sealing(self, sealer: Arc<Sealer>) -> Self {
        Self {
            sealer: Some(sealer),
            ..self
        }
    }

    /// Whom an answer to this request must name.
    fn addressed(&self, request: &Request) -> Option<Address> {
        let document = request.json.as_ref()?;
        let root = document.root();
        let id = root.get("id")?;
        id_text(document, id)?;
        let message = Message::read(document).ok();
        let tool = match &message {
            Some(Message::Request {
                method: "tools/call",
                params,
                ..
            }) => Some(params.and_then(|params| params.get("name")?.as_str())),
            _ => None,
        };
        Some(Address {
            id: document.raw(id),
            call: tool.is_some(),
            structured: tool
                .flatten()
                .is_some_and(|tool| self.schemas.has_none(tool)),
            modern: message
                .is_some_and(|message| headers::modern(&request.parts.headers, &message)),
        })
    }

    /// The conversation whose messages are posted to this path, where a server has announced it.
    fn announced(&self, request: &Request) -> Option<Key> {
        let key = Key::Endpoint(endpoint::target(&request.parts.uri));
        self.conversations.has(&key).then_some(key)
    }

    fn way(&self, request: &Request) -> Result<Way, Malformed> {
        let parts = &request.parts;
        let announced = self.announced(request).is_some();
        Way::of(&parts.method, &parts.uri, &parts.headers, announced)
    }

    /// `None` for what is no message.
    fn sent<'d>(&self, request: &'d Request) -> Result<Option<Sent<'d>>, Malformed> {
        if self.way(request)? != Way::Post {
            headers::single(&request.parts.headers)?;
            if request.body.is_empty() {
                return Ok(None);
            }
            return Err(Malformed {
                code: "invalid_request",
                message: "only POST has a body".to_owned(),
            });
        }
        let document = document(request)?;
        let message = Message::read(document)?;
        headers::check(&request.parts.headers, &message)?;
        let asked = call::asked(&message)?;
        Ok(Some(Sent {
            document,
            message,
            asked,
        }))
    }

    /// The conversation of a request, where it has one.
    fn key(&self, request: &Request) -> Option<Key> {
        self.announced(request)
            .or_else(|| headers::session(&request.parts.headers).map(|id| Key::Session(id.into())))
    }

    /// Notes what is asked, for an answer that comes elsewhere.
    fn note(&self, request: &Request, instead: Option<Bytes>) -> Result<(), Malformed> {
        let Some(key) = self.key(request) else {
            return Ok(());
        };
        if request.parts.method == http::Method::DELETE {
            self.conversations.close(&key);
        }
        if let Some(sent) = self.sent(request)?
            && let Some((id, question)) = sent.question(request, &self.route.wrapped)
        {
            let question = Question {
                instead,
                ..question
            };
            self.conversations.ask(&key, id, question);
        }
        Ok(())
    }

    /// What becomes of a message whose call is not to be carried out.
    fn refused(
        &self,
        mut request: Request,
        refusal: Refusal,
        receipt: Option<Receipt>,
    ) -> Result<Written, Malformed> {
        let address = self.addressed(&request).ok_or_else(unwritable)?;
        let answers = matches!(
            self.sent(&request)?.map(|sent| sent.message),
            Some(Message::Response { .. })
        );
        let body = if answers {
            render::withheld_answer(&refusal, &address.id)
        } else if self.announced(&request).is_some() {
            // The answer is awaited on the stream: the server is asked for something that changes nothing, and what it says
            // to that is replaced.
            let instead = match &receipt {
                Some(receipt) => render::done_before(receipt, &address),
                None => render::message(&refusal, Some(&address)),
            };
            self.note(&request, Some(instead))?;
            render::ping(&address.id)
        } else {
            return Ok(match receipt {
                Some(receipt) => Written::Replay(receipt),
                None => Written::Refuse(refusal),
            });
        };
        request.json = Some(Document::read(body.clone(), BODY_DEPTH).map_err(|_| unwritable())?);
        request.body = body;
        Ok(Written::Forward(request))
    }
}

impl Sent<'_> {
    fn question(&self, request: &Request, wrapped: &[Wrapped]) -> Option<(Arc<str>, Question)> {
        let Message::Request { id, method, .. } = self.message else {
            return None;
        };
        let tool = self.asked.as_ref().filter(|_| method == "tools/call");
        let tool = tool.map(|asked| {
            let carries = wrapped.iter().any(|rule| rule.tool.as_str() == asked.tool);
            // The output is one of the tool whose call was judged.
            match carries.then(|| asked.located(request, self.document, wrapped).item) {
                Some(Item::ToolCall(call)) => call.tool,
                _ => ToolName::from(asked.tool),
            }
        });
        let question = Question {
            method: method.into(),
            tool,
            modern: headers::modern(&request.parts.headers, &self.message),
            instead: None,
        };
        Some((id_text(self.document, id)?, question))
    }
}

impl Protocol for Mcp {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn kind(&self) -> RouteKind {
        RouteKind::Mcp
    }

    fn several(&self, request: &Request) -> Result<Option<Vec<Request>>, Malformed> {
        // Where answers come on another stream there is none that they could be joined in.
        if request.parts.method != http::Method::POST || self.announced(request).is_some() {
            return Ok(None);
        }
        batch::several(request)
    }

    fn joined(&self, answers: &[http::Response<Bytes>]) -> http::Response<Bytes> {
        batch::joined(answers)
    }

    fn admit(&self, request: Request) -> Result<Request, Malformed> {
        self.taken_back(message::own_taken(request)?)
    }

    fn asks(&self, request: &Request, decision: &Decision) -> bool {
        self.asks_user(request, decision)
    }

    fn patience(&self, request: &Request) -> Option<Duration> {
        Self::patience_of(request)
    }

    fn signs(&self, request: &Request) -> Option<Box<dyn Signs>> {
        let message = Message::read(request.json.as_ref()?).ok()?;
        let accepts = request.parts.headers.get_all(http::header::ACCEPT).iter();
        let mut accepts = accepts.filter_map(|value| value.to_str().ok());
        let takes_events = accepts.any(|value| value.contains("text/event-stream"));
        if !takes_events || self.announced(request).is_some() {
            return None;
        }
        let Message::Request { .. } = message else {
            return None;
        };
        let document = request.json.as_ref()?;
        let token = message.progress().map(|token| document.raw(token));
        Some(Box::new(Waits::new(token)))
    }

    fn read(&self, request: &Request) -> Result<Vec<Located>, Malformed> {
        let sent = self.sent(request)?;
        let located = sent.and_then(|sent| {
            let asked = sent.asked?;
            Some(asked.located(request, sent.document, &self.route.wrapped))
        });
        Ok(located.into_iter().collect())
    }

    fn write(&self, mut request: Request, decision: &Decision) -> Result<Written, Malformed> {
        if let Some(ruling) = decision.rulings.first() {
            if matches!(ruling.verdict, Verdict::Rewrite(_)) {
                return Err(unwritable());
            }
            if let Some((finding, hold)) = decision.objection(0, ruling) {
                let refusal = Refusal::of(finding, hold);
                if let Some(answer) = self.asking(&request, &refusal)? {
                    return Ok(Written::Ask(answer, refusal));
                }
                return self.refused(request, refusal, None);
            }
            if let Some((_, receipt)) = decision.receipts.first() {
                let refusal = render::already_done(receipt);
                return self.refused(request, refusal, Some(receipt.clone()));
            }
            if let Some((_, claim)) = decision.claims.first() {
                call::bound(&mut request, claim.arguments(), &self.route.wrapped)?;
            }
        }
        self.note(&request, None)?;
        Ok(Written::Forward(request))
    }

    fn response(
        &self,
        request: &Request,
        head: &response::Parts,
    ) -> Result<Box<dyn ResponseReader>, Malformed> {
        let status = head.status;
        if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
            return Err(invalid_response(
                "the server redirects, which would lead the client past the proxy: configure the URL it redirects to",
            ));
        }
        let media = media(&head.headers)
            .map_err(|_| invalid_response("the server's answer is not in UTF-8"))?;
        let way = self.way(request)?;
        let sent = self.sent(request)?;
        let asked = sent.and_then(|sent| sent.question(request, &self.route.wrapped));
        let body = match media {
            Media::Events => Body::Events,
            Media::Json if status.is_success() && asked.is_some() => Body::Message,
            Media::Json => Body::Json,
            Media::Other if status.is_success() => Body::Empty,
            Media::Text | Media::Unnamed | Media::Other => Body::Text,
        };
        let listens = |(_, question): &(_, Question)| &*question.method == "subscriptions/listen";
        Ok(Box::new(Reader::new(Expected {
            body,
            endless: way == Way::Stream || asked.as_ref().is_some_and(listens),
            asked,
            key: self.key(request),
            conversations: Arc::clone(&self.conversations),
            schemas: Arc::clone(&self.schemas),
            stream: self
                .bases
                .clone()
                .filter(|_| way == Way::Stream)
                .map(|bases| (bases, request.parts.uri.clone())),
        })))
    }

    fn address(&self, request: &Request) -> Option<Bytes> {
        self.addressed(request).map(|address| address.to_bytes())
    }

    fn uses(&self, request: &Request) -> Option<String> {
        match self.key(request)? {
            Key::Session(name) | Key::Endpoint(name) => Some(name.to_string()),
        }
    }

    fn opens(&self, headers: &http::HeaderMap) -> Option<String> {
        headers::session(headers).map(str::to_owned)
    }

    fn session(&self, request: &Request) -> Option<String> {
        self.uses(request).or_else(|| {
            let message = Message::read(request.json.as_ref()?).ok()?;
            let named = message.session().filter(|text| headers::is_name(text))?;
            Some(named.to_owned())
        })
    }

    fn canaries(&self) -> Vec<Canary> {
        canaries::canaries()
    }

    /// All that is not about the exchange is part of a call.
    fn unjudged(&self, _request: &Request, _items: &[Located]) -> Unjudged {
        Unjudged::default()
    }

    fn replayed(&self, request: &Request, receipt: Receipt) -> Receipt {
        match self.addressed(request) {
            Some(address) => render::replayed(receipt, &address),
            None => receipt,
        }
    }

    fn refuse(&self, refusal: &Refusal, to: Option<&Bytes>) -> http::Response<Bytes> {
        render::refuse(refusal, to)
    }
}
