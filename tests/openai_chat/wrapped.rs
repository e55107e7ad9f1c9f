//! Calls that carry another call: the inner one is judged, the outer one leaves.

use holdpoint::guard::Decision;
use holdpoint::item::{Item, Located};
use holdpoint::protocols::openai_chat::OpenAiChat;
use holdpoint::settings::{ModelRoute, Wrapped};
use holdpoint::verdict::{Reason, Verdict};
use serde_json::{Value, json};

use crate::driver::{EVENTS, JSON, decision, deny, items, respond, streamed, whole, with};
use crate::responses::{Stored, events};

fn adapter() -> OpenAiChat {
    with(&ModelRoute {
        wrapped: vec![Wrapped {
            tool: "call_tool".into(),
            name: "/name".to_owned(),
            arguments: "/arguments".to_owned(),
            beside: vec!["/why".to_owned()],
        }],
        ..ModelRoute::default()
    })
}

/// What the client gets of the call's arguments, whole and streamed alike.
fn left(arguments: &str, decide: &dyn Fn(&[Located]) -> Decision) -> Option<String> {
    let function = json!({"name": "call_tool", "arguments": arguments});
    let call = json!({"index": 0, "id": "c", "type": "function", "function": function});
    let body = |key: &str| {
        let choice =
            json!({"index": 0, key: {"tool_calls": [call]}, "finish_reason": "tool_calls"});
        json!({"id": "chatcmpl-1", "choices": [choice]}).to_string()
    };
    let plain = [body("message").into()];
    let plain = respond(&adapter(), 200, JSON, &plain, &decide)
        .unwrap()
        .sent;
    let live = events(&[&body("delta"), "[DONE]"]);
    let live = respond(&adapter(), 200, EVENTS, &live, &decide)
        .unwrap()
        .sent;
    let client = whole(&plain);
    assert_eq!(streamed(&live), client);
    let call = client[&0].calls.first()?;
    assert_eq!(call[2], "call_tool");
    Some(call[3].clone())
}

#[test]
fn the_inner_call_is_judged_and_the_outer_one_leaves_as_it_came() {
    for arguments in [
        r#"{"name": "pay", "why": "x", "arguments": {"to": 12345678901234567890123}}"#,
        r#"{"name":"pay","arguments":"{\"to\": 12345678901234567890123}"}"#,
    ] {
        let judge = |verdict: Verdict| {
            move |items: &[Located]| {
                let [located] = items else { panic!("one call") };
                let Item::ToolCall(call) = &located.item else {
                    panic!("{located:?}")
                };
                assert_eq!(call.tool.as_str(), "pay");
                assert_eq!(call.args.raw, r#"{"to": 12345678901234567890123}"#);
                assert_eq!(call.call_id.as_deref(), Some("c"));
                assert_eq!(located.place.pointer, "/choices/0/tool_calls/0");
                decision(items, &|_| verdict.clone())
            }
        };
        let allowed = left(arguments, &judge(Verdict::Allow));
        assert_eq!(allowed.as_deref(), Some(arguments));
        assert_eq!(left(arguments, &judge(deny(Reason::NotOwner))), None);
    }
}

#[test]
fn one_that_cannot_be_unwrapped_never_passes() {
    for arguments in [
        "{}",
        r#"{"name":"pay"}"#,
        r#"{"name":"pay","Name":"x","arguments":{}}"#,
    ] {
        let decide = |items: &[Located]| decision(items, &|_| Verdict::Allow);
        assert_eq!(left(arguments, &decide), None, "{arguments}");
    }
}

#[test]
fn stored_arguments_are_written_into_the_outer_call() {
    let decide = |items: &[Located]| Decision {
        claims: vec![(0, Box::new(Stored::of(r#"{"to":"A-1"}"#)))],
        ..decision(items, &|_| Verdict::Allow)
    };
    for (proposed, expected) in [
        (
            r#"{"name": "pay", "why": 1.0, "arguments": {"to": "A-1" }}"#,
            r#"{"name": "pay", "why": 1.0, "arguments": {"to":"A-1"}}"#,
        ),
        (
            r#"{"name":"pay","arguments":"{\"to\": \"A-1\"}"}"#,
            r#"{"name":"pay","arguments":"{\"to\":\"A-1\"}"}"#,
        ),
    ] {
        assert_eq!(left(proposed, &decide).as_deref(), Some(expected));
    }
}

#[test]
fn an_output_is_the_inner_tools() {
    let call = |id: &str, arguments: Value| {
        let function = json!({"name": "call_tool", "arguments": arguments.to_string()});
        json!({"id": id, "type": "function", "function": function})
    };
    let inner = json!({"name": "look", "arguments": {}});
    let body = json!({"messages": [
        {"role": "assistant", "tool_calls": [call("a", inner), call("b", json!({}))]},
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
    ]});
    let found = items(&adapter(), &body.to_string());
    for expected in [
        r#"/messages/1/content look "one""#,
        r#"/messages/2/content call_tool "two""#,
    ] {
        assert!(found.iter().any(|item| item == expected), "{found:?}");
    }
}
