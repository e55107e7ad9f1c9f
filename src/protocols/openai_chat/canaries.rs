//! Every place of content in Chat Completions, with a mark in it.

use serde_json::{Value, json};

use crate::protocols::canary::Fate::{Judged, Passed, Refused};
use crate::protocols::canary::ItemKind::{
    Definition, ProviderTool, ToolCall, ToolOutput, Unreadable,
};
use crate::protocols::canary::{Canary, Fate, HALVES, ItemKind, MARK, SHOWN, Sample, TOOL};
use crate::settings::ModelRoute;
use crate::unscanned::Unscanned::{Binary, ErrorBody, ModelText, NoItem, UserText};

const PATH: &str = "/v1/chat/completions";

/// The canaries of a route.
pub(super) fn canaries(route: &ModelRoute) -> Vec<Canary> {
    let mut all = outputs();
    all.extend(said(route));
    all.extend(media(route));
    all.extend(definitions());
    all.extend(provider());
    all.extend(answers());
    all.extend(
        ["/v1/completions", "/v1/embeddings", "/v1/responses"].map(|path| {
            Sample::post(path, json!({"prompt": MARK}).to_string()).canary(
                "an endpoint that is not understood",
                Refused("endpoint_unknown"),
            )
        }),
    );
    all
}

fn ask(messages: &Value) -> Sample {
    Sample::post(
        PATH,
        json!({"model": "m", "messages": messages}).to_string(),
    )
}

fn with(content: &'static str, fate: Fate, key: &str, value: Value) -> Canary {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "go"}]});
    if let Some(map) = body.as_object_mut() {
        map.insert(key.to_owned(), value);
    }
    Sample::post(PATH, body.to_string()).canary(content, fate)
}

/// What tools gave back.
fn outputs() -> Vec<Canary> {
    let called = |body: Value| {
        let call =
            json!({"id": "c1", "type": "function", "function": {"name": TOOL, "arguments": "{}"}});
        ask(&json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": body},
        ]))
    };
    let (first, second) = HALVES;
    vec![
        called(json!(MARK)).canary("tool output, string", Judged(ToolOutput)),
        called(json!([{"type": "text", "text": MARK}]))
            .canary("tool output, text part", Judged(ToolOutput)),
        called(json!([{"type": "text", "text": first}, {"type": "text", "text": second}]))
            .canary("tool output, cut over parts", Judged(ToolOutput)),
        called(json!([{"type": "image_url", "image_url": {"url": MARK}}]))
            .canary("tool output, part of another type", Judged(ToolOutput)),
        ask(&json!([{"role": "function", "name": TOOL, "content": MARK}]))
            .canary("output of a legacy function", Judged(ToolOutput)),
        ask(&json!([{"role": "newcomer", "content": MARK}]))
            .canary("message of an unknown role", Judged(ToolOutput)),
    ]
}

/// What user, operator and model said.
fn said(route: &ModelRoute) -> Vec<Canary> {
    let fate = |role: &str| {
        if route
            .untrusted
            .roles
            .iter()
            .any(|untrusted| untrusted == role)
        {
            Judged(ToolOutput)
        } else {
            Passed(UserText)
        }
    };
    let text = |role: &str, content: &'static str| {
        ask(&json!([{"role": role, "content": MARK}])).canary(content, fate(role))
    };
    let call = json!({"id": "c1", "type": "function", "function": {"name": TOOL, "arguments": json!({"a": MARK}).to_string()}});
    let mut all = vec![
        text("user", "text of the user"),
        text("system", "text of the operator"),
        text("assistant", "earlier text of the model"),
        ask(&json!([{"role": "assistant", "content": null, "tool_calls": [call]}]))
            .canary("earlier call of the model", Judged(ToolOutput)),
        ask(&json!([{"role": "assistant", "content": "x", "reasoning_content": MARK}]))
            .canary("earlier reasoning of the model", fate("assistant")),
        ask(&json!([{"role": "assistant", "content": null, "function_call": {"name": TOOL, "arguments": MARK}}]))
            .canary("earlier call of a legacy function", Judged(ToolOutput)),
        ask(&json!([{"role": "user", "content": [{"type": "newcomer", "words": MARK}]}]))
            .canary("part of an unknown type", Judged(ToolOutput)),
        ask(&json!([{"role": "user", "content": "go", "newcomer": {"a": MARK}}]))
            .canary("unknown member of a message", Judged(ToolOutput)),
        ask(&json!([{"role": "user", "content": [{"type": "file", "file": {"file_data": MARK}}]}]))
            .canary("file of the user", fate("user")),
        ask(&json!([{"role": "assistant", "content": "ok", "annotations": [{"url_citation": {"title": MARK}}]}]))
            .canary("what a search has found, sent back", Judged(ToolOutput)),
        with("prediction", Judged(ToolOutput), "prediction", json!({"type": "content", "content": MARK})),
        with("retrieved documents", Judged(ToolOutput), "documents", json!([{"text": MARK}])),
    ];
    all.extend(route.untrusted.tags.iter().map(|tag| {
        let text = format!("look: <{tag}>{MARK}</{tag}>");
        ask(&json!([{"role": "user", "content": text}]))
            .canary("untrusted range of the user's text", Judged(ToolOutput))
    }));
    all
}

/// Pictures and sounds of whom the route trusts, where there is anybody.
fn media(route: &ModelRoute) -> Vec<Canary> {
    let untrusted = |role: &&str| route.untrusted.roles.iter().any(|other| other == role);
    let roles = ["user", "developer", "system"];
    let Some(role) = roles.into_iter().find(|role| !untrusted(role)) else {
        return Vec::new();
    };
    let said = |part: Value| ask(&json!([{"role": role, "content": [part]}]));
    let url = format!("data:image/png;base64,{MARK}");
    let image = json!({"type": "image_url", "image_url": {"url": url}});
    let audio = json!({"type": "input_audio", "input_audio": {"format": "wav", "data": MARK}});
    vec![
        said(image).canary("picture", Passed(Binary)),
        said(audio).canary("sound", Passed(Binary)),
    ]
}

/// What the provider is asked to run by itself.
fn provider() -> Vec<Canary> {
    let run = Judged(ProviderTool);
    let url = format!("https://{MARK}.example/");
    vec![
        with("web search", run, "web_search_options", json!({"x": MARK})),
        with(
            "tool of the provider",
            run,
            "tools",
            json!([{"type": "web_search", "x": MARK}]),
        ),
        with(
            "hosted MCP server",
            run,
            "tools",
            json!([{"type": "mcp", "server_label": "s", "server_url": url}]),
        ),
        with("plugin", run, "plugins", json!([{"id": MARK}])),
        with(
            "data source",
            run,
            "data_sources",
            json!([{"type": "x", "parameters": {"endpoint": url}}]),
        ),
    ]
}

fn definitions() -> Vec<Canary> {
    let function = |description: &str, hint: &str| {
        let properties = json!({"a": {"type": "string", "enum": [hint]}});
        json!({
            "name": TOOL,
            "description": description,
            "parameters": {"type": "object", "properties": properties},
        })
    };
    let tool = |function: Value| json!([{"type": "function", "function": function}]);
    let custom = json!([{"type": "custom", "custom": {"name": TOOL, "description": MARK}}]);
    vec![
        with(
            "definition, description",
            Judged(Definition),
            "tools",
            tool(function(MARK, "x")),
        ),
        with(
            "definition, schema",
            Judged(Definition),
            "tools",
            tool(function("x", MARK)),
        ),
        with(
            "definition of a custom tool",
            Judged(Definition),
            "tools",
            custom,
        ),
        with(
            "tool of the provider",
            Judged(ProviderTool),
            "tools",
            json!([{"type": "mcp", "server_url": MARK}]),
        ),
        with(
            "search of the provider",
            Judged(ProviderTool),
            "web_search_options",
            json!({"user_location": MARK}),
        ),
        with(
            "model that searches",
            Judged(ProviderTool),
            "model",
            json!(format!("{MARK}-search-preview")),
        ),
        with(
            "definition of a legacy function",
            Judged(Definition),
            "functions",
            json!([function(MARK, "x")]),
        ),
    ]
}

/// A call in its three forms, whole and in the deltas of a stream.
fn calls() -> [(&'static str, Fate, Value, [Value; 2]); 5] {
    let (first, second) = HALVES;
    let call = |form: &str, key: &str, text: &str| {
        let kind = if form == "function_call" {
            "function"
        } else {
            form
        };
        json!({"tool_calls": [{"index": 0, "id": "c1", "type": kind, form: {"name": TOOL, key: text}}]})
    };
    let rest = |form: &str, key: &str, text: &str| json!({"tool_calls": [{"index": 0, form: {key: text}}]});
    let whole = json!({"a": MARK}).to_string();
    let cut = [format!("{{\"a\": \"{first}"), format!("{second}\"}}")];
    let legacy = |text: &str| json!({"function_call": {"name": TOOL, "arguments": text}});
    let stray = json!({"newcomer": [{"name": TOOL, "arguments": {"a": MARK}}]});
    let unreadable = json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": MARK, "arguments": "{"}}]});
    [
        (
            "call of a function",
            Judged(ToolCall),
            call("function", "arguments", &whole),
            [
                call("function", "arguments", &cut[0]),
                rest("function", "arguments", &cut[1]),
            ],
        ),
        (
            "call of a custom tool",
            Judged(ToolCall),
            call("custom", "input", MARK),
            [
                call("custom", "input", first),
                rest("custom", "input", second),
            ],
        ),
        (
            "call of a legacy function",
            Judged(ToolCall),
            legacy(&whole),
            [
                legacy(&cut[0]),
                json!({"function_call": {"arguments": cut[1]}}),
            ],
        ),
        (
            "call in an unknown member",
            Judged(ToolCall),
            stray.clone(),
            [stray, json!({})],
        ),
        (
            "call that cannot be read",
            Judged(Unreadable),
            unreadable.clone(),
            [unreadable, json!({})],
        ),
    ]
}

fn answers() -> Vec<Canary> {
    let asked = ask(&json!([{"role": "user", "content": "go"}]));
    let whole = |message: &Value, reason: &str| {
        json!({
            "id": "r", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        })
        .to_string()
    };
    let chunk = |delta: &Value, reason: Option<&str>| {
        json!({
            "id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        })
        .to_string()
    };
    let mut all = Vec::new();
    for (content, fate, message, deltas) in calls() {
        all.push(asked.answered(whole(&message, "tool_calls"), content, fate));
        let events = [
            ("", chunk(&deltas[0], None)),
            ("", chunk(&deltas[1], None)),
            ("", chunk(&json!({}), Some("tool_calls"))),
            ("", "[DONE]".to_owned()),
        ];
        all.push(asked.streamed(&events, content, fate));
    }
    let text = json!({"role": "assistant", "content": MARK});
    all.push(asked.answered(whole(&text, "stop"), "text of the model", Passed(ModelText)));
    let events = [
        ("", chunk(&text, None)),
        ("", chunk(&json!({}), Some("stop"))),
        ("", "[DONE]".to_owned()),
    ];
    all.push(asked.streamed(&events, "text of the model", Passed(ModelText)));
    for (content, [first, second]) in SHOWN {
        let fate = Judged(ItemKind::ModelText);
        let said = format!("{first}{second}");
        let text = json!({"role": "assistant", "content": said});
        all.push(
            asked
                .answered(whole(&text, "stop"), content, fate)
                .rendered(),
        );
        let parts = json!([{"type": "text", "text": first}, {"type": "text", "text": second}]);
        let text = json!({"role": "assistant", "content": parts});
        all.push(
            asked
                .answered(whole(&text, "stop"), content, fate)
                .rendered(),
        );
        let events = [
            (
                "",
                chunk(&json!({"role": "assistant", "content": first}), None),
            ),
            ("", chunk(&json!({"content": second}), None)),
            ("", chunk(&json!({}), Some("stop"))),
            ("", "[DONE]".to_owned()),
        ];
        all.push(asked.streamed(&events, content, fate).rendered());
    }
    let cited = json!({"role": "assistant", "content": "x", "annotations": [{"url_citation": {"title": MARK}}]});
    all.push(asked.answered(
        whole(&cited, "stop"),
        "what a search has found",
        Passed(ModelText),
    ));
    let stray = json!({"role": "assistant", "content": "x", "newcomer": [{"name": TOOL, "arguments": {"a": MARK}}]});
    let content = "call in a member that nobody knows";
    all.push(asked.answered(whole(&stray, "stop"), content, Judged(ToolCall)));
    let events = [
        ("", chunk(&stray, None)),
        ("", chunk(&json!({}), Some("stop"))),
        ("", "[DONE]".to_owned()),
    ];
    all.push(asked.streamed(&events, content, Judged(ToolCall)));
    let error = json!({"error": {"message": MARK, "type": "invalid_request_error"}}).to_string();
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
