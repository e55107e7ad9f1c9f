//! Settings that can run: names resolved, secrets read, limits in bytes and durations.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method, Uri};

use super::{Approvers, JwtPrincipals, MtlsPrincipals, PlacedSecret, SqlStore, TicketSettings};
use crate::item::RouteKind;
use crate::layers::egress::Registered;
use crate::names::{RouteName, SessionKey, StoreName, ToolName, UpstreamName};
use crate::principal::Principal;
use crate::wire::seal::SealingKey;

/// What metrics, logs and decisions call the forward listener, as a route and as the upstream behind it.
pub const FORWARD: &str = "forward";

/// The issuer of principals that the config itself names.
pub const CONFIG_ISSUER: &str = "config";

/// Everything `serve` needs besides the policy.
#[derive(Debug)]
pub struct Settings {
    /// The listeners.
    pub listen: Listen,
    /// The policy file, resolved against the config file's folder.
    pub policy: PathBuf,
    /// Backends.
    pub upstreams: BTreeMap<UpstreamName, Upstream>,
    /// In file order: the first whose path prefix matches wins.
    pub routes: Vec<Route>,
    /// Read-only databases for look-ups.
    pub stores: BTreeMap<StoreName, SqlStore>,
    /// Where tickets live; `None`: held calls are refused.
    pub tickets: Option<TicketSettings>,
    /// Who may approve, and by which channels.
    pub approvers: Approvers,
    /// On whose behalf requests come.
    pub principals: Principals,
    /// What the proxy puts in place of placeholders.
    pub secrets: Vec<PlacedSecret>,
    /// Hashes of secrets that must not leave.
    pub registered: Vec<Registered>,
    /// What ties a conversation to its calls.
    pub session: SessionSource,
    /// What the markers of spotlighted texts are made with; `None`: this process has one of its own.
    pub spotlight_key: Option<SealingKey>,
    /// Sizes.
    pub limits: Limits,
    /// Durations.
    pub timeouts: Timeouts,
    /// Where exchanges are recorded; `None`: they are not.
    pub record: Option<RecordSettings>,
}

/// Where exchanges are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// The folder, made if missing.
    pub directory: PathBuf,
    /// Bytes of one file before the next is begun.
    pub file_size: usize,
}

impl RecordSettings {
    /// The size where the config does not say.
    pub const FILE_SIZE: usize = 64 << 20;
}

/// Addresses to listen on, no two equal, and who is let in at the agents' one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Agents: the proxy.
    pub agents: SocketAddr,
    /// Approvers: the page and the API. Must be out of reach for agents. `None`: there are none, only the command line.
    pub approvers: Option<SocketAddr>,
    /// TLS at the approvers' listener. `None`: plain text.
    pub approvers_tls: Option<ListenTls>,
    /// Operations: health and metrics.
    pub operations: SocketAddr,
    /// Agents: the forward proxy, HTTP/1.1. `None`: there is none.
    pub forward: Option<SocketAddr>,
    /// TLS at the forward listener. `None`: plain text.
    pub forward_tls: Option<ListenTls>,
    /// Names that an agent's `Host` may have, in lower case; IP addresses are always taken. `None`: `localhost` alone where
    /// the agents' address is a loopback one, else any.
    pub hosts: Option<Vec<String>>,
    /// Origins that an agent's `Origin` may be, in lower case. `None`: those on one of `hosts`, and on a loopback address
    /// where the agents' address is one.
    pub origins: Option<Vec<String>>,
    /// TLS at the agents' listener, with HTTP/2 by ALPN. `None`: plain text.
    pub tls: Option<ListenTls>,
    /// Whether agents may begin with HTTP/2 where there is no TLS.
    pub h2c: bool,
}

impl Listen {
    /// Plain HTTP/1.1 at `agents`, with the default hosts, no approvers and no forward proxy.
    pub const fn plain(agents: SocketAddr, operations: SocketAddr) -> Self {
        Self {
            agents,
            approvers: None,
            approvers_tls: None,
            operations,
            forward: None,
            forward_tls: None,
            hosts: None,
            origins: None,
            tls: None,
            h2c: false,
        }
    }
}

/// Files of a listener, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenTls {
    /// Its certificate, then those that lead to a root.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Authorities of client certificates; with them every client must show one.
    pub client_ca: Option<PathBuf>,
}

/// A backend.
#[derive(Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Its name.
    pub name: UpstreamName,
    /// Base URL, `http` or `https`; its path is put before every forwarded path.
    pub url: Uri,
    /// A header that the proxy sets, such as `authorization`, with a value read from the environment.
    /// Where set, the agent's own header of that name is dropped.
    pub credential: Option<(HeaderName, Secret)>,
    /// PEM file of the certificate authorities that are trusted for it, in place of the public ones.
    pub ca: Option<PathBuf>,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream")
            .field("name", &self.name)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Arc<str>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

/// How a route's messages are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteProtocol {
    /// OpenAI Chat Completions.
    OpenAiChat(ModelRoute),
    /// Anthropic Messages.
    AnthropicMessages(ModelRoute),
    /// The Model Context Protocol over HTTP.
    Mcp(McpRoute),
    /// A REST backend: methods and path templates mapped to tools.
    HttpTools(HttpRoute),
}

impl RouteProtocol {
    /// The kind of upstream behind it.
    pub const fn kind(&self) -> RouteKind {
        match self {
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => RouteKind::Model,
            Self::Mcp(_) => RouteKind::Mcp,
            Self::HttpTools(_) => RouteKind::Http,
        }
    }

    /// The tools that the route names, in the order of the config and its documents; others may come as well.
    pub fn named_tools(&self) -> Vec<&ToolName> {
        match self {
            Self::HttpTools(http) => {
                let tools = http.tools.iter();
                tools.filter_map(|tool| tool.tool.as_ref()).collect()
            }
            Self::Mcp(mcp) => mcp.tools.iter().collect(),
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => Vec::new(),
        }
    }
}

/// What is special about a route to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRoute {
    /// Whether a blocked call leaves a note as assistant text.
    pub note: bool,
    /// What in the conversation is untrusted besides tool outputs.
    pub untrusted: Untrusted,
    /// Calls that carry another call.
    pub wrapped: Vec<Wrapped>,
}

impl Default for ModelRoute {
    fn default() -> Self {
        Self {
            note: true,
            untrusted: Untrusted::default(),
            wrapped: Vec::new(),
        }
    }
}

/// Text of a conversation that an agent has pasted from its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Untrusted {
    /// Roles whose whole text is untrusted, such as `user`.
    pub roles: Vec<String>,
    /// Names of tags: what stands between `<NAME ..>` and `</NAME>` in a user's text is untrusted.
    pub tags: Vec<String>,
}

/// What is special about a route to an MCP server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpRoute {
    /// Tools whose calls execute here: a model's proposal of one is settled on this route. Others may come as well.
    pub tools: Vec<ToolName>,
    /// Calls that carry another call.
    pub wrapped: Vec<Wrapped>,
}

/// A tool whose arguments name the tool that is really called, such as a gateway's `call_tool`: the inner call is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapped {
    /// The outer tool, exact.
    pub tool: ToolName,
    /// JSON Pointer of the inner tool's name in the outer arguments.
    pub name: String,
    /// JSON Pointer of the inner arguments.
    pub arguments: String,
    /// JSON Pointers of what may stand beside the inner call: the gateway's own, which no rule judges.
    pub beside: Vec<String>,
}

/// One path prefix of the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its name.
    pub name: RouteName,
    /// Path prefix, such as `/openai`; it is removed before forwarding. `/` matches everything.
    pub prefix: String,
    /// Where to.
    pub upstream: UpstreamName,
    /// How.
    pub protocol: RouteProtocol,
}

/// What a route to a REST backend serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRoute {
    /// The calls that are tools.
    pub tools: Vec<HttpTool>,
    /// Calls that the backend is known to take and that are no tools: never taken for one of a wider path.
    pub closed: Vec<Closed>,
}

impl From<Vec<HttpTool>> for HttpRoute {
    fn from(tools: Vec<HttpTool>) -> Self {
        Self {
            tools,
            closed: Vec::new(),
        }
    }
}

/// A call of a REST backend that is no tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Method.
    pub method: Method,
    /// Path below the route's prefix, with `{name}` parameters, also within a segment.
    pub path: String,
}

/// A REST call that is a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpTool {
    /// The tool. `None`: the path template has a parameter `{tool}` that names it.
    pub tool: Option<ToolName>,
    /// Method.
    pub method: Method,
    /// Path below the route's prefix, with `{name}` parameters that become arguments.
    pub path: String,
    /// Request headers that are arguments, by the names that the arguments have.
    pub headers: Vec<String>,
    /// How its body may come.
    pub bodies: Vec<BodyKind>,
    /// Hash of its description in a document, lower-case hex; `None`: the config itself names it.
    pub definition: Option<Arc<str>>,
    /// Arguments such as its description knows them, for checks of a policy: an address, a URL or `x` in place of texts.
    pub example: serde_json::Value,
}

impl HttpTool {
    /// A call without header arguments, whose body may come in every way.
    pub fn new(tool: Option<ToolName>, method: Method, path: impl Into<String>) -> Self {
        Self {
            tool,
            method,
            path: path.into(),
            headers: Vec::new(),
            bodies: BodyKind::ALL.to_vec(),
            definition: None,
            example: serde_json::Value::Null,
        }
    }
}

/// A body whose members, fields or parts are arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyKind {
    /// `application/json` or `+json`.
    Json,
    /// `application/x-www-form-urlencoded`.
    Form,
    /// `multipart/form-data`.
    Multipart,
}

impl BodyKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Json, Self::Form, Self::Multipart];

    /// The kind in a config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Form => "form",
            Self::Multipart => "multipart",
        }
    }

    /// The media type that a request names.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Form => "application/x-www-form-urlencoded",
            Self::Multipart => "multipart/form-data",
        }
    }
}

/// On whose behalf requests come.
#[derive(Clone, Debug)]
pub enum Principals {
    /// A sidecar of one user or service.
    Fixed(Arc<Principal>),
    /// By a key in a header: `authorization` (with or without `Bearer`) or another. An unknown key is 401.
    ApiKeys {
        /// The header. Removed before forwarding.
        header: HeaderName,
        /// Principal by SHA-256 of the key.
        keys: HashMap<[u8; 32], Arc<Principal>>,
    },
    /// By a token of an identity provider.
    Jwt(Box<JwtPrincipals>),
    /// By a name in the client certificate; not empty.
    Mtls(MtlsPrincipals),
}

impl Principals {
    /// Who vouches for the subjects.
    pub fn issuer(&self) -> Arc<str> {
        match self {
            Self::Fixed(principal) => Arc::clone(&principal.issuer),
            Self::Jwt(jwt) => Arc::clone(&jwt.issuer),
            Self::ApiKeys { .. } | Self::Mtls(_) => Arc::from(CONFIG_ISSUER),
        }
    }

    /// The header that carries the caller's credential. Never forwarded.
    pub const fn header(&self) -> Option<&HeaderName> {
        match self {
            Self::Fixed(_) | Self::Mtls(_) => None,
            Self::ApiKeys { header, .. } => Some(header),
            Self::Jwt(jwt) => Some(&jwt.header),
        }
    }

    /// The principals that the config names; `None` where others decide who there is.
    pub fn named(&self) -> Option<Vec<&Arc<Principal>>> {
        match self {
            Self::Fixed(principal) => Some(vec![principal]),
            Self::ApiKeys { keys, .. } => Some(keys.values().collect()),
            Self::Mtls(names) => Some(names.values().collect()),
            Self::Jwt(_) => None,
        }
    }
}

/// What ties a conversation to its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionSource {
    /// The header's value, scoped to the principal; none without it.
    Header(HeaderName),
    /// One session for the whole process. Only with a fixed principal.
    Fixed(SessionKey),
    /// What the token's claim for sessions says. Only with tokens; none where it lacks the claim.
    Token,
}

/// Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A request's body, as sent and decoded. 413 above.
    pub request_body: usize,
    /// A response's body that must be whole before it is judged, and one event of a stream. 502 above.
    pub response_body: usize,
    /// What one stream may hold back: the arguments of all its open calls.
    pub held: usize,
    /// Requests at once; 503 above.
    pub concurrency: usize,
    /// Connections of agents at once; more are closed as they come.
    pub connections: usize,
    /// Of them, those from one address; of IPv6, from one network of 64 bits.
    pub connections_per_address: usize,
    /// Bodies of all requests together that are held in memory, requests and answers; 503 above.
    pub memory: usize,
    /// What is kept of one session to tell who said what, in bytes; the oldest goes first. Kept only where a rule asks.
    pub provenance_session: usize,
    /// Of how many sessions; the longest unused goes first.
    pub provenance_sessions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_body: 32 << 20,
            response_body: 32 << 20,
            held: 1 << 20,
            concurrency: 1024,
            connections: 4096,
            connections_per_address: 1024,
            memory: 1 << 30,
            provenance_session: 4 << 20,
            provenance_sessions: 256,
        }
    }
}

/// Durations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To connect to an upstream.
    pub connect: Duration,
    /// For a request's whole head, for a TLS handshake, and for a connection without a request.
    pub request_head: Duration,
    /// In which at least 1 KiB of a request's body comes, or its end.
    pub request_idle: Duration,
    /// To the first byte of the upstream's answer.
    pub first_byte: Duration,
    /// Between two pieces of an answer's body or stream.
    pub idle: Duration,
    /// In which an agent takes something of the answer that waits for it; its connection ends otherwise, and the upstream's
    /// request with it.
    pub client_idle: Duration,
    /// After so much silence an event stream to the agent gets a sign of life.
    pub keep_alive: Duration,
    /// For requests in flight at shutdown.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            request_head: Duration::from_secs(30),
            request_idle: Duration::from_secs(30),
            first_byte: Duration::from_mins(10),
            idle: Duration::from_mins(5),
            client_idle: Duration::from_mins(2),
            keep_alive: Duration::from_secs(15),
            drain: Duration::from_secs(30),
        }
    }
}
