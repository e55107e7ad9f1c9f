//! Every place of content in Messages, with a mark in it.

use http::Method;
use serde_json::{Value, json};

use crate::protocols::canary::Fate::{Judged, Passed, Refused};
use crate::protocols::canary::ItemKind::{
    Definition, ProviderTool, ToolCall, ToolOutput, Unreadable,
};
use crate::protocols::canary::{Canary, Fate, HALVES, ItemKind, MARK, SHOWN, Sample, TOOL};
use crate::settings::Untrusted;
use crate::unscanned::Unscanned::{
    Binary, ErrorBody, ModelText, NoItem, ProviderResult, Sealed, UserText,
};

const PATH: &str = "/v1/messages";

/// The canaries of a route.
pub(super) fn canaries(rules: &Untrusted) -> Vec<Canary> {
    let mut all = results();
    all.extend(echoes());
    all.extend(said(rules));
    all.extend(tools());
    all.extend(calls());
    all.extend(answers());
    all.extend(
        ["/v1/messages/batches", "/v1/files", "/v1/complete"].map(|path| {
            Sample::post(path, json!({"prompt": MARK}).to_string()).canary(
                "an endpoint that is not understood",
                Refused("endpoint_unknown"),
            )
        }),
    );
    let thread = json!({"type": "continue", "previous_message_id": MARK});
    all.push(
        with("thread", thread).canary("conversation at the provider", Refused("invalid_request")),
    );
    all
}

fn ask(messages: &Value) -> Sample {
    let body = json!({"model": "m", "max_tokens": 9, "messages": messages});
    Sample::post(PATH, body.to_string())
}

fn with(key: &str, value: Value) -> Sample {
    let mut body =
        json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}]});
    if let Some(map) = body.as_object_mut() {
        map.insert(key.to_owned(), value);
    }
    Sample::post(PATH, body.to_string())
}

fn block(role: &str, block: Value) -> Sample {
    ask(&json!([{"role": role, "content": Value::Array(vec![block])}]))
}

/// What the client's tools gave back, and documents.
fn results() -> Vec<Canary> {
    let result = |content: Value| {
        block(
            "user",
            json!({"type": "tool_result", "tool_use_id": "t1", "content": content}),
        )
    };
    let source = |source: Value| json!({"type": "document", "source": source});
    let text = json!({"type": "text", "text": MARK});
    let (first, second) = HALVES;
    let out = Judged(ToolOutput);
    let nested = json!({"type": "content", "content": [text]});
    let plain = json!({"type": "text", "media_type": "text/plain", "data": MARK});
    let found = json!({"type": "search_result", "source": "s", "title": "t", "content": [text]});
    let binary = json!({"type": "base64", "media_type": "image/png", "data": format!("iVBORw0KGgoA{}", MARK.repeat(8))});
    let tabs = json!({"type": "browser_state", "tabs": [{"title": MARK}]});
    vec![
        result(json!(MARK)).canary("tool result, string", out),
        result(json!([text])).canary("tool result, text block", out),
        result(json!([{"type": "text", "text": first}, {"type": "text", "text": second}]))
            .canary("tool result, cut over blocks", out),
        result(json!([source(plain.clone())])).canary("tool result, document", out),
        result(json!([source(nested.clone())])).canary("tool result, document of blocks", out),
        result(json!([found])).canary("tool result, search result", out),
        result(json!([{"type": "tool_reference", "tool_name": MARK}]))
            .canary("tool result, reference to a tool", out),
        result(json!([tabs])).canary("tool result, state of a browser", out),
        result(json!([{"type": "newcomer", "a": {"b": [MARK]}}]))
            .canary("tool result, block of an unknown type", out),
        result(json!([{"type": "image", "source": binary}]))
            .canary("tool result, image", Passed(Binary)),
        result(json!([{"type": "image", "source": {"type": "url", "url": MARK}}]))
            .canary("tool result, image at a URL", Judged(ProviderTool)),
        block("user", source(plain)).canary("document, text", out),
        block("user", source(nested)).canary("document, blocks", out),
        block(
            "user",
            json!({"type": "document", "title": MARK, "source": {"type": "base64", "data": ""}}),
        )
        .canary("document, title", out),
        block("user", source(json!({"type": "url", "url": MARK})))
            .canary("document at a URL", Judged(ProviderTool)),
        block("user", source(json!({"type": "file", "file_id": MARK})))
            .canary("document at the provider", Judged(ProviderTool)),
        block("user", found).canary("search result", out),
    ]
}

/// What comes back of earlier turns of the model.
fn echoes() -> Vec<Canary> {
    let echo = |content: Value| block("assistant", content);
    let result = |kind: &str, content: Value| {
        echo(json!({"type": kind, "tool_use_id": "s1", "content": content}))
    };
    let out = Judged(ToolOutput);
    let document = json!({"type": "document", "source": {"type": "text", "data": MARK}});
    vec![
        result(
            "web_search_tool_result",
            json!([{"type": "web_search_result", "title": MARK}]),
        )
        .canary("echoed web search", out),
        result(
            "web_search_tool_result",
            json!([{"type": "web_search_result", "encrypted_content": MARK}]),
        )
        .canary("echoed web search, encrypted", Passed(Sealed)),
        result(
            "web_fetch_tool_result",
            json!({"type": "web_fetch_result", "content": document}),
        )
        .canary("echoed web fetch", out),
        result(
            "code_execution_tool_result",
            json!({"type": "code_execution_result", "stdout": MARK}),
        )
        .canary("echoed code execution", out),
        result("mcp_tool_result", json!([{"type": "text", "text": MARK}]))
            .canary("echoed result of a hosted MCP server", out),
        result("newcomer_tool_result", json!({"a": [MARK]}))
            .canary("echoed result of an unknown type", out),
        echo(json!({"type": "mcp_tool_listing", "tools": [{"name": TOOL, "description": MARK}]}))
            .canary("echoed list of an MCP server's tools", Judged(Definition)),
        echo(json!({"type": "text", "text": "x", "citations": [{"cited_text": MARK}]}))
            .canary("echoed citation", out),
        echo(json!({"type": "compaction", "content": MARK}))
            .canary("summary of the conversation", out),
        echo(json!({"type": "newcomer", "a": MARK})).canary("block of an unknown type", out),
        echo(json!({"type": "tool_use", "id": "t1", "name": TOOL, "input": {"a": MARK}}))
            .canary("earlier call of the model", out),
        echo(json!({"type": "tool_use", "id": "t1", "name": TOOL, "input": {}, "newcomer": MARK}))
            .canary("unknown member of an earlier call", out),
        ask(&json!([{"role": "assistant", "content": [
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "tool_use", "id": "t1", "name": TOOL, "input": {"a": MARK}},
        ]}]))
        .canary("call of the model's latest turn, signed", Passed(UserText)),
        echo(json!({"type": "thinking", "thinking": MARK, "signature": "s"}))
            .canary("reasoning of the model", Passed(UserText)),
        echo(json!({"type": "redacted_thinking", "data": MARK}))
            .canary("encrypted reasoning", Passed(Sealed)),
    ]
}

/// What user, operator and model said.
fn said(rules: &Untrusted) -> Vec<Canary> {
    let fate = |role: &str| {
        if rules.roles.iter().any(|untrusted| untrusted == role) {
            Judged(ToolOutput)
        } else {
            Passed(UserText)
        }
    };
    let text = |role: &str, content: &'static str| {
        ask(&json!([{"role": role, "content": MARK}])).canary(content, fate(role))
    };
    let mut all = vec![
        text("user", "text of the user"),
        text("assistant", "earlier text of the model"),
        with("system", json!([{"type": "text", "text": MARK}]))
            .canary("text of the operator", fate("system")),
        ask(&json!([{"role": "newcomer", "content": MARK}]))
            .canary("message of an unknown role", Judged(ToolOutput)),
        ask(&json!([{"role": "user", "content": "go", "newcomer": {"a": MARK}}]))
            .canary("unknown member of a message", Judged(ToolOutput)),
        block(
            "user",
            json!({"type": "text", "text": "go", "newcomer": [MARK]}),
        )
        .canary("unknown member of a text", Judged(ToolOutput)),
        with("newcomer", json!({"a": MARK}))
            .canary("unknown member of the request", Judged(ToolOutput)),
    ];
    all.extend(rules.tags.iter().map(|tag| {
        let text = format!("look: <{tag}>{MARK}</{tag}>");
        block("user", json!({"type": "text", "text": text}))
            .canary("untrusted range of the user's text", Judged(ToolOutput))
    }));
    all
}

fn tools() -> Vec<Canary> {
    let tool = |tool: Value| with("tools", json!([tool]));
    let properties = json!({"a": {"type": "string", "enum": [MARK]}});
    let schema = json!({"type": "object", "properties": properties});
    let added = |definition: Value| {
        let tool = json!({"type": "tool_definition", "definition": definition});
        block("system", json!({"type": "tool_addition", "tool": tool}))
    };
    vec![
        tool(json!({"name": TOOL, "description": MARK, "input_schema": {}}))
            .canary("definition, description", Judged(Definition)),
        tool(json!({"name": TOOL, "input_schema": schema}))
            .canary("definition, schema", Judged(Definition)),
        tool(json!({"name": TOOL, "input_schema": {}, "input_examples": [{"a": MARK}]}))
            .canary("definition, examples", Judged(Definition)),
        tool(json!({"type": "bash_20250124", "name": MARK}))
            .canary("definition of a tool that the client runs", Judged(Definition)),
        tool(json!({"type": "mcp_toolset", "mcp_server_name": "h", "tools": [{"name": TOOL, "description": MARK}]}))
            .canary("definition of a hosted MCP server's tool", Judged(Definition)),
        added(json!({"name": TOOL, "description": MARK, "input_schema": {}}))
            .canary("definition in a message", Judged(Definition)),
        tool(json!({"type": "web_search_20250305", "name": MARK}))
            .canary("tool of the provider", Judged(ProviderTool)),
        tool(json!({"type": "newcomer_20270101", "name": MARK}))
            .canary("tool of an unknown type", Judged(ProviderTool)),
        added(json!({"type": "web_search_20250305", "name": MARK}))
            .canary("tool of the provider in a message", Judged(ProviderTool)),
        with("mcp_servers", json!([{"type": "url", "name": "h", "url": MARK}]))
            .canary("hosted MCP server", Judged(ProviderTool)),
        with("container", json!(MARK)).canary("container at the provider", Judged(ProviderTool)),
    ]
}

/// The answer to a request, whole and in the events of a stream: the block whole, as it starts, and its deltas.
fn both(
    content: &'static str,
    fate: Fate,
    first: Option<&Value>,
    [whole, start]: [Value; 2],
    deltas: &[Value],
) -> [Canary; 2] {
    let asked = ask(&json!([{"role": "user", "content": "go"}]));
    let message = |content: Value, reason: Value| {
        json!({
            "id": "r", "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": reason, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
        })
    };
    let before: Vec<Value> = first.cloned().into_iter().collect();
    let blocks = [before.clone(), vec![whole]].concat();
    let body = message(json!(blocks), json!("tool_use")).to_string();
    let mut events =
        vec![json!({"type": "message_start", "message": message(json!([]), Value::Null)})];
    for block in &before {
        events.push(json!({"type": "content_block_start", "index": 0, "content_block": block}));
        events.push(json!({"type": "content_block_stop", "index": 0}));
    }
    let index = before.len();
    events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
    for delta in deltas {
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }
    events.push(json!({"type": "content_block_stop", "index": index}));
    let ending = json!({"stop_reason": "tool_use", "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": ending, "usage": {"output_tokens": 1}}));
    events.push(json!({"type": "message_stop"}));
    let data: Vec<String> = events.iter().map(Value::to_string).collect();
    let named: Vec<(&str, &String)> = events
        .iter()
        .zip(&data)
        .map(|(event, data)| {
            (
                event
                    .get("type")
                    .and_then(Value::as_str)
                    .unwrap_or_default(),
                data,
            )
        })
        .collect();
    [
        asked.answered(body, content, fate),
        asked.streamed(&named, content, fate),
    ]
}

fn calls() -> Vec<Canary> {
    let call = |kind: &str, name: &str, input: Value| json!({"type": kind, "id": "t1", "name": name, "input": input});
    let (first, second) = HALVES;
    let piece = |text: String| json!({"type": "input_json_delta", "partial_json": text});
    let pieces = [
        piece(format!("{{\"a\": \"{first}")),
        piece(format!("{second}\"}}")),
    ];
    let both_of = |kind: &str| {
        [
            call(kind, TOOL, json!({"a": MARK})),
            call(kind, TOOL, json!({})),
        ]
    };
    let signed = json!({"type": "redacted_thinking", "data": "x"});
    let odd = json!({"type": "tool_use", "id": "t1", "name": MARK, "input": "x"});
    let new = json!({"type": "newcomer", "name": TOOL, "input": {"a": MARK}});
    [
        both("call", Judged(ToolCall), None, both_of("tool_use"), &pieces),
        both(
            "call behind signed reasoning",
            Judged(ToolCall),
            Some(&signed),
            both_of("tool_use"),
            &pieces,
        ),
        both(
            "call of an unknown type",
            Judged(ToolCall),
            None,
            [new.clone(), new],
            &[],
        ),
        both(
            "call that cannot be read",
            Judged(Unreadable),
            None,
            [odd.clone(), odd],
            &[],
        ),
        both(
            "call that the provider runs",
            Passed(ModelText),
            None,
            both_of("server_tool_use"),
            &pieces,
        ),
    ]
    .concat()
}

fn answers() -> Vec<Canary> {
    let text = |words: &str| json!({"type": "text", "text": words});
    let delta = [json!({"type": "text_delta", "text": MARK})];
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "title": MARK}]});
    let hidden = json!({"type": "redacted_thinking", "data": MARK});
    let mut all = [
        both(
            "text of the model",
            Passed(ModelText),
            None,
            [text(MARK), text("")],
            &delta,
        ),
        both(
            "result of the provider's tool",
            Passed(ProviderResult),
            None,
            [found.clone(), found],
            &[],
        ),
        both(
            "encrypted reasoning",
            Passed(Sealed),
            None,
            [hidden.clone(), hidden],
            &[],
        ),
    ]
    .concat();
    for (content, [first, second]) in SHOWN {
        let deltas = [first, second].map(|half| json!({"type": "text_delta", "text": half}));
        let blocks = [text(&format!("{first}{second}")), text("")];
        let fate = Judged(ItemKind::ModelText);
        let canaries = both(content, fate, None, blocks, &deltas);
        all.extend(canaries.map(Canary::rendered));
    }
    let asked = ask(&json!([{"role": "user", "content": "go"}]));
    let error =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": MARK}});
    all.push(asked.answer(
        400,
        "application/json",
        error.to_string(),
        "error of the provider",
        Passed(ErrorBody),
    ));
    let models = json!({"data": [{"id": MARK}]}).to_string();
    let list = Sample::new(Method::GET, "/v1/models");
    all.push(list.answered(models, "list of models", Passed(NoItem)));
    all
}
