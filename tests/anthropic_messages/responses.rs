//! Known answers for whole responses.

use bytes::Bytes;
use holdpoint::item::{Item, Located};
use holdpoint::settings::ModelRoute;
use holdpoint::verdict::{Reason, Verdict};

use crate::driver::{JSON, adapter, decision, deny, respond, whole, with};

const TWO_CALLS: &str = r#"{"id": "msg_1","type":"message","role":"assistant","model":"m","content":[ {"type":"text","text":"On it."}, {"type":"tool_use","id":"toolu_a","name":"look","input":{"q" : 12345678901234567890123}},{"type":"tool_use","id":"toolu_b","name":"pay","input":{}} ],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":12345678901234567890123}}"#;

fn plain(body: &str, judge: &dyn Fn(&Located) -> Verdict) -> String {
    let pieces = [Bytes::copy_from_slice(body.as_bytes())];
    respond(&adapter(), JSON, &pieces, &|items| decision(items, judge))
        .unwrap()
        .text()
}

pub fn allow(_: &Located) -> Verdict {
    Verdict::Allow
}

pub fn without(tool: &'static str) -> impl Fn(&Located) -> Verdict {
    move |located| match &located.item {
        Item::ToolCall(call) if call.tool.as_str() == tool => deny(Reason::NotOwner),
        _ => Verdict::Allow,
    }
}

#[test]
fn what_is_allowed_passes_as_it_came() {
    assert_eq!(plain(TWO_CALLS, &allow), TWO_CALLS);
}

#[test]
fn blocked_calls_become_text_in_their_place() {
    insta::assert_snapshot!("whole_first_blocked", plain(TWO_CALLS, &without("look")));
    insta::assert_snapshot!("whole_last_blocked", plain(TWO_CALLS, &without("pay")));
    let all = |_: &Located| deny(Reason::NotOwner);
    insta::assert_snapshot!("whole_all_blocked", plain(TWO_CALLS, &all));
}

#[test]
fn without_a_note_blocked_calls_leave_nothing() {
    let adapter = with(ModelRoute {
        note: false,
        ..ModelRoute::default()
    });
    let pieces = [Bytes::from_static(TWO_CALLS.as_bytes())];
    let judge = without("look");
    let sent = respond(&adapter, JSON, &pieces, &|items| decision(items, &judge)).unwrap();
    let client = whole(&sent.sent);
    let blocks = client["content"].as_array().unwrap();
    assert_eq!(blocks.len(), 2);
    assert_eq!(blocks[1]["name"], "pay");
    assert_eq!(client["stop_reason"], "tool_use");
}
