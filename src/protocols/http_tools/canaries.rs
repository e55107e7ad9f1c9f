//! Every place of content in the calls of a REST backend, with a mark in it: for each mapped tool.

use http::{HeaderName, header};
use serde_json::json;

use super::HttpTools;
use crate::protocols::canary::Fate::{Judged, Passed, Refused};
use crate::protocols::canary::ItemKind::{ToolCall, ToolOutput};
use crate::protocols::canary::{Canary, MARK, Sample};
use crate::settings::{BodyKind, HttpTool};
use crate::unscanned::Unscanned;

/// The canaries of a route.
pub(super) fn canaries(adapter: &HttpTools) -> Vec<Canary> {
    let mut all: Vec<_> = adapter.0.tools().iter().flat_map(tool).collect();
    all.push(
        Sample::post(&format!("/{MARK}/holdpoint/no/such/path"), "{}")
            .canary("a path that no tool takes", Refused("endpoint_unknown")),
    );
    all
}

/// The template's path with `value` as its arguments.
fn path(tool: &HttpTool, value: &str) -> Option<String> {
    let mut filled = tool.path.clone();
    while let Some((before, rest)) = filled.split_once('{') {
        let (_, after) = rest.split_once('}')?;
        filled = format!("{before}{value}{after}");
    }
    Some(filled)
}

fn tool(tool: &HttpTool) -> Vec<Canary> {
    let (Some(plain), Some(marked)) = (path(tool, "x1"), path(tool, MARK)) else {
        return Vec::new();
    };
    let asked = Sample::new(tool.method.clone(), &plain);
    let mut all = Vec::new();
    if marked != plain {
        let sample = Sample::new(tool.method.clone(), &marked);
        all.push(sample.canary("call, argument in the path", Judged(ToolCall)));
    }
    let query = Sample::new(
        tool.method.clone(),
        &format!("{plain}?holdpoint_canary={MARK}"),
    );
    all.push(query.canary("call, argument in the query", Judged(ToolCall)));
    let body = json!({"holdpoint_canary": {"deep": [MARK]}}).to_string();
    if tool.bodies.contains(&BodyKind::Json) {
        all.push(
            asked
                .clone()
                .json(body)
                .canary("call, argument in a JSON body", Judged(ToolCall)),
        );
    }
    if tool.bodies.contains(&BodyKind::Form) {
        let mut form = asked
            .clone()
            .header(header::CONTENT_TYPE, BodyKind::Form.media_type());
        form.body = format!("holdpoint_canary={MARK}").into();
        all.push(form.canary("call, argument in a form", Judged(ToolCall)));
    }
    if tool.bodies.contains(&BodyKind::Multipart) {
        all.extend(parts(&asked));
    }
    for name in &tool.headers {
        if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
            let sample = asked.clone().header(name, MARK);
            all.push(sample.canary("call, argument in a header", Judged(ToolCall)));
        }
    }
    all.extend(answers(&asked));
    all
}

/// A body of one part of each kind.
fn parts(asked: &Sample) -> Vec<Canary> {
    let named = "Content-Disposition: form-data; name=\"holdpoint_canary\"";
    let json = format!("\r\nContent-Type: application/json\r\n\r\n{{\"a\":\"{MARK}\"}}");
    let kinds = [
        ("call, text part", format!("\r\n\r\n{MARK}"), false),
        ("call, JSON part", json, false),
        (
            "call, text of a file",
            format!("; filename=\"a\"\r\n\r\n{MARK}"),
            false,
        ),
        (
            "call, file that is no text",
            format!("; filename=\"a\"\r\n\r\n\0{MARK}"),
            true,
        ),
    ];
    let canaries = kinds.into_iter().map(|(content, rest, binary)| {
        let mut sample = asked
            .clone()
            .header(header::CONTENT_TYPE, "multipart/form-data; boundary=canary");
        sample.body = format!("--canary\r\n{named}{rest}\r\n--canary--\r\n").into();
        let fate = if binary {
            Passed(Unscanned::Binary)
        } else {
            Judged(ToolCall)
        };
        sample.canary(content, fate)
    });
    canaries.collect()
}

fn answers(asked: &Sample) -> Vec<Canary> {
    let mut all = Vec::new();
    let answers = [
        ("output, string of JSON", json!({"a": [{"b": MARK}]})),
        ("output, key of JSON", json!({MARK: 1})),
    ];
    for (content, json) in answers {
        all.push(asked.answered(json.to_string(), content, Judged(ToolOutput)));
    }
    for (content, media_type) in [
        ("output, text", "text/plain"),
        ("output, page", "text/html"),
        ("output, other type", "application/octet-stream"),
    ] {
        all.push(asked.answer(200, media_type, MARK, content, Judged(ToolOutput)));
    }
    let lines = format!("{{\"a\":1}}\n{{\"a\":\"{MARK}\"}}\n");
    all.push(asked.answer(
        200,
        "application/x-ndjson",
        lines,
        "output, JSON lines",
        Judged(ToolOutput),
    ));
    let event = json!({"a": MARK}).to_string();
    all.push(asked.streamed(&[("", event)], "output, JSON in events", Judged(ToolOutput)));
    all.push(asked.streamed(&[("", MARK)], "output, text in events", Judged(ToolOutput)));
    let error = json!({"detail": MARK}).to_string();
    all.push(asked.answer(
        500,
        "application/problem+json",
        error,
        "output, error",
        Judged(ToolOutput),
    ));
    all
}
