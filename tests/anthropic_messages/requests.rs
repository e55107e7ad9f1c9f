//! Known answers for requests: what is found, and how it is edited.

use holdpoint::item::{Item, Located};
use holdpoint::protocols::{Protocol as _, Refusal, Written};
use holdpoint::settings::{ModelRoute, Untrusted};
use holdpoint::verdict::{Reason, Rewrite, RewriteKind, Verdict};
use http::StatusCode;
use serde_json::{Value, json};

use crate::driver::{adapter, deny, edited, finding, items, request, texts, with, written};

fn code(method: &str, path: &str, body: &str) -> &'static str {
    adapter()
        .read(&request(method, path, body))
        .unwrap_err()
        .code
}

/// A request with these messages after a user's word.
pub fn conversation(messages: &[Value]) -> String {
    let mut all = vec![json!({"role": "user", "content": "the task"})];
    all.extend_from_slice(messages);
    json!({"model": "m", "max_tokens": 9, "messages": all}).to_string()
}

/// A conversation in which a tool gave this back.
fn result(content: Value) -> String {
    conversation(&[
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "fetch", "input": {}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": content}]}),
    ])
}

pub fn in_user(block: Value) -> String {
    conversation(&[json!({"role": "user", "content": [block]})])
}

pub fn in_model(block: Value) -> String {
    conversation(&[json!({"role": "assistant", "content": [block]})])
}

/// Refuses what has this word in it.
pub fn bad(located: &Located) -> Verdict {
    let is_bad = match &located.item {
        Item::ToolOutput(output) => output.text.contains("EVIL"),
        Item::Definition(definition) => definition.text.contains("EVIL"),
        Item::ProviderTool(tool) => tool.server.as_deref().is_some_and(|s| s.contains("EVIL")),
        _ => false,
    };
    if is_bad {
        deny(Reason::InjectionDetected)
    } else {
        Verdict::Allow
    }
}

pub fn refusal(body: &str) -> Option<Refusal> {
    match written(&adapter(), body, &bad) {
        Written::Refuse(refusal) => Some(refusal),
        Written::Forward(_) => None,
        other @ (Written::Replay(_) | Written::Ask(..)) => panic!("{other:?}"),
    }
}

#[test]
fn endpoints_that_are_not_understood_are_refused() {
    let body = r#"{"messages":[]}"#;
    for path in [
        "/v1/messages",
        "/messages",
        "/v1/messages?beta=true",
        "/v1/messages/count_tokens",
        "/messages/count_tokens?beta=true",
    ] {
        assert!(
            adapter().read(&request("POST", path, body)).is_ok(),
            "{path}"
        );
        assert_eq!(code("GET", path, ""), "method_not_allowed", "{path}");
    }
    for path in ["/v1/models", "/v1/models/claude-x", "/models?limit=3"] {
        assert!(
            adapter()
                .read(&request("GET", path, ""))
                .unwrap()
                .is_empty()
        );
        assert_eq!(code("POST", path, body), "method_not_allowed");
        assert_eq!(code("GET", path, body), "invalid_request");
    }
    for (method, path) in [
        ("POST", "/v1/messages/batches"),
        ("GET", "/v1/messages/batches/msgbatch_1/results"),
        ("POST", "/v1/files"),
        ("GET", "/v1/files/file_1/content"),
        ("POST", "/v1/complete"),
        ("POST", "/v1/skills"),
        ("POST", "/v1/sessions"),
        ("POST", "/v1/messages/"),
        ("POST", "/v1//messages"),
        ("POST", "/v1/v1/messages"),
        ("GET", "/v1/models/../files"),
        ("GET", "/"),
    ] {
        assert_eq!(code(method, path, ""), "endpoint_unknown", "{path}");
    }
}

#[test]
fn tokens_are_counted_of_what_is_scanned() {
    let body = result(json!("found"));
    let items = adapter().read(&request("POST", "/v1/messages/count_tokens", &body));
    assert_eq!(items.unwrap().len(), 1);
}

#[test]
fn a_body_that_is_no_conversation_names_the_place() {
    let refused = |body: &str| {
        adapter()
            .read(&request("POST", "/v1/messages", body))
            .unwrap_err()
    };
    assert_eq!(refused("").code, "unsupported_media_type");
    for (body, place) in [
        ("{}", "/messages"),
        (r#"{"messages":{}}"#, "/messages"),
        (r#"{"messages":[1]}"#, "/messages/0"),
        (r#"{"messages":[{}]}"#, "/messages/0/role"),
        (r#"{"messages":[{"role":1}]}"#, "/messages/0/role"),
        (
            r#"{"messages":[{"role":"user","content":1}]}"#,
            "/messages/0/content",
        ),
        (
            r#"{"messages":[{"role":"user","content":[{}]}]}"#,
            "/messages/0/content/0/type",
        ),
        (
            r#"{"messages":[{"role":"user","content":["x"]}]}"#,
            "/messages/0/content/0/type",
        ),
        (r#"{"messages":[],"tools":{}}"#, "/tools"),
        (r#"{"messages":[],"tools":[{}]}"#, "/tools/0"),
        (r#"{"messages":[],"tools":[{"type":7}]}"#, "/tools/0/type"),
        (r#"{"messages":[],"thread":{"type":"create"}}"#, "/thread"),
        (
            r#"{"messages":[],"thread":{"type":"continue","previous_message_id":"msg_1"}}"#,
            "/thread",
        ),
        (
            r#"{"messages":[{"role":"system","content":[{"type":"tool_addition"}]}]}"#,
            "/messages/0/content/0/tool",
        ),
    ] {
        let malformed = refused(body);
        assert_eq!(malformed.code, "invalid_request", "{body}");
        assert!(
            malformed.message.contains(&format!("`{place}`")),
            "{body}: {malformed}"
        );
    }
}

#[test]
fn a_key_that_another_reader_takes_for_a_known_one_is_refused() {
    for body in [
        r#"{"messages":[],"Messages":[]}"#,
        r#"{"messages":[],"tools ":[],"Tools":[]}"#,
        r#"{"messages":[{"role":"user","content":"a","Content":"b"}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"text","TEXT":"b"}]}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text\u0000":"b"}]}]}]}"#,
        r#"{"messages":[],"tools":[{"name":"a","Description":"b"}]}"#,
        r#"{"messages":[],"Thread":{}}"#,
    ] {
        assert_eq!(
            code("POST", "/v1/messages", body),
            "invalid_request",
            "{body}"
        );
    }
}

#[test]
fn every_text_of_a_tool_is_found_however_deep() {
    let deep = json!([
        {"type": "text", "text": "one"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "document", "title": "two", "context": "three", "source": {"type": "text", "media_type": "text/plain", "data": "four"}},
        {"type": "document", "source": {"type": "content", "content": "five"}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "six"}, {"type": "image", "source": {"type": "base64", "data": "not base64 but words"}}]}},
        {"type": "search_result", "source": "seven", "title": "eight", "content": [{"type": "text", "text": "nine"}]},
        {"type": "tool_reference", "tool_name": "ten"},
        {"type": "browser_state", "tabs": [{"id": "t", "title": "eleven", "url": "https://e.test/", "active": true}], "state_changes": [{"type": "tab_opened", "title": "twelve"}]},
        {"type": "brand_new", "a": {"thirteen": ["fourteen"]}, "type2": "fifteen"},
        {"words": "sixteen"},
        "seventeen",
    ]);
    let found = texts(&adapter(), &result(deep));
    for text in [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "not base64 but words",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "https://e.test/",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "words",
        "seventeen",
    ] {
        assert!(
            found.iter().any(|found| found == text),
            "{text} in {found:?}"
        );
    }
    assert!(!found.iter().any(|text| text == "iVBORw0KGgo="));
    assert_eq!(texts(&adapter(), &result(json!("plain"))), ["plain"]);
    assert_eq!(texts(&adapter(), &result(Value::Null)), [""; 0]);
}

#[test]
fn results_of_the_providers_tools_are_untrusted_when_they_come_back() {
    for (block, words) in [
        (
            json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "title": "EVIL", "url": "https://e.test/", "encrypted_content": "c2VjcmV0"}]}),
            "EVIL",
        ),
        (
            json!({"type": "web_fetch_tool_result", "tool_use_id": "s", "content": {"type": "web_fetch_result", "url": "https://e.test/", "content": {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "EVIL"}}}}),
            "EVIL",
        ),
        (
            json!({"type": "code_execution_tool_result", "tool_use_id": "s", "content": {"type": "code_execution_result", "stdout": "EVIL", "stderr": "", "return_code": 0, "content": []}}),
            "EVIL",
        ),
        (
            json!({"type": "bash_code_execution_tool_result", "tool_use_id": "s", "content": {"type": "bash_code_execution_result", "stdout": "", "stderr": "EVIL"}}),
            "EVIL",
        ),
        (
            json!({"type": "text_editor_code_execution_tool_result", "tool_use_id": "s", "content": {"type": "text_editor_code_execution_view_result", "content": "EVIL"}}),
            "EVIL",
        ),
        (
            json!({"type": "advisor_tool_result", "tool_use_id": "s", "content": {"type": "advisor_result", "text": "EVIL"}}),
            "EVIL",
        ),
        (
            json!({"type": "mcp_tool_result", "tool_use_id": "s", "is_error": false, "content": [{"type": "text", "text": "EVIL"}]}),
            "EVIL",
        ),
        (
            json!({"type": "future_tool_result", "tool_use_id": "s", "content": [{"deep": [["EVIL"]]}]}),
            "EVIL",
        ),
        (
            json!({"type": "text", "text": "so", "citations": [{"type": "web_search_result_location", "cited_text": "EVIL", "url": "https://e.test/", "encrypted_index": "c2VjcmV0"}]}),
            "EVIL",
        ),
        (json!({"type": "compaction", "content": "EVIL"}), "EVIL"),
        (json!({"type": "never_heard_of", "EVIL": 1}), "EVIL"),
    ] {
        let body = in_model(block);
        let found = texts(&adapter(), &body);
        assert!(found.iter().any(|text| text == words), "{body}");
        assert!(!found.iter().any(|text| text == "c2VjcmV0"), "{body}");
        let sent = edited(&adapter(), &body, &bad);
        assert!(!sent.contains("EVIL"), "{sent}");
    }
}

#[test]
fn documents_and_search_results_are_untrusted_wherever_they_stand() {
    for block in [
        json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "EVIL"}}),
        json!({"type": "document", "title": "EVIL", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}),
        json!({"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "EVIL"}]}),
    ] {
        let body = in_user(block);
        let sent = edited(&adapter(), &body, &bad);
        assert!(
            !sent.contains("EVIL") && sent.contains("[holdpoint:"),
            "{sent}"
        );
    }
}

#[test]
fn what_the_speakers_say_themselves_is_trusted_unless_the_route_says_otherwise() {
    let body = json!({"system": "EVIL", "messages": [
        {"role": "user", "content": "EVIL <output>EVIL</output> EVIL"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "EVIL", "signature": "s"}, {"type": "redacted_thinking", "data": "EVIL"}, {"type": "text", "text": "EVIL"}]},
        {"role": "user", "content": [{"type": "text", "text": "EVIL <output>a"}, {"type": "image", "source": {"type": "url", "url": "https://e.test/"}}, {"type": "text", "text": "b</output> EVIL"}]},
    ]})
    .to_string();
    assert!(items(&adapter(), &body).is_empty());
    let route = |roles: &[&str], tags: &[&str]| {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        with(ModelRoute {
            untrusted: Untrusted {
                roles: all(roles),
                tags: all(tags),
            },
            ..ModelRoute::default()
        })
    };
    assert_eq!(texts(&route(&[], &["output"]), &body), ["EVIL", "a", "b"]);
    let users = texts(&route(&["user"], &[]), &body);
    assert_eq!(users.len(), 4, "{users:?}");
    assert_eq!(texts(&route(&["system"], &[]), &body), ["EVIL"]);
    let stranger = r#"{"messages":[{"role":"tool","content":[{"type":"text","text":"EVIL"}]}]}"#;
    assert_eq!(texts(&adapter(), stranger), ["EVIL"]);
    let beside = r#"{"messages":[],"prefill":[{"text":"EVIL"}],"top_k":5,"model":"m"}"#;
    assert_eq!(texts(&adapter(), beside), ["text", "EVIL"]);
}

#[test]
fn outputs_name_their_tool_and_calls_of_the_past_are_texts() {
    let body = conversation(&[
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "write", "input": {"path": "a", "n": [{"deep": "b"}]}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "is_error": true, "content": [{"type": "text", "text": "c"}]}]}),
    ]);
    let found: Vec<_> = items(&adapter(), &body)
        .into_iter()
        .filter(|located| located.place.span.is_some())
        .map(|located| match located.item {
            Item::ToolOutput(output) => (
                located.place.pointer,
                output.text.to_string(),
                output.tool.unwrap().as_str().to_owned(),
                output.call_id.map(|id| id.to_string()),
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    let row = |pointer: &str, text: &str, id: Option<&str>| {
        let id = id.map(str::to_owned);
        (pointer.to_owned(), text.to_owned(), "write".to_owned(), id)
    };
    let input = "/messages/1/content/0/input";
    let rows = [
        row(&format!("{input}/path"), "path", None),
        row(&format!("{input}/path"), "a", None),
        row(&format!("{input}/n"), "n", None),
        row(&format!("{input}/n/0/deep"), "deep", None),
        row(&format!("{input}/n/0/deep"), "b", None),
        row("/messages/2/content/0/content/0/text", "c", Some("toolu_1")),
    ];
    assert_eq!(found, rows);
}

#[test]
fn only_the_ruled_leaves_change() {
    let body = r#"{ "messages" : [ {"role":"user","content":"hi \u00e9"}, {"role":"assistant","content":[{"type":"thinking","thinking":"t\u0068","signature":"c2ln"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"n":12345678901234567890123 , "x":"EVIL"}}]},{"role":"user","content":[ {"type":"tool_result" ,"cache_control":{"type":"ephemeral"},"tool_use_id":"toolu_1","content":[{"text":"a EVIL b","type":"text","cache_control":{"type":"ephemeral"}},{"type":"text","text":"fine\u0020"}]}]}],"max_tokens":1e3,"model":"m" }"#;
    let judge = |located: &Located| match &located.item {
        Item::ToolOutput(output) => match output.text.find("EVIL") {
            Some(at) => Verdict::Rewrite(Rewrite {
                kind: RewriteKind::Redact,
                edits: vec![(at..at + 4, "X".into())],
                finding: finding(Reason::InjectionDetected),
            }),
            None => Verdict::Allow,
        },
        _ => Verdict::Allow,
    };
    assert_eq!(
        edited(&adapter(), body, &judge),
        body.replace("a EVIL b", "a X b")
    );
    assert_eq!(edited(&adapter(), body, &|_| Verdict::Allow), body);
}

#[test]
fn what_is_split_over_blocks_is_seen() {
    let body = result(
        json!([{"type": "text", "text": "EV"}, {"type": "image", "source": {"type": "base64", "data": "AAAA"}}, {"type": "text", "text": "IL"}]),
    );
    let sent = edited(&adapter(), &body, &bad);
    assert_eq!(sent.matches("[holdpoint:").count(), 2, "{sent}");
}

const SIGNED: &str = r#"{"type":"thinking","thinking":"t","signature":"c2ln"}"#;
const FOUND: &str = r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","title":"EVIL"}]}"#;

#[test]
fn a_signed_turn_is_never_edited() {
    let body = |first: &str, later: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":"hi"}},{{"role":"assistant","content":[{first},{FOUND}]}}{later}]}}"#
        )
    };
    let redacted = r#"{"type":"redacted_thinking","data":"ZGF0YQ=="}"#;
    let answers = r#",{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]},{"role":"assistant","content":[{"type":"tool_use","id":"u","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"u","content":"ok"}]}"#;
    let next = r#",{"role":"user","content":"and now?"}"#;
    let reminded = answers.replace(
        r#""content":"ok"}]}"#,
        r#""content":"ok"},{"type":"text","text":"remember"}]},{"role":"system","content":"more"}"#,
    );
    for (first, later) in [
        (SIGNED, ""),
        (redacted, ""),
        (SIGNED, next),
        (SIGNED, answers),
        (SIGNED, &reminded),
    ] {
        let refusal = refusal(&body(first, later)).unwrap();
        assert_eq!(refusal.status, StatusCode::FORBIDDEN);
        assert_eq!(refusal.code, "injection_detected");
        assert!(!refusal.retry);
    }
    let unsigned = r#"{"type":"thinking","thinking":"t","signature":""}"#;
    let over = r#",{"role":"user","content":"and now?"},{"role":"assistant","content":"this"}"#;
    for (first, later) in [(unsigned, ""), (SIGNED, over)] {
        let sent = edited(&adapter(), &body(first, later), &bad);
        assert!(!sent.contains("EVIL") && sent.contains(first));
    }
}

#[test]
fn a_signed_summary_is_never_edited() {
    let summary = |signature: Value| {
        json!({"messages": [{"role": "assistant", "content": [{"type": "compaction", "content": "EVIL", "signature": signature}]}, {"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]})
            .to_string()
    };
    assert!(refusal(&summary(json!("c2ln"))).is_some());
    assert!(refusal(&summary(Value::Null)).is_none());
}

#[test]
fn arguments_in_a_signed_turn_are_the_models_own_words() {
    let call = r#"{"type":"tool_use","id":"u","name":"f","input":{"text":"EVIL"}}"#;
    let body = |first: &str| {
        format!(r#"{{"messages":[{{"role":"assistant","content":[{first},{call}]}}]}}"#)
    };
    assert!(items(&adapter(), &body(SIGNED)).is_empty());
    let sent = edited(&adapter(), &body(r#"{"type":"text","text":"t"}"#), &bad);
    assert!(!sent.contains("EVIL"));
}

#[test]
fn a_long_conversation_is_read_in_one_pass() {
    let turn = format!(
        r#"{{"role":"assistant","content":[{SIGNED},{{"type":"tool_use","id":"u","name":"f","input":{{"text":"EVIL"}}}}]}}"#
    );
    let signed = format!(r#"{{"messages":[{}]}}"#, vec![turn; 40_000].join(","));
    assert!(items(&adapter(), &signed).is_empty());
    // A name that a definition has is judged with it.
    let each = |text: &dyn Fn(usize) -> String| (0..40_000).map(text).collect::<Vec<_>>().join(",");
    let tools = each(&|index| format!(r#"{{"name":"t{index}","input_schema":{{}}}}"#));
    let named = each(&|index| format!(r#"{{"type":"tool_reference","tool_name":"t{index}"}}"#));
    let body = format!(
        r#"{{"tools":[{tools}],"messages":[{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":[{named}]}}]}}]}}"#
    );
    let found = items(&adapter(), &body);
    assert!(
        found
            .iter()
            .all(|located| matches!(located.item, Item::Definition(_)))
    );
    assert_eq!(found.len(), 40_000);
}

#[test]
fn a_refusal_names_its_code_and_has_the_apis_type() {
    for (status, kind) in [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
    ] {
        let refusal = Refusal {
            status: StatusCode::from_u16(status).unwrap(),
            code: "some_code",
            message: "What to do.".to_owned(),
            reason: None,
            hold: None,
            retry: status == 503,
        };
        let response = adapter().refuse(&refusal, None);
        assert_eq!(response.status(), status);
        assert_eq!(
            response.headers().contains_key("x-should-retry"),
            status != 503
        );
        let body: Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(body["error"]["type"], kind);
        assert_eq!(body["error"]["message"], "What to do. (code: some_code)");
    }
}
