//! What a client's message asks for, as a call: tools by their name, every other method by its own.

use std::sync::Arc;

use bytes::Bytes;

use super::asking::Answered;
use super::headers;
use super::message::{Message, Named, document, id_text};
use crate::item::{Arguments, Item, Located, Place, ToolCall, UnreadableCall};
use crate::names::ToolName;
use crate::protocols::strict::{exact_keys_in_request, invalid_request, present};
use crate::protocols::{Malformed, Request, unwritable, wish, wrapped};
use crate::settings::Wrapped;
use crate::wire::json::{BODY_DEPTH, Document, Kind, Member, Node};
use crate::wire::splice::Splice;

/// Requests that carry nothing to judge.
const PLAIN: [&str; 8] = [
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
    "tasks/list",
];

/// Requests that are judged under their own name: no tool can have it.
const METHODS: [&str; 14] = [
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "subscriptions/listen",
    "tasks/get",
    "tasks/result",
    "tasks/update",
    "tasks/cancel",
    SAMPLED,
    ELICITED,
    ROOTS,
];

/// Answers of the client to requests of the server.
const SAMPLED: &str = "sampling/createMessage";
const ELICITED: &str = "elicitation/create";
const ROOTS: &str = "roots/list";

/// An answer of no known shape.
const ANSWERED: &str = "response";

/// Members of `params` and `result` that are about the exchange, not about what is asked.
const ASIDE: [&str; 2] = ["_meta", "requestState"];

/// Members of answers of the client.
const ANSWERS: [&str; 9] = [
    "action",
    "content",
    "roots",
    "role",
    "model",
    "stopReason",
    "resultType",
    "_meta",
    "requestState",
];

/// Members that only what a model said has.
const SAMPLE: [&str; 3] = ["role", "model", "stopReason"];

/// What the user gave in answer to a question of the tool: judged with the call (MCP 2026-07-28).
const INPUTS: &str = "inputResponses";

/// A call in a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'d> {
    /// The tool.
    pub(super) tool: &'d str,
    /// Where its arguments stand.
    at: At<'d>,
    again: bool,
    id: &'d Node,
}

#[derive(Clone, Copy, Debug)]
enum At<'d> {
    /// `arguments`, with `inputResponses` beside them.
    Arguments(&'d Node),
    /// The members of `params`.
    Params(Option<&'d Node>),
    /// The members of `result`.
    Result(&'d Node),
}

/// What the message asks for; `None` where there is nothing to judge.
///
/// # Errors
/// A call that is not valid.
pub(super) fn asked<'d>(message: &Message<'d>) -> Result<Option<Asked<'d>>, Malformed> {
    let (id, tool, at) = match *message {
        Message::Notification { .. } | Message::Response { result: None, .. } => return Ok(None),
        Message::Response {
            id,
            result: Some(result),
        } => match shape(result)? {
            Some(tool) => (id, tool, At::Result(result)),
            None => return Ok(None),
        },
        Message::Request { id, method, params } => {
            if PLAIN.contains(&method) || (method == "subscriptions/listen" && !names_any(params)) {
                return Ok(None);
            }
            if method == "tools/call" {
                let (tool, params) = tool(params)?;
                (id, tool, At::Arguments(params))
            } else {
                (id, method, At::Params(params))
            }
        }
    };
    Ok(Some(Asked {
        tool,
        at,
        again: message.again(),
        id,
    }))
}

/// Name and parameters of `tools/call`.
fn tool(params: Option<&Node>) -> Result<(&str, &Node), Malformed> {
    let params = params.ok_or_else(|| invalid_request("/params", "is missing"))?;
    let name = params.get("name").and_then(Node::as_str);
    let name = name.ok_or_else(|| invalid_request("/params/name", "must be a string"))?;
    if METHODS.contains(&name) {
        return Err(invalid_request(
            "/params/name",
            "is the name of a method: a tool of that name cannot be told from it",
        ));
    }
    for key in ["arguments", INPUTS] {
        if present(params, key).is_some_and(|node| !matches!(node.kind, Kind::Object(_))) {
            return Err(invalid_request(
                &format!("/params/{key}"),
                "must be an object",
            ));
        }
    }
    let own = present(params, "arguments").and_then(|arguments| arguments.get(INPUTS));
    if own.is_some() && present(params, INPUTS).is_some() {
        return Err(invalid_request(
            "/params/arguments/inputResponses",
            "cannot be told from the answers beside the arguments",
        ));
    }
    Ok((name, params))
}

/// The call, unless a call in it has the name of a method: it could not be told from it, as in [`tool`].
fn no_method(item: Item) -> Item {
    match item {
        Item::ToolCall(call) if METHODS.contains(&call.tool.as_str()) => {
            Item::Unreadable(UnreadableCall {
                tool: call.tool,
                call_id: call.call_id,
                cause: "the call in it has the name of a method".to_owned(),
            })
        }
        item => item,
    }
}

/// Whether a subscription names something, besides kinds of notifications.
fn names_any(params: Option<&Node>) -> bool {
    let mut members = params.map_or(&[][..], Node::members).iter();
    members.any(|member| !ASIDE.contains(&&*member.key) && has_text(&member.value))
}

fn has_text(node: &Node) -> bool {
    node.as_str().is_some_and(|text| !text.is_empty())
        || node.elements().iter().any(has_text)
        || node.members().iter().any(|member| has_text(&member.value))
}

/// Which request of the server a result answers; `None` for one that says nothing.
///
/// # Errors
/// One that readers of two requests could each take for theirs.
fn shape(result: &Node) -> Result<Option<&'static str>, Malformed> {
    exact_keys_in_request(result, "/result", &ANSWERS)?;
    let has = |keys: &[&str]| keys.iter().any(|key| result.get(key).is_some());
    let (elicited, listed, sampled) = (has(&["action"]), has(&["roots"]), has(&SAMPLE));
    if [elicited, listed, sampled]
        .into_iter()
        .filter(|is| *is)
        .count()
        > 1
        || (listed && has(&["content"]))
    {
        return Err(invalid_request(
            "/result",
            "has members of answers to several requests: send those of one",
        ));
    }
    let mut said = result.members().iter().filter(|member| says(member));
    if said.next().is_none() {
        return Ok(None);
    }
    Ok(Some(match result {
        _ if elicited => ELICITED,
        _ if listed => ROOTS,
        _ if has(&["role"]) && has(&["content"]) => SAMPLED,
        _ => ANSWERED,
    }))
}

/// Whether a member of an answer tells the server more than that it has one, or that the user gave none.
fn says(member: &Member) -> bool {
    let value = &member.value;
    match &*member.key {
        key if ASIDE.contains(&key) => false,
        "resultType" => value.as_str() != Some("complete"),
        "action" => !matches!(value.as_str(), Some("decline" | "cancel")),
        "content" => !matches!(value.kind, Kind::Null),
        _ => true,
    }
}

/// Members as an object's text.
fn object<'m>(members: impl Iterator<Item = (&'m [u8], &'m [u8])>) -> Vec<u8> {
    let mut text = vec![b'{'];
    for (index, (key, value)) in members.enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(key);
        text.push(b':');
        text.extend_from_slice(value);
    }
    text.push(b'}');
    text
}

/// The bytes of each member that `keep` keeps.
fn members<'d>(
    document: &'d Document,
    node: Option<&'d Node>,
    keep: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (&'d [u8], &'d [u8])> {
    let bytes = document.bytes();
    let raw = |span: std::ops::Range<usize>| bytes.get(span).unwrap_or_default();
    node.map_or(&[][..], Node::members)
        .iter()
        .filter(move |member| keep(&member.key))
        .map(move |member| (raw(member.key_span.clone()), raw(member.value.span.clone())))
}

impl Asked<'_> {
    /// The arguments to judge: a JSON object.
    fn arguments(&self, document: &Document) -> Bytes {
        match self.at {
            At::Arguments(params) => {
                let arguments = present(params, "arguments");
                if present(params, INPUTS).is_none() {
                    return arguments.map_or(Bytes::from_static(b"{}"), |node| document.raw(node));
                }
                let own = members(document, arguments, |_| true);
                let inputs = members(document, Some(params), |key| key == INPUTS);
                object(own.chain(inputs)).into()
            }
            At::Params(node) => object(members(document, node, |key| !ASIDE.contains(&key))).into(),
            At::Result(node) => {
                object(members(document, Some(node), |key| !ASIDE.contains(&key))).into()
            }
        }
    }

    /// Where a person finds the call.
    fn pointer(&self) -> &'static str {
        match self.at {
            At::Arguments(_) => "/params/arguments",
            At::Params(_) => "/params",
            At::Result(_) => "/result",
        }
    }

    /// The call as an item. What cannot be read is refused by the guard.
    pub(super) fn located(
        &self,
        request: &Request,
        document: &Document,
        wrapped: &[Wrapped],
    ) -> Located {
        let tool = ToolName::from(self.tool);
        let call_id = id_text(document, self.id);
        let parts = &request.parts;
        let again = self.again || wish::again(&parts.headers);
        let answered = parts.extensions.get::<Answered>();
        let hint = answered.map(|answered| Arc::clone(&answered.ticket));
        let named = parts.extensions.get::<Named>();
        let hint = hint
            .or_else(|| named.map(|named| Arc::clone(&named.0)))
            .or_else(|| wish::ticket(&parts.headers));
        let item = match Arguments::read(self.arguments(document)) {
            Ok(args) => {
                let call = ToolCall {
                    call_id,
                    again,
                    hint,
                    ..ToolCall::new(tool, args)
                };
                // Only a tool carries other calls.
                match self.at {
                    At::Arguments(_) => no_method(wrapped::judged(wrapped, call)),
                    _ => Item::ToolCall(call),
                }
            }
            Err(error) => Item::Unreadable(UnreadableCall {
                tool,
                call_id,
                cause: error.to_string(),
            }),
        };
        Located {
            place: Place {
                pointer: self.pointer().to_owned(),
                span: None,
            },
            item,
        }
    }
}

/// The request with the call in its stored form (RFC 8785 JSON).
///
/// # Errors
/// A stored form that does not fit.
pub(super) fn bound(
    request: &mut Request,
    stored: &Bytes,
    wrapped: &[Wrapped],
) -> Result<(), Malformed> {
    let old = document(request)?.clone();
    let message = Message::read(&old)?;
    let asked = asked(&message)?.ok_or_else(unwritable)?;
    let outer = match asked.at {
        At::Arguments(_) => {
            let outer = asked.arguments(&old);
            wrapped::rewrapped(wrapped, &asked.tool.into(), &outer, stored)
                .ok_or_else(unwritable)?
        }
        _ => stored.clone(),
    };
    let stored = Document::read(outer, BODY_DEPTH).map_err(|_| unwritable())?;
    let new = Some(stored.root());
    let mut changed = Vec::new();
    let mut splice = Splice::new(&old);
    match asked.at {
        At::Arguments(params) => {
            // Answers stand beside the arguments, where they came.
            let beside = present(params, INPUTS).is_some();
            let text = object(members(&stored, new, |key| !(beside && key == INPUTS)));
            match params.get("arguments") {
                Some(arguments) => {
                    headers::renumbered(
                        (old.bytes(), arguments),
                        (stored.bytes(), stored.root()),
                        &mut changed,
                    );
                    splice.replace(arguments, text);
                }
                None if text == b"{}" => {}
                None => return Err(unwritable()),
            }
        }
        At::Params(node) => {
            let aside = members(&old, node, |key| ASIDE.contains(&key));
            let text = object(members(&stored, new, |_| true).chain(aside));
            match node {
                Some(node) => splice.replace(node, text),
                None if text == b"{}" => {}
                None => return Err(unwritable()),
            }
        }
        At::Result(node) => {
            let aside = members(&old, Some(node), |key| ASIDE.contains(&key));
            splice.replace(node, object(members(&stored, new, |_| true).chain(aside)));
        }
    }
    let body = splice.finish();
    headers::renumber(&mut request.parts.headers, &changed);
    request.json = Some(Document::read(body.clone(), BODY_DEPTH).map_err(|_| unwritable())?);
    request.body = body;
    Ok(())
}
