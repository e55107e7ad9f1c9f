//! Requests: which endpoints are understood, and where tool outputs and definitions stand.

use std::collections::HashMap;
use std::sync::Arc;

use http::Method;
use http::request::Parts;

use super::{invalid_request, lookalike, media_type, present};
use crate::item::{Item, Located, Place, ToolDefinition, ToolOutput};
use crate::names::ToolName;
use crate::protocols::{MOST_TEXTS, Malformed, Request};
use crate::wire::json::{Kind, Node};

/// Roles whose text comes from the operator, the user or the model; every other text is untrusted.
const TRUSTED_ROLES: [&str; 4] = ["system", "developer", "user", "assistant"];

/// An item with what stands in its place in the tree.
pub(super) struct Found<'d> {
    pub located: Located,
    pub slot: Slot<'d>,
}

/// What a ruling edits.
#[derive(Clone, Copy)]
pub(super) enum Slot<'d> {
    /// A string.
    Text(&'d Node),
    /// An element of the array under this key of the body.
    Tool(&'static str, usize),
}

/// Every item of a request, in message order.
pub(super) fn items(request: &Request) -> Result<Vec<Located>, Malformed> {
    if !is_completion(&request.parts)? {
        if request.body.is_empty() {
            return Ok(Vec::new());
        }
        return Err(Malformed {
            code: "invalid_request",
            message: "a GET request must not have a body".to_owned(),
        });
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

/// `/models`, or `/models/` and an id, which may have slashes but no segment that a server could resolve to another path.
fn is_model_path(path: &str) -> bool {
    let Some(rest) = path.strip_prefix("/models") else {
        return false;
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:@".contains(&b);
    rest.is_empty()
        || rest.strip_prefix('/').is_some_and(|id| {
            id.split('/')
                .all(|part| part.bytes().all(plain) && !matches!(part, "" | "." | ".."))
        })
}

/// The body of a completion request.
pub(super) fn body(request: &Request) -> Result<&Node, Malformed> {
    if media_type(&request.parts.headers).as_deref() != Some("application/json") {
        return Err(Malformed {
            code: "unsupported_media_type",
            message: "send the request with content-type: application/json".to_owned(),
        });
    }
    let document = request.json.as_ref().ok_or_else(|| Malformed {
        code: "invalid_json",
        message: "the request has no body".to_owned(),
    })?;
    Ok(document.root())
}

/// Every item with its node.
pub(super) fn found(body: &Node) -> Result<Vec<Found<'_>>, Malformed> {
    let mut finder = Finder::default();
    check(body, "", &["messages", "tools", "functions", "tool_choice"])?;
    for key in ["tools", "functions"] {
        for (index, tool) in list(body, "", key)?.iter().enumerate() {
            finder.definition(key, index, tool)?;
        }
    }
    if present(body, "messages").is_none() {
        return Err(invalid_request("/messages", "is missing"));
    }
    for (index, message) in list(body, "", "messages")?.iter().enumerate() {
        finder.message(message, &format!("/messages/{index}"))?;
    }
    if finder.found.len() > MOST_TEXTS {
        return Err(Malformed {
            code: "body_too_large",
            message: format!("the request has more than {MOST_TEXTS} texts of tools"),
        });
    }
    Ok(finder.found)
}

#[derive(Default)]
struct Finder<'d> {
    found: Vec<Found<'d>>,
    /// The tool of every call that the conversation has shown so far, by its id.
    tools: HashMap<&'d str, ToolName>,
}

impl<'d> Finder<'d> {
    fn definition(
        &mut self,
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
        let mut text = String::new();
        strings(tool, &mut text);
        self.found.push(Found {
            located: Located {
                place: place(pointer, tool),
                item: Item::Definition(ToolDefinition {
                    tool: ToolName::from(name),
                    text: text.into(),
                }),
            },
            slot: Slot::Tool(key, index),
        });
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
        let pointer = format!("{pointer}/content");
        let Some(content) = present(message, "content") else {
            return Ok(());
        };
        match &content.kind {
            Kind::String(_) => self.output(content, pointer, source),
            Kind::Array(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    let pointer = format!("{pointer}/{index}");
                    check(part, &pointer, &["type", "text"])?;
                    self.part(part, &pointer, source);
                }
            }
            _ => {
                return Err(invalid_request(
                    &pointer,
                    "must be a string or an array of parts",
                ));
            }
        }
        Ok(())
    }

    /// Every string of a part, whatever its type, but not the type itself.
    fn part(&mut self, part: &'d Node, pointer: &str, source: &Source) {
        match &part.kind {
            Kind::Object(members) => {
                for member in members.iter().filter(|member| &*member.key != "type") {
                    let pointer = below(pointer, &member.key);
                    self.leaves(&member.value, pointer, source);
                }
            }
            _ => self.leaves(part, pointer.to_owned(), source),
        }
    }

    fn leaves(&mut self, node: &'d Node, pointer: String, source: &Source) {
        match &node.kind {
            Kind::String(_) => self.output(node, pointer, source),
            Kind::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    self.leaves(element, below(&pointer, &index.to_string()), source);
                }
            }
            Kind::Object(members) => {
                for member in members {
                    self.leaves(&member.value, below(&pointer, &member.key), source);
                }
            }
            Kind::Null | Kind::Bool(_) | Kind::Number => {}
        }
    }

    fn output(&mut self, text: &'d Node, pointer: String, source: &Source) {
        // One more tells that there are too many.
        if self.found.len() > MOST_TEXTS {
            return;
        }
        self.found.push(Found {
            located: Located {
                place: place(pointer, text),
                item: Item::ToolOutput(ToolOutput {
                    tool: source.tool.clone(),
                    call_id: source.call_id.clone(),
                    text: text.as_str().unwrap_or_default().into(),
                }),
            },
            slot: Slot::Text(text),
        });
    }
}

/// Which call an output answers.
struct Source {
    tool: Option<ToolName>,
    call_id: Option<Arc<str>>,
}

fn place(pointer: String, node: &Node) -> Place {
    Place {
        pointer,
        span: Some(node.span.clone()),
    }
}

/// An array of objects; empty where there is none.
fn list<'d>(object: &'d Node, pointer: &str, key: &str) -> Result<&'d [Node], Malformed> {
    let Some(node) = present(object, key) else {
        return Ok(&[]);
    };
    let pointer = format!("{pointer}/{key}");
    let Kind::Array(elements) = &node.kind else {
        return Err(invalid_request(&pointer, "must be an array"));
    };
    match elements
        .iter()
        .position(|element| !matches!(element.kind, Kind::Object(_)))
    {
        Some(index) => Err(invalid_request(
            &format!("{pointer}/{index}"),
            "must be an object",
        )),
        None => Ok(elements),
    }
}

fn check(object: &Node, pointer: &str, known: &[&str]) -> Result<(), Malformed> {
    match lookalike(object, known) {
        Some(key) => Err(invalid_request(
            pointer,
            &format!("has a key that some readers take for `{key}`: write it exactly so"),
        )),
        None => Ok(()),
    }
}

/// Every key and string below a node, a line each.
fn strings(node: &Node, out: &mut String) {
    match &node.kind {
        Kind::String(text) => line(text, out),
        Kind::Array(elements) => elements.iter().for_each(|element| strings(element, out)),
        Kind::Object(members) => {
            for member in members {
                line(&member.key, out);
                strings(&member.value, out);
            }
        }
        Kind::Null | Kind::Bool(_) | Kind::Number => {}
    }
}

fn line(text: &str, out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(text);
}

fn below(pointer: &str, key: &str) -> String {
    let mut pointer = pointer.to_owned();
    Place::push_step(&mut pointer, key);
    pointer
}
