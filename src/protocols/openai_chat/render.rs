//! Rulings written back: into requests, and as what becomes of each call of a response.

use std::collections::HashSet;

use bytes::Bytes;
use http::StatusCode;
use serde_json::json;

use super::read;
use super::unwritable;
use crate::guard::Decision;
use crate::item::Item;
use crate::protocols::edited::{self, Edited};
use crate::protocols::{Malformed, Refusal, Request, Written, note, texts};
use crate::settings::ModelRoute;
use crate::wire::json::{Document, Kind, Node};
use crate::wire::splice::Splice;

/// Members of a request that only make sense beside its tools.
const BESIDE: [(&str, &[&str]); 2] = [
    ("tools", &["tool_choice", "parallel_tool_calls"]),
    ("functions", &["function_call"]),
];

/// Writes the rulings into a request. What no ruling touches keeps its bytes.
pub(super) fn write(
    request: Request,
    decision: &Decision,
    route: &ModelRoute,
) -> Result<Written, Malformed> {
    edited::write(request, decision, |document| {
        edited(document, decision, route)
    })
}

fn edited(
    document: &Document,
    decision: &Decision,
    route: &ModelRoute,
) -> Result<Edited, Malformed> {
    let found = read::found(document.root(), route)?;
    if let Some(refusal) = edited::refused(&found, &decision.rulings, |_| false) {
        return Ok(Edited::Refused(Box::new(refusal)));
    }
    let mut splice = Splice::new(document);
    let elements = texts::write(&mut splice, &found, &decision.rulings)?;
    let mut gone = Vec::new();
    for element in &elements {
        let key = BESIDE.into_iter().map(|(key, _)| key).find(|key| {
            document
                .root()
                .get(key)
                .is_some_and(|n| std::ptr::eq(n, element.list))
        });
        let item = found.get(element.item).map(|found| &found.located.item);
        match (key, item) {
            (Some(key), Some(Item::Definition(definition))) => {
                gone.push((key, element.index, definition.tool.as_str()));
            }
            _ => return Err(unwritable()),
        }
    }
    remove_tools(&mut splice, document.root(), &gone);
    if let Some(preface) = &decision.preface {
        say_first(&mut splice, document.root(), preface);
    }
    Ok(Edited::Body(splice.finish()))
}

/// Adds a line to the first message where it is a system prompt, else puts one before all.
fn say_first(splice: &mut Splice<'_>, root: &Node, line: &str) {
    let Some(messages) = root.get("messages") else {
        return;
    };
    let first = messages.elements().first();
    let role = first.and_then(|message| message.get("role")?.as_str());
    let prompt = first
        .filter(|_| matches!(role, Some("system" | "developer")))
        .and_then(|message| message.get("content"));
    match prompt {
        Some(content) if matches!(content.kind, Kind::Array(_)) => {
            let part = json!({ "type": "text", "text": line });
            splice.add_element(content, part.to_string().as_bytes());
        }
        Some(content) if content.as_str().is_some() => {
            let text = content.as_str().unwrap_or_default();
            splice.replace_text(content, &note::after(text, line));
        }
        _ => {
            let at = first.map_or(messages.span.start + 1, |first| first.span.start);
            let comma = if first.is_some() { "," } else { "" };
            let message = json!({ "role": "system", "content": line });
            splice.replace_span(at..at, format!("{message}{comma}"));
        }
    }
}

fn remove_tools(splice: &mut Splice<'_>, root: &Node, gone: &[(&str, usize, &str)]) {
    let mut members = HashSet::new();
    for (key, beside) in BESIDE {
        let indices: HashSet<usize> = gone.iter().filter(|g| g.0 == key).map(|g| g.1).collect();
        let Some(tools) = root.get(key).filter(|_| !indices.is_empty()) else {
            continue;
        };
        if indices.len() == tools.elements().len() {
            members.insert(key);
            members.extend(beside);
            continue;
        }
        splice.remove_elements(tools, |index| indices.contains(&index));
        for choice in beside {
            let Some(node) = root.get(choice) else {
                continue;
            };
            if gone.iter().any(|g| g.0 == key && Some(g.2) == chosen(node)) {
                members.insert(choice);
            } else if let Some(list) = node.get("allowed_tools").and_then(|a| a.get("tools")) {
                let tools = list.elements();
                let is_gone = |i: usize| {
                    let name = tools.get(i).and_then(chosen);
                    gone.iter().any(|g| g.0 == key && Some(g.2) == name)
                };
                if (0..tools.len()).all(is_gone) {
                    splice.replace_text(node, "none");
                } else {
                    splice.remove_elements(list, is_gone);
                }
            }
        }
    }
    if !members.is_empty() {
        splice.remove_members(root, |key| members.contains(key));
    }
}

/// The tool that a choice names.
fn chosen(choice: &Node) -> Option<&str> {
    let inner = choice.get("function").or_else(|| choice.get("custom"));
    inner.unwrap_or(choice).get("name")?.as_str()
}

/// Whether a finish reason speaks of calls: the others say what became of the text, and stay.
pub(super) fn names_calls(finish_reason: &str) -> bool {
    !matches!(finish_reason, "stop" | "length" | "content_filter")
}

/// A refusal in the API's error shape.
pub(super) fn refuse(refusal: &Refusal) -> http::Response<Bytes> {
    let facts = edited::facts(refusal);
    let message = if facts.is_empty() {
        refusal.message.clone()
    } else {
        format!("{} ({})", refusal.message, facts.join(", "))
    };
    let kind = match refusal.status {
        _ if refusal.reason.is_some() => "policy_error",
        status if status.is_server_error() => "server_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        _ => "invalid_request_error",
    };
    let body = json!({ "error": {
        "message": message, "type": kind, "param": null, "code": refusal.code,
    }});
    edited::refusal(refusal, &body)
}
