//! Known answers for streams.

use bytes::Bytes;
use holdpoint::item::{Item, Located};
use holdpoint::protocols::{Event, Frame, Malformed, Protocol as _, ResponseReader};
use holdpoint::settings::{Limits, ModelRoute};
use holdpoint::verdict::{Reason, Verdict};

use crate::driver::{
    EVENTS, JSON, Outcome, adapter, decision, deny, request, respond, streamed, whole, with,
};
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
const PING: &str = r#"{"type": "ping"}"#;
const END: &str = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":12345678901234567890123}}"#;
const STOP: &str = r#"{"type":"message_stop" }"#;

fn text(index: usize, words: &str) -> Vec<String> {
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

fn thinking(index: usize) -> Vec<String> {
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
fn call(index: usize, name: &str, pieces: &[&str]) -> Vec<String> {
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

fn stream(blocks: &[Vec<String>]) -> Vec<Bytes> {
    let mut data = vec![START.to_owned(), PING.to_owned()];
    data.extend(blocks.concat());
    data.extend([END.to_owned(), STOP.to_owned()]);
    data.iter().map(|data| event(data).into()).collect()
}

fn live(pieces: &[Bytes], judge: &dyn Fn(&Located) -> Verdict) -> Result<Outcome, Malformed> {
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
