//! Canaries: messages that each carry one mark, one for every place where a protocol has content. `coverage` pushes them
//! through a route's adapter and sees what becomes of the mark. An adapter gives its own, as data.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, header, request};

use crate::item::Item;
use crate::unscanned::Unscanned;

/// What a canary carries. Both halves are looked for where it must be gone, so that it may be cut in the middle.
pub const MARK: &str = "holdpointcanarymarkoneandtwo";

/// The tool of canaries that are not about its name: none of a config should be called so.
pub const TOOL: &str = "holdpoint_canary_tool";

/// Where a stream cuts the mark.
pub const HALVES: (&str, &str) = ("holdpointcanary", "markoneandtwo");

/// One place of content.
#[derive(Clone, Debug)]
pub struct Canary {
    /// The kind of content, for people: `tool output, text parts`.
    pub content: &'static str,
    /// The message with the mark in it.
    pub message: Message,
    /// What becomes of it.
    pub fate: Fate,
}

/// A message.
#[derive(Clone, Debug)]
pub enum Message {
    /// From the agent.
    Request(Sample),
    /// The answer to a request, whole or in events.
    Answer(Answer),
}

/// A request without its host: the path is below the route's prefix.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Method, path and headers.
    pub parts: request::Parts,
    /// The body, in no encoding.
    pub body: Bytes,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What it answers.
    pub to: Sample,
    /// Status code.
    pub status: u16,
    /// `content-type`.
    pub media_type: &'static str,
    /// The body: with events in the encoding of server-sent events.
    pub body: Bytes,
    /// It is read as where a rule asks what clients would fetch or follow.
    pub is_rendered: bool,
}

/// What becomes of content of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It comes out as such an item.
    Judged(ItemKind),
    /// It passes, and its bytes are counted under the reason.
    Passed(Unscanned),
    /// The message is refused, with this code.
    Refused(&'static str),
}

/// A kind of item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemKind {
    /// [`Item::Definition`].
    Definition,
    /// [`Item::ToolOutput`].
    ToolOutput,
    /// [`Item::ToolCall`].
    ToolCall,
    /// [`Item::Unreadable`].
    Unreadable,
    /// [`Item::ProviderTool`].
    ProviderTool,
    /// [`Item::ModelText`].
    ModelText,
    /// [`Item::Egress`].
    Egress,
}

impl ItemKind {
    /// The kind of an item.
    pub const fn of(item: &Item) -> Self {
        match item {
            Item::Definition(_) => Self::Definition,
            Item::ToolOutput(_) => Self::ToolOutput,
            Item::ToolCall(_) => Self::ToolCall,
            Item::Unreadable(_) => Self::Unreadable,
            Item::ProviderTool(_) => Self::ProviderTool,
            Item::ModelText(_) => Self::ModelText,
            Item::Egress(_) => Self::Egress,
        }
    }

    /// The word in logs and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Definition => "definition",
            Self::ToolOutput => "tool_output",
            Self::ToolCall | Self::Unreadable => "call",
            Self::ProviderTool => "provider_tool",
            Self::ModelText => "model_text",
            Self::Egress => "egress",
        }
    }
}

impl Sample {
    /// A request without body.
    pub fn new(method: Method, path: &str) -> Self {
        let mut request = Request::new(());
        *request.method_mut() = method;
        // A path that is none gives a request that the adapter refuses: the canary fails.
        *request.uri_mut() = path.parse().unwrap_or_default();
        Self {
            parts: request.into_parts().0,
            body: Bytes::new(),
        }
    }

    /// `POST` with a JSON body.
    pub fn post(path: &str, json: impl Into<Bytes>) -> Self {
        Self::new(Method::POST, path).json(json)
    }

    /// With a JSON body.
    #[must_use]
    pub fn json(self, json: impl Into<Bytes>) -> Self {
        let mut sample = self.header(header::CONTENT_TYPE, "application/json");
        sample.body = json.into();
        sample
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: header::HeaderName, value: &'static str) -> Self {
        let value = HeaderValue::from_static(value);
        self.parts.headers.insert(name, value);
        self
    }

    /// As a canary of this content.
    pub const fn canary(self, content: &'static str, fate: Fate) -> Canary {
        Canary {
            content,
            message: Message::Request(self),
            fate,
        }
    }

    /// A whole JSON answer to it, as a canary of this content.
    pub fn answered(&self, json: impl Into<Bytes>, content: &'static str, fate: Fate) -> Canary {
        self.answer(200, "application/json", json, content, fate)
    }

    /// A streamed answer to it, as a canary of this content: pairs of an event's name, which may be empty, and its data.
    pub fn streamed<D: AsRef<str>>(
        &self,
        events: &[(&str, D)],
        content: &'static str,
        fate: Fate,
    ) -> Canary {
        let mut body = String::new();
        for (name, data) in events {
            if !name.is_empty() {
                body.extend(["event: ", name, "\n"]);
            }
            body.extend(["data: ", data.as_ref(), "\n\n"]);
        }
        self.answer(200, "text/event-stream", body, content, fate)
    }

    /// Any answer to it, as a canary of this content.
    pub fn answer(
        &self,
        status: u16,
        media_type: &'static str,
        body: impl Into<Bytes>,
        content: &'static str,
        fate: Fate,
    ) -> Canary {
        Canary {
            content,
            message: Message::Answer(Answer {
                to: self.clone(),
                status,
                media_type,
                body: body.into(),
                is_rendered: false,
            }),
            fate,
        }
    }
}

/// Text of a model that a client would fetch or follow something by, cut within the mark; with words for the content.
pub const SHOWN: [(&str, [&str; 2]); 4] = [
    (
        "image in the model's text",
        [
            "See ![x](https://holdpointcanary",
            "markoneandtwo.example/) and",
        ],
    ),
    (
        "definition in the model's text",
        [
            "![x]\n\n[x]: https://holdpointcanary",
            "markoneandtwo.example/\n",
        ],
    ),
    (
        "tag in the model's text",
        [
            "<img srcset='//holdpointcanary",
            "markoneandtwo.example/x 1x'>",
        ],
    ),
    (
        "URL in the model's text",
        ["at https://holdpointcanary", "markoneandtwo.example"],
    ),
];

impl Canary {
    /// Where a rule asks what clients would fetch or follow.
    #[must_use]
    pub const fn rendered(mut self) -> Self {
        if let Message::Answer(answer) = &mut self.message {
            answer.is_rendered = true;
        }
        self
    }
}
