//! What is judged: the neutral words that every protocol adapter translates its messages into.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use crate::names::{RouteName, ToolName, UpstreamName};
use crate::principal::Session;
use crate::provenance::Evidence;
use crate::wire::json::{BODY_DEPTH, Document, JsonError, Kind};

/// Which way a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leg {
    /// From the agent to an upstream.
    ToUpstream,
    /// From an upstream back to the agent.
    ToAgent,
}

/// What kind of upstream a route leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteKind {
    /// A model API: calls are proposed in its responses.
    Model,
    /// An MCP server: calls are executed there.
    Mcp,
    /// A REST tool backend: calls are executed there.
    Http,
    /// The forward proxy.
    Forward,
}

/// Where an item stands in its message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Place {
    /// JSON Pointer (RFC 6901) of the item in the message, or an adapter's own path where the message is not JSON.
    pub pointer: String,
    /// Bytes of the item's text in the original message, quotes included; `None` in a stream.
    pub span: Option<Range<usize>>,
}

/// Longest key, and about the longest whole pointer, that is kept in bytes.
const KEY: usize = 64;
pub(crate) const POINTER: usize = 256;

impl Place {
    /// Appends a step to a JSON Pointer. A long key is cut, and a pointer that is long already stays as it is: a pointer tells
    /// a person where to look, and a message may hold very many of them.
    pub fn push_step(pointer: &mut String, key: &str) {
        if pointer.len() > POINTER {
            return;
        }
        let cut = key.get(..key.floor_char_boundary(KEY)).unwrap_or(key);
        pointer.push('/');
        pointer.push_str(&cut.replace('~', "~0").replace('/', "~1"));
        if cut.len() < key.len() {
            pointer.push('…');
        }
    }
}

/// Name, description and schema of a tool that a server offers: untrusted.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The tool.
    pub tool: ToolName,
    /// Description and every string of the schema, one text.
    pub text: Arc<str>,
    /// The whole of it as it came, JSON; empty where the adapter has not kept it.
    pub source: Bytes,
}

impl ToolDefinition {
    /// A definition of which only the text is known.
    pub fn new(tool: impl Into<ToolName>, text: impl Into<Arc<str>>) -> Self {
        Self {
            tool: tool.into(),
            text: text.into(),
            source: Bytes::new(),
        }
    }
}

/// Gives each definition the bytes at its place in `message`.
pub fn keep_sources(items: &mut [Located], message: &Bytes) {
    for located in items {
        if let (Item::Definition(definition), Some(span)) = (&mut located.item, &located.place.span)
            && span.start <= span.end
            && span.end <= message.len()
        {
            definition.source = message.slice(span.clone());
        }
    }
}

/// In whose place an untrusted text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Origin {
    /// A tool gave it, or an agent pasted it.
    #[default]
    Tool,
    /// It is a turn of the user, whom the route's config does not trust as a whole.
    Turn,
}

/// A text that a tool gave back: untrusted, one string leaf of the message.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The tool, where the protocol tells.
    pub tool: Option<ToolName>,
    /// Id of the call it answers, where the protocol has one.
    pub call_id: Option<Arc<str>>,
    /// In whose place it stands.
    pub origin: Origin,
    /// The decoded text.
    pub text: Arc<str>,
}

/// Arguments of a call, read strictly: no duplicate keys, no lone surrogates, no trailing bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    /// As they came, UTF-8 JSON.
    pub raw: Bytes,
    /// The same as a tree. Numbers beyond 64 bits are floats here: see `exact`.
    pub value: Value,
    /// Whether every number of `raw` is exact in `value` and within ±(2^53 − 1) if an integer.
    pub exact: bool,
}

impl Arguments {
    /// Reads arguments strictly.
    ///
    /// # Errors
    /// What is not strict JSON, not an object, or has a number that no double can hold.
    pub fn read(raw: Bytes) -> Result<Self, JsonError> {
        let document = Document::read(raw, BODY_DEPTH)?;
        if !matches!(document.root().kind, Kind::Object(_)) {
            return Err(JsonError {
                what: "arguments must be an object".to_owned(),
                line: 1,
                column: 1,
                too_deep: false,
            });
        }
        let (value, exact) = document.value(document.root())?;
        Ok(Self {
            raw: document.bytes().clone(),
            value,
            exact,
        })
    }
}

/// What the agent or the model asks to run.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The tool.
    pub tool: ToolName,
    /// Its arguments: always a JSON object.
    pub args: Arguments,
    /// Id of the call in its protocol, where there is one.
    pub call_id: Option<Arc<str>>,
    /// A second identical act is asked for on purpose (`holdpoint-again`).
    pub again: bool,
    /// The ticket that the caller names with it (`holdpoint-ticket`), as it came: a hint, never authority.
    pub hint: Option<Arc<str>>,
}

impl ToolCall {
    /// A call with no id, of which nothing else is said.
    pub const fn new(tool: ToolName, args: Arguments) -> Self {
        Self {
            tool,
            args,
            call_id: None,
            again: false,
            hint: None,
        }
    }
}

/// A call that no layer can judge: the guard refuses it in every mode, since clients read bad JSON each in their own way.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreadableCall {
    /// The tool; empty where even its name cannot be read.
    pub tool: ToolName,
    /// Id of the call in its protocol, where there is one.
    pub call_id: Option<Arc<str>>,
    /// What is wrong, for the operator: never holds text of the call.
    pub cause: String,
}

/// A tool that the model's provider runs by itself, such as web search, code execution or a hosted MCP server: its calls and
/// outputs never pass the proxy, so it is judged where the request asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderTool {
    /// The provider's name of it: the `type` of the tool, or the field that asks for it.
    pub kind: Arc<str>,
    /// URL of the server it reaches, where the request names one.
    pub server: Option<Arc<str>>,
}

/// Text that a model wrote and a client may render.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelText {
    /// The text.
    pub text: Arc<str>,
    /// What of the text before it bears on it, where it is a piece; `None`: it is a whole text.
    pub around: Option<Around>,
}

impl ModelText {
    /// A whole text.
    pub fn whole(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            around: None,
        }
    }
}

/// What bears on a piece of a text besides itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts that are independent of each other"
)]
pub struct Around {
    /// What begins in the piece does not end in it.
    pub is_open: bool,
    /// The piece is an image, or begins one, whose destination may be a definition's.
    pub is_named: bool,
    /// An image before it may still get its destination.
    pub in_image: bool,
    /// An image before it has a definition's destination.
    pub has_named: bool,
    /// Definitions before it, a line each; `None`: more than are kept.
    pub definitions: Option<Arc<str>>,
}

/// A destination asked of the forward proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct EgressTarget {
    /// `host:port` as asked, before any look-up.
    pub authority: Arc<str>,
    /// Whole URL in absolute form; `None` for CONNECT.
    pub url: Option<Arc<str>>,
    /// The method; of a redirect the one that the next request would have.
    pub method: Arc<str>,
    /// What is sent there. An item with a body is about the body alone: the destination was judged before it was read.
    pub body: Option<Content>,
}

/// The body of a plain request, whole and in no encoding.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// `Content-Type`, as it came.
    pub media: Option<Arc<str>>,
    /// The bytes.
    pub bytes: Bytes,
}

/// One thing to judge.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A tool definition.
    Definition(ToolDefinition),
    /// A text given back by a tool.
    ToolOutput(ToolOutput),
    /// A call to run.
    ToolCall(ToolCall),
    /// A call whose arguments are not strict JSON.
    Unreadable(UnreadableCall),
    /// A tool that the provider runs.
    ProviderTool(ProviderTool),
    /// Rendered output.
    ModelText(ModelText),
    /// A destination of the forward proxy.
    Egress(EgressTarget),
}

/// An item with its place in the message.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub item: Item,
}

/// All items of one message, or of the part of a stream that is whole.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Which way.
    pub leg: Leg,
    /// The route that carries it.
    pub route: RouteName,
    /// Kind of that route.
    pub kind: RouteKind,
    /// The upstream behind the route.
    pub upstream: UpstreamName,
    /// Whose conversation.
    pub session: Arc<Session>,
    /// What to judge, in message order.
    pub items: Vec<Located>,
    /// What is known of who said what; `None` where nobody asks for it.
    pub evidence: Option<Arc<Evidence>>,
    /// The agent's own header fields that leave with a call to a tool's backend; `None` where nothing leaves.
    pub headers: Option<Arc<HeaderMap>>,
}
