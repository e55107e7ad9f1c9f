//! Known answers for whole responses.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdpoint::guard::{Claim, Decision, Outcome as Came, Receipt};
use holdpoint::item::{Item, Located};
use holdpoint::names::TicketId;
use holdpoint::settings::{ModelRoute, Wrapped};
use holdpoint::verdict::{Hold, Reason, Undecided, Verdict};

use crate::driver::{
    EVENTS, JSON, adapter, decision, deny, finding, request, respond, streamed, whole, with,
};
use crate::streams::as_stream;

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

#[test]
fn a_held_call_names_its_ticket() {
    let judge = |_: &Located| {
        Verdict::Hold(Hold {
            ticket: Some(TicketId::from("tkt_1")),
            summary: Some("Refund 5 on A-1".to_owned()),
            ..Hold::new(finding(Reason::ApprovalRequired))
        })
    };
    let client = whole(plain(TWO_CALLS, &judge).as_bytes());
    assert_eq!(
        client["content"][1]["text"],
        "[holdpoint] A person must approve this call. Tell the user; after the approval repeat the identical call. (code: approval_required, ticket: tkt_1, request: Refund 5 on A-1)"
    );
}

#[test]
fn calls_behind_signed_reasoning_stand_or_fall_together() {
    let signed = r#"{"type":"thinking","thinking":"t","signature":"c2ln"}"#;
    let text = r#"{"type":"text","text":"On it."}"#;
    let body = TWO_CALLS.replace(text, signed);
    assert_eq!(plain(&body, &allow), body);
    let client = whole(plain(&body, &without("pay")).as_bytes());
    let said = |at: usize| client["content"][at]["text"].as_str().unwrap();
    assert!(said(1).contains("(code: turn_refused)"));
    assert!(said(2).contains("(code: not_owner)"));
    assert_eq!(client["stop_reason"], "end_turn");
    assert!(plain(&body, &without("pay")).contains(signed));
}

#[test]
fn a_response_that_cannot_be_read_is_not_passed_on() {
    for body in [
        "",
        "nonsense",
        "[]",
        r#"{"type":"message"}"#,
        r#"{"choices":[]}"#,
        r#"{"content":{}}"#,
        r#"{"content":[1]}"#,
        r#"{"content":[{}]}"#,
        r#"{"content":[],"Content":[]}"#,
        r#"{"content":[{"type":"tool_use","name":"a","NAME":"b","input":{}}]}"#,
        r#"{"content":[{"type":"tool_use","name":"a","input":{"a":1,"a":2}}]}"#,
        r#"{"content":[],"content":[]}"#,
    ] {
        let pieces = [Bytes::copy_from_slice(body.as_bytes())];
        let sent = respond(&adapter(), JSON, &pieces, &|items| decision(items, &allow));
        assert_eq!(
            sent.unwrap_err().code,
            "upstream_invalid_response",
            "{body}"
        );
    }
    let html = respond(&adapter(), "text/html", &[], &|items| {
        decision(items, &allow)
    });
    assert_eq!(html.unwrap_err().code, "upstream_invalid_response");
}

#[test]
fn answers_without_a_message_pass_as_they_came() {
    let send = |method: &str, path: &str, status: u16, kind: &str, body: &str| {
        let asked = request(method, path, if method == "POST" { "{}" } else { "" });
        let pieces = [Bytes::copy_from_slice(body.as_bytes())];
        let judge = |_: &[Located]| panic!("nothing to judge");
        crate::adapter::respond(&adapter(), &asked, status, kind, &pieces, &judge)
            .map(|outcome| outcome.text())
    };
    let counted = r#"{"input_tokens" : 12}"#;
    let count = "/v1/messages/count_tokens?beta=true";
    assert_eq!(send("POST", count, 200, JSON, counted).unwrap(), counted);
    let models = r#"{"data":[{"type":"model","id":"m"}]}"#;
    assert_eq!(
        send("GET", "/v1/models", 200, JSON, models).unwrap(),
        models
    );
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#;
    for status in [200, 400, 429, 529] {
        assert_eq!(
            send("POST", "/v1/messages", status, JSON, error).unwrap(),
            error
        );
    }
    assert_eq!(
        send("POST", "/v1/messages", 502, "text/html", "<p>").unwrap(),
        "<p>"
    );
}

struct Stored(TicketId, Bytes);

impl Claim for Stored {
    fn ticket(&self) -> &TicketId {
        &self.0
    }

    fn arguments(&self) -> &Bytes {
        &self.1
    }

    fn finish(self: Box<Self>, _: Came) -> BoxFuture<'static, Result<(), Undecided>> {
        Box::pin(async { Ok(()) })
    }
}

fn bound(items: &[Located], index: usize, stored: &'static str) -> Decision {
    let stored = Stored(
        TicketId::from("tkt_1"),
        Bytes::from_static(stored.as_bytes()),
    );
    Decision {
        claims: vec![(index, Box::new(stored))],
        ..decision(items, &allow)
    }
}

#[test]
fn a_claimed_call_leaves_in_its_stored_form_and_a_done_one_not_again() {
    // In a stream each call is judged alone.
    let decide = |items: &[Located]| {
        let mut decision = decision(items, &allow);
        for (index, located) in items.iter().enumerate() {
            if located.place.pointer == "/content/1" {
                decision.claims = bound(items, index, r#"{"q":1}"#).claims;
            } else {
                let receipt = Receipt {
                    ticket: TicketId::from("tkt_2"),
                    status: 200,
                    content_type: None,
                    body: Bytes::from_static(b"never shown"),
                    completed_at: "2026-01-02T03:04:05Z".parse().unwrap(),
                };
                decision.receipts = vec![(index, receipt)];
            }
        }
        decision
    };
    let body = Bytes::from_static(TWO_CALLS.as_bytes());
    let plain = respond(&adapter(), JSON, &[body], &decide).unwrap();
    let client = whole(&plain.sent);
    assert!(plain.text().contains(r#""input":{"q":1}"#));
    assert_eq!(
        client["content"][2]["text"],
        "[holdpoint] This call was carried out before, at 2026-01-02T03:04:05Z, and is not repeated. (code: already_done, ticket: tkt_2)"
    );
    let live = respond(&adapter(), EVENTS, &as_stream(TWO_CALLS), &decide).unwrap();
    assert_eq!(streamed(&live.sent)["content"], client["content"]);
}

#[test]
fn a_call_inside_a_call_is_what_is_judged() {
    let adapter = with(ModelRoute {
        wrapped: vec![Wrapped {
            tool: "call_tool".into(),
            name: "/name".to_owned(),
            arguments: "/with".to_owned(),
            beside: vec!["/hub".to_owned()],
        }],
        ..ModelRoute::default()
    });
    let body = r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"tool_use","id":"toolu_a","name":"call_tool","input":{"hub":7,"name":"pay","with":{"a":1}}}],"stop_reason":"tool_use","usage":{"output_tokens":1}}"#;
    for (kind, pieces) in [
        (JSON, vec![Bytes::from_static(body.as_bytes())]),
        (EVENTS, as_stream(body)),
    ] {
        let blocked = |items: &[Located]| decision(items, &without("pay"));
        let outcome = respond(&adapter, kind, &pieces, &blocked).unwrap();
        assert!(!outcome.text().contains("toolu_a"), "{kind}");
        assert!(
            matches!(&outcome.judged[0].item, Item::ToolCall(call) if call.tool.as_str() == "pay")
        );
        let claimed = |items: &[Located]| bound(items, 0, r#"{"a":2}"#);
        let outcome = respond(&adapter, kind, &pieces, &claimed).unwrap();
        let client = if kind == JSON {
            whole(&outcome.sent)
        } else {
            streamed(&outcome.sent)
        };
        let input = serde_json::json!({"hub": 7, "name": "pay", "with": {"a": 2}});
        assert_eq!(client["content"][0]["input"], input, "{kind}");
        assert_eq!(client["content"][0]["name"], "call_tool");
    }
}
