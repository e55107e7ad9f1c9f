//! The proof itself.

use bytes::Bytes;
use holdpoint::coverage;
use holdpoint::guard::Decision;
use holdpoint::item::{Item, Leg, Located, RouteKind};
use holdpoint::protocols::canary::{Canary, Fate};
use holdpoint::protocols::openai_chat::OpenAiChat;
use holdpoint::protocols::{
    Frame, Framing, Malformed, Protocol, Refusal, Request, ResponseReader, Step, Written,
};
use holdpoint::settings::{Limits, ModelRoute};
use holdpoint::wire::sse;

use super::shared::rig;

const ROUTES: &str = "upstreams: {up: {url: \"http://127.0.0.1:1\"}}
principal: {fixed: {subject: ann}}
routes:
  - {name: chat, prefix: /chat, upstream: up, protocol: openai_chat, untrusted: {roles: [user], tags: [file]}}
  - {name: bare, prefix: /bare, upstream: up, protocol: openai_chat}
  - {name: messages, prefix: /messages, upstream: up, protocol: anthropic_messages, untrusted: {roles: [user], tags: [file]}}
  - {name: plain, prefix: /plain, upstream: up, protocol: anthropic_messages}
  - {name: files, prefix: /files, upstream: up, protocol: mcp}
  - name: shop
    prefix: /shop
    upstream: up
    protocol: http_tools
    tools:
      - {tool: get_order, method: GET, path: \"/orders/{order_id}\"}
      - {method: POST, path: \"/tools/{tool}\"}
";

#[test]
fn every_cell_of_every_route_is_proved() {
    let folder = tempfile::tempdir().unwrap();
    let (settings, _) = rig::load(folder.path(), ROUTES, rig::OFF);
    let cells = coverage::prove(&settings).unwrap_or_else(|problems| panic!("{problems}"));
    let tagged = cells.iter().filter(|cell| cell.content.contains("range"));
    assert_eq!(tagged.count(), 2);
    for route in &settings.routes {
        for leg in [Leg::ToUpstream, Leg::ToAgent] {
            let judged = cells.iter().any(|cell| {
                cell.route == route.name && cell.leg == leg && matches!(cell.fate, Fate::Judged(_))
            });
            assert!(judged, "{}: nothing is judged {leg:?}", route.name);
        }
    }
}

/// An adapter that does one thing wrong.
struct Faulty {
    inner: OpenAiChat,
    fault: Wrong,
}

#[derive(Clone, Copy)]
enum Wrong {
    /// Does not find definitions.
    Overlooks,
    /// Judges and forgets what was said.
    Forgets,
    /// Takes an endpoint that it does not understand for one without content.
    Passes,
    /// Finds no call in a streamed answer.
    Streams,
}

impl Protocol for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn kind(&self) -> RouteKind {
        RouteKind::Model
    }

    fn read(&self, request: &Request) -> Result<Vec<Located>, Malformed> {
        match (self.fault, self.inner.read(request)) {
            (Wrong::Overlooks, Ok(mut items)) => {
                items.retain(|located| !matches!(located.item, Item::Definition(_)));
                Ok(items)
            }
            (Wrong::Passes, Err(error)) if error.code == "endpoint_unknown" => Ok(Vec::new()),
            (_, read) => read,
        }
    }

    fn write(&self, request: Request, decision: &Decision) -> Result<Written, Malformed> {
        if matches!(
            self.fault,
            Wrong::Forgets | Wrong::Overlooks | Wrong::Passes
        ) {
            return Ok(Written::Forward(request));
        }
        self.inner.write(request, decision)
    }

    fn response(
        &self,
        request: &Request,
        head: &http::response::Parts,
    ) -> Result<Box<dyn ResponseReader>, Malformed> {
        let reader = self.inner.response(request, head)?;
        if matches!(self.fault, Wrong::Streams) && reader.framing() == Framing::Events {
            return Ok(Box::new(Through));
        }
        Ok(reader)
    }

    fn canaries(&self) -> Vec<Canary> {
        self.inner.canaries()
    }

    fn refuse(&self, refusal: &Refusal, to: Option<&Bytes>) -> http::Response<Bytes> {
        self.inner.refuse(refusal, to)
    }
}

/// Passes every event.
struct Through;

impl ResponseReader for Through {
    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn push(&mut self, frame: Frame) -> Result<Step, Malformed> {
        let Frame::Event(event) = frame else {
            panic!("an event")
        };
        Ok(Step {
            send: vec![sse::encode(event).unwrap()],
            judge: Vec::new(),
        })
    }

    fn resolve(&mut self, _: &Decision) -> Result<Vec<Bytes>, Malformed> {
        panic!("nothing was to be judged")
    }

    fn finish(&mut self) -> Result<Step, Malformed> {
        Ok(Step::default())
    }
}

#[test]
fn a_route_that_lets_content_past_is_named_with_its_cell() {
    for (fault, cell, words) in [
        (
            Wrong::Overlooks,
            "request, whole, definition, schema",
            "comes out of no item",
        ),
        (
            Wrong::Forgets,
            "request, whole, tool output, string",
            "still there after its item was denied",
        ),
        (
            Wrong::Passes,
            "request, whole, an endpoint that is not understood",
            "not refused",
        ),
        (
            Wrong::Streams,
            "answer, streamed, call of a function",
            "comes out of no item",
        ),
        // It takes the text of an answer as it comes, also where a rule asks.
        (
            Wrong::Streams,
            "answer, whole, image in the model's text",
            "comes out of no item",
        ),
    ] {
        let inner = OpenAiChat::new(&Limits::default(), &ModelRoute::default());
        let problems = coverage::cells(&"leaky".into(), &Faulty { inner, fault }).unwrap_err();
        let said = problems.to_string();
        let line = said.lines().find(|line| line.contains(cell));
        let line = line.unwrap_or_else(|| panic!("{cell}\n{said}"));
        assert!(
            line.contains("`leaky` (faulty)") && line.contains(words),
            "{line}"
        );
    }
}
