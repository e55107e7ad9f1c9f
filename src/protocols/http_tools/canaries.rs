//! Every place of content in the calls of a REST backend, with a mark in it: for each mapped tool.

use serde_json::json;

use super::HttpTools;
use crate::protocols::canary::Fate::{Judged, Refused};
use crate::protocols::canary::ItemKind::{ToolCall, ToolOutput};
use crate::protocols::canary::{Canary, MARK, Sample};
use crate::settings::{BodyKind, HttpTool};

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
