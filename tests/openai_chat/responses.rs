//! Known answers for responses.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdpoint::guard::{Claim, Decision, Outcome as Came, Receipt};
use holdpoint::item::{Item, Located};
use holdpoint::names::TicketId;
use holdpoint::protocols::openai_chat::OpenAiChat;
use holdpoint::protocols::{Event, Frame, Malformed, Protocol};
use holdpoint::settings::{Limits, ModelRoute};
use holdpoint::verdict::{Hold, Reason, Undecided, Verdict};

use crate::driver::{
    EVENTS, JSON, Outcome, adapter, decision, deny, finding, request, respond, streamed, whole,
};

const TWO_CALLS: &str = r#"{"id": "chatcmpl-1","choices":[ {"index":0,"message":{"role":"assistant","content":"On it.","tool_calls":[{"id":"call_a","type":"function","function":{"name":"look","arguments":"{\"q\": 1}"}}, {"id":"call_b","type":"function","function":{"name":"pay","arguments":"{}"}}] },"logprobs":null,"finish_reason":"tool_calls"}], "usage":{"total_tokens":12345678901234567890123}}"#;

const CALLS_ONLY: &str = r#"{"id":"chatcmpl-1","choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"call_a","type":"function","function":{"name":"look","arguments":""}}]},"finish_reason":"tool_calls"}]}"#;

const STREAM: &[&str] = &[
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"role":"assistant","content":"On it."},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"look","arguments":""}}]},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"q\": 1}"}}]},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"pay","arguments":"{}"}}]},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m","system_fingerprint":"fp","choices":[ {"index":0,"delta":{},"finish_reason":"tool_calls"} ]}"#,
    r#"{"id":"chatcmpl-1","choices":[],"usage":{"total_tokens":12345678901234567890123}}"#,
    "[DONE]",
];

pub fn events(chunks: &[&str]) -> Vec<Bytes> {
    chunks
        .iter()
        .map(|chunk| Bytes::from(format!("data: {chunk}\n\n")))
        .collect()
}

fn judged(
    content_type: &str,
    pieces: &[Bytes],
    judge: &dyn Fn(&Located) -> Verdict,
) -> Result<Outcome, Malformed> {
    respond(&adapter(), 200, content_type, pieces, &|items| {
        decision(items, judge)
    })
}

fn plain(body: &str, judge: &dyn Fn(&Located) -> Verdict) -> String {
    let pieces = [Bytes::copy_from_slice(body.as_bytes())];
    judged(JSON, &pieces, judge).unwrap().text()
}

fn live(chunks: &[&str], judge: &dyn Fn(&Located) -> Verdict) -> String {
    judged(EVENTS, &events(chunks), judge).unwrap().text()
}

fn allow(_: &Located) -> Verdict {
    Verdict::Allow
}

fn without(tool: &'static str) -> impl Fn(&Located) -> Verdict {
    move |located| match &located.item {
        Item::ToolCall(call) if call.tool.as_str() == tool => deny(Reason::NotOwner),
        _ => Verdict::Allow,
    }
}

#[test]
fn what_is_allowed_passes_as_it_came() {
    assert_eq!(plain(TWO_CALLS, &allow), TWO_CALLS);
    insta::assert_snapshot!("stream_allowed", live(STREAM, &allow));
}

#[test]
fn the_first_of_two_is_blocked() {
    insta::assert_snapshot!("whole_first_blocked", plain(TWO_CALLS, &without("look")));
    insta::assert_snapshot!("stream_first_blocked", live(STREAM, &without("look")));
}

#[test]
fn the_last_of_two_is_blocked() {
    insta::assert_snapshot!("whole_last_blocked", plain(TWO_CALLS, &without("pay")));
    insta::assert_snapshot!("stream_last_blocked", live(STREAM, &without("pay")));
}

#[test]
fn all_are_blocked() {
    let judge = |_: &Located| deny(Reason::NotOwner);
    insta::assert_snapshot!("whole_all_blocked", plain(TWO_CALLS, &judge));
    insta::assert_snapshot!("whole_only_call_blocked", plain(CALLS_ONLY, &judge));
    insta::assert_snapshot!("stream_all_blocked", live(STREAM, &judge));
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
    let client = whole(plain(CALLS_ONLY, &judge).as_bytes());
    assert_eq!(
        client[&0].content,
        "[holdpoint] A person must approve this call. Tell the user; after the approval repeat the identical call. (code: approval_required, ticket: tkt_1, request: Refund 5 on A-1)"
    );
}

#[test]
fn arguments_that_are_not_one_strict_object_are_refused() {
    for bad in [
        r#"{\"a\":1,\"a\":2}"#,
        r#"{\"a\":"#,
        "[]",
        r#"\"text\""#,
        " ",
        r#"{\"a\":1e400}"#,
        "{} {}",
    ] {
        let body = CALLS_ONLY.replace(r#""arguments":"""#, &format!(r#""arguments":"{bad}""#));
        let client = whole(plain(&body, &allow).as_bytes());
        assert!(client[&0].calls.is_empty(), "{bad}");
        assert_eq!(client[&0].finish_reason, "stop");
        assert!(client[&0].content.contains("arguments_unreadable"));
    }
    for odd in [
        r#""function":{"name":"look","arguments":{}}"#,
        r#""function":{"name":7,"arguments":"{}"}"#,
        r#""function":{"arguments":"{}"}"#,
        r#""function":{"name":"a"},"custom":{"name":"a"}"#,
        r#""type":"custom","function":{"name":"a"}"#,
        r#""type":"other","name":"a","arguments":"{}""#,
    ] {
        let body = CALLS_ONLY.replace(
            r#""type":"function","function":{"name":"look","arguments":""}"#,
            odd,
        );
        let client = whole(plain(&body, &allow).as_bytes());
        assert!(client[&0].calls.is_empty(), "{odd}");
    }
}

#[test]
fn choices_are_ruled_each_for_itself() {
    let call = |name: &str| {
        format!(
            r#""tool_calls":[{{"index":0,"id":"c","type":"function","function":{{"name":"{name}","arguments":"{{}}"}}}}]"#
        )
    };
    let (look, pay) = (call("look"), call("pay"));
    let body = format!(
        r#"{{"choices":[{{"index":0,"message":{{"content":null,{look}}},"finish_reason":"tool_calls"}},{{"index":1,"message":{{"content":null,{pay}}},"finish_reason":"tool_calls"}}]}}"#
    );
    insta::assert_snapshot!("whole_two_choices", plain(&body, &without("look")));
    let chunk = format!(
        r#"{{"id":"chatcmpl-1","choices":[{{"index":1,"delta":{{{pay}}},"finish_reason":"tool_calls"}},{{"index":0,"delta":{{{look}}},"finish_reason":"tool_calls"}}]}}"#
    );
    let chunks = [chunk.as_str(), "[DONE]"];
    insta::assert_snapshot!("stream_two_choices", live(&chunks, &without("look")));
}

#[test]
fn a_function_call_of_the_old_form() {
    let body = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":null,"function_call":{"name":"pay","arguments":"{\"a\":1}"}},"finish_reason":"function_call"}]}"#;
    assert_eq!(plain(body, &allow), body);
    insta::assert_snapshot!("whole_legacy_blocked", plain(body, &without("pay")));
    let chunks = [
        r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":null,"function_call":{"name":"pay","arguments":""}},"finish_reason":null}]}"#,
        r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"function_call":{"arguments":"{\"a\":1}"}},"finish_reason":null}]}"#,
        r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"function_call"}]}"#,
        "[DONE]",
    ];
    insta::assert_snapshot!("stream_legacy_allowed", live(&chunks, &allow));
    insta::assert_snapshot!("stream_legacy_blocked", live(&chunks, &without("pay")));
}

#[test]
fn an_error_of_the_upstream_passes_as_it_came() {
    for (status, content_type, body) in [
        (429, JSON, r#"{"error":{"message":"slow down"} , }"#),
        (500, "text/html", "<p>oops"),
        (503, EVENTS, "data: {}"),
    ] {
        let pieces = [Bytes::from_static(body.as_bytes())];
        let outcome = respond(&adapter(), status, content_type, &pieces, &|_| {
            panic!("nothing to judge")
        });
        assert_eq!(outcome.unwrap().text(), body);
    }
}

#[test]
fn without_a_note_nothing_is_said() {
    let adapter = OpenAiChat::new(
        &Limits::default(),
        &ModelRoute {
            note: false,
            ..ModelRoute::default()
        },
    );
    let decide = |items: &[Located]| decision(items, &|_| deny(Reason::NotOwner));
    let body = [Bytes::from_static(CALLS_ONLY.as_bytes())];
    let plain = respond(&adapter, 200, JSON, &body, &decide).unwrap();
    assert_eq!(
        plain.text(),
        r#"{"id":"chatcmpl-1","choices":[{"index":0,"message":{"role":"assistant"},"finish_reason":"stop"}]}"#
    );
    let live = respond(&adapter, 200, EVENTS, &events(STREAM), &decide).unwrap();
    assert_eq!(streamed(&live.sent)[&0].content, "On it.");
}

#[test]
fn text_flows_at_once_and_calls_wait() {
    let head = http::Response::builder()
        .header("content-type", EVENTS)
        .body(())
        .unwrap()
        .into_parts()
        .0;
    let mut reader = adapter()
        .response(&request("POST", "/chat/completions", "{}"), &head)
        .unwrap();
    let mut push = |data: &str| {
        let event = Event {
            data: Some(data.to_owned()),
            ..Event::default()
        };
        reader.push(Frame::Event(event)).unwrap()
    };
    assert!(push(STREAM[1]).send.is_empty());
    assert!(push(STREAM[2]).send.is_empty());
    let text = push(STREAM[0]).send.concat();
    assert_eq!(text, format!("data: {}\n\n", STREAM[0]).as_bytes());
    let both = r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"x","tool_calls":[{"index":1,"id":"b","function":{"name":"pay"}}]}}]}"#;
    assert_eq!(
        push(both).send.concat(),
        b"data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n"
    );
    let end = push(STREAM[4]);
    assert!(end.send.is_empty());
    let places: Vec<_> = end.judge.iter().map(|l| &*l.place.pointer).collect();
    assert_eq!(
        places,
        ["/choices/0/tool_calls/0", "/choices/0/tool_calls/1"]
    );
}

#[test]
fn a_text_in_the_last_chunk_comes_before_the_note() {
    let chunks = [
        STREAM[1],
        r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Bye."},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ];
    let client = streamed(live(&chunks, &without("look")).as_bytes());
    assert!(client[&0].content.starts_with("Bye.\n\n[holdpoint] "));
}

#[test]
fn calls_without_index_or_id_are_told_apart_or_refused() {
    let end = r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let names = |calls: &str| {
        let chunk = format!(
            r#"{{"id":"chatcmpl-1","choices":[{{"index":0,"delta":{{"tool_calls":{calls}}}}}]}}"#
        );
        let client = streamed(live(&[&chunk, end, "[DONE]"], &allow).as_bytes());
        let calls = client[&0].calls.iter();
        calls
            .map(|[_, _, name, text]| format!("{name}{text}"))
            .collect::<Vec<_>>()
    };
    let two = r#"[{"function":{"name":"a","arguments":"{}"}},{"function":{"name":"a","arguments":"{\"b\":1}"}}]"#;
    assert_eq!(names(two), ["a{}", "a{\"b\":1}"]);
    let contradicting = r#"[{"index":0,"function":{"name":"a"}},{"index":0,"function":{"name":"b","arguments":"{}"}},{"index":1,"function":{"name":"c","arguments":"{}"}}]"#;
    assert_eq!(names(contradicting), ["c{}"]);
    // Whose arguments are these? Without them `a` would be another call.
    let lost = r#"[{"index":0,"id":"x","function":{"name":"a"}},{"index":0,"id":"y","function":{"arguments":"{\"b\":1}"}}]"#;
    assert_eq!(names(lost), <[String; 0]>::default());
}

#[test]
fn members_that_belong_to_a_call_go_with_it() {
    let chunk = r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"pay","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s\u0041"}}}]},"finish_reason":"tool_calls"}]}"#;
    let sent = live(&[chunk, "[DONE]"], &allow);
    assert!(
        sent.contains(r#""extra_content":{"google":{"thought_signature":"s\u0041"}}"#),
        "{sent}"
    );
}

#[test]
fn an_error_in_the_stream_drops_what_is_held() {
    let error = r#"{"id":"chatcmpl-1","error":{"message":"out"},"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"c","function":{"name":"pay"}}]}}]}"#;
    let sent = live(&[STREAM[1], STREAM[2], error, STREAM[4], "[DONE]"], &|_| {
        panic!("nothing is whole")
    });
    assert_eq!(
        sent,
        "data: {\"id\":\"chatcmpl-1\",\"error\":{\"message\":\"out\"},\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n"
    );
}

#[test]
fn an_error_that_says_nothing_ends_no_stream() {
    let chunk = |error: &str| {
        let error = format!(r#"{{"error":{error},"id""#);
        let chunks = STREAM.iter().map(|c| c.replacen(r#"{"id""#, &error, 1));
        let chunks: Vec<_> = chunks.collect();
        let chunks: Vec<_> = chunks.iter().map(String::as_str).collect();
        live(&chunks, &allow)
    };
    let expected = streamed(live(STREAM, &allow).as_bytes());
    assert_eq!(expected[&0].calls.len(), 2);
    for error in ["null", "false", "{}", "[]", r#""""#] {
        assert_eq!(streamed(chunk(error).as_bytes()), expected, "{error}");
    }
    for error in ["true", "7", r#"{"code":7}"#, r#"["e"]"#, r#""e""#] {
        let client = streamed(chunk(error).as_bytes());
        assert!(client[&0].calls.is_empty(), "{error}");
    }
}

#[test]
fn a_stream_without_an_end() {
    let judge = without("look");
    let cut = judged(EVENTS, &events(&STREAM[..4]), &judge).unwrap_err();
    assert_eq!(cut.code, "upstream_truncated");
    // `[DONE]` makes calls whole too, and a stream may end after its last finish reason.
    let done = live(&[STREAM[1], STREAM[3], "[DONE]"], &judge);
    assert_eq!(streamed(done.as_bytes())[&0].calls[0][2], "pay");
    let ended = live(&STREAM[..5], &judge);
    assert_eq!(streamed(ended.as_bytes())[&0].calls[0][2], "pay");
}

#[test]
fn more_than_may_be_held_ends_the_response() {
    let limits = Limits {
        held: 100,
        ..Limits::default()
    };
    let adapter = OpenAiChat::new(&limits, &ModelRoute::default());
    let decide = |items: &[Located]| decision(items, &allow);
    let long = format!(r#"{{\"a\":\"{}\"}}"#, "x".repeat(100));
    let body = CALLS_ONLY.replace(r#""arguments":"""#, &format!(r#""arguments":"{long}""#));
    let whole = respond(&adapter, 200, JSON, &[body.into()], &decide).unwrap_err();
    assert_eq!(whole.code, "upstream_too_large");
    let many: Vec<_> = std::iter::once(STREAM[1])
        .chain(std::iter::repeat_n(STREAM[2], 12))
        .collect();
    let live = respond(&adapter, 200, EVENTS, &events(&many), &decide).unwrap_err();
    assert_eq!(live.code, "upstream_too_large");

    let calls = vec![r#"{"function":{"name":"a"}}"#; 129].join(",");
    let body = format!(r#"{{"choices":[{{"message":{{"tool_calls":[{calls}]}}}}]}}"#);
    let error = judged(JSON, &[body.into()], &allow).unwrap_err();
    assert_eq!(error.code, "upstream_too_large");
}

/// Calls that are told apart in any way, in one delta, over several choices, and as calls where nobody expects them.
#[test]
fn a_chunk_with_a_crowd_of_calls_ends_the_response() {
    let chunk = |deltas: &[String]| {
        let choices = deltas.iter().enumerate();
        let choices: Vec<_> = choices
            .map(|(at, delta)| format!(r#"{{"index":{at},"delta":{{{delta}}}}}"#))
            .collect();
        format!(r#"{{"choices":[{}]}}"#, choices.join(","))
    };
    let calls = |count: usize, one: &dyn Fn(usize) -> String| {
        let all: Vec<_> = (0..count).map(one).collect();
        format!(r#""tool_calls":[{}]"#, all.join(","))
    };
    let by_index = |i: usize| format!(r#"{{"index":{i}}}"#);
    let by_id = |i: usize| format!(r#"{{"id":"c{i}"}}"#);
    let by_name = |i: usize| format!(r#"{{"function":{{"name":"f{i}"}}}}"#);
    let of_one = |_: usize| r#"{"index":0}"#.to_owned();
    let strays = vec![r#"{"name":"a","args":{}}"#; 30_000].join(",");
    for deltas in [
        vec![calls(129, &by_index)],
        vec![calls(129, &by_id)],
        vec![calls(129, &by_name)],
        vec![calls(30_000, &by_index)],
        vec![calls(30_000, &by_id)],
        vec![calls(1025, &of_one)],
        vec![calls(100, &by_index), calls(100, &by_index)],
        vec![format!(r#""x":[{strays}]"#)],
    ] {
        let error = judged(EVENTS, &events(&[&chunk(&deltas)]), &allow).unwrap_err();
        assert_eq!(error.code, "upstream_too_large");
    }
    for delta in [calls(128, &by_index), calls(1024, &of_one)] {
        let held = judged(EVENTS, &events(&[&chunk(&[delta]), "[DONE]"]), &allow);
        assert!(held.is_ok());
    }
}

#[test]
fn a_response_that_cannot_be_read_is_not_passed_on() {
    for body in [
        "",
        "{",
        "[]",
        r#"{"choices":{}}"#,
        r#"{"choices":[7]}"#,
        r#"{"choices":[{"index":-1}]}"#,
        r#"{"choices":[{"index":128}]}"#,
        r#"{"choices":[{"index":0,"message":{}},{"index":0,"message":{}}]}"#,
        r#"{"choices":[{"message":[]}]}"#,
        r#"{"choices":[{"message":{"tool_calls":{}}}]}"#,
        r#"{"choices":[{"message":{"tool_calls":["pay"]}}]}"#,
        r#"{"choices":[{"message":{"function_call":"pay"}}]}"#,
        r#"{"choices":[{"message":{"Tool_Calls":[]}}]}"#,
        r#"{"choices":[{"message":{"tool_call\u017f":[]}}]}"#,
        r#"{"choices":[{"message":{},"delta":{"tool_calls":[{}]}}]}"#,
        r#"{"choices":[],"choices":[]}"#,
    ] {
        let error = judged(JSON, &[Bytes::from_static(body.as_bytes())], &allow).unwrap_err();
        assert_eq!(error.code, "upstream_invalid_response", "{body}");
    }
    for chunks in [
        &["{"][..],
        &["[DONE]x"],
        &[r#"{"choices":[{"index":0,"message":{"tool_calls":[{}]}}]}"#],
        &[r#"{"choices":[{"index":0,"delta":[]}]}"#],
        &[r#"{"choices":[{"index":0,"delta":{"Tool_calls":[]}}]}"#],
        &[r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":"0"}]}}]}"#],
        &[STREAM[4], STREAM[1]],
    ] {
        let error = judged(EVENTS, &events(chunks), &allow).unwrap_err();
        assert_eq!(error.code, "upstream_invalid_response", "{chunks:?}");
    }
    let error = judged("text/html", &[], &allow).unwrap_err();
    assert_eq!(error.code, "upstream_invalid_response");
}

pub struct Stored(TicketId, Bytes);

impl Stored {
    pub fn of(arguments: &'static str) -> Self {
        Self(
            TicketId::from("tkt_1"),
            Bytes::from_static(arguments.as_bytes()),
        )
    }
}

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

#[test]
fn a_claimed_call_leaves_in_its_stored_form_and_a_done_one_not_again() {
    let decide = |items: &[Located]| {
        let stored = Stored::of(r#"{"q":1}"#);
        let receipt = Receipt {
            ticket: TicketId::from("tkt_2"),
            status: 200,
            content_type: None,
            body: Bytes::from_static(b"never shown"),
            completed_at: "2026-01-02T03:04:05Z".parse().unwrap(),
        };
        Decision {
            claims: vec![(0, Box::new(stored))],
            receipts: vec![(1, receipt)],
            ..decision(items, &allow)
        }
    };
    let body = [Bytes::from_static(TWO_CALLS.as_bytes())];
    let plain = respond(&adapter(), 200, JSON, &body, &decide).unwrap();
    let client = whole(&plain.sent);
    assert_eq!(client[&0].calls.len(), 1);
    assert_eq!(client[&0].calls[0][3], r#"{"q":1}"#);
    assert_eq!(
        client[&0].content,
        "On it.\n\n[holdpoint] This call was carried out before, at 2026-01-02T03:04:05Z, and is not repeated. (code: already_done, ticket: tkt_2)"
    );
    let live = respond(&adapter(), 200, EVENTS, &events(STREAM), &decide).unwrap();
    assert_eq!(streamed(&live.sent), client);
}

#[test]
fn a_claimed_custom_call_gets_its_stored_input() {
    let body = CALLS_ONLY.replace(
        r#""type":"function","function":{"name":"look","arguments":""}"#,
        r#""type":"custom","custom":{"name":"look","input":"free {text"}"#,
    );
    let decide = |items: &[Located]| {
        let Item::ToolCall(call) = &items[0].item else {
            panic!("a call")
        };
        assert_eq!(call.args.raw, r#"{"input":"free {text"}"#);
        let stored = Stored::of(r#"{"input":"other"}"#);
        Decision {
            claims: vec![(0, Box::new(stored))],
            ..decision(items, &allow)
        }
    };
    let outcome = respond(&adapter(), 200, JSON, &[body.clone().into()], &decide).unwrap();
    assert_eq!(outcome.text(), body.replace("free {text", "other"));
}

#[test]
fn a_call_with_a_crowd_of_unknown_members_is_unreadable() {
    let body = |crowd: usize| {
        let crowd: Vec<_> = (0..crowd).map(|i| format!("\"k{i}\":1,")).collect();
        let crowd = crowd.concat();
        format!(
            r#"{{"choices":[{{"index":0,"message":{{"tool_calls":[{{"id":"a",{crowd}"function":{{"name":"look","arguments":"{{}}"}}}}]}},"finish_reason":"tool_calls"}}]}}"#
        )
    };
    for (crowd, readable) in [(64, true), (65, false), (60_000, false)] {
        let out = plain(&body(crowd), &allow);
        assert_eq!(out.contains("look"), readable, "{crowd}");
    }
}
