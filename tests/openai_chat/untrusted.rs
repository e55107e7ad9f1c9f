//! What in a conversation is untrusted besides tool outputs.

use holdpoint::settings::{ModelRoute, Untrusted};
use serde_json::{Value, json};

use crate::driver::{adapter, edited, forwarded, items, with};

const NOTE: &str = "[holdpoint: tool output withheld: injection_detected]";

fn untrusted(roles: &[&str], tags: &[&str]) -> ModelRoute {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    ModelRoute {
        untrusted: Untrusted {
            roles: names(roles),
            tags: names(tags),
        },
        ..ModelRoute::default()
    }
}

fn body(messages: &Value) -> String {
    json!({ "messages": messages }).to_string()
}

#[test]
fn trusted_roles_say_nothing_to_judge() {
    let messages = json!([
        {"role": "system", "content": "a"},
        {"role": "developer", "name": "n", "content": [{"type": "text", "text": "b"}]},
        {"role": "user", "name": "n", "content": [
            {"type": "text", "text": "<r>c</r>"},
            {"type": "image_url", "image_url": {"url": "data:text/plain;base64,ZA=="}},
            {"type": "input_audio", "input_audio": {"data": "e", "format": "wav"}},
            {"type": "file", "file": {"file_data": "f", "filename": "g"}},
        ]},
        {"role": "assistant", "content": "h", "refusal": "i", "reasoning_content": "j", "audio": {"id": "k"}},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "l"}]},
    ]);
    assert_eq!(items(&adapter(), &body(&messages)), [""; 0]);
}

#[test]
fn a_whole_role_is_untrusted_with_all_that_it_sends() {
    let messages = json!([
        {"role": "user", "content": "plain"},
        {"role": "user", "content": [
            {"type": "text", "text": "one"},
            {"type": "image_url", "image_url": {"url": "data:text/plain;base64,eA=="}},
            {"type": "text", "text": "two"},
        ]},
        {"role": "assistant", "content": "trusted"},
    ]);
    // Only what is said is judged joined, not a file between.
    assert_eq!(
        items(&with(&untrusted(&["user"], &["r"])), &body(&messages)),
        [
            r#"/messages/0/content - "plain""#,
            r#"/messages/1/content/0/text - "one""#,
            r#"/messages/1/content/2/text - "two""#,
            r#"/messages/1/content - "onetwo""#,
            r#"/messages/1/content - "one\ntwo""#,
            r#"/messages/1/content/1/image_url/url - "url""#,
            r#"/messages/1/content/1/image_url/url - "data:text/plain;base64,eA==""#,
        ]
    );
    let said = json!([{"role": "assistant", "content": "a", "refusal": "b", "reasoning": "c"}]);
    assert_eq!(
        items(&with(&untrusted(&["assistant"], &[])), &body(&said)),
        [
            r#"/messages/0/content - "a""#,
            r#"/messages/0/refusal - "b""#,
            r#"/messages/0/reasoning - "c""#,
        ]
    );
}

#[test]
fn tagged_ranges_are_untrusted_and_only_they_are_withheld() {
    let adapter = with(&untrusted(&[], &["result"]));
    let sent = r#"{"messages":[{"role":"user","content":"Look: <result>ev\u0069l \u00e9</result> and go"},
{"role":"user","content":[{"type":"text","text":"<result>x"},{"type":"text","text":"y"}]},
{"role":"system","content":"<result>z</result>"}]}"#;
    assert_eq!(
        items(&adapter, sent),
        [
            r#"/messages/0/content - "evil é""#,
            r#"/messages/1/content/0/text - "x""#,
            r#"/messages/1/content/1/text - "y""#,
            r#"/messages/1/content - "xy""#,
            r#"/messages/1/content - "x\ny""#,
        ]
    );
    let written = forwarded(edited(&adapter, sent, &["/messages/0/content"]));
    assert_eq!(written, sent.replace(r"ev\u0069l \u00e9", NOTE));
    // What is split over parts goes from each.
    let written = forwarded(edited(&adapter, sent, &["/messages/1/content"]));
    let expected = sent.replace(">x\"", &format!(">{NOTE}\""));
    assert_eq!(written, expected.replace("\"y\"", &format!("\"{NOTE}\"")));
}

#[test]
fn what_nobody_knows_is_untrusted_whoever_says_it() {
    let mut request = json!({"messages": [
        {"role": "user", "content": [{"type": "newcomer", "a": {"b": "one"}}, "two"], "context": {"c": ["three"]}},
        {"role": "assistant", "content": "x", "annotations": [{"type": "url_citation", "url_citation": {"title": "four"}}]},
        {"role": "tool", "content": "five", "output": "six"},
    ]});
    request["prediction"] =
        json!({"type": "content", "content": [{"type": "text", "text": "seven"}]});
    request["documents"] = json!([{"text": "eight"}]);
    let found = items(&adapter(), &request.to_string());
    for text in [
        "one", "two", "three", "four", "five", "six", "seven", "eight", "b", "c",
    ] {
        let quoted = format!(" - {text:?}");
        assert!(
            found.iter().any(|item| item.ends_with(&quoted)),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn earlier_calls_are_judged_as_text_and_withheld_whole() {
    let arguments = r#"{"pa\u0074h": "a\nb", "n": [1, "c"]}"#;
    let messages = json!([
        {"role": "assistant", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": arguments}},
            {"id": "c2", "type": "custom", "custom": {"name": "note", "input": "free"}},
            {"id": "c3", "function": {"name": "odd", "arguments": {"k": "object"}}},
            {"id": "c4", "function": {"name": "bad", "arguments": "{not json"}},
        ]},
        {"role": "assistant", "function_call": {"name": "old", "arguments": "{\"d\":\"e\"}"}},
    ]);
    let sent = body(&messages);
    assert_eq!(
        items(&adapter(), &sent),
        [
            r#"/messages/0/tool_calls/0/function/arguments look "path\na\nb\nn\nc""#,
            r#"/messages/0/tool_calls/1/custom/input note "free""#,
            r#"/messages/0/tool_calls/2/function/arguments/k odd "k""#,
            r#"/messages/0/tool_calls/2/function/arguments/k odd "object""#,
            r#"/messages/0/tool_calls/3/function/arguments bad "{not json""#,
            r#"/messages/1/function_call/arguments old "d\ne""#,
        ]
    );
    let first = "/messages/0/tool_calls/0/function/arguments";
    let written = forwarded(edited(&adapter(), &sent, &[first]));
    let written: Value = serde_json::from_str(&written).unwrap();
    let call = &written["messages"][0]["tool_calls"][0];
    // Backends read the arguments as JSON.
    let left: Value =
        serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(left, json!({ "withheld": NOTE }));
    let mut expected = messages;
    expected[0]["tool_calls"][0]["function"]["arguments"] = call["function"]["arguments"].clone();
    assert_eq!(written["messages"], expected);
}
