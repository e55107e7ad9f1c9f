//! Every place of content in MCP, with a mark in it.

use http::{HeaderName, Method, header};
use serde_json::{Value, json};

use crate::protocols::canary::Fate::{Judged, Passed, Refused};
use crate::protocols::canary::ItemKind::{Definition, ToolCall, ToolOutput};
use crate::protocols::canary::{Canary, Fate, HALVES, MARK, Sample};
use crate::unscanned::Unscanned::{Binary, NoItem};

const PATH: &str = "/mcp";

/// The canaries of a route.
pub(super) fn canaries() -> Vec<Canary> {
    let mut all = calls();
    all.extend(refused());
    all.extend(results());
    all.extend(others());
    all
}

fn ask(method: &str, params: &Value) -> Sample {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    Sample::post(PATH, message.to_string())
}

fn reply(result: &Value) -> Sample {
    Sample::post(
        PATH,
        json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string(),
    )
}

/// A request of the revision without sessions.
fn stateless(mut params: Value) -> Sample {
    if let Some(params) = params.as_object_mut() {
        let version = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        params.insert("_meta".to_owned(), version);
    }
    ask("tools/call", &params)
        .header(
            HeaderName::from_static("mcp-protocol-version"),
            "2026-07-28",
        )
        .header(HeaderName::from_static("mcp-method"), "tools/call")
        .header(HeaderName::from_static("mcp-name"), "t")
}

fn tool() -> Sample {
    ask("tools/call", &json!({"name": "t", "arguments": {}}))
}

/// What a client asks and answers.
fn calls() -> Vec<Canary> {
    let judged = Judged(ToolCall);
    let deep = json!({"name": "t", "arguments": {"a": {"b": [MARK]}}});
    let given =
        json!({"name": "t", "inputResponses": {"q": {"action": "accept", "content": {"a": MARK}}}});
    let sampled = json!({"role": "assistant", "content": {"type": "text", "text": MARK}});
    vec![
        ask("tools/call", &deep).canary("call of a tool", judged),
        stateless(deep.clone()).canary("call of a tool, stateless", judged),
        stateless(given).canary("what the user gave for a call", judged),
        ask("resources/read", &json!({"uri": MARK})).canary("resource, its URI", judged),
        ask("resources/subscribe", &json!({"uri": MARK})).canary("subscription to a resource", judged),
        ask("prompts/get", &json!({"name": "p", "arguments": {"a": MARK}}))
            .canary("prompt, its arguments", judged),
        ask("completion/complete", &json!({"argument": {"name": "a", "value": MARK}}))
            .canary("completion", judged),
        ask("subscriptions/listen", &json!({"notifications": {"resources": [MARK]}}))
            .canary("subscription that names something", judged),
        ask("tasks/update", &json!({"taskId": MARK})).canary("task", judged),
        ask("x/unknown", &json!({"a": MARK})).canary("a method that nobody knows", judged),
        reply(&sampled).canary("answer to sampling", judged),
        reply(&json!({"action": "accept", "content": {"a": MARK}}))
            .canary("answer to an elicitation", judged),
        reply(&json!({"roots": [{"uri": MARK}]})).canary("roots of the client", judged),
        reply(&json!({"other": MARK})).canary("an answer of another shape", judged),
        ask("initialize", &json!({"clientInfo": {"name": MARK}}))
            .canary("what a client says of itself", Passed(NoItem)),
        Sample::post(
            PATH,
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"reason": MARK}})
                .to_string(),
        )
        .canary("notification of the client", Passed(NoItem)),
    ]
}

fn refused() -> Vec<Canary> {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "arguments": {"a": MARK}}});
    let mut unasked = call.clone();
    if let Some(call) = unasked.as_object_mut() {
        call.remove("id");
    }
    let invalid = Refused("invalid_request");
    vec![
        Sample::post(PATH, json!([call]).to_string()).canary("a batch", invalid),
        Sample::post(PATH, unasked.to_string()).canary("a call without an id", invalid),
        Sample::post("/other", call.to_string())
            .canary("a path that is no endpoint", Refused("endpoint_unknown")),
        ask("tools/call", &json!({"name": "t"}))
            .header(
                HeaderName::from_static("mcp-protocol-version"),
                "2026-07-28",
            )
            .canary(
                "headers that do not mirror the body",
                Refused("header_mismatch"),
            ),
    ]
}

/// Both forms of one answer.
fn both(to: &Sample, message: &Value, content: &'static str, fate: Fate) -> [Canary; 2] {
    let message = message.to_string();
    [
        to.answered(message.clone(), content, fate),
        to.streamed(&[("message", message)], content, fate),
    ]
}

/// Answers to requests of the client.
fn results() -> Vec<Canary> {
    let (first, second) = HALVES;
    let text = |text: &str| json!({"type": "text", "text": text});
    let content = |parts: Value| json!({ "content": parts });
    let read = ask("resources/read", &json!({"uri": "x:"}));
    let list = |of: &str| ask(&format!("{of}/list"), &json!({}));
    let plain = [
        (tool(), "result, text", content(json!([text(MARK)]))),
        (
            tool(),
            "result, text cut over parts",
            content(json!([text(first), text(second)])),
        ),
        (
            tool(),
            "result, link",
            content(json!([{"type": "resource_link", "uri": "x:", "name": MARK}])),
        ),
        (
            tool(),
            "result, embedded resource",
            content(json!([{"type": "resource", "resource": {"uri": "x:", "text": MARK}}])),
        ),
        (
            tool(),
            "result, part of another kind",
            content(json!([{"type": "other", "x": [MARK]}])),
        ),
        (
            tool(),
            "result, structured value",
            json!({"content": [], "structuredContent": {"a": [MARK]}}),
        ),
        (
            tool(),
            "result, structured key",
            json!({"content": [], "structuredContent": {MARK: 1}}),
        ),
        (
            tool(),
            "result, notes beside it",
            json!({"content": [], "_meta": {"a": MARK}}),
        ),
        (
            tool(),
            "question to the user",
            json!({"resultType": "input_required", "inputRequests": {"q": {"params": {"message": MARK}}}}),
        ),
        (tool(), "task", json!({"task": {"statusMessage": MARK}})),
        (
            read.clone(),
            "resource, text",
            json!({"contents": [{"uri": "x:", "text": MARK}]}),
        ),
        (
            read,
            "resource, cut over parts",
            json!({"contents": [{"uri": "x:1", "text": first}, {"uri": "x:2", "text": second}]}),
        ),
        (
            list("resources"),
            "list of resources",
            json!({"resources": [{"uri": "x:", "name": MARK}]}),
        ),
        (
            list("prompts"),
            "list of prompts",
            json!({"prompts": [{"name": "p", "description": MARK}]}),
        ),
        (
            ask("prompts/get", &json!({"name": "p"})),
            "prompt",
            json!({"messages": [{"role": "user", "content": text(MARK)}]}),
        ),
        (
            ask("initialize", &json!({})),
            "instructions of the server",
            json!({"instructions": MARK}),
        ),
    ];
    let answer = |result: &Value| json!({"jsonrpc": "2.0", "id": 1, "result": result});
    let mut all: Vec<_> = plain
        .iter()
        .flat_map(|(to, content, result)| both(to, &answer(result), content, Judged(ToolOutput)))
        .collect();
    let tools = json!({"tools": [{"name": "t", "inputSchema": {"properties": {"a": {"description": MARK}}}}]});
    all.extend(both(
        &list("tools"),
        &answer(&tools),
        "list of tools",
        Judged(Definition),
    ));
    let image = content(json!([{"type": "image", "mimeType": "image/png", "data": MARK}]));
    all.extend(both(&tool(), &answer(&image), "image", Passed(Binary)));
    let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "x", "data": {"a": MARK}}});
    all.extend(both(&tool(), &error, "error", Judged(ToolOutput)));
    all.push(tool().answer(
        500,
        "text/plain",
        MARK,
        "error that is no JSON-RPC",
        Judged(ToolOutput),
    ));
    all
}

/// What a server says of itself, on the stream of a request and on that of a session.
fn others() -> Vec<Canary> {
    let said = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
    };
    let asked = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": 9, "method": method, "params": params}).to_string()
    };
    let done = json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string();
    let listen = Sample::new(Method::GET, PATH).header(header::ACCEPT, "text/event-stream");
    let messages = [
        ("log message", said("notifications/message", json!({"data": {"a": MARK}}))),
        ("progress", said("notifications/progress", json!({"progressToken": 1, "message": MARK}))),
        ("sampling", asked("sampling/createMessage", json!({"messages": [{"role": "user", "content": {"type": "text", "text": MARK}}]}))),
        ("elicitation", asked("elicitation/create", json!({"message": "x", "requestedSchema": {"properties": {"a": {"title": MARK}}}}))),
        ("address to open", asked("elicitation/create", json!({"mode": "url", "url": MARK}))),
        ("answer to an earlier request", json!({"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": MARK}]}}).to_string()),
    ];
    messages
        .into_iter()
        .flat_map(|(content, message)| {
            let events = [("message", message), ("message", done.clone())];
            [
                tool().streamed(&events, content, Judged(ToolOutput)),
                listen.streamed(&events, content, Judged(ToolOutput)),
            ]
        })
        .collect()
}
