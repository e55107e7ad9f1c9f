//! Backends that speak the API in their own way.

use holdpoint::item::{Item, Located};
use holdpoint::protocols::Malformed;
use holdpoint::verdict::{Reason, Verdict};
use serde_json::{Value, json};

use crate::driver::{EVENTS, JSON, Outcome, adapter, decision, deny, respond, streamed, whole};
use crate::responses::events;

fn plain(message: &Value, judge: &dyn Fn(&Located) -> Verdict) -> Outcome {
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    let body = json!({"id": "chatcmpl-1", "choices": [choice]}).to_string();
    let decide = |items: &[Located]| decision(items, judge);
    respond(&adapter(), 200, JSON, &[body.into()], &decide).unwrap()
}

fn live(chunks: &[&str], judge: &dyn Fn(&Located) -> Verdict) -> Outcome {
    let decide = |items: &[Located]| decision(items, judge);
    respond(&adapter(), 200, EVENTS, &events(chunks), &decide).unwrap()
}

fn allow(_: &Located) -> Verdict {
    Verdict::Allow
}

fn refuse(_: &Located) -> Verdict {
    deny(Reason::NotOwner)
}

/// As Azure streams: filters in a first chunk without choices, beside deltas and in chunks of their own.
const AZURE: [&str; 7] = [
    r#"{"choices":[],"created":0,"id":"chatcmpl-1","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}"#,
    r#"{"choices":[{"content_filter_results":{},"delta":{"content":null,"refusal":null,"role":"assistant"},"finish_reason":null,"index":0,"logprobs":null}],"id":"chatcmpl-1","model":"m","obfuscation":"x1","usage":null}"#,
    r#"{"choices":[{"content_filter_results":{},"delta":{"tool_calls":[{"function":{"arguments":"","name":"pay"},"id":"call_a","index":0,"type":"function"}]},"finish_reason":null,"index":0,"logprobs":null}],"id":"chatcmpl-1","model":"m","obfuscation":"x2","usage":null}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"a\":1}"},"index":0}]},"finish_reason":null,"index":0,"logprobs":null}],"id":"chatcmpl-1","model":"m","obfuscation":"x3","usage":null}"#,
    r#"{"choices":[{"content_filter_offsets":{"check_offset":44},"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}},"finish_reason":null,"index":0}],"id":"chatcmpl-1"}"#,
    r#"{"choices":[{"content_filter_results":{},"delta":{},"finish_reason":"tool_calls","index":0,"logprobs":null}],"id":"chatcmpl-1","model":"m","obfuscation":"x4","usage":null}"#,
    "[DONE]",
];

#[test]
fn azure_filters_pass_and_its_calls_wait() {
    let allowed = live(&AZURE, &allow);
    let text = allowed.text();
    assert!(
        text.starts_with(&format!("data: {}\n\n", AZURE[0])),
        "{text}"
    );
    for chunk in [AZURE[1], AZURE[4], AZURE[5]] {
        assert!(text.contains(chunk), "{text}");
    }
    // A chunk that is only a call goes; filter results beside one stay.
    assert!(text.contains("x2") && !text.contains("x3"), "{text}");
    let client = streamed(&allowed.sent);
    assert_eq!(client[&0].calls[0][2..], ["pay", r#"{"a":1}"#]);
    let refused = streamed(&live(&AZURE, &refuse).sent);
    assert!(refused[&0].calls.is_empty());
    assert_eq!(refused[&0].finish_reason, "stop");
    assert!(refused[&0].content.starts_with("[holdpoint]"));
}

/// As llama-cpp-python streams: each chunk has both forms, repeats id and name, and the first has arguments already.
#[test]
fn both_forms_in_each_chunk_are_both_judged() {
    let chunk = |text: &str, reason: &str| {
        let body = json!({"name": "pay", "arguments": text});
        let call = json!({"index": 0, "id": "call__0_pay_x", "type": "function", "function": body});
        let delta = json!({"role": "assistant", "content": null, "function_call": body, "tool_calls": [call]});
        let choice = json!({"index": 0, "logprobs": null, "finish_reason": reason, "delta": delta});
        json!({"id": "chatcmpl-1", "choices": [choice]}).to_string()
    };
    let chunks = [
        chunk(r#"{"a""#, ""),
        chunk(":1}", ""),
        chunk("", "tool_calls"),
    ];
    let chunks = [&*chunks[0], &chunks[1], &chunks[2], "[DONE]"];
    let allowed = live(&chunks, &allow);
    assert_eq!(allowed.judged.len(), 2);
    let client = streamed(&allowed.sent);
    let arguments = r#"{"a":1}"#;
    assert_eq!(
        client[&0].calls[0],
        ["call__0_pay_x", "function", "pay", arguments]
    );
    let legacy = Some(["pay", arguments].map(str::to_owned));
    assert_eq!(client[&0].legacy, legacy);
    let client = streamed(
        &live(&chunks, &|located| {
            if located.place.pointer.ends_with("function_call") {
                refuse(located)
            } else {
                Verdict::Allow
            }
        })
        .sent,
    );
    assert_eq!((client[&0].calls.len(), &client[&0].legacy), (1, &None));
    let client = streamed(&live(&chunks, &refuse).sent);
    assert_eq!((client[&0].calls.len(), &client[&0].legacy), (0, &None));
}

/// What has the shape of a call, in a member that this adapter does not know.
fn strays() -> [(Value, &'static str); 5] {
    let one = r#"{"a":1}"#;
    let function = json!({"name": "pay", "arguments": one});
    [
        (
            json!({"tool_call": {"name": "pay", "arguments": {"a": 1}}}),
            one,
        ),
        (json!({"calls": [{ "function": function }]}), one),
        (
            json!({"tool_uses": {"x": [[{"tool_name": "pay", "input": {}, "id": "c"}]]}}),
            "{}",
        ),
        (
            json!({"content": [{"type": "tool_use", "name": "pay", "input": {"a": 1}}]}),
            one,
        ),
        (
            json!({"computer": {"tool": "pay", "action": {"type": "click"}}}),
            r#"{"type":"click"}"#,
        ),
    ]
}

#[test]
fn a_call_in_an_unknown_member_is_judged_where_it_stands() {
    for (message, arguments) in strays() {
        let raw = message.to_string();
        let allowed = plain(&message, &|located| {
            let Item::ToolCall(call) = &located.item else {
                panic!("{located:?}")
            };
            assert_eq!(call.tool.as_str(), "pay");
            assert_eq!(call.args.raw, arguments);
            Verdict::Allow
        });
        assert_eq!(allowed.judged.len(), 1, "{raw}");
        assert!(allowed.text().contains(&raw), "{raw}");
        let refused = plain(&message, &refuse);
        assert!(!refused.text().contains("pay"), "{}", refused.text());
        let client = whole(&refused.sent);
        assert!(client[&0].content.starts_with("[holdpoint]"), "{raw}");
        assert_eq!(client[&0].finish_reason, "stop");

        let choice = json!({"index": 0, "delta": message});
        let chunk = json!({"id": "chatcmpl-1", "choices": [choice]}).to_string();
        let end = r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
        let chunks = [&*chunk, end, "[DONE]"];
        let allowed = live(&chunks, &allow);
        assert!(allowed.text().starts_with(&format!("data: {chunk}\n\n")));
        let refused = live(&chunks, &refuse);
        assert!(!refused.text().contains("pay"), "{}", refused.text());
        assert_eq!(streamed(&refused.sent), client, "{raw}");
    }
}

#[test]
fn a_call_in_an_unknown_member_that_cannot_be_read_goes() {
    for call in [
        json!({"name": "pay", "arguments": "{\"a\":"}),
        json!({"name": "pay", "arguments": [1]}),
        json!({"name": "pay", "arguments": {}, "input": {}}),
        json!({"name": "pay", "tool": "look", "input": {}}),
    ] {
        let outcome = plain(&json!({ "x": call }), &allow);
        assert!(!outcome.text().contains("pay"), "{call}");
    }
}

fn in_deltas(deltas: &[Value]) -> Result<Outcome, Malformed> {
    let chunk = |delta: &Value| {
        let choice = json!({"index": 0, "delta": delta});
        json!({"id": "chatcmpl-1", "choices": [choice]}).to_string()
    };
    let mut chunks: Vec<_> = deltas.iter().map(chunk).collect();
    chunks.push("[DONE]".to_owned());
    let chunks: Vec<_> = chunks.iter().map(String::as_str).collect();
    let decide = |items: &[Located]| decision(items, &allow);
    respond(&adapter(), 200, EVENTS, &events(&chunks), &decide)
}

#[test]
fn a_call_in_pieces_in_an_unknown_member_ends_the_stream() {
    let name = json!({"name": "pay"});
    let text = json!({"arguments": "{}"});
    let call = json!({"name": "pay", "arguments": "{}"});
    let parted =
        |first: &Value, last: &Value| [first.clone(), json!({"content": "x"}), last.clone()];
    for (first, last) in [
        (&name, &text),
        (&text, &name),
        // What is added to a call was not judged with it.
        (&call, &text),
        (&call, &name),
        (&name, &call),
        (&json!({"toolName": "pay"}), &json!({"input": {"a": 1}})),
    ] {
        let inside: [&dyn Fn(&Value) -> Value; 5] = [
            &|piece| json!({ "tool_use": piece }),
            &|piece| json!({"x": [{"index": 0, "call": piece}]}),
            &|piece| json!({"x": {"a": {"b": [[piece]]}}}),
            &|piece| json!({ "content": [piece] }),
            &|piece| json!({"content": [{"type": "text", "text": "t"}, piece]}),
        ];
        for inside in inside {
            let error = in_deltas(&parted(&inside(first), &inside(last))).unwrap_err();
            assert_eq!(error.code, "upstream_invalid_response", "{first} {last}");
        }
    }
    let crowd = |count: usize| (0..count).map(|i| json!({ format!("k{i}"): {"name": "n"} }));
    assert!(in_deltas(&crowd(1024).collect::<Vec<_>>()).is_ok());
    assert!(in_deltas(&crowd(1025).collect::<Vec<_>>()).is_err());
}

#[test]
fn pieces_that_belong_to_no_one_call_pass() {
    for deltas in [
        [json!({"x": {"name": "pay"}}), json!({"x": {"name": "pay"}})],
        [
            json!({"x": {"name": "pay"}}),
            json!({"y": {"arguments": "{}"}}),
        ],
        [
            json!({"x": {"a": {"name": "pay"}}}),
            json!({"x": {"b": {"input": 1}}}),
        ],
        [json!({"content": "pay"}), json!({"content": "{}"})],
    ] {
        let sent = in_deltas(&deltas).unwrap().text();
        for delta in &deltas {
            assert!(sent.contains(&delta.to_string()), "{delta}");
        }
    }
    // One choice has the name, another the arguments.
    let chunk = r#"{"choices":[{"index":0,"delta":{"x":{"name":"a"}}},{"index":1,"delta":{"x":{"args":1}}}]}"#;
    assert!(live(&[chunk, "[DONE]"], &allow).text().contains(chunk));
}

/// A call with another among its members, as a whole answer has it, and in the fragments of a stream.
#[test]
fn a_call_in_another_call_makes_it_unreadable() {
    let inner = json!({"name": "send", "arguments": "{}"});
    let function = json!({"name": "pay", "arguments": "{}"});
    let call = |extra: Value| {
        let mut call = json!({"index": 0, "id": "a", "type": "function", "function": function});
        for (key, value) in extra.as_object().unwrap() {
            call[key] = value.clone();
        }
        json!({ "tool_calls": [call] })
    };
    let body = |extra: Value| {
        let mut body = function.clone();
        for (key, value) in extra.as_object().unwrap() {
            body[key] = value.clone();
        }
        body
    };
    for message in [
        call(json!({ "extra": inner })),
        call(json!({ "extra": {"deep": [[inner]]} })),
        call(inner.clone()),
        call(json!({"tool": "send", "input": {}})),
        call(json!({ "function": body(json!({ "extra": inner })) })),
        call(json!({ "function": body(json!({"input": {"a": 1}})) })),
        call(json!({ "function": body(json!({"tool_name": "send"})) })),
        json!({ "function_call": body(json!({ "extra": [inner] })) }),
        json!({ "function_call": body(json!({"parameters": {}})) }),
    ] {
        let client = whole(&plain(&message, &unreadable).sent);
        let (left, legacy) = (client[&0].calls.len(), &client[&0].legacy);
        assert_eq!((left, legacy), (0, &None), "{message}");
        let sent = in_deltas(&[message]).unwrap().text();
        assert!(!sent.contains("send") && !sent.contains("pay"), "{sent}");
    }
    // Name and arguments come beside the call one after the other.
    let part = |extra: Value| json!({ "tool_calls": [extra] });
    let deltas = [
        call(json!({"name": "send"})),
        part(json!({"index": 0, "arguments": "{}"})),
    ];
    let sent = in_deltas(&deltas).unwrap().text();
    assert!(!sent.contains("send") && !sent.contains("pay"), "{sent}");
    for message in [
        call(json!({"extra_content": {"google": {"thought_signature": "s"}}})),
        call(json!({"name": "pay", "arguments": null})),
        call(json!({ "function": body(json!({"description": "d", "input": null})) })),
    ] {
        let client = whole(&plain(&message, &allow).sent);
        assert_eq!(client[&0].calls.len(), 1, "{message}");
        let client = streamed(&in_deltas(&[message]).unwrap().sent);
        assert_eq!(client[&0].calls.len(), 1);
    }
}

fn unreadable(located: &Located) -> Verdict {
    assert!(matches!(located.item, Item::Unreadable(_)), "{located:?}");
    Verdict::Allow
}

/// Some backends answer with parts, as a request may have them.
#[test]
fn the_note_is_a_part_among_parts() {
    let call =
        json!({"id": "a", "type": "function", "function": {"name": "pay", "arguments": "{}"}});
    let part = json!({"type": "text", "text": "On it."});
    for parts in [
        vec![],
        vec![part.clone()],
        vec![json!({"type": "image"}), part],
    ] {
        let message = json!({"content": parts, "tool_calls": [call]});
        let sent: Value = serde_json::from_slice(&plain(&message, &refuse).sent).unwrap();
        let sent = &sent["choices"][0];
        let content = sent["message"]["content"].as_array().unwrap();
        let (note, said) = content.split_last().unwrap();
        assert_eq!(said, parts);
        assert_eq!(note["type"], "text");
        assert!(note["text"].as_str().unwrap().starts_with("[holdpoint]"));
        assert_eq!(sent["message"].get("tool_calls"), None);
        assert_eq!(sent["finish_reason"], "stop");

        let delta = json!({"content": parts, "tool_calls": [call]});
        let choice = json!({"index": 0, "delta": delta, "finish_reason": "tool_calls"});
        let chunk = json!({"id": "chatcmpl-1", "choices": [choice]}).to_string();
        let client = streamed(&live(&[&chunk, "[DONE]"], &refuse).sent);
        assert_eq!(client[&0].content, note["text"].as_str().unwrap());
    }
}

#[test]
fn what_only_looks_a_little_like_a_call_passes() {
    let message = json!({
        "content": "x",
        "annotations": [{"type": "url_citation", "url_citation": {"title": "t", "url": "https://a"}}],
        "reasoning_details": [{"type": "reasoning.text", "text": "pay", "signature": "s"}],
        "executed_tools": [{"type": "search", "arguments": "{}", "output": "o"}],
        "audio": {"id": "a", "data": "d"},
    });
    let outcome = plain(&message, &|_| panic!("nothing to judge"));
    assert!(outcome.text().contains(&message.to_string()));
}

#[test]
fn a_call_outside_of_any_message_is_not_passed_on() {
    let call = r#"{"name":"pay","arguments":"{}"}"#;
    let decide = |items: &[Located]| decision(items, &allow);
    for (kind, body) in [
        (JSON, format!(r#"{{"choices":[],"output":[{call}]}}"#)),
        (
            JSON,
            format!(r#"{{"choices":[{{"message":{{}},"call":{call}}}]}}"#),
        ),
        (
            JSON,
            format!(r#"{{"choices":[{{"message":{{}},"delta":{{"x":{call}}}}}]}}"#),
        ),
        (EVENTS, format!(r#"{{"choices":[],"output":[{call}]}}"#)),
        (
            EVENTS,
            format!(r#"{{"choices":[{{"delta":{{}},"call":{call}}}]}}"#),
        ),
        (
            EVENTS,
            format!(r#"{{"choices":[{{"message":{{"x":{call}}}}}]}}"#),
        ),
    ] {
        let pieces = if kind == JSON {
            vec![body.clone().into()]
        } else {
            events(&[&body])
        };
        let error = respond(&adapter(), 200, kind, &pieces, &decide).unwrap_err();
        assert_eq!(error.code, "upstream_invalid_response", "{body}");
    }
}

/// As Gemini answers: its seal is on the first of two calls, and is asked for in the next turn.
#[test]
fn calls_of_a_sealed_turn_stand_or_fall_together() {
    let call = |at: usize, name: &str, extra: Value| json!({"index": at, "id": name, "type": "function", "function": {"name": name, "arguments": "{}"}, "extra_content": extra});
    let seal = json!({"google": {"thought_signature": "c2VhbA=="}});
    let without_pay = |located: &Located| match &located.item {
        Item::ToolCall(call) if call.tool.as_str() == "pay" => refuse(located),
        _ => Verdict::Allow,
    };
    for (extra, left) in [(seal, 0), (json!({"google": {"thought_signature": ""}}), 1)] {
        let message = json!({"tool_calls": [call(0, "look", extra), call(1, "pay", json!(null))]});
        let client = whole(&plain(&message, &without_pay).sent);
        assert_eq!(client[&0].calls.len(), left);
        let choice = json!({"index": 0, "delta": message, "finish_reason": "tool_calls"});
        let chunk = json!({"id": "chatcmpl-1", "choices": [choice]}).to_string();
        let live = live(&[&chunk, "[DONE]"], &without_pay);
        assert_eq!(streamed(&live.sent), client);
        assert_eq!(whole(&plain(&message, &allow).sent)[&0].calls.len(), 2);
    }
}

/// One choice has a seal and the other has none: only the calls of the first stand or fall together.
#[test]
fn a_seal_binds_the_calls_of_its_own_choice() {
    let call = |at: usize, name: &str| json!({"index": at, "id": name, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let both = json!([call(0, "look"), call(1, "pay")]);
    let sealed = json!([{"type": "reasoning.encrypted", "encrypted_content": "c2VhbA=="}]);
    let without_pay = |located: &Located| match &located.item {
        Item::ToolCall(call) if call.tool.as_str() == "pay" => refuse(located),
        _ => Verdict::Allow,
    };
    let choice = |at: usize, kind: &str, sealed: &Value| json!({"index": at, kind: {"tool_calls": both, "reasoning_details": sealed}, "finish_reason": "tool_calls"});
    for (seals, left) in [
        ([&sealed, &Value::Null], [0, 1]),
        ([&Value::Null, &sealed], [1, 0]),
        ([&sealed, &sealed], [0, 0]),
        ([&Value::Null, &Value::Null], [1, 1]),
    ] {
        let choices = |kind| [choice(0, kind, seals[0]), choice(1, kind, seals[1])];
        let body = json!({"id": "chatcmpl-1", "choices": choices("message")}).to_string();
        let decide = |items: &[Located]| decision(items, &without_pay);
        let plain = respond(&adapter(), 200, JSON, &[body.into()], &decide).unwrap();
        let client = whole(&plain.sent);
        assert_eq!([client[&0].calls.len(), client[&1].calls.len()], left);
        let together = json!({"id": "chatcmpl-1", "choices": choices("delta")}).to_string();
        let apart =
            choices("delta").map(|c| json!({"id": "chatcmpl-1", "choices": [c]}).to_string());
        for chunks in [
            vec![&*together, "[DONE]"],
            vec![&*apart[1], &*apart[0], "[DONE]"],
        ] {
            assert_eq!(streamed(&live(&chunks, &without_pay).sent), client);
        }
    }
}

/// Its calls were ruled one by one by then, which no turn with a seal may be.
#[test]
fn a_seal_behind_the_end_of_a_divided_choice_ends_the_stream() {
    let call = |at: usize, name: &str| json!({"index": at, "id": name, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let calls = json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"tool_calls": [call(0, "look"), call(1, "pay")]}, "finish_reason": "tool_calls"}]}).to_string();
    let late = json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"reasoning_details": [{"signature": "s"}]}}]}).to_string();
    let stream = events(&[&calls, &late, "[DONE]"]);
    let without_pay = |located: &Located| match &located.item {
        Item::ToolCall(call) if call.tool.as_str() == "pay" => refuse(located),
        _ => Verdict::Allow,
    };
    let divided = |items: &[Located]| decision(items, &without_pay);
    let error = respond(&adapter(), 200, EVENTS, &stream, &divided).unwrap_err();
    assert_eq!(error.code, "upstream_invalid_response");
    for judge in [&allow as &dyn Fn(&Located) -> Verdict, &refuse] {
        let decide = |items: &[Located]| decision(items, judge);
        assert!(respond(&adapter(), 200, EVENTS, &stream, &decide).is_ok());
    }
}

/// Name and arguments as members of the message itself, of its choice, or of the response.
#[test]
fn a_call_that_the_message_itself_is_is_not_passed_on() {
    let message = json!({"role": "assistant", "content": "hi"});
    let parts = [
        json!({"name": "pay", "arguments": "{}"}),
        json!({"tool": "pay", "input": {"a": 1}}),
        json!({"function": "pay", "args": {}}),
    ];
    let with = |object: &Value, more: &Value| {
        let mut object = object.clone();
        object
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        object
    };
    let choice =
        |key: &str, message: &Value| json!({"index": 0, key: message, "finish_reason": "stop"});
    let response = |choice: &Value| json!({"id": "chatcmpl-1", "choices": [choice]});
    let decide = |items: &[Located]| decision(items, &allow);
    for more in &parts {
        for key in ["message", "delta"] {
            let plain = response(&choice(key, &message));
            let bodies = [
                response(&choice(key, &with(&message, more))),
                response(&with(&choice(key, &message), more)),
                with(&plain, more),
            ];
            for body in bodies {
                let sent = if key == "message" {
                    respond(&adapter(), 200, JSON, &[body.to_string().into()], &decide)
                } else {
                    let stream = events(&[&body.to_string(), "[DONE]"]);
                    respond(&adapter(), 200, EVENTS, &stream, &decide)
                };
                assert_eq!(
                    sent.unwrap_err().code,
                    "upstream_invalid_response",
                    "{body}"
                );
            }
        }
    }
    // The name of who speaks is none, and in pieces it is one all the same.
    let named = with(&message, &json!({"name": "helper"}));
    assert!(plain(&named, &allow).judged.is_empty());
    let chunks = [json!({"name": "pay"}), json!({"arguments": "{}"})]
        .map(|delta| response(&json!({"index": 0, "delta": delta})).to_string());
    let stream = events(&[&chunks[0], &chunks[1], "[DONE]"]);
    assert!(respond(&adapter(), 200, EVENTS, &stream, &decide).is_err());
}
