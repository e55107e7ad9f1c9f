//! Streams that are cut, out of order, too large or odd.

use bytes::Bytes;
use holdpoint::protocols::anthropic_messages::AnthropicMessages;
use holdpoint::settings::{Limits, ModelRoute};

use crate::driver::{EVENTS, JSON, decision, respond, streamed};
use crate::responses::allow;
use crate::streams::{END, START, STOP, call, event, kinds, live, sent, stream, text, thinking};

#[test]
fn other_reasons_to_stop_stay() {
    for reason in [
        "max_tokens",
        "pause_turn",
        "refusal",
        "stop_sequence",
        "model_context_window_exceeded",
        "end_turn",
    ] {
        let pieces: Vec<Bytes> = stream(&[call(0, "pay", &["{\"a\": [1, "])])
            .iter()
            .map(|piece| {
                let piece = std::str::from_utf8(piece).unwrap();
                let other = format!(r#""stop_reason":"{reason}""#);
                piece.replace(r#""stop_reason":"tool_use""#, &other).into()
            })
            .collect();
        let client = streamed(&live(&pieces, &allow).unwrap().sent);
        assert_eq!(client["stop_reason"], reason);
        assert_eq!(kinds(&client), ["text"]);
        let note = client["content"][0]["text"].as_str().unwrap();
        assert!(note.contains("arguments_unreadable"));
    }
}

#[test]
fn an_error_in_the_stream_drops_what_is_held_and_ends_it() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let mut cases = Vec::new();
    for blocks in [
        vec![],
        vec![call(0, "pay", &["{"])],
        vec![thinking(0), call(1, "pay", &["{}"])],
    ] {
        let mut pieces = stream(&blocks);
        pieces.truncate(pieces.len() - 2);
        let is_open = blocks.len() == 1;
        if is_open {
            pieces.pop();
        }
        pieces.push(event(error).into());
        pieces.extend(
            call(7, "pay", &["{}"])
                .iter()
                .map(|data| Bytes::from(event(data))),
        );
        cases.push(pieces);
    }
    cases.push(vec!["event: error\ndata: not json\n\n".into()]);
    for pieces in cases {
        let outcome = live(&pieces, &|_| panic!("nothing to judge")).unwrap();
        let sent = outcome.text();
        assert!(!sent.contains("pay"), "{sent}");
        assert!(sent.contains("event: error"));
    }
}

#[test]
fn a_stream_that_ends_while_calls_wait_is_broken_off() {
    for blocks in [
        vec![text(0, "a"), call(1, "pay", &["{}"])],
        vec![thinking(0), call(1, "pay", &["{}"])],
    ] {
        let signed = blocks[0].len() == 4;
        let all = stream(&blocks);
        for cut in 1..all.len() {
            let outcome = live(&all[..cut], &allow);
            // The call opens 4 events before the end and is judged 3, or behind reasoning 2, before it.
            let judged = all.len() - if signed { 2 } else { 3 };
            let opened = all.len() - 5;
            match outcome {
                Ok(outcome) => {
                    assert!(cut <= opened || cut >= judged);
                    let has_call = outcome.text().contains("pay");
                    assert_eq!(has_call, cut >= judged);
                }
                Err(malformed) => {
                    assert_eq!(malformed.code, "upstream_truncated");
                    assert!(cut > opened);
                }
            }
        }
    }
}

#[test]
fn an_order_that_clients_read_differently_is_broken_off() {
    let start =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let use_start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"n","input":{}}}"#;
    let delta =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}"#;
    let json = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#;
    let think = r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"x"}}"#;
    let odd = r#"{"type":"content_block_delta","index":0,"delta":{"type":"new_delta","partial_json":"{}"}}"#;
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    let other =
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"x"}}"#;
    let full = r#"{"type":"message_start","message":{"content":[{"type":"tool_use","id":"a","name":"n","input":{}}]}}"#;
    for order in [
        &[start][..],
        &[START, START],
        &[START, delta],
        &[START, stop],
        &[START, start, start],
        &[START, start, other],
        &[START, start, json],
        &[START, start, think],
        &[START, start, odd],
        &[START, use_start, delta],
        &[START, use_start, odd],
        &[START, start, stop, stop],
        &[START, start, stop, start],
        &[START, start, END],
        &[START, use_start, STOP],
        &[START, END, start],
        &[END],
        &[STOP],
        &[full],
        &[
            START,
            r#"{"type":"content_block_start","content_block":{"type":"text","text":""}}"#,
        ],
        &[
            START,
            r#"{"type":"content_block_start","index":-1,"content_block":{"type":"text"}}"#,
        ],
        &[START, r#"{"type":"content_block_start","index":0}"#],
        &[
            START,
            r#"{"type":"content_block_start","index":0,"content_block":{"text":"x"}}"#,
        ],
        &[
            START,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","Name":"n"}}"#,
        ],
        &[
            START,
            use_start,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":{}}}"#,
        ],
        &[START, r#"{"type":"brand_new","block":{"type":"tool_use"}}"#],
        &[
            START,
            r#"{"type":"brand_new","call":{"name":"n","arguments":"{}"}}"#,
        ],
    ] {
        let pieces: Vec<Bytes> = order.iter().map(|data| event(data).into()).collect();
        let malformed = live(&pieces, &allow).unwrap_err();
        assert_eq!(malformed.code, "upstream_invalid_response", "{order:?}");
    }
    for raw in [
        "event: ping\ndata: {\"type\":\"content_block_start\",\"index\":0}\n\n",
        "event: message_start\ndata: {\"type\":\"ping\"}\n\n",
        "event: message_start\ndata: nonsense\n\n",
        "event: message_start\ndata: {\"type\":\"message_start\",\"type\":\"ping\"}\n\n",
        "event: message_start\ndata: []\n\n",
        "data: {}\n\n",
    ] {
        let malformed = live(&[raw.into()], &allow).unwrap_err();
        assert_eq!(malformed.code, "upstream_invalid_response", "{raw}");
    }
}

#[test]
fn what_says_nothing_passes_and_a_name_is_given_to_events_without_one() {
    let pieces = stream(&[text(0, "a")]);
    let plain = live(&pieces, &allow).unwrap().text();
    let nameless = pieces.concat();
    let nameless = String::from_utf8(nameless).unwrap();
    let nameless: String = nameless
        .lines()
        .filter(|line| !line.starts_with("event:"))
        .flat_map(|line| [line, "\r\n"])
        .collect();
    let nameless = format!(": comment\r\n\r\n{nameless}data: [DONE]\r\n\r\n");
    assert_eq!(live(&[nameless.into()], &allow).unwrap().text(), plain);
    let unknown = event(r#"{"type":"brand_new","words":{"name":"x"}}"#);
    assert_eq!(
        live(&[unknown.clone().into()], &allow).unwrap().text(),
        unknown
    );
}

#[test]
fn gaps_of_the_upstream_are_closed() {
    let client = sent(
        &[text(3, "a"), call(7, "look", &["{}"]), text(20, "b")],
        &allow,
    );
    assert_eq!(kinds(&client), ["text", "look", "text"]);
}

#[test]
fn arguments_at_the_start_of_a_block_count_unless_pieces_follow() {
    let whole = call(0, "look", &[])
        .iter()
        .map(|data| data.replace(r#""input":{}"#, r#""input":{"a":12345678901234567890123}"#))
        .collect::<Vec<_>>();
    let outcome = live(&stream(std::slice::from_ref(&whole)), &allow).unwrap();
    assert!(
        outcome
            .text()
            .contains(r#""partial_json":"{\"a\":12345678901234567890123}""#)
    );
    assert!(outcome.text().contains(r#""input":{}"#));
    let mut twice = whole;
    twice.insert(1, call(0, "look", &["{}"]).remove(1));
    assert_eq!(kinds(&sent(&[twice], &allow)), ["text"]);
    for odd in [r#""input":"x""#, r#""input":[]"#, r#""input":7"#] {
        let call = call(0, "look", &[])
            .iter()
            .map(|data| data.replace(r#""input":{}"#, odd))
            .collect();
        assert_eq!(kinds(&sent(&[call], &allow)), ["text"], "{odd}");
    }
    for none in [r#""input":null"#, r#""more":1"#] {
        let call = call(0, "look", &[])
            .iter()
            .map(|data| data.replace(r#""input":{}"#, none))
            .collect();
        let client = sent(&[call], &allow);
        assert_eq!(
            client["content"][0]["input"],
            serde_json::json!({}),
            "{none}"
        );
    }
}

#[test]
fn more_than_may_be_held_ends_the_response() {
    let limits = Limits {
        held: 600,
        ..Limits::default()
    };
    let adapter = AnthropicMessages::new(&limits, &ModelRoute::default());
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(700));
    let pieces = stream(&[call(0, "look", &[&long])]);
    let held = |pieces: &[Bytes], kind| {
        respond(&adapter, kind, pieces, &|items| decision(items, &allow)).map(|_| ())
    };
    assert_eq!(
        held(&pieces, EVENTS).unwrap_err().code,
        "upstream_too_large"
    );
    let whole = format!(
        r#"{{"type":"message","content":[{{"type":"tool_use","id":"a","name":"look","input":{long}}}]}}"#
    );
    assert_eq!(
        held(&[whole.into()], JSON).unwrap_err().code,
        "upstream_too_large"
    );
    // What waits behind a call counts as well.
    let behind = stream(&[
        thinking(0),
        call(1, "look", &["{}"]),
        text(2, &"x".repeat(700)),
    ]);
    assert_eq!(
        held(&behind, EVENTS).unwrap_err().code,
        "upstream_too_large"
    );
    let after: Vec<_> = (0..10).map(|index| call(index, "look", &["{}"])).collect();
    assert!(held(&stream(&after), EVENTS).is_ok());
    let many: Vec<_> = (0..129).map(|index| call(index, "look", &["{}"])).collect();
    assert_eq!(
        held(&stream(&many), EVENTS).unwrap_err().code,
        "upstream_too_large"
    );
}
