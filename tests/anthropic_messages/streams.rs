//! Known answers for streams.

use bytes::Bytes;
use holdpoint::item::Located;
use holdpoint::protocols::{Event, Frame, Malformed, Protocol as _, ResponseReader};
use holdpoint::settings::ModelRoute;
use holdpoint::verdict::{Reason, Verdict};

use crate::driver::{EVENTS, Outcome, adapter, decision, deny, request, respond, streamed, with};
use crate::responses::{allow, without};

/// An event from its data: its name is the type in it.
pub fn event(data: &str) -> String {
    let parsed: serde_json::Value = serde_json::from_str(data).unwrap();
    format!(
        "event: {}\ndata: {data}\n\n",
        parsed["type"].as_str().unwrap()
    )
}

pub const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":1}}}"#;
pub const PING: &str = r#"{"type": "ping"}"#;
pub const END: &str = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":12345678901234567890123}}"#;
pub const STOP: &str = r#"{"type":"message_stop" }"#;

/// A whole message of texts and calls as the events of a stream.
pub fn as_stream(body: &str) -> Vec<Bytes> {
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let blocks = body["content"].as_array().unwrap().iter().enumerate();
    let blocks: Vec<_> = blocks
        .map(|(index, block)| {
            if let Some(words) = block["text"].as_str() {
                return text(index, words);
            }
            let mut start = block.clone();
            start["input"] = serde_json::json!({});
            let input = block["input"].to_string();
            let mut events = call(index, "", &[&input]);
            events[0] = format!(
                r#"{{"type":"content_block_start","index":{index},"content_block":{start}}}"#
            );
            events
        })
        .collect();
    stream(&blocks)
}

pub fn text(index: usize, words: &str) -> Vec<String> {
    vec![
        format!(
            r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"text","text":""}}}}"#
        ),
        format!(
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":"{words}"}}}}"#
        ),
        format!(r#"{{"type":"content_block_stop","index":{index}}}"#),
    ]
}

pub fn thinking(index: usize) -> Vec<String> {
    vec![
        format!(
            r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"thinking","thinking":"","signature":""}}}}"#
        ),
        format!(
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"thinking_delta","thinking":"hm"}}}}"#
        ),
        format!(
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"signature_delta","signature":"c2ln"}}}}"#
        ),
        format!(r#"{{"type":"content_block_stop","index":{index}}}"#),
    ]
}

/// A call whose arguments come in these pieces.
pub fn call(index: usize, name: &str, pieces: &[&str]) -> Vec<String> {
    let mut events = vec![format!(
        r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"tool_use","id":"toolu_{index}","name":"{name}","input":{{}},"caller":{{"type":"direct"}}}}}}"#
    )];
    for piece in pieces {
        let piece = serde_json::Value::from(*piece);
        events.push(format!(
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"input_json_delta","partial_json":{piece}}}}}"#
        ));
    }
    events.push(format!(
        r#"{{"type":"content_block_stop","index":{index}}}"#
    ));
    events
}

pub fn stream(blocks: &[Vec<String>]) -> Vec<Bytes> {
    let mut data = vec![START.to_owned(), PING.to_owned()];
    data.extend(blocks.concat());
    data.extend([END.to_owned(), STOP.to_owned()]);
    data.iter().map(|data| event(data).into()).collect()
}

pub fn live(pieces: &[Bytes], judge: &dyn Fn(&Located) -> Verdict) -> Result<Outcome, Malformed> {
    respond(&adapter(), EVENTS, pieces, &|items| decision(items, judge))
}

fn two_calls() -> Vec<Bytes> {
    stream(&[
        text(0, "On it."),
        call(1, "look", &["", "{\"q\" : 123456789", "01234567890123}"]),
        call(2, "pay", &[]),
    ])
}

#[test]
fn text_leaves_as_it_came_and_calls_in_canonical_form() {
    insta::assert_snapshot!("stream_allowed", live(&two_calls(), &allow).unwrap().text());
}

#[test]
fn blocked_calls_become_text_in_their_place() {
    let sent = |judge: &dyn Fn(&Located) -> Verdict| live(&two_calls(), judge).unwrap().text();
    insta::assert_snapshot!("stream_first_blocked", sent(&without("look")));
    insta::assert_snapshot!("stream_last_blocked", sent(&without("pay")));
    insta::assert_snapshot!("stream_all_blocked", sent(&|_| deny(Reason::NotOwner)));
}

pub fn sent(blocks: &[Vec<String>], judge: &dyn Fn(&Located) -> Verdict) -> serde_json::Value {
    streamed(&live(&stream(blocks), judge).unwrap().sent)
}

pub fn kinds(message: &serde_json::Value) -> Vec<&str> {
    let blocks = message["content"].as_array().unwrap().iter();
    blocks
        .map(|block| block["name"].as_str().or(block["type"].as_str()).unwrap())
        .collect()
}

#[test]
fn calls_behind_signed_reasoning_stand_or_fall_together() {
    let redacted = vec![
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"ZA=="}}"#.to_owned(),
        r#"{"type":"content_block_stop","index":0}"#.to_owned(),
    ];
    for first in [thinking(0), redacted] {
        let blocks = [
            first,
            call(1, "look", &["{}"]),
            text(2, "and"),
            call(3, "pay", &["{}"]),
            text(4, "so"),
        ];
        let client = sent(&blocks, &allow);
        assert_eq!(kinds(&client)[1..], ["look", "text", "pay", "text"]);
        assert_eq!(client["stop_reason"], "tool_use");
        let client = sent(&blocks, &without("pay"));
        assert_eq!(kinds(&client)[1..], ["text"; 4]);
        assert_eq!(client["stop_reason"], "end_turn");
        let said = |at: usize| client["content"][at]["text"].as_str().unwrap();
        assert!(said(1).contains("turn_refused") && said(3).contains("not_owner"));
        assert_eq!([said(2), said(4)], ["and", "so"]);
    }
    // What left before the reasoning is not called back, and what has no signature binds nothing.
    let blocks = [
        call(0, "look", &["{}"]),
        thinking(1),
        call(2, "pay", &["{}"]),
    ];
    assert_eq!(
        kinds(&sent(&blocks, &without("pay"))),
        ["look", "thinking", "text"]
    );
    let mut unsigned = thinking(0);
    unsigned.remove(2);
    let blocks = [unsigned, call(1, "look", &["{}"]), call(2, "pay", &["{}"])];
    assert_eq!(
        kinds(&sent(&blocks, &without("pay"))),
        ["thinking", "look", "text"]
    );
}

#[test]
fn without_a_note_the_indices_stay_dense() {
    let adapter = with(ModelRoute {
        note: false,
        ..ModelRoute::default()
    });
    for first in [thinking(0), text(0, "a")] {
        let pieces = stream(&[
            first,
            call(1, "pay", &["{}"]),
            text(2, "b"),
            call(3, "pay", &[]),
        ]);
        let judge = without("pay");
        let outcome = respond(&adapter, EVENTS, &pieces, &|items| decision(items, &judge));
        let client = streamed(&outcome.unwrap().sent);
        assert_eq!(kinds(&client)[1..], ["text"]);
        assert_eq!(client["content"][1]["text"], "b");
        assert_eq!(client["stop_reason"], "end_turn");
    }
}

/// Reads event by event; gives what each lets out, as bytes.
fn step(reader: &mut dyn ResponseReader, data: &str) -> (usize, usize) {
    let parsed: serde_json::Value = serde_json::from_str(data).unwrap();
    let event = Event {
        event: Some(parsed["type"].as_str().unwrap().to_owned()),
        data: Some(data.to_owned()),
        ..Event::default()
    };
    let step = reader.push(Frame::Event(event)).unwrap();
    (step.send.len(), step.judge.len())
}

fn reader() -> Box<dyn ResponseReader> {
    let head = http::Response::builder()
        .header("content-type", EVENTS)
        .body(())
        .unwrap()
        .into_parts()
        .0;
    let asked = request("POST", "/v1/messages", "{}");
    adapter().response(&asked, &head).unwrap()
}

#[test]
fn text_flows_at_once_and_calls_wait_for_their_end() {
    let mut reader = reader();
    assert_eq!(step(reader.as_mut(), START), (1, 0));
    for data in text(0, "now") {
        assert_eq!(step(reader.as_mut(), &data), (1, 0));
    }
    let events = call(1, "look", &["{\"a\"", ":1}"]);
    let (stop, before) = events.split_last().unwrap();
    for data in before {
        assert_eq!(step(reader.as_mut(), data), (0, 0));
        assert_eq!(step(reader.as_mut(), PING), (1, 0));
    }
    assert_eq!(step(reader.as_mut(), stop), (0, 1));
    assert_eq!(
        &reader.keep_alive()[..],
        b"event: ping\ndata: {\"type\": \"ping\"}\n\n"
    );
}

#[test]
fn behind_signed_reasoning_calls_wait_for_the_turns_end_and_pings_do_not() {
    let mut reader = reader();
    for data in [&[START.to_owned()][..], &thinking(0), &text(1, "flows")].concat() {
        assert_eq!(step(reader.as_mut(), &data), (1, 0));
    }
    for data in [
        call(2, "look", &["{}"]),
        text(3, "waits"),
        call(4, "pay", &[]),
    ]
    .concat()
    {
        assert_eq!(step(reader.as_mut(), &data), (0, 0));
        assert_eq!(step(reader.as_mut(), PING), (1, 0));
    }
    let counts =
        r#"{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":7}}"#;
    assert_eq!(step(reader.as_mut(), counts), (1, 0));
    assert_eq!(step(reader.as_mut(), END), (0, 2));
}

#[test]
fn a_turn_that_ends_without_a_reason_is_judged_at_its_stop() {
    let mut pieces = stream(&[
        thinking(0),
        call(1, "look", &["{}"]),
        call(2, "pay", &["{}"]),
    ]);
    pieces.remove(pieces.len() - 2);
    let client = streamed(&live(&pieces, &allow).unwrap().sent);
    assert_eq!(kinds(&client), ["thinking", "look", "pay"]);
}

#[test]
fn calls_of_the_provider_are_not_for_the_client() {
    let mut blocks = Vec::new();
    for (index, kind) in ["server_tool_use", "mcp_tool_use"].iter().enumerate() {
        let events = call(index, "web_search", &["", "{\"query\":\"x\"}"]);
        blocks.push(
            events
                .iter()
                .map(|event| event.replace("tool_use", kind))
                .collect(),
        );
    }
    blocks.push(vec![
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","name":"n","input":{}}]}}"#.to_owned(),
        r#"{"type":"content_block_stop","index":2}"#.to_owned(),
    ]);
    let outcome = live(&stream(&blocks), &|_| panic!("nothing to judge")).unwrap();
    let client = streamed(&outcome.sent);
    assert_eq!(client["content"][0]["input"]["query"], "x");
    assert_eq!(client["content"].as_array().unwrap().len(), 3);
}

#[test]
fn a_call_in_a_block_of_an_unknown_type_is_a_call() {
    let with_type = |kind: &str, shape: &str| {
        let events = vec![
            format!(
                r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"{kind}",{shape}}}}}"#
            ),
            r#"{"type":"content_block_stop","index":0}"#.to_owned(),
        ];
        live(&stream(&[events]), &without("pay")).unwrap()
    };
    for shape in [
        r#""id":"t","name":"pay","input":{}"#,
        r#""id":"t","name":"pay","arguments":"{}""#,
        r#""action":{"type":"click"}"#,
        r#""calls":[{"name":"pay","input":{"a":1}}]"#,
        r#""inner":{"type":"tool_use","id":"x"}"#,
        r#""id":"t","input":{"a":1}"#,
    ] {
        let outcome = with_type("brand_new", shape);
        assert_eq!(outcome.judged.len(), 1, "{shape}");
        assert_eq!(kinds(&streamed(&outcome.sent)), ["text"], "{shape}");
    }
    let outcome = with_type("brand_new", r#""name":"a label","text":"x""#);
    assert!(outcome.judged.is_empty());
    let outcome = with_type(
        "newer_tool_use",
        r#""id":"t","name":"look","input":{},"more":1"#,
    );
    assert_eq!(streamed(&outcome.sent)["content"][0]["more"], 1);
}
