//! Rulings written back into requests, and refusals.

use std::collections::HashSet;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::json;

use super::read;
use super::seal::{is_within, sealed};
use crate::guard::Decision;
use crate::item::Item;
use crate::protocols::texts::{self, Found, Gone, Slot};
use crate::protocols::{Malformed, Refusal, Request, Written, note, unwritable};
use crate::settings::Untrusted;
use crate::verdict::{Reason, Ruling, Verdict};
use crate::wire::json::{BODY_DEPTH, Document, Node};
use crate::wire::splice::Splice;

/// Writes the rulings into a request. What no ruling touches keeps its bytes.
pub(super) fn write(
    mut request: Request,
    decision: &Decision,
    rules: &Untrusted,
) -> Result<Written, Malformed> {
    let allowed = |ruling: &Ruling| matches!(ruling.verdict, Verdict::Allow);
    if decision.rulings.iter().all(allowed) {
        return Ok(Written::Forward(request));
    }
    let document = request.json.take().ok_or_else(unwritable)?;
    let root = document.root();
    let found = read::found(root, rules)?;
    if let Some(refusal) = refused(root, &found, &decision.rulings) {
        return Ok(Written::Refuse(refusal));
    }
    let mut splice = Splice::new(&document);
    let gone = texts::write(&mut splice, &found, &decision.rulings)?;
    withdraw(&mut splice, root, &found, &decision.rulings, &gone)?;
    let body = splice.finish();
    request.json = Some(Document::read(body.clone(), BODY_DEPTH).map_err(|_| unwritable())?);
    request.body = body;
    Ok(Written::Forward(request))
}

/// The refusal of a request that cannot be sent without what was ruled against: a tool of the provider, or a part of a turn
/// that the provider takes back only unchanged.
fn refused(root: &Node, found: &[Found<'_>], rulings: &[Ruling]) -> Option<Refusal> {
    let sealed = sealed(root);
    found.iter().zip(rulings).find_map(|(item, ruling)| {
        let finding = ruling.verdict.finding()?;
        let stuck = matches!(item.slot, Slot::Whole) || is_within(item, found, &sealed);
        stuck.then(|| Refusal::of(finding, None))
    })
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
    let ticket = refusal.hold.as_ref().and_then(|hold| hold.ticket.as_ref());
    let expires = refusal
        .hold
        .as_ref()
        .and_then(|hold| hold.expires_at.as_ref());
    let facts: Vec<String> = [
        Some(format!("code: {}", refusal.code)),
        ticket.map(|id| format!("ticket: {id}")),
        expires.map(|at| format!("expires: {at}")),
    ]
    .into_iter()
    .flatten()
    .collect();
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
    let mut response = http::Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = refusal.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if !refusal.retry {
        let name = HeaderName::from_static("x-should-retry");
        headers.insert(name, HeaderValue::from_static("false"));
    }
    response
}
