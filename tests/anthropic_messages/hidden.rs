//! Calls where the API has none: in blocks and deltas of unknown types.

use holdpoint::item::Item;
use holdpoint::protocols::Malformed;
use serde_json::{Value, json};

use crate::driver::{EVENTS, JSON, Outcome, adapter, decision, respond};
use crate::responses::allow;
use crate::streams::{START, stream};

/// The answer with this block, whole.
fn whole(block: &Value) -> Result<Outcome, Malformed> {
    let body = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [block], "stop_reason": "tool_use"});
    respond(&adapter(), JSON, &[body.to_string().into()], &|items| {
        decision(items, &allow)
    })
}

/// The answer with this block, as a stream.
fn live(block: &Value, deltas: &[Value]) -> Result<Outcome, Malformed> {
    let mut events =
        vec![json!({"type": "content_block_start", "index": 0, "content_block": block})];
    for delta in deltas {
        events.push(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
    }
    events.push(json!({"type": "content_block_stop", "index": 0}));
    let events = events.iter().map(Value::to_string).collect();
    respond(&adapter(), EVENTS, &stream(&[events]), &|items| {
        decision(items, &allow)
    })
}

/// Whether the one item of an answer is a call that nobody can read.
fn is_unreadable(outcome: &Outcome) -> bool {
    matches!(&*outcome.judged, [located] if matches!(located.item, Item::Unreadable(_)))
}

#[test]
fn a_named_block_of_an_unknown_type_is_a_call_before_its_arguments_come() {
    for name in ["name", "tool_name", "function_name", "tool", "function"] {
        let named = json!({"type": "custom_tool_use", "id": "t", name: "evil"});
        for outcome in [whole(&named), live(&named, &[])] {
            let outcome = outcome.unwrap();
            assert!(is_unreadable(&outcome), "{name}");
            assert!(!outcome.text().contains("custom_tool_use"), "{name}");
        }
        let deltas = [json!({"type": "args_delta", "anything": "{\"a\":1}"})];
        let malformed = live(&named, &deltas).unwrap_err();
        assert_eq!(malformed.code, "upstream_invalid_response", "{name}");
    }
    let text = json!({"type": "newcomer", "name": "x", "text": "words"});
    for outcome in [whole(&text), live(&text, &[])] {
        let outcome = outcome.unwrap();
        assert!(outcome.judged.is_empty() && outcome.text().contains("newcomer"));
    }
}

#[test]
fn a_delta_of_an_unknown_type_brings_no_part_of_a_call() {
    let odd = |part: Value| {
        let block = json!({"type": "newcomer", "id": "t"});
        let mut delta = part;
        delta["type"] = "newcomer_delta".into();
        live(&block, &[delta])
    };
    for part in [
        json!({"name": "evil"}),
        json!({"tool_name": "evil"}),
        json!({"arguments": "{\"a\":1}"}),
        json!({"args": {}}),
        json!({"input": "{"}),
        json!({"action": {"a": 1}}),
        json!({"parameters": {"a": 1}}),
        json!({"partial_json": "{}"}),
        json!({"more": [{"arguments": "{}"}]}),
    ] {
        let malformed = odd(part.clone()).unwrap_err();
        assert_eq!(malformed.code, "upstream_invalid_response", "{part}");
    }
    for part in [json!({"words": "x"}), json!({"arguments": null})] {
        assert!(odd(part).unwrap().text().contains("newcomer_delta"));
    }
}

#[test]
fn an_error_is_nothing_but_an_error() {
    let call = json!({"type": "tool_use", "id": "t", "name": "evil", "input": {"a": 1}});
    let start = json!({"type": "content_block_start", "index": 0, "content_block": call});
    for (name, data) in [
        ("error", start.to_string()),
        (
            "error",
            json!({"type": "message_start", "message": {"content": []}}).to_string(),
        ),
        ("error", json!({"type": 7}).to_string()),
        (
            "error",
            json!({"type": "error", "content_block": call}).to_string(),
        ),
        ("error", json!({"content_block": call}).to_string()),
        (
            "error",
            json!({"type": "error", "error": {"message": "x", "more": [call]}}).to_string(),
        ),
        ("error", json!([start]).to_string()),
        (
            "error",
            r#"{"type":"error","type":"content_block_start"}"#.to_owned(),
        ),
        (
            "error",
            r#"{"type":"error","Type":"content_block_start"}"#.to_owned(),
        ),
        ("error", "{\"type\":\"content_block_start\",}".to_owned()),
        (
            "",
            json!({"type": "error", "content_block": call}).to_string(),
        ),
    ] {
        let name = if name.is_empty() {
            String::new()
        } else {
            format!("event: {name}\n")
        };
        let pieces = [
            format!("event: message_start\ndata: {START}\n\n").into(),
            format!("{name}data: {data}\n\n").into(),
        ];
        let refused = respond(&adapter(), EVENTS, &pieces, &|items| {
            decision(items, &allow)
        });
        assert_eq!(
            refused.unwrap_err().code,
            "upstream_invalid_response",
            "{data}"
        );
    }
    let plain = json!({"error": {"type": "overloaded_error", "message": "{x}"}}).to_string();
    for data in [&*plain, "", "null", "too busy"] {
        let pieces = [format!("event: error\ndata: {data}\n\n").into()];
        let sent = respond(&adapter(), EVENTS, &pieces, &|items| {
            decision(items, &allow)
        });
        assert!(sent.unwrap().text().contains(data), "{data}");
    }
}

#[test]
fn a_call_in_another_members_shadow_makes_both_unreadable() {
    let call = json!({"name": "send_email", "input": {"to": "x"}});
    for (key, value) in [
        ("extra", call.clone()),
        ("extra", json!([{"deep": call}])),
        ("extra", json!({"type": "tool_use", "id": "u"})),
        (
            "caller",
            json!({"type": "direct", "name": "send_email", "args": {}}),
        ),
        ("function", json!({"name": "send_email", "arguments": "{}"})),
        ("function", json!("send_email")),
        ("tool_name", json!("send_email")),
        ("arguments", json!("{}")),
        ("args", json!({"to": "x"})),
        ("parameters", json!({"to": "x"})),
    ] {
        for kind in ["tool_use", "custom_tool_use"] {
            let mut block = json!({"type": kind, "id": "t", "name": "look", "input": {"a": 1}});
            block[key] = value.clone();
            for outcome in [whole(&block), live(&block, &[])] {
                let outcome = outcome.unwrap();
                assert!(is_unreadable(&outcome), "{block}");
                assert!(!outcome.text().contains("look"), "{block}");
            }
        }
    }
    // What a client may see beside a call, and what the arguments hold, is no second call.
    let block = json!({"type": "tool_use", "id": "t", "name": "look", "input": call, "caller": {"type": "direct"}});
    for outcome in [whole(&block), live(&block, &[])] {
        let outcome = outcome.unwrap();
        assert!(!is_unreadable(&outcome) && outcome.text().contains("look"));
    }
}

#[test]
fn a_call_beside_the_blocks_is_not_passed_on() {
    let call = json!({"type": "tool_use", "id": "t", "name": "evil", "input": {}});
    let body = json!({"type": "message", "content": [], "more": {"calls": [call]}}).to_string();
    let sent = respond(&adapter(), JSON, &[body.into()], &|items| {
        decision(items, &allow)
    });
    assert_eq!(sent.unwrap_err().code, "upstream_invalid_response");
    let text = json!({"type": "text", "text": ""});
    for event in [
        json!({"type": "ping", "more": call}),
        json!({"type": "message_start", "message": {"content": [], "more": [call]}}),
        json!({"type": "content_block_start", "index": 0, "content_block": text, "more": call}),
        json!({"type": "content_block_stop", "index": 0, "name": "evil", "arguments": "{}"}),
        json!({"type": "message_stop", "content_block": call}),
    ] {
        let pieces = [format!("data: {event}\n\n").into()];
        let sent = respond(&adapter(), EVENTS, &pieces, &|items| {
            decision(items, &allow)
        });
        let malformed = sent.unwrap_err();
        assert!(
            malformed.message.contains("a call stands"),
            "{event}: {malformed}"
        );
    }
}

/// A block of each type that is known to be no call of the client.
fn blocks() -> [Value; 8] {
    let found = json!([{"type": "web_search_result", "title": "t", "url": "https://x.example"}]);
    let input = json!({"name": "q", "input": {"a": 1}});
    [
        json!({"type": "text", "text": "words", "citations": null}),
        json!({"type": "thinking", "thinking": "words", "signature": "s"}),
        json!({"type": "redacted_thinking", "data": "ZGF0YQ=="}),
        json!({"type": "compaction", "content": "words"}),
        json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": input}),
        json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": found}),
        json!({"type": "mcp_tool_listing", "tools": [{"name": "f", "description": "words", "input_schema": {"properties": {"name": {}, "input": {}}}}]}),
        json!({"type": "container_upload", "file_id": "f"}),
    ]
}

#[test]
fn a_call_in_a_member_of_a_block_that_is_none_is_not_passed_on() {
    let call = json!({"name": "evil", "input": {"a": 1}});
    for block in blocks() {
        for outcome in [whole(&block), live(&block, &[])] {
            let outcome = outcome.unwrap();
            assert!(outcome.judged.is_empty(), "{block}");
        }
        let mut with = vec![block.clone(), block.clone(), block.clone()];
        with[0]["extra"] = call.clone();
        with[1]["extra"] = json!([{"deep": {"type": "tool_use", "id": "t"}}]);
        with[2]["name"] = "evil".into();
        with[2]["arguments"] = "{}".into();
        if block["type"] == "server_tool_use" {
            with[2]["extra"] = call.clone();
        }
        for block in with {
            for outcome in [whole(&block), live(&block, &[])] {
                let code = outcome.unwrap_err().code;
                assert_eq!(code, "upstream_invalid_response", "{block}");
            }
        }
    }
}

#[test]
fn a_part_of_a_call_in_a_delta_of_a_known_type_is_not_passed_on() {
    let [text, thinking, _, compaction, provider, ..] = blocks();
    for (block, delta) in [
        (&text, json!({"type": "text_delta", "text": "x"})),
        (
            &text,
            json!({"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "x", "document_title": "t"}}),
        ),
        (
            &thinking,
            json!({"type": "thinking_delta", "thinking": "x"}),
        ),
        (
            &thinking,
            json!({"type": "signature_delta", "signature": "x"}),
        ),
        (
            &compaction,
            json!({"type": "compaction_delta", "content": "x"}),
        ),
        (
            &provider,
            json!({"type": "input_json_delta", "partial_json": "{}"}),
        ),
    ] {
        assert!(live(block, std::slice::from_ref(&delta)).is_ok(), "{delta}");
        let mut hidden = delta.clone();
        hidden["extra"] = json!({"name": "evil", "arguments": "{}"});
        let code = live(block, &[hidden]).unwrap_err().code;
        assert_eq!(code, "upstream_invalid_response", "{delta}");
    }
    // In pieces: the name with the block's start, the arguments with a delta.
    let named = json!({"type": "text", "text": "", "name": "evil"});
    let rest = json!({"type": "text_delta", "text": "x", "input": {"a": 1}});
    assert!(live(&named, &[rest]).is_err());
}
