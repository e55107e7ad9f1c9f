//! Every place of content in Messages, with a mark in it.

use serde_json::{Value, json};

use crate::protocols::canary::Fate::{Judged, Passed, Refused};
use crate::protocols::canary::ItemKind::{
    Definition, ProviderTool, ToolCall, ToolOutput, Unreadable,
};
use crate::protocols::canary::{Canary, Fate, HALVES, MARK, Sample};
use crate::settings::Untrusted;
use crate::unscanned::Unscanned::{
    Binary, ErrorBody, ModelText, NoItem, ProviderResult, Sealed, UserText,
};

const PATH: &str = "/v1/messages";

/// The canaries of a route.
pub(super) fn canaries(rules: &Untrusted) -> Vec<Canary> {
    let mut all = results();
    all.extend(said(rules));
    all.extend(blocks());
    all.extend(definitions());
    all.extend(provider());
    all.extend(answers());
    let other = ["/v1/messages/batches", "/v1/files", "/v1/complete"];
    all.extend(other.map(|path| {
        Sample::post(path, json!({"prompt": MARK}).to_string()).canary(
            "an endpoint that is not understood",
            Refused("endpoint_unknown"),
        )
    }));
    all
}

/// A request with these members besides a message of the user.
fn with(more: &Value) -> Sample {
    let mut body = json!({
        "model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}],
    });
    if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
        body.extend(more.clone());
    }
    Sample::post(PATH, body.to_string())
}

fn ask(messages: &Value) -> Sample {
    with(&json!({"messages": messages}))
}

/// A request whose last message is of the user and has this block.
fn block(role: &str, block: &Value) -> Sample {
    ask(&json!([{"role": "user", "content": "go"}, {"role": role, "content": [block]}]))
}

/// What the client's tools gave back.
fn results() -> Vec<Canary> {
    let result = |content: Value| {
        let call = json!({"type": "tool_use", "id": "c1", "name": "t", "input": {}});
        let result = json!({"type": "tool_result", "tool_use_id": "c1", "content": content});
        ask(&json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]))
    };
    let document = |source: Value| json!([{"type": "document", "source": source}]);
    let (first, second) = HALVES;
    let inner = json!({"type": "content", "content": [{"type": "text", "text": MARK}]});
    let found = |title: &str, text: &str| {
        let content = json!([{"type": "text", "text": text}]);
        json!([{"type": "search_result", "source": "s", "title": title, "content": content}])
    };
    let texts = |first: &str, second: &str| json!([{"type": "text", "text": first}, {"type": "text", "text": second}]);
    let image = json!({"type": "base64", "media_type": "image/png", "data": MARK});
    let outputs = [
        ("tool output, string", json!(MARK)),
        (
            "tool output, text block",
            json!([{"type": "text", "text": MARK}]),
        ),
        ("tool output, cut over blocks", texts(first, second)),
        (
            "tool output, text document",
            document(json!({"type": "text", "media_type": "text/plain", "data": MARK})),
        ),
        ("tool output, nested document", document(inner)),
        ("tool output, title of a search result", found(MARK, "x")),
        ("tool output, text of a search result", found("x", MARK)),
        (
            "tool output, block of an unknown type",
            json!([{"type": "newcomer", "words": MARK}]),
        ),
    ];
    let mut all: Vec<_> = outputs
        .into_iter()
        .map(|(content, body)| result(body).canary(content, Judged(ToolOutput)))
        .collect();
    let picture = json!([{"type": "image", "source": image}]);
    all.push(result(picture).canary("tool output, picture", Passed(Binary)));
    all
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
    let text = json!({"type": "text", "text": MARK});
    let mut all = vec![
        ask(&json!([{"role": "user", "content": MARK}])).canary("text of the user", fate("user")),
        block("user", &text).canary("text block of the user", fate("user")),
        block("assistant", &text).canary("earlier text of the model", fate("assistant")),
        with(&json!({"system": MARK})).canary("text of the operator", fate("system")),
        ask(&json!([{"role": "newcomer", "content": MARK}]))
            .canary("message of an unknown role", Judged(ToolOutput)),
    ];
    all.extend(rules.tags.iter().map(|tag| {
        let text = format!("look: <{tag}>{MARK}</{tag}>");
        ask(&json!([{"role": "user", "content": text}]))
            .canary("untrusted range of the user's text", Judged(ToolOutput))
    }));
    all
}

/// Blocks of an earlier turn besides texts and results.
fn blocks() -> Vec<Canary> {
    let call = |kind: &str| json!({"type": kind, "id": "c1", "name": "t", "input": {"a": MARK}});
    let result =
        |kind: &str, content: Value| json!({"type": kind, "tool_use_id": "c1", "content": content});
    let page = json!({"type": "text", "media_type": "text/plain", "data": MARK});
    let fetched = json!({
        "type": "web_fetch_result", "url": "u", "content": {"type": "document", "source": page},
    });
    let thought = |thinking: &str, signature: &str| json!({"type": "thinking", "thinking": thinking, "signature": signature});
    let judged = [
        ("earlier call of the model", call("tool_use")),
        ("earlier call of a provider's tool", call("server_tool_use")),
        ("earlier call of a hosted MCP server", call("mcp_tool_use")),
        (
            "earlier result of web search",
            result(
                "web_search_tool_result",
                json!([{"type": "web_search_result", "title": MARK}]),
            ),
        ),
        (
            "earlier result of web fetch",
            result("web_fetch_tool_result", fetched),
        ),
        (
            "earlier result of code execution",
            result("code_execution_tool_result", json!({"stdout": MARK})),
        ),
        (
            "earlier result of a hosted MCP server",
            result("mcp_tool_result", json!([{"type": "text", "text": MARK}])),
        ),
        (
            "block of an unknown type",
            json!({"type": "newcomer", "words": [{"x": MARK}]}),
        ),
    ];
    let mut all: Vec<_> = judged
        .into_iter()
        .map(|(content, body)| block("assistant", &body).canary(content, Judged(ToolOutput)))
        .collect();
    let document =
        json!({"type": "document", "title": MARK, "source": {"type": "text", "data": "x"}});
    all.push(block("user", &document).canary("document of the user", Judged(ToolOutput)));
    let image = json!({"type": "base64", "media_type": "image/png", "data": MARK});
    let picture = json!({"type": "image", "source": image});
    all.push(block("user", &picture).canary("picture of the user", Passed(Binary)));
    let cited = json!({"type": "text", "text": "x", "citations": [{"cited_text": MARK}]});
    all.push(block("assistant", &cited).canary("cited text", Judged(ToolOutput)));
    let opaque = [
        ("earlier reasoning", thought(MARK, "s"), UserText),
        ("signature of reasoning", thought("x", MARK), Sealed),
        (
            "sealed reasoning",
            json!({"type": "redacted_thinking", "data": MARK}),
            Sealed,
        ),
    ];
    all.extend(
        opaque.map(|(content, body, reason)| {
            block("assistant", &body).canary(content, Passed(reason))
        }),
    );
    all.push(
        with(&json!({"newcomer": {"x": MARK}})).canary("an unknown member", Judged(ToolOutput)),
    );
    all
}

fn definitions() -> Vec<Canary> {
    let tool = |description: &str, hint: &str| {
        let properties = json!({"a": {"type": "string", "enum": [hint]}});
        json!({
            "name": "t", "description": description,
            "input_schema": {"type": "object", "properties": properties},
        })
    };
    let mut example = tool("x", "x");
    if let Some(example) = example.as_object_mut() {
        example.insert("input_examples".to_owned(), json!([{"a": MARK}]));
    }
    let offered =
        |content, tool: Value| with(&json!({"tools": [tool]})).canary(content, Judged(Definition));
    let added =
        json!({"type": "tool_addition", "tool": {"type": "t", "definition": tool(MARK, "x")}});
    let listing = json!({"type": "mcp_tool_listing", "tools": [tool(MARK, "x")]});
    vec![
        offered("definition, description", tool(MARK, "x")),
        offered("definition, schema", tool("x", MARK)),
        offered("definition, example", example),
        block("user", &added).canary("definition, added by a message", Judged(Definition)),
        block("assistant", &listing).canary(
            "definition, listed by a hosted MCP server",
            Judged(Definition),
        ),
    ]
}

/// What the provider is asked to run or fetch by itself.
fn provider() -> Vec<Canary> {
    let tool = |kind: &str| json!({"tools": [{"type": kind, "name": MARK}]});
    let url = format!("https://{MARK}.example/");
    let server = json!({"mcp_servers": [{"type": "url", "name": "s", "url": url}]});
    let source = json!({"type": "document", "source": {"type": "url", "url": url}});
    let file = json!({"type": "document", "source": {"type": "file", "file_id": MARK}});
    vec![
        with(&tool("web_search_20250305")).canary("web search", Judged(ProviderTool)),
        with(&tool("web_fetch_20250910")).canary("web fetch", Judged(ProviderTool)),
        with(&tool("code_execution_20250825")).canary("code execution", Judged(ProviderTool)),
        with(&tool("newcomer_20300101")).canary("a tool of an unknown type", Judged(ProviderTool)),
        with(&server).canary("hosted MCP server", Judged(ProviderTool)),
        with(&json!({"container": MARK})).canary("container", Judged(ProviderTool)),
        block("user", &source).canary("document that the provider fetches", Judged(ProviderTool)),
        block("user", &file).canary("document that the provider keeps", Judged(ProviderTool)),
        with(&json!({"thread": {"id": MARK}})).canary(
            "conversation that the provider keeps",
            Refused("invalid_request"),
        ),
    ]
}

/// Blocks of an answer: the block, and for a stream how it starts and what follows.
fn answer_blocks() -> Vec<(&'static str, Fate, Value, Value, Vec<Value>)> {
    let (first, second) = HALVES;
    let input = |text: &str| json!({"type": "input_json_delta", "partial_json": text});
    let call = |kind: &str, name: &str, input: Value| json!({"type": kind, "id": "c1", "name": name, "input": input});
    let cut = || {
        vec![
            input(&format!("{{\"a\": \"{first}")),
            input(&format!("{second}\"}}")),
        ]
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let result =
        |kind: &str, content: Value| json!({"type": kind, "tool_use_id": "c1", "content": content});
    let search = result(
        "web_search_tool_result",
        json!([{"type": "web_search_result", "title": MARK}]),
    );
    let mcp = result("mcp_tool_result", json!([text(MARK)]));
    let provider = call("server_tool_use", "web_search", json!({"query": MARK}));
    vec![
        (
            "call",
            Judged(ToolCall),
            call("tool_use", "t", json!({"a": MARK})),
            call("tool_use", "t", json!({})),
            cut(),
        ),
        (
            "call that a provider's tool carries out",
            Passed(ModelText),
            provider.clone(),
            provider,
            vec![],
        ),
        (
            "text of the model",
            Passed(ModelText),
            text(MARK),
            text(""),
            vec![json!({"type": "text_delta", "text": MARK})],
        ),
        (
            "reasoning of the model",
            Passed(ModelText),
            json!({"type": "thinking", "thinking": MARK, "signature": ""}),
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            vec![json!({"type": "thinking_delta", "thinking": MARK})],
        ),
        (
            "result of web search",
            Passed(ProviderResult),
            search.clone(),
            search,
            vec![],
        ),
        (
            "result of a hosted MCP server",
            Passed(ProviderResult),
            mcp.clone(),
            mcp,
            vec![],
        ),
    ]
}

fn answers() -> Vec<Canary> {
    let asked = with(&json!({}));
    let message = |content: Value, reason: Option<&str>| {
        json!({
            "id": "m", "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": reason, "stop_sequence": null,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        })
    };
    let stream = |start: &Value, deltas: &[Value]| {
        let mut events = vec![
            (
                "message_start",
                json!({"type": "message_start", "message": message(json!([]), None)}),
            ),
            (
                "content_block_start",
                json!({"type": "content_block_start", "index": 0, "content_block": start}),
            ),
        ];
        events.extend(deltas.iter().map(|delta| {
            let data = json!({"type": "content_block_delta", "index": 0, "delta": delta});
            ("content_block_delta", data)
        }));
        events.extend([
            ("content_block_stop", json!({"type": "content_block_stop", "index": 0})),
            (
                "message_delta",
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}}),
            ),
            ("message_stop", json!({"type": "message_stop"})),
        ]);
        events
            .into_iter()
            .map(|(name, data)| (name, data.to_string()))
            .collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    for (content, fate, whole, start, deltas) in answer_blocks() {
        let body = message(json!([whole]), Some("tool_use")).to_string();
        all.push(asked.answered(body, content, fate));
        all.push(asked.streamed(&stream(&start, &deltas), content, fate));
    }
    let unreadable = json!({"type": "tool_use", "id": "c1", "name": MARK, "input": {}});
    let delta = json!({"type": "input_json_delta", "partial_json": "{"});
    let content = "call that cannot be read";
    all.push(asked.streamed(&stream(&unreadable, &[delta]), content, Judged(Unreadable)));
    let error =
        json!({"type": "error", "error": {"type": "api_error", "message": MARK}}).to_string();
    all.push(asked.answer(
        400,
        "application/json",
        error,
        "error of the provider",
        Passed(ErrorBody),
    ));
    let models = json!({"data": [{"id": MARK}]}).to_string();
    let list = Sample::new(http::Method::GET, "/v1/models");
    all.push(list.answered(models, "list of models", Passed(NoItem)));
    all
}
