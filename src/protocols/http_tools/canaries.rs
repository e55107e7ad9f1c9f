//! Every place of content in the calls of a REST backend, with a mark in it: for each mapped tool.

use http::{HeaderName, header};
use serde_json::json;

use super::HttpTools;
use crate::protocols::canary::Fate::{Judged, Passed, Refused};
use crate::protocols::canary::ItemKind::{ToolCall, ToolOutput};
use crate::protocols::canary::{Canary, MARK, Sample};
use crate::settings::{BodyKind, HttpTool};
use crate::unscanned::Unscanned::Binary;

/// The canaries of a route.
pub(super) fn canaries(adapter: &HttpTools) -> Vec<Canary> {
    let mut all: Vec<_> = adapter.0.tools().iter().flat_map(tool).collect();
    all.extend(adapter.0.tools().first().map(answers).unwrap_or_default());
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
    all.extend(tool.headers.iter().filter_map(|name| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let sample = asked.clone().header(name, MARK);
        Some(sample.canary("call, argument in a header", Judged(ToolCall)))
    }));
    all.extend(tool.bodies.iter().flat_map(|kind| body(&asked, *kind)));
    all
}

/// The ways in which a body holds arguments.
fn body(asked: &Sample, kind: BodyKind) -> Vec<Canary> {
    let judged = |content_type, body: String, content| {
        let mut sample = asked.clone().header(header::CONTENT_TYPE, content_type);
        sample.body = body.into();
        sample.canary(content, Judged(ToolCall))
    };
    match kind {
        BodyKind::Json => vec![judged(
            "application/json",
            json!({"holdpoint_canary": {"deep": [MARK]}}).to_string(),
            "call, argument in a JSON body",
        )],
        BodyKind::Form => vec![judged(
            "application/x-www-form-urlencoded",
            format!("holdpoint_canary={MARK}"),
            "call, argument in a form",
        )],
        BodyKind::Multipart => {
            let form = "multipart/form-data; boundary=canary";
            let part = |more: &str, content: &str| {
                format!(
                    "--canary\r\nContent-Disposition: form-data; name=\"holdpoint_canary\"{more}\r\n\r\n{content}\r\n--canary--\r\n"
                )
            };
            let file = "; filename=\"f\"\r\nContent-Type: application/octet-stream";
            let mut binary = asked.clone().header(header::CONTENT_TYPE, form);
            binary.body = part(file, &format!("\0{MARK}")).into();
            vec![
                judged(form, part("", MARK), "call, argument in a part"),
                judged(form, part(file, MARK), "call, text in a file"),
                binary.canary("call, file that is no text", Passed(Binary)),
            ]
        }
    }
}

/// What a backend answers: all tools have one reader.
fn answers(tool: &HttpTool) -> Vec<Canary> {
    let Some(path) = path(tool, "x1") else {
        return Vec::new();
    };
    let asked = Sample::new(tool.method.clone(), &path);
    let text = json!({"a": [{"b": MARK}]}).to_string();
    let mut all = vec![
        asked.streamed(&[("", MARK)], "output, text", Judged(ToolOutput)),
        asked.streamed(
            &[("x", &text)],
            "output, string of JSON",
            Judged(ToolOutput),
        ),
    ];
    let error = json!({"detail": MARK}).to_string();
    for (status, media_type, body, content) in [
        (
            200,
            "application/json",
            text.clone(),
            "output, string of JSON",
        ),
        (
            200,
            "application/json",
            json!({MARK: 1}).to_string(),
            "output, key of JSON",
        ),
        (
            200,
            "application/x-ndjson",
            format!("{{}}\n{text}\n"),
            "output, JSON lines",
        ),
        (200, "text/plain", MARK.to_owned(), "output, text"),
        (200, "text/html", MARK.to_owned(), "output, page"),
        (
            200,
            "application/octet-stream",
            MARK.to_owned(),
            "output, other type",
        ),
        (500, "application/problem+json", error, "output, error"),
    ] {
        all.push(asked.answer(status, media_type, body, content, Judged(ToolOutput)));
    }
    all
}
