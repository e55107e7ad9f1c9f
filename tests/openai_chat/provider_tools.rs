//! What the provider is asked to run by itself: judged in the request, which is refused whole.

use holdpoint::protocols::{Protocol, Written};
use serde_json::{Value, json};

use crate::driver::{adapter, completion, edited, items};

fn found(extra: &Value) -> Vec<String> {
    let mut body = json!({ "model": "m", "messages": [] });
    for (key, value) in extra.as_object().unwrap() {
        body[key] = value.clone();
    }
    let mut found = items(&adapter(), &body.to_string());
    found.retain(|item| item.contains(" runs "));
    found
}

#[test]
fn every_way_to_ask_for_one_is_found() {
    let tools = json!({"tools": [
        {"type": "function", "function": {"name": "f"}},
        {"type": "custom", "custom": {"name": "c"}},
        {"function": {"name": "g"}},
        {"type": "builtin_function", "function": {"name": "$web_search"}},
        {"type": "mcp", "server_label": "x", "server_url": "https://a.example/mcp"},
        {"type": "mcp", "server_url": "https://a.example", "mcp": {"url": "https://b.example"}},
        {"type": "mcp", "connector_id": "mail"},
        {"type": "mcp", "server_url": ["https://a.example"]},
    ]});
    let search = json!({"type": "azure_search", "parameters": {"endpoint": "https://s.example"}});
    for (extra, expected) in [
        (json!({}), &[][..]),
        (
            tools,
            &[
                "/tools/3 runs builtin_function at -",
                "/tools/4 runs mcp at https://a.example/mcp",
                "/tools/5 runs mcp at https://a.example",
                "/tools/5 runs mcp at https://b.example",
                "/tools/6 runs mcp at -",
                "/tools/7 runs mcp at ",
            ],
        ),
        (
            json!({"web_search_options": {}}),
            &["/web_search_options runs web_search_options at -"],
        ),
        (
            json!({"web_search_options": null, "enable_search": false, "plugins": []}),
            &[],
        ),
        (
            json!({"enable_search": true}),
            &["/enable_search runs enable_search at -"],
        ),
        (
            json!({ "data_sources": [search] }),
            &["/data_sources/0 runs data_sources at https://s.example"],
        ),
        (
            json!({"plugins": [{"id": "web"}, {"id": "file-parser"}]}),
            &[
                "/plugins/0 runs plugins at -",
                "/plugins/1 runs plugins at -",
            ],
        ),
        (
            json!({"model": "gpt-4o-search-preview-2025-03-11"}),
            &["/model runs search_model at -"],
        ),
        (
            json!({"model": "openai/gpt-5:online"}),
            &["/model runs search_model at -"],
        ),
        (
            json!({"model": "perplexity/sonar-pro"}),
            &["/model runs search_model at -"],
        ),
        (json!({"model": "gpt-5"}), &[]),
        (
            json!({"enable_code_interpreter": true}),
            &["/enable_code_interpreter runs enable_code_interpreter at -"],
        ),
        (json!({"enable_code_interpreter": false}), &[]),
    ] {
        assert_eq!(found(&extra), expected, "{extra}");
    }
}

#[test]
fn a_model_that_searches_by_itself_is_found_wherever_it_is_asked_for() {
    for (model, searches) in [
        ("gpt-4o-search-preview", true),
        ("perplexity/sonar", true),
        ("openai/gpt-5:online", true),
        ("openai/gpt-5:online:floor", true),
        ("openai/gpt-5:nitro:Online", true),
        ("compound", true),
        ("groq/compound-mini", true),
        ("Compound-beta", true),
        ("online", false),
        ("gpt-5:onlines", false),
        ("acme/uncompound", false),
        ("gpt-5", false),
    ] {
        let count = usize::from(searches);
        assert_eq!(found(&json!({ "model": model })).len(), count, "{model}");
        let several = json!({"model": "m", "models": ["m", model]});
        let expected = vec!["/models/1 runs search_model at -"; count];
        assert_eq!(found(&several), expected, "{model}");
    }
}

#[test]
fn a_refused_one_refuses_the_request_and_an_allowed_one_changes_nothing() {
    let body = r#"{"model":"m","tools":[{"type":"web_search"},{"type":"function","function":{"name":"f"}}],"messages":[]}"#;
    // Both the tool and its definition stand at `/tools/0`.
    assert_eq!(items(&adapter(), body).len(), 3);
    let Written::Refuse(refusal) = edited(&adapter(), body, &["/tools/0"]) else {
        panic!("refused")
    };
    assert_eq!(refusal.status, 403);
    let answer = adapter().refuse(&refusal, None);
    assert_eq!(answer.headers()["x-should-retry"], "false");
    assert!(answer.body().starts_with(br#"{"error":{"message":"#));
    let Written::Forward(request) = edited(&adapter(), body, &[]) else {
        panic!("forwarded")
    };
    assert_eq!(request.body, body);
}

#[test]
fn keys_that_some_readers_take_for_one_are_refused() {
    for body in [
        r#"{"messages":[],"Web_Search_Options":{}}"#,
        r#"{"messages":[],"Models":["sonar"]}"#,
        r#"{"messages":[],"models":"sonar"}"#,
        r#"{"messages":[],"tools":[{"type":"function","Type":"mcp","function":{"name":"f"}}]}"#,
        r#"{"messages":[],"tools":[{"type":"mcp","server_url":"https://a","Server_URL":"https://b"}]}"#,
        r#"{"messages":[],"tools":[{"type":7,"name":"f"}]}"#,
    ] {
        let error = adapter().read(&completion(body)).unwrap_err();
        assert_eq!(error.code, "invalid_request", "{body}");
    }
}
