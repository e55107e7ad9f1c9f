//! Known answers for tools in requests: definitions, and what the provider runs.

use holdpoint::item::Item;
use holdpoint::protocols::Protocol as _;
use http::StatusCode;
use serde_json::{Value, json};

use crate::driver::{adapter, edited, items};
use crate::requests::{bad, refusal};

fn provider_tools(body: &str) -> Vec<(String, Option<String>, String)> {
    items(&adapter(), body)
        .into_iter()
        .filter_map(|located| match located.item {
            Item::ProviderTool(tool) => Some((
                tool.kind.to_string(),
                tool.server.map(|server| server.to_string()),
                located.place.pointer,
            )),
            _ => None,
        })
        .collect()
}

#[test]
fn what_the_provider_runs_is_told_from_what_the_client_runs() {
    let theirs = [
        "web_search_20250305",
        "web_fetch_20260318",
        "code_execution_20260521",
        "tool_search_tool_bm25_20251119",
        "advisor_20260301",
        "something_new_20270101",
    ];
    let ours = [
        "bash_20250124",
        "text_editor_20250728",
        "computer_20251124",
        "computer_toolset_20260801",
        "browser_toolset_20260801",
        "memory_20250818",
        "custom",
    ];
    for (kinds, provider) in [(&theirs[..], true), (&ours[..], false)] {
        for kind in kinds {
            let body = json!({"messages": [], "tools": [{"type": kind, "name": "n"}]}).to_string();
            let found = items(&adapter(), &body);
            assert_eq!(found.len(), 1);
            let is_provider =
                matches!(&found[0].item, Item::ProviderTool(tool) if &*tool.kind == *kind);
            assert_eq!(is_provider, provider, "{kind}");
        }
    }
    let body = json!({
        "messages": [
            {"role": "user", "content": [
                {"type": "document", "source": {"type": "url", "url": "https://d.test/"}},
                {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
                {"type": "image", "source": {"type": "url", "url": "https://mine.test/"}},
                {"type": "container_upload", "file_id": "file_2"},
                {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": {"type": "url", "url": "https://i.test/"}}]},
            ]},
            {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {"type": "web_search_20260318", "name": "web_search"}}}]},
        ],
        "container": {"id": "c", "skills": []},
        "mcp_servers": [{"type": "url", "name": "hub", "url": "https://hub.test/mcp", "authorization_token": "secret"}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "hub", "tools": [{"name": "t", "description": "d"}]}],
    })
    .to_string();
    let row = |kind: &str, server: Option<&str>, pointer: &str| {
        (
            kind.to_owned(),
            server.map(str::to_owned),
            pointer.to_owned(),
        )
    };
    let hub = Some("https://hub.test/mcp");
    let blocks = "/messages/0/content";
    assert_eq!(
        provider_tools(&body),
        [
            row("mcp_servers", hub, "/mcp_servers/0"),
            row("container", None, "/container"),
            row("mcp_toolset", hub, "/tools/0"),
            row(
                "document.url",
                Some("https://d.test/"),
                &format!("{blocks}/0/source")
            ),
            row("document.file", None, &format!("{blocks}/1/source")),
            row("container_upload", None, &format!("{blocks}/3")),
            row(
                "image.url",
                Some("https://i.test/"),
                &format!("{blocks}/4/content/0/source")
            ),
            row(
                "web_search_20260318",
                None,
                "/messages/1/content/0/tool/definition"
            ),
        ]
    );
}

#[test]
fn a_denied_tool_of_the_provider_refuses_the_request() {
    let body =
        r#"{"messages":[],"mcp_servers":[{"type":"url","name":"n","url":"https://EVIL.test/"}]}"#;
    let refusal = refusal(body).unwrap();
    let response = adapter().refuse(&refusal, None);
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert_eq!(response.headers()["x-should-retry"], "false");
    let body: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(body["type"], "error");
    assert_eq!(body["error"]["type"], "permission_error");
    assert_eq!(body["error"]["code"], "injection_detected");
    assert!(!response.body().windows(4).any(|part| part == b"EVIL"));
}

#[test]
fn a_denied_definition_goes_with_what_refers_to_it() {
    let evil = r#"{"name":"evil","description":"EVIL","input_schema":{"type":"object"}}"#;
    let good = r#"{"type":"custom","name":"good","input_schema":{"type":"object"},"input_examples":[{"a":"b"}]}"#;
    let body = |rest: &str| format!(r#"{{"messages":[],"tools":[{good},{evil}]{rest}}}"#);
    let left = format!(r#"{{"messages":[],"tools":[{good}]}}"#);
    let choose = r#","tool_choice":{"type":"tool","name":"evil"}"#;
    assert_eq!(edited(&adapter(), &body(choose), &bad), left);
    let any = r#","tool_choice":{"type":"any"}"#;
    assert!(edited(&adapter(), &body(any), &bad).contains(any));
    let alone = format!(r#"{{"tools":[{evil}],"messages":[]{any}}}"#);
    assert_eq!(edited(&adapter(), &alone, &bad), r#"{"messages":[]}"#);
    // Also in examples, and in a server's list of tools.
    for hidden in [
        r#"{"name":"x","input_schema":{},"input_examples":[{"q":["EVIL"]}]}"#,
        r#"{"name":"x","input_schema":{"properties":{"EVIL":{}}}}"#,
    ] {
        let body = format!(r#"{{"messages":[],"tools":[{good},{hidden}]}}"#);
        assert_eq!(edited(&adapter(), &body, &bad), left);
    }
    let listing = r#"{"messages":[{"role":"assistant","content":[{"type":"mcp_tool_listing","mcp_server_name":"h","tools":[{"name":"a","description":"EVIL"},{"name":"b"}]}]}],"tools":[{"type":"mcp_toolset","mcp_server_name":"h","tools":[{"name":"a","description":"EVIL"}]}]}"#;
    assert_eq!(
        edited(&adapter(), listing, &bad),
        r#"{"messages":[{"role":"assistant","content":[{"type":"mcp_tool_listing","mcp_server_name":"h","tools":[{"name":"b"}]}]}],"tools":[{"type":"mcp_toolset","mcp_server_name":"h","tools":[]}]}"#
    );
}

#[test]
fn a_tool_that_a_message_adds_is_a_definition() {
    let body = json!({"messages": [
        {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {"name": "evil", "description": "EVIL", "input_schema": {}}}}]},
        {"role": "user", "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "evil"}}, {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "other"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": "evil"}]}]},
    ]})
    .to_string();
    let sent: Value = serde_json::from_str(&edited(&adapter(), &body, &bad)).unwrap();
    let messages = sent["messages"].as_array().unwrap();
    assert_eq!(
        messages[0]["content"],
        json!([{"type": "text", "text": "[holdpoint: tool definition withheld: injection_detected]"}])
    );
    assert_eq!(messages[1]["content"][0]["type"], "text");
    assert_eq!(messages[1]["content"][1]["type"], "tool_removal");
    assert_eq!(messages[2]["content"][0]["content"][0]["type"], "text");
}
