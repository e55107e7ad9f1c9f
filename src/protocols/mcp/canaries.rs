//! Every place of content in MCP, with a mark in it: in both directions, as one message and in a stream.

use http::{HeaderName, Method, header};
use serde_json::{Value, json};

use super::headers::{SESSION, VERSION};
use crate::protocols::canary::Fate::{Judged, Passed, Refused};
use crate::protocols::canary::ItemKind::{Definition, ToolCall, ToolOutput};
use crate::protocols::canary::{Canary, Fate, HALVES, MARK, Sample, TOOL};
use crate::unscanned::Unscanned::{Binary, NoItem};

/// Methods that are judged under their own name, with where their content stands.
const ASKED: [(&str, &str, &str); 6] = [
    ("call, resource to read", "resources/read", "uri"),
    ("call, resource to follow", "resources/subscribe", "uri"),
    ("call, prompt", "prompts/get", "name"),
    ("call, completion", "completion/complete", "ref"),
    ("call, task", "tasks/result", "taskId"),
    ("call, method that nobody knows", "newcomer/act", "x"),
];

/// The canaries of a route.
pub(super) fn canaries() -> Vec<Canary> {
    let mut all = calls();
    all.extend(results());
    all.extend(server_messages());
    all.push(
        post(
            &json!([{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": MARK}}]),
        )
        .canary("batch of messages", Refused("invalid_request")),
    );
    all.push(
        Sample::post("/elsewhere", json!({"x": MARK}).to_string())
            .canary("a path that is no endpoint", Refused("endpoint_unknown")),
    );
    all
}

fn post(message: &Value) -> Sample {
    Sample::post("/mcp", message.to_string())
        .header(header::ACCEPT, "application/json, text/event-stream")
        .header(VERSION, "2025-11-25")
}

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// What the agent asks, and what it answers the server.
fn calls() -> Vec<Canary> {
    let call = |params: Value| post(&request("tools/call", &params));
    let arguments = json!({"a": {"b": [MARK]}});
    let mut all = vec![
        call(json!({"name": TOOL, "arguments": arguments})).canary("call, arguments", Judged(ToolCall)),
        call(json!({"name": MARK})).canary("call, name", Judged(ToolCall)),
        call(json!({"name": TOOL, "arguments": {}, "inputResponses": {"q": {"content": {"a": MARK}}}}))
            .canary("call, answers of the user", Judged(ToolCall)),
        modern(),
    ];
    all.extend(ASKED.map(|(content, method, key)| {
        let value = if key == "ref" {
            json!({"name": MARK})
        } else {
            json!(MARK)
        };
        post(&request(method, &json!({key: value}))).canary(content, Judged(ToolCall))
    }));
    let answers = [
        (
            "answer to an elicitation",
            json!({"action": "accept", "content": {"a": MARK}}),
        ),
        (
            "answer to a sampling request",
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": MARK}}),
        ),
        (
            "answer with the agent's roots",
            json!({"roots": [{"uri": MARK}]}),
        ),
    ];
    all.extend(answers.map(|(content, result)| {
        post(&json!({"jsonrpc": "2.0", "id": 7, "result": result}))
            .canary(content, Judged(ToolCall))
    }));
    let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": MARK}});
    all.push(post(&note).canary("notification of the agent", Passed(NoItem)));
    let start = request(
        "initialize",
        &json!({"protocolVersion": "2025-11-25", "clientInfo": {"name": MARK}}),
    );
    all.push(post(&start).canary("start of a session", Passed(NoItem)));
    all
}

/// A call of the stateless revision.
fn modern() -> Canary {
    let params = json!({
        "name": TOOL, "arguments": {"a": MARK},
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"},
    });
    post(&request("tools/call", &params))
        .header(VERSION, "2026-07-28")
        .header(HeaderName::from_static("mcp-method"), "tools/call")
        .header(HeaderName::from_static("mcp-name"), TOOL)
        .canary("call, stateless revision", Judged(ToolCall))
}

/// An answer to a request: the content, what becomes of it, what was asked, the result.
type Answered = (&'static str, Fate, Value, Value);

/// Results of calls.
fn called() -> Vec<Answered> {
    let (first, second) = HALVES;
    let call = || request("tools/call", &json!({"name": TOOL, "arguments": {}}));
    let content = |part: Value| json!({"content": [part]});
    let text = |text: &str| json!({"type": "text", "text": text});
    let coded = data_encoding::BASE64.encode(MARK.as_bytes());
    let embedded = |key: &str, value: &str| json!({"type": "resource", "resource": {"uri": "u", "mimeType": "text/plain", key: value}});
    let link = json!({"type": "resource_link", "uri": "u", "name": "n", "description": MARK});
    let of_tools = [
        ("result, text", content(text(MARK))),
        (
            "result, text cut over parts",
            json!({"content": [text(first), text(second)]}),
        ),
        (
            "result, error text",
            json!({"content": [text(MARK)], "isError": true}),
        ),
        ("result, embedded text", content(embedded("text", MARK))),
        ("result, text in base64", content(embedded("blob", &coded))),
        ("result, link", content(link)),
        (
            "result, part of an unknown type",
            content(json!({"type": "newcomer", "x": {"y": MARK}})),
        ),
        (
            "result, structured content",
            json!({"content": [], "structuredContent": {"a": [MARK]}}),
        ),
        (
            "result, key of structured content",
            json!({"content": [], "structuredContent": {MARK: 1}}),
        ),
        (
            "result, metadata",
            json!({"content": [], "_meta": {"a": MARK}}),
        ),
        (
            "question to the user",
            json!({"resultType": "input_required", "inputRequests": {"q": {"method": "elicitation/create", "params": {"message": MARK}}}}),
        ),
    ];
    let mut all: Vec<_> = of_tools
        .into_iter()
        .map(|(content, result)| (content, Judged(ToolOutput), call(), result))
        .collect();
    // As long as binary must be, and not of letters alone.
    let data = format!("{}0+/0", MARK.repeat(3));
    let image = json!({"type": "image", "mimeType": "image/png", "data": data});
    all.push(("result, picture", Passed(Binary), call(), content(image)));
    all
}

/// Definitions of tools.
fn defined() -> [Answered; 2] {
    let tool = |description: &str, hint: &str| {
        let properties = json!({"a": {"type": "string", "default": hint}});
        let schema = json!({"type": "object", "properties": properties});
        json!({"tools": [{"name": TOOL, "description": description, "inputSchema": schema}]})
    };
    let list = || request("tools/list", &json!({}));
    [
        (
            "definition, description",
            Judged(Definition),
            list(),
            tool(MARK, "x"),
        ),
        (
            "definition, schema",
            Judged(Definition),
            list(),
            tool("x", MARK),
        ),
    ]
}

/// Everything else that a server is asked for.
fn offered() -> Vec<Answered> {
    let text = |text: &str| json!({"type": "text", "text": text});
    let lists = [
        (
            "resource, text",
            "resources/read",
            json!({"contents": [{"uri": "u", "text": MARK}]}),
        ),
        (
            "list of resources",
            "resources/list",
            json!({"resources": [{"uri": "u", "name": MARK}]}),
        ),
        (
            "list of resource templates",
            "resources/templates/list",
            json!({"resourceTemplates": [{"uriTemplate": "u", "name": "n", "description": MARK}]}),
        ),
        (
            "prompt, text",
            "prompts/get",
            json!({"messages": [{"role": "user", "content": text(MARK)}]}),
        ),
        (
            "list of prompts",
            "prompts/list",
            json!({"prompts": [{"name": "n", "description": MARK}]}),
        ),
        (
            "completion",
            "completion/complete",
            json!({"completion": {"values": [MARK]}}),
        ),
        (
            "instructions of the server",
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "instructions": MARK}),
        ),
        (
            "state of a task",
            "tasks/get",
            json!({"taskId": "x", "status": "working", "statusMessage": MARK}),
        ),
    ];
    let offered = lists.map(|(content, method, result)| {
        let params = json!({"uri": "u", "name": "n", "taskId": "x", "ref": {"name": "n"}});
        (
            content,
            Judged(ToolOutput),
            request(method, &params),
            result,
        )
    });
    offered.into()
}

fn results() -> Vec<Canary> {
    let mut all = Vec::new();
    let answered = called().into_iter().chain(defined()).chain(offered());
    for (content, fate, asked, result) in answered {
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
        let asked = post(&asked);
        all.push(asked.answered(answer.clone(), content, fate));
        all.push(asked.streamed(&[("message", answer)], content, fate));
    }
    let asked = post(&request(
        "tools/call",
        &json!({"name": TOOL, "arguments": {}}),
    ));
    let errors = [
        ("error, message", json!({"code": 1, "message": MARK})),
        (
            "error, data",
            json!({"code": 1, "message": "x", "data": {"a": MARK}}),
        ),
    ];
    for (content, error) in errors {
        let answer = json!({"jsonrpc": "2.0", "id": 1, "error": error}).to_string();
        all.push(asked.answered(answer.clone(), content, Judged(ToolOutput)));
        all.push(asked.streamed(&[("", answer)], content, Judged(ToolOutput)));
    }
    for (status, media_type) in [(502, "text/html"), (400, "text/plain")] {
        all.push(asked.answer(
            status,
            media_type,
            MARK,
            "error of another server",
            Judged(ToolOutput),
        ));
    }
    all
}

/// What a server says unasked, before an answer and on the stream of a session.
fn server_messages() -> Vec<Canary> {
    let says =
        |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
    let asks = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params});
    let prompt = json!([{"role": "user", "content": {"type": "text", "text": MARK}}]);
    let messages = [
        (
            "notification, log",
            says(
                "notifications/message",
                json!({"level": "info", "data": MARK}),
            ),
        ),
        (
            "notification, progress",
            says(
                "notifications/progress",
                json!({"progressToken": 1, "progress": 1, "message": MARK}),
            ),
        ),
        (
            "notification, unknown",
            says("notifications/newcomer", json!({"x": MARK})),
        ),
        (
            "sampling request",
            asks(
                "sampling/createMessage",
                json!({"messages": prompt, "maxTokens": 1}),
            ),
        ),
        (
            "elicitation",
            asks(
                "elicitation/create",
                json!({"message": MARK, "requestedSchema": {"type": "object"}}),
            ),
        ),
    ];
    let call = post(&request(
        "tools/call",
        &json!({"name": TOOL, "arguments": {}}),
    ));
    let stream = Sample::new(Method::GET, "/mcp")
        .header(header::ACCEPT, "text/event-stream")
        .header(VERSION, "2025-11-25")
        .header(SESSION, "s1");
    let end = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}).to_string();
    let mut all = Vec::new();
    for (content, message) in messages {
        let events = [("message", message.to_string()), ("message", end.clone())];
        all.push(call.streamed(&events, content, Judged(ToolOutput)));
        let events = [("message", message.to_string())];
        all.push(stream.streamed(&events, content, Judged(ToolOutput)));
    }
    all.push(call.streamed(
        &[("newcomer", MARK.to_owned()), ("message", end)],
        "event of an unknown type",
        Judged(ToolOutput),
    ));
    all
}
