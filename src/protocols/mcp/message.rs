//! One JSON-RPC message of a client, read so that no other reader can take it for a different one.

use std::sync::Arc;

use crate::protocols::strict::{exact_keys_in_request, invalid_request, media_type, present};
use crate::protocols::{Malformed, Request, unwritable, wish};
use crate::wire::json::{BODY_DEPTH, Document, Kind, Node};
use crate::wire::splice::Splice;

/// Members of the envelope.
pub(super) const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Members of `params` that something here depends on.
const PARAMS: [&str; 12] = [
    "name",
    "arguments",
    "uri",
    "ref",
    "argument",
    "level",
    "task",
    "taskId",
    "cursor",
    "inputResponses",
    "requestState",
    "_meta",
];

/// `_meta`: the revision that a stateless request speaks (MCP 2026-07-28).
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// `_meta`: the session, where nothing else names one.
const SESSION: &str = "holdpoint-session";

/// `_meta`: the caller asks for a second identical act on purpose.
const AGAIN: &str = "holdpoint-again";

/// `_meta`: the ticket that the caller means. It does not leave: one that was issued elsewhere is good for its bearer.
const TICKET: &str = "holdpoint-ticket";

/// `_meta`: under what progress is told.
const PROGRESS: &str = "progressToken";

/// What a client sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message<'d> {
    /// Asks for an answer.
    Request {
        id: &'d Node,
        method: &'d str,
        params: Option<&'d Node>,
    },
    /// Asks for none.
    Notification { method: &'d str },
    /// Answers a request of the server; without `result` it is an error.
    Response {
        id: &'d Node,
        result: Option<&'d Node>,
    },
}

/// The body, which must be JSON.
pub(super) fn document(request: &Request) -> Result<&Document, Malformed> {
    if media_type(&request.parts.headers).as_deref() != Some("application/json") {
        return Err(Malformed {
            code: "unsupported_media_type",
            message: "send the message with content-type: application/json".to_owned(),
        });
    }
    request.json.as_ref().ok_or_else(|| Malformed {
        code: "invalid_json",
        message: "the request has no body".to_owned(),
    })
}

impl<'d> Message<'d> {
    /// Reads the one message of a body.
    ///
    /// # Errors
    /// A batch, and whatever two readers could take for two different messages.
    pub(super) fn read(document: &'d Document) -> Result<Self, Malformed> {
        let root = document.root();
        match root.kind {
            Kind::Object(_) => {}
            Kind::Array(_) => {
                return Err(Malformed {
                    code: "invalid_request",
                    message: "send one JSON-RPC message per request: batches are refused"
                        .to_owned(),
                });
            }
            _ => return Err(invalid_request("", "must be a JSON-RPC object")),
        }
        exact_keys_in_request(root, "", &ENVELOPE)?;
        if root.get("jsonrpc").and_then(Node::as_str) != Some("2.0") {
            return Err(invalid_request("/jsonrpc", "must be \"2.0\""));
        }
        let id = root.get("id");
        if let Some(id) = id
            && id_text(document, id).is_none()
        {
            return Err(invalid_request("/id", "must be a string or an integer"));
        }
        let answers = root.get("result").is_some() || root.get("error").is_some();
        match (root.get("method"), id) {
            (Some(_), _) if answers => Err(invalid_request(
                "/method",
                "stands beside `result` or `error`: send a request or a response",
            )),
            (Some(method), id) => Self::asks(root, method, id),
            (None, Some(id)) if answers => Self::answers(root, id),
            _ => Err(invalid_request("/method", "is missing")),
        }
    }

    fn asks(root: &'d Node, method: &'d Node, id: Option<&'d Node>) -> Result<Self, Malformed> {
        let method = method
            .as_str()
            .ok_or_else(|| invalid_request("/method", "must be a string"))?;
        let params = root.get("params");
        if let Some(params) = params {
            if !matches!(params.kind, Kind::Object(_)) {
                return Err(invalid_request("/params", "must be an object"));
            }
            exact_keys_in_request(params, "/params", &PARAMS)?;
            if let Some(meta) = params.get("_meta") {
                let known = [VERSION, SESSION, AGAIN, TICKET, PROGRESS];
                exact_keys_in_request(meta, "/params/_meta", &known)?;
            }
        }
        match id {
            Some(id) => Ok(Self::Request { id, method, params }),
            // What needs an answer must ask for one: some servers carry it out all the same.
            None if !method.starts_with("notifications/") => Err(invalid_request(
                "/id",
                "is missing: only notifications come without one",
            )),
            None => Ok(Self::Notification { method }),
        }
    }

    fn answers(root: &'d Node, id: &'d Node) -> Result<Self, Malformed> {
        let result = root.get("result");
        match result {
            Some(_) if root.get("error").is_some() => {
                Err(invalid_request("/result", "stands beside `error`"))
            }
            Some(result) if !matches!(result.kind, Kind::Object(_)) => {
                Err(invalid_request("/result", "must be an object"))
            }
            _ => Ok(Self::Response { id, result }),
        }
    }

    /// `_meta` of a request.
    fn meta(&self, key: &str) -> Option<&'d Node> {
        match self {
            Self::Request { params, .. } => present((*params)?.get("_meta")?, key),
            _ => None,
        }
    }

    /// The revision that the message itself names.
    pub(super) fn version(&self) -> Option<&'d str> {
        self.meta(VERSION)?.as_str()
    }

    /// The session that the message itself names.
    pub(super) fn session(&self) -> Option<&'d str> {
        self.meta(SESSION)?.as_str()
    }

    /// What progress is told under, where the client wants to be told.
    pub(super) fn progress(&self) -> Option<&'d Node> {
        let token = self.meta(PROGRESS)?;
        matches!(token.kind, Kind::String(_) | Kind::Number).then_some(token)
    }

    /// Whether a second identical act is asked for.
    pub(super) fn again(&self) -> bool {
        matches!(
            self.meta(AGAIN).map(|node| &node.kind),
            Some(Kind::Bool(true))
        )
    }
}

/// A ticket that was named in `_meta`, put among the request's extensions.
#[derive(Clone, Debug)]
pub(super) struct Named(pub(super) Arc<str>);

/// Takes the ticket out of `_meta`.
///
/// # Errors
/// A message that cannot be written without it.
pub(super) fn own_taken(mut request: Request) -> Result<Request, Malformed> {
    let Some(old) = request.json.clone() else {
        return Ok(request);
    };
    let params = old.root().get("params");
    let meta = params.and_then(|params| params.get("_meta"));
    let Some((meta, ticket)) = meta.and_then(|meta| Some((meta, meta.get(TICKET)?))) else {
        return Ok(request);
    };
    if let Some(named) = ticket.as_str().and_then(wish::named) {
        request.parts.extensions.insert(Named(named));
    }
    let mut splice = Splice::new(&old);
    splice.remove_members(meta, |key| key == TICKET);
    let body = splice.finish();
    request.json = Some(Document::read(body.clone(), BODY_DEPTH).map_err(|_| unwritable())?);
    request.body = body;
    Ok(request)
}

/// An id as one text, in which `1` and `"1"` differ; `None` for what is neither a string nor an integer.
pub(super) fn id_text(document: &Document, id: &Node) -> Option<Arc<str>> {
    match &id.kind {
        Kind::String(text) => Some(format!("\"{text}\"").into()),
        Kind::Number => {
            let raw = document.bytes().get(id.span.clone())?;
            let text = std::str::from_utf8(raw).ok()?;
            text.bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'-')
                .then(|| text.into())
        }
        _ => None,
    }
}
