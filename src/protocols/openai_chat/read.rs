//! Requests: which endpoints are understood, and where tool outputs and definitions stand.

use std::collections::HashMap;
use std::sync::Arc;

use http::Method;
use http::request::Parts;

use super::{exact_keys_in_request as check, invalid_request, present};
use crate::item::{Located, Place};
use crate::names::ToolName;
use crate::protocols::endpoint::{body, is_model_path, no_body};
use crate::protocols::strict::list;
use crate::protocols::texts::{Found, Source, Texts};
use crate::protocols::{Malformed, Request};
use crate::wire::json::{Kind, Node};

/// Roles whose text comes from the operator, the user or the model; every other text is untrusted.
const TRUSTED_ROLES: [&str; 4] = ["system", "developer", "user", "assistant"];

/// Every item of a request, in message order.
pub(super) fn items(request: &Request) -> Result<Vec<Located>, Malformed> {
    if !is_completion(&request.parts)? {
        return no_body(request).map(|()| Vec::new());
    }
    Ok(found(body(request)?)?
        .into_iter()
        .map(|found| found.located)
        .collect())
}

/// Whether the request asks for a completion; `false` for those without tool content. Anything else is refused.
fn is_completion(parts: &Parts) -> Result<bool, Malformed> {
    let path = parts.uri.path();
    // Users put `/v1` into the base URL, on either side.
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let (completion, method) = if path == "/chat/completions" {
        (true, Method::POST)
    } else if is_model_path(path) {
        (false, Method::GET)
    } else {
        return Err(Malformed {
            code: "endpoint_unknown",
            message: "this route serves POST /v1/chat/completions and GET /v1/models only"
                .to_owned(),
        });
    };
    if parts.method != method {
        return Err(Malformed {
            code: "method_not_allowed",
            message: format!("this endpoint takes {method} only"),
        });
    }
    Ok(completion)
}

/// Every item with its node.
pub(super) fn found(body: &Node) -> Result<Vec<Found<'_>>, Malformed> {
    let mut finder = Finder::default();
    check(body, "", &["messages", "tools", "functions", "tool_choice"])?;
    for key in ["tools", "functions"] {
        for (index, tool) in list(body, "", key)?.iter().enumerate() {
            finder.definition(body, key, index, tool)?;
        }
    }
    if present(body, "messages").is_none() {
        return Err(invalid_request("/messages", "is missing"));
    }
    for (index, message) in list(body, "", "messages")?.iter().enumerate() {
        finder.message(message, &format!("/messages/{index}"))?;
    }
    finder.texts.finish("body_too_large")
}

#[derive(Default)]
struct Finder<'d> {
    texts: Texts<'d>,
    /// The tool of every call that the conversation has shown so far, by its id.
    tools: HashMap<&'d str, ToolName>,
}

impl<'d> Finder<'d> {
    fn definition(
        &mut self,
        body: &'d Node,
        key: &'static str,
        index: usize,
        tool: &'d Node,
    ) -> Result<(), Malformed> {
        let pointer = format!("/{key}/{index}");
        check(tool, &pointer, &["type", "function", "custom"])?;
        let inner = present(tool, "function").or_else(|| present(tool, "custom"));
        let described = inner.unwrap_or(tool);
        check(
            described,
            &pointer,
            &["name", "description", "parameters", "format"],
        )?;
        // A tool of the provider's own has only a type.
        let name = described
            .get("name")
            .or_else(|| tool.get("type").filter(|_| inner.is_none()))
            .and_then(Node::as_str)
            .ok_or_else(|| invalid_request(&pointer, "has no name"))?;
        if let Some(list) = body.get(key) {
            self.texts
                .definition(list, index, ToolName::from(name), pointer);
        }
        Ok(())
    }

    fn message(&mut self, message: &'d Node, pointer: &str) -> Result<(), Malformed> {
        check(
            message,
            pointer,
            &["role", "content", "tool_calls", "tool_call_id", "name"],
        )?;
        let role = message
            .get("role")
            .and_then(Node::as_str)
            .ok_or_else(|| invalid_request(&format!("{pointer}/role"), "must be a string"))?;
        for call in list(message, pointer, "tool_calls")? {
            let body = present(call, "function").or_else(|| present(call, "custom"));
            let name = body.and_then(|body| body.get("name")?.as_str());
            if let (Some(id), Some(name)) = (call.get("id").and_then(Node::as_str), name) {
                self.tools.insert(id, name.into());
            }
        }
        if TRUSTED_ROLES.contains(&role) {
            return Ok(());
        }
        let id = message.get("tool_call_id").and_then(Node::as_str);
        let named = message.get("name").and_then(Node::as_str);
        let source = Source {
            tool: id
                .and_then(|id| self.tools.get(id).cloned())
                .or_else(|| named.map(ToolName::from)),
            call_id: id.map(Arc::from),
        };
        self.content(message, pointer, &source)
    }

    fn content(
        &mut self,
        message: &'d Node,
        pointer: &str,
        source: &Source,
    ) -> Result<(), Malformed> {
        let mut pointer = format!("{pointer}/content");
        let Some(content) = present(message, "content") else {
            return Ok(());
        };
        let parts = match &content.kind {
            Kind::String(_) => {
                self.texts.text(content, pointer, source);
                return Ok(());
            }
            Kind::Array(parts) => parts,
            _ => {
                return Err(invalid_request(
                    &pointer,
                    "must be a string or an array of parts",
                ));
            }
        };
        let from = self.texts.len();
        let length = pointer.len();
        for (index, part) in parts.iter().enumerate() {
            Place::push_step(&mut pointer, &index.to_string());
            check(part, &pointer, &["type", "text"])?;
            self.part(part, &mut pointer, source);
            pointer.truncate(length);
        }
        self.texts.join(from, &pointer, source);
        Ok(())
    }

    /// Every string of a part, whatever its type, but not the type itself.
    fn part(&mut self, part: &'d Node, pointer: &mut String, source: &Source) {
        let Kind::Object(members) = &part.kind else {
            return self.texts.leaves(part, pointer, source, true);
        };
        let length = pointer.len();
        for member in members.iter().filter(|member| &*member.key != "type") {
            Place::push_step(pointer, &member.key);
            self.texts.leaves(&member.value, pointer, source, true);
            pointer.truncate(length);
        }
    }
}
