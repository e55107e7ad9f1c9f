//! Rulings written back into requests, and refusals.

use std::collections::HashSet;

use bytes::Bytes;
use http::StatusCode;
use serde_json::json;

use super::read;
use super::seal::{is_within, sealed};
use crate::guard::Decision;
use crate::item::Item;
use crate::protocols::edited::{self, Edited};
use crate::protocols::texts::{self, Found, Gone};
use crate::protocols::{Malformed, Refusal, Request, Written, note, unwritable};
use crate::settings::Untrusted;
use crate::verdict::{Reason, Ruling};
use crate::wire::json::{Kind, Node};
use crate::wire::splice::{Splice, quote};

/// Writes the rulings into a request. What no ruling touches keeps its bytes.
pub(super) fn write(
    request: Request,
    decision: &Decision,
    rules: &Untrusted,
) -> Result<Written, Malformed> {
    edited::write(request, decision, |document| {
        let root = document.root();
        let found = read::found(root, rules)?;
        let sealed = sealed(root);
        let is_stuck = |item: &Found<'_>| is_within(item, &found, &sealed);
        let rulings = edited::settled(&found, &decision.rulings, is_stuck);
        if let Some(refusal) = edited::refused(&found, &rulings, is_stuck) {
            return Ok(Edited::Refused(Box::new(refusal)));
        }
        let mut splice = Splice::new(document);
        let gone = texts::write(&mut splice, &found, &rulings)?;
        withdraw(&mut splice, root, &found, &rulings, &gone)?;
        if let Some(preface) = &decision.preface {
            say_first(&mut splice, root, preface);
        }
        Ok(Edited::Body(splice.finish()))
    })
}

/// Adds a line to the system prompt.
fn say_first(splice: &mut Splice<'_>, root: &Node, line: &str) {
    match root.get("system") {
        Some(system) if matches!(system.kind, Kind::Array(_)) => {
            splice.add_element(system, &said(line));
        }
        Some(system) => match system.as_str() {
            Some(text) => splice.replace_text(system, &note::after(text, line)),
            // `null`, which says nothing.
            None => splice.replace_text(system, line),
        },
        None => splice.add_member(root, "system", &quote(line)),
    }
}

/// Takes denied tools out, with what refers to them.
fn withdraw(
    splice: &mut Splice<'_>,
    root: &Node,
    found: &[Found<'_>],
    rulings: &[Ruling],
    gone: &[Gone<'_>],
) -> Result<(), Malformed> {
    let mut lists: Vec<(&Node, HashSet<usize>)> = Vec::new();
    let mut names = HashSet::new();
    for element in gone {
        let Some(Item::Definition(definition)) =
            found.get(element.item).map(|found| &found.located.item)
        else {
            return Err(unwritable());
        };
        names.insert(definition.tool.as_str());
        let block = element.list.elements().get(element.index);
        if let Some(block) = block.filter(|block| is_of(block, "tool_addition")) {
            // The block stays, so that its message is never empty.
            let reason = rulings.get(element.item).and_then(|r| r.verdict.finding());
            let reason = reason.map_or(Reason::Undecided, |finding| finding.reason);
            splice.replace(block, said(&note::withheld_definition(reason)));
            continue;
        }
        match lists
            .iter_mut()
            .find(|(list, _)| std::ptr::eq(*list, element.list))
        {
            Some((_, indices)) => {
                indices.insert(element.index);
            }
            None => lists.push((element.list, HashSet::from([element.index]))),
        }
    }
    let mut members = HashSet::new();
    for (list, indices) in &lists {
        let of_root = root
            .get("tools")
            .is_some_and(|tools| std::ptr::eq(tools, *list));
        if of_root && indices.len() == list.elements().len() {
            members.extend(["tools", "tool_choice"]);
        } else {
            splice.remove_elements(list, |index| indices.contains(&index));
        }
    }
    let choice = root
        .get("tool_choice")
        .and_then(|choice| choice.get("name")?.as_str());
    if choice.is_some_and(|name| names.contains(name)) {
        members.insert("tool_choice");
    }
    if !members.is_empty() {
        splice.remove_members(root, |key| members.contains(key));
    }
    if !names.is_empty() {
        for message in root.get("messages").map_or(&[][..], Node::elements) {
            references(splice, message, &names);
        }
    }
    Ok(())
}

/// Replaces references to tools that are gone, wherever they stand in a message: the provider refuses a dangling one.
fn references(splice: &mut Splice<'_>, node: &Node, gone: &HashSet<&str>) {
    let name = |node: &Node, key: &str| {
        let name = node.get(key).and_then(Node::as_str);
        name.is_some_and(|name| gone.contains(name))
    };
    let dangling = match node.get("type").and_then(Node::as_str) {
        Some("tool_reference") => name(node, "tool_name"),
        Some("tool_addition" | "tool_removal") => node
            .get("tool")
            .is_some_and(|tool| tool.get("definition").is_none() && name(tool, "name")),
        // Arguments are the model's words, whatever shape they have.
        Some("tool_use" | "server_tool_use" | "mcp_tool_use") => return,
        _ => false,
    };
    if dangling {
        let words = "[holdpoint: a tool that is not offered any more]";
        return splice.replace(node, said(words));
    }
    for element in node.elements() {
        references(splice, element, gone);
    }
    for member in node.members() {
        references(splice, &member.value, gone);
    }
}

fn is_of(block: &Node, kind: &str) -> bool {
    block.get("type").and_then(Node::as_str) == Some(kind)
}

/// A text block.
pub(super) fn said(text: &str) -> Vec<u8> {
    json!({ "type": "text", "text": text })
        .to_string()
        .into_bytes()
}

/// A refusal in the API's error shape.
pub(super) fn refuse(refusal: &Refusal) -> http::Response<Bytes> {
    let code = format!("code: {}", refusal.code);
    let facts = [vec![code], edited::facts(refusal)].concat();
    let message = format!("{} ({})", refusal.message, facts.join(", "));
    let kind = match refusal.status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        StatusCode::GATEWAY_TIMEOUT => "timeout_error",
        status if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    };
    let body = json!({
        "type": "error",
        "error": { "type": kind, "message": message, "code": refusal.code },
        "request_id": null,
    });
    edited::refusal(refusal, &body)
}
