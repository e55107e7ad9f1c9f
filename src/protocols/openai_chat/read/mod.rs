//! Requests: where untrusted texts, tool definitions and provider-run tools stand.

mod content;
mod made;
mod tools;

use std::collections::HashMap;
use std::sync::Arc;

pub(super) use made::made;

use super::routes::{Endpoint, endpoint};
use super::{Rules, exact_keys_in_request as check, invalid_request, present};
use crate::item::{Arguments, Item, Located, Origin, Place, ToolCall};
use crate::names::ToolName;
use crate::protocols::endpoint::{body, no_body};
use crate::protocols::strict::list;
use crate::protocols::texts::{Found, Source, Texts};
use crate::protocols::{Malformed, Request, untrusted, wrapped};
use crate::provenance::Said;
use crate::settings::ModelRoute;
use crate::wire::json::{Kind, Node};

/// Roles whose text comes from the operator, the user or the model; every other text is untrusted.
const TRUSTED_ROLES: [&str; 4] = ["system", "developer", "user", "assistant"];

/// Members of the request that the reader looks at.
const ROOT: [&str; 10] = [
    "model",
    "models",
    "messages",
    "tools",
    "functions",
    "tool_choice",
    "function_call",
    "prediction",
    "documents",
    "stream",
];

/// Members of a message that the reader looks at.
const MESSAGE: [&str; 8] = [
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "name",
    "refusal",
    "annotations",
];

/// Members of a message that are not text of anybody.
const SILENT: [&str; 5] = ["role", "name", "tool_call_id", "audio", "cache_control"];

/// Members that say more of what the role says, besides its content.
const SAID: [&str; 3] = ["refusal", "reasoning_content", "reasoning"];

/// Every item of a request, in message order.
pub(super) fn items(request: &Request, rules: &Rules) -> Result<Vec<Located>, Malformed> {
    if endpoint(&request.parts)? == Endpoint::Models {
        return no_body(request).map(|()| Vec::new());
    }
    Ok(found(body(request)?, &rules.route)?
        .into_iter()
        .map(|found| found.located)
        .collect())
}

/// Who said what in a request.
pub(super) fn said(request: &Request, rules: &Rules) -> Result<Vec<Said>, Malformed> {
    if endpoint(&request.parts)? == Endpoint::Models {
        return Ok(Vec::new());
    }
    let mut texts = Texts::default();
    conversation(body(request)?, &rules.route, &mut texts)?;
    Ok(texts.conversation())
}

/// Every item with its node.
pub(super) fn found<'d>(
    body: &'d Node,
    route: &'d ModelRoute,
) -> Result<Vec<Found<'d>>, Malformed> {
    texts(body, route)?.finish("body_too_large")
}

fn texts<'d>(body: &'d Node, route: &'d ModelRoute) -> Result<Texts<'d>, Malformed> {
    let mut texts = Texts::default();
    check(body, "", &ROOT)?;
    check(body, "", &tools::FIELDS)?;
    tools::find(body, &mut texts)?;
    conversation(body, route, &mut texts)?;
    Ok(texts)
}

/// Adds what the messages say, and what stands beside them. Definitions of tools are nobody's words.
fn conversation<'d>(
    body: &'d Node,
    route: &'d ModelRoute,
    texts: &mut Texts<'d>,
) -> Result<(), Malformed> {
    let mut finder = Finder {
        route,
        texts,
        tools: HashMap::new(),
    };
    if present(body, "messages").is_none() {
        return Err(invalid_request("/messages", "is missing"));
    }
    for (index, message) in list(body, "", "messages")?.iter().enumerate() {
        finder.message(message, &format!("/messages/{index}"))?;
    }
    // What is likely to be in the answer is a file that the agent has read.
    if let Some(prediction) = present(body, "prediction") {
        check(prediction, "/prediction", &["type", "content"])?;
        finder.untrusted(prediction, "/prediction", &Source::default())?;
    }
    // Some backends put what was retrieved beside the messages.
    if let Some(documents) = present(body, "documents") {
        let pointer = &mut "/documents".to_owned();
        (finder.texts).leaves(documents, pointer, &Source::default(), true);
    }
    Ok(())
}

struct Finder<'d, 't> {
    route: &'d ModelRoute,
    texts: &'t mut Texts<'d>,
    /// The tool of every call that the conversation has shown so far, by its id.
    tools: HashMap<&'d str, ToolName>,
}

impl<'d> Finder<'d, '_> {
    fn message(&mut self, message: &'d Node, pointer: &str) -> Result<(), Malformed> {
        check(message, pointer, &MESSAGE)?;
        let role = message
            .get("role")
            .and_then(Node::as_str)
            .ok_or_else(|| invalid_request(&format!("{pointer}/role"), "must be a string"))?;
        self.calls(message, pointer)?;
        let trusted = TRUSTED_ROLES.contains(&role);
        let source = if trusted {
            Source::default()
        } else {
            self.answered(message)
        };
        if !trusted || untrusted::is_whole(&self.route.untrusted, role) {
            let said = Source {
                origin: untrusted::origin(role),
                ..source.clone()
            };
            self.untrusted(message, pointer, &said)?;
            for key in SAID {
                self.below(message, key, pointer, &said);
            }
        } else {
            self.trusted(message, pointer, role)?;
        }
        self.unknown(message, pointer, &source);
        Ok(())
    }

    /// The call that a message answers.
    fn answered(&self, message: &Node) -> Source {
        let id = message.get("tool_call_id").and_then(Node::as_str);
        let named = message.get("name").and_then(Node::as_str);
        Source {
            tool: id
                .and_then(|id| self.tools.get(id).cloned())
                .or_else(|| named.map(ToolName::from)),
            call_id: id.map(Arc::from),
            origin: Origin::Tool,
        }
    }

    /// Earlier calls: nobody can tell one that the model made from one that was forged.
    fn calls(&mut self, message: &'d Node, pointer: &str) -> Result<(), Malformed> {
        for (index, call) in list(message, pointer, "tool_calls")?.iter().enumerate() {
            let pointer = format!("{pointer}/tool_calls/{index}");
            check(call, &pointer, &["id", "type", "function", "custom"])?;
            let id = call.get("id").and_then(Node::as_str);
            for (form, text) in [("function", "arguments"), ("custom", "input")] {
                if let Some(body) = present(call, form) {
                    self.call(id, body, text, &format!("{pointer}/{form}"))?;
                }
            }
        }
        match present(message, "function_call") {
            Some(body) => self.call(None, body, "arguments", &format!("{pointer}/function_call")),
            None => Ok(()),
        }
    }

    fn call(
        &mut self,
        id: Option<&'d str>,
        body: &'d Node,
        key: &str,
        pointer: &str,
    ) -> Result<(), Malformed> {
        check(body, pointer, &["name", key])?;
        let node = present(body, key);
        let name = body.get("name").and_then(Node::as_str);
        let tool = name.map(|name| self.inner(name, node));
        if let (Some(id), Some(tool)) = (id, &tool) {
            self.tools.insert(id, tool.clone());
        }
        let source = Source {
            tool,
            call_id: id.map(Arc::from),
            origin: Origin::Tool,
        };
        let from = self.texts.len();
        let mut pointer = format!("{pointer}/{key}");
        match node {
            Some(node) if node.as_str().is_some() && key == "arguments" => {
                self.texts.arguments(node, pointer, &source);
            }
            // Backends differ in whether arguments may be an object.
            Some(node) => self.texts.leaves(node, &mut pointer, &source, true),
            None => {}
        }
        self.texts.call(id, node, from);
        Ok(())
    }

    /// The tool that a call really called.
    fn inner(&self, name: &str, arguments: Option<&Node>) -> ToolName {
        let tool = ToolName::from(name);
        let wrapped = &self.route.wrapped;
        let written = arguments.and_then(Node::as_str);
        let Some(written) = written.filter(|_| wrapped.iter().any(|rule| rule.tool == tool)) else {
            return tool;
        };
        let Ok(args) = Arguments::read(written.as_bytes().to_vec().into()) else {
            return tool;
        };
        let call = ToolCall::new(tool.clone(), args);
        match wrapped::judged(wrapped, call) {
            Item::ToolCall(inner) => inner.tool,
            _ => tool,
        }
    }

    /// Members that this reader does not know, and what a search has found: untrusted, whoever says it.
    fn unknown(&mut self, message: &'d Node, pointer: &str, source: &Source) {
        for member in message.members() {
            let key = &*member.key;
            let read = [
                "content",
                "tool_calls",
                "function_call",
                "reasoning_details",
            ];
            if !(SILENT.contains(&key) || SAID.contains(&key) || read.contains(&key)) {
                self.below(message, key, pointer, source);
            }
        }
    }

    /// Every string below a member, and every key.
    fn below(&mut self, object: &'d Node, key: &str, pointer: &str, source: &Source) {
        if let Some(node) = present(object, key) {
            let mut pointer = pointer.to_owned();
            Place::push_step(&mut pointer, key);
            self.texts.leaves(node, &mut pointer, source, true);
        }
    }
}

/// The parts of a content; empty where there is none. A string is no part.
fn parts<'d>(content: &'d Node, pointer: &str) -> Result<&'d [Node], Malformed> {
    match &content.kind {
        Kind::Array(parts) => Ok(parts),
        Kind::String(_) => Ok(&[]),
        _ => Err(invalid_request(
            pointer,
            "must be a string or an array of parts",
        )),
    }
}
