//! Streams: text at once, calls held until judged, cuts that stay cuts, back-pressure, clients that leave.

use crate::clients::{Flood, flood};
use crate::support::client::{Client, request};
use crate::support::rig::{Rig, config};
use crate::support::upstream::{EVENTS, Gate, Step, Upstream, chunk, send};

pub const CHAT: &str = "/openai/v1/chat/completions";
pub const ASK: &str =
    "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";

/// Blocks `send` to hosts that are not listed; every other tool passes.
pub const EGRESS: &str = "version: 1
name: egress
layers: {catalog: off, identity: off, egress: enforce, recipients: off, ownership: off, injection: off, tickets: off}
lists: {ours: {hosts: [shop.example]}}
tools:
  - {tool: send, executes_at: agent, egress: [{at: /url, allow: [ours]}]}
  - {tool: get_order, effect: read}
  - {tool: refund}
";

pub fn event(delta: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"
    )
}

pub fn text(text: &str) -> String {
    event(&format!("{{\"content\":\"{text}\"}}"))
}

pub fn end(reason: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
         \"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\ndata: [DONE]\n\n"
    )
}

fn call(index: usize, url: &str) -> String {
    event(&format!(
        "{{\"tool_calls\":[{{\"index\":{index},\"id\":\"call_{index}\",\"type\":\"function\",\
         \"function\":{{\"name\":\"send\",\"arguments\":\"{{\\\"url\\\":\\\"{url}\\\"}}\"}}}}]}}"
    ))
}

/// A stream that ends once the gate is open.
pub async fn gated() -> (Upstream, Gate) {
    let gate = Gate::default();
    let wait = gate.clone();
    let upstream = Upstream::start(move |_| {
        vec![
            send(EVENTS),
            chunk(text("one")),
            Step::Wait(wait.clone()),
            chunk(end("stop")),
            chunk(""),
        ]
    })
    .await;
    (upstream, gate)
}

pub async fn chat(rig: &Rig) -> Client {
    let mut client = Client::connect(rig.agents()).await;
    client.send(request("POST", CHAT, &[], ASK)).await;
    client
}

#[tokio::test]
async fn text_leaves_before_the_upstream_says_more() {
    let gate = Gate::default();
    let wait = gate.clone();
    let upstream = Upstream::start(move |_| {
        vec![
            send(EVENTS),
            chunk(text("one")),
            Step::Wait(wait.clone()),
            chunk(text("two")),
            Step::Wait(wait.clone()),
            chunk(end("stop")),
            chunk(""),
        ]
    })
    .await;
    let rig = Rig::before(&upstream.url(), "").await;
    let mut client = chat(&rig).await;
    let head = client.head().await;
    assert!(
        head.contains("text/event-stream") && head.contains("holdpoint-policy"),
        "{head}"
    );
    client.until("one").await;
    gate.open();
    client.until("two").await;
    gate.open();
    client.until("[DONE]").await;
    client.until("\r\n0\r\n\r\n").await;
}

#[tokio::test]
async fn a_call_is_held_while_text_flows_and_a_blocked_one_leaves_a_note() {
    let gate = Gate::default();
    let wait = gate.clone();
    let upstream = Upstream::start(move |_| {
        vec![
            send(EVENTS),
            chunk(call(0, "https://evil.example/")),
            chunk(call(1, "https://shop.example/")),
            chunk(text("still")),
            Step::Wait(wait.clone()),
            chunk(end("tool_calls")),
            chunk(""),
        ]
    })
    .await;
    let rig = Rig::start(&config(&upstream.url(), ""), EGRESS).await;
    let mut client = chat(&rig).await;
    client.head().await;
    let before = client.until("still").await;
    assert!(!before.contains("evil"), "{before}");
    gate.open();
    let after = client.until("[DONE]").await;
    assert!(after.contains("code: host_not_allowed"), "{after}");
    assert!(
        after.contains("shop.example") && !after.contains("evil"),
        "{after}"
    );
    assert!(
        after.contains("\"index\":0") && !after.contains("\"index\":1"),
        "{after}"
    );
    let scrape = rig.scrape().await;
    let denied = "holdpoint_verdicts_total{layer=\"egress\",mode=\"enforce\",verdict=\"deny\"} 1";
    assert!(scrape.contains(denied), "{scrape}");
}

#[tokio::test]
async fn the_same_bytes_leave_however_the_upstream_cuts_them() {
    let whole = [
        text("a"),
        call(0, "https://shop.example/"),
        call(1, "https://evil.example/"),
        end("tool_calls"),
    ]
    .concat();
    let mut answers = Vec::new();
    for size in [1, 7, usize::MAX] {
        let bytes = whole.clone().into_bytes();
        let upstream = Upstream::start(move |_| {
            let mut steps = vec![send(EVENTS)];
            steps.extend(bytes.chunks(size.min(bytes.len())).map(chunk));
            steps.push(chunk(""));
            steps
        })
        .await;
        let rig = Rig::start(&config(&upstream.url(), ""), EGRESS).await;
        let answer = chat(&rig).await.answer().await;
        assert!(answer.whole);
        answers.push(answer.text().to_owned());
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
    assert!(answers[0].ends_with("data: [DONE]\n\n"), "{}", answers[0]);
}

#[tokio::test]
async fn a_cut_stream_is_cut_for_the_client_too() {
    for cut in ["between", "inside", "clean"] {
        let upstream = Upstream::start(move |_| {
            let mut steps = vec![send(EVENTS), chunk(text("one")), chunk(call(0, "x"))];
            match cut {
                "inside" => steps.extend([send("40\r\ndata: {\"id"), Step::Close]),
                // The body ends properly, the conversation does not.
                "clean" => steps.push(chunk("")),
                _ => steps.push(Step::Close),
            }
            steps
        })
        .await;
        let rig = Rig::before(&upstream.url(), "").await;
        let answer = chat(&rig).await.answer().await;
        assert_eq!(answer.status, 200);
        assert!(!answer.whole, "{cut}: a cut stream must not end cleanly");
        assert!(answer.text().contains("one") && !answer.text().contains("call_0"));
        assert!(!answer.text().contains("[DONE]"));
    }
}

#[tokio::test]
async fn bytes_that_are_no_chat_stream_abort_it() {
    for bad in [
        "data: {\"id\": 1, \"id\": 2}\n\n".to_owned(),
        "data: nonsense\n\n".to_owned(),
        format!("data: {}\n\n", "x".repeat(5000)),
    ] {
        let shown = bad.clone();
        let upstream = Upstream::start(move |_| {
            vec![
                send(EVENTS),
                chunk(text("one")),
                chunk(&bad),
                chunk(end("stop")),
                chunk(""),
            ]
        })
        .await;
        let rig = Rig::before(&upstream.url(), "limits: {response_body: 2KiB}").await;
        let answer = chat(&rig).await.answer().await;
        assert!(!answer.whole, "{shown}");
        assert!(!answer.text().contains("[DONE]"), "{shown}");
    }
}

#[tokio::test]
async fn a_stream_that_begins_with_a_fault_is_an_error_that_no_sdk_asks_for_again() {
    for bad in ["data: nonsense\n\n", "data: {\"id\": 1, \"id\": 2}\n\n"] {
        let upstream = Upstream::start(move |_| vec![send(EVENTS), chunk(bad), chunk("")]).await;
        let rig = Rig::before(&upstream.url(), "").await;
        let answer = chat(&rig).await.answer().await;
        assert_eq!(answer.status, 502, "{bad}");
        assert!(answer.whole && answer.text().contains("upstream_invalid_response"));
        assert_eq!(answer.header("x-should-retry"), Some("false"));
    }
}

#[tokio::test]
async fn what_was_released_before_a_fault_reaches_the_client() {
    for bad in ["data: nonsense\n\n".as_bytes(), b"data: \xff\n\n"] {
        let upstream = Upstream::start(move |_| {
            // One piece: what is good in it, then what is not.
            let piece = [text("one").as_bytes(), bad].concat();
            vec![send(EVENTS), chunk(piece), chunk("")]
        })
        .await;
        let rig = Rig::before(&upstream.url(), "").await;
        let answer = chat(&rig).await.answer().await;
        assert!(!answer.whole && answer.text().contains("one"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_redirect_of_a_model_leads_no_client_past_the_proxy() {
    for status in [
        "301 Moved",
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let upstream = Upstream::start(move |_| {
            let head = format!("HTTP/1.1 {status}\r\nlocation: http://elsewhere.example/\r\ncontent-length: 0\r\n\r\n");
            vec![send(head)]
        })
        .await;
        let rig = Rig::before(&upstream.url(), "").await;
        let answer = chat(&rig).await.answer().await;
        assert_eq!(answer.status, 502, "{status}");
        assert_eq!(answer.header("location"), None, "{status}");
    }
}

#[tokio::test]
async fn a_stalled_stream_is_cut() {
    let upstream = Upstream::start(|_| vec![send(EVENTS), chunk(text("one")), Step::Hang]).await;
    let rig = Rig::before(&upstream.url(), "timeouts: {idle: 50ms}").await;
    let answer = chat(&rig).await.answer().await;
    assert!(!answer.whole && answer.text().contains("one"));
    let scrape = rig.scrape().await;
    let counted = "holdpoint_upstream_errors_total{kind=\"idle\",upstream=\"model\"} 1";
    assert!(scrape.contains(counted), "{scrape}");
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_upstreams_request() {
    let upstream = Upstream::start(|_| vec![send(EVENTS), chunk(text("one")), Step::Hang]).await;
    let rig = Rig::before(&upstream.url(), "").await;
    let mut client = chat(&rig).await;
    client.until("one").await;
    drop(client);
    upstream.gone.pass().await;

    // Also before the head of the answer.
    let silent = Upstream::start(|_| vec![Step::Hang]).await;
    let rig = Rig::before(&silent.url(), "").await;
    let client = chat(&rig).await;
    while silent.received().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(client);
    silent.gone.pass().await;
}

#[tokio::test]
async fn an_encoded_stream_flows_event_by_event() {
    use std::io::Write;
    let gate = Gate::default();
    let wait = gate.clone();
    let upstream = Upstream::start(move |_| {
        let head = EVENTS.replace("\r\n\r\n", "\r\ncontent-encoding: gzip\r\n\r\n");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        gzip.write_all(text("one").as_bytes()).unwrap();
        gzip.flush().unwrap();
        let first = std::mem::take(gzip.get_mut());
        gzip.write_all(end("stop").as_bytes()).unwrap();
        let rest = gzip.finish().unwrap();
        vec![
            send(head),
            chunk(first),
            Step::Wait(wait.clone()),
            chunk(rest),
            chunk(""),
        ]
    })
    .await;
    let rig = Rig::before(&upstream.url(), "").await;
    let mut client = chat(&rig).await;
    let head = client.head().await;
    assert!(!head.contains("content-encoding"), "{head}");
    client.until("one").await;
    gate.open();
    client.until("[DONE]").await;
}

#[tokio::test]
async fn a_stream_holds_its_place_until_it_ends() {
    let (upstream, gate) = gated().await;
    let rig = Rig::before(&upstream.url(), "limits: {concurrency: 1}").await;
    let mut client = chat(&rig).await;
    client.until("one").await;
    assert!(rig.scrape().await.contains("holdpoint_in_flight 1"));
    let refused = chat(&rig).await.answer().await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "overloaded")
    );
    assert_eq!(refused.header("x-should-retry"), Some("true"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    gate.open();
    client.until("\r\n0\r\n\r\n").await;
    let answer = {
        gate.open();
        chat(&rig).await.answer().await
    };
    assert_eq!(answer.status, 200);
    drop(client);
}

/// The bytes inside chunks.
fn dechunked(mut raw: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = raw.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&rest[..size]);
        raw = rest[size..].strip_prefix("\r\n").unwrap();
    }
    body
}

const SIGN: &str = ": keep-alive\n\n";

#[tokio::test]
async fn signs_of_life_come_between_whole_events_and_leave_them_as_they_are() {
    for cut in [0, 12] {
        let (gate, done) = (Gate::default(), Gate::default());
        let (wait, last) = (gate.clone(), done.clone());
        let upstream = Upstream::start(move |_| {
            let second = text("two");
            vec![
                send(EVENTS),
                chunk(text("one")),
                // An event that has begun is not cut by a sign.
                chunk(&second[..cut.max(1)]),
                Step::Wait(wait.clone()),
                chunk(&second[cut.max(1)..]),
                chunk(call(0, "https://shop.example/")),
                Step::Wait(wait.clone()),
                chunk(end("tool_calls")),
                chunk(""),
                Step::Wait(last.clone()),
            ]
        })
        .await;
        let quiet = Rig::start(&config(&upstream.url(), ""), EGRESS).await;
        let mut client = chat(&quiet).await;
        client.head().await;
        gate.open();
        gate.open();
        let expected = dechunked(&client.until("\r\n0\r\n\r\n").await);
        done.open();

        let more = "timeouts: {keep_alive: 20ms}";
        let rig = Rig::start(&config(&upstream.url(), more), EGRESS).await;
        let mut client = chat(&rig).await;
        client.head().await;
        let mut raw = String::new();
        for _ in 0..2 {
            for _ in 0..3 {
                raw.push_str(&client.until(SIGN).await);
            }
            gate.open();
        }
        raw.push_str(&client.until("\r\n0\r\n\r\n").await);
        let body = dechunked(&raw);
        assert!(body.matches(SIGN).count() >= 6, "{body}");
        for (before, _) in body.match_indices(SIGN) {
            assert!(body[..before].ends_with("\n\n"), "{body}");
        }
        assert_eq!(body.replace(SIGN, ""), expected);
        assert!(
            body.ends_with("data: [DONE]\n\n"),
            "nothing after the end: {body}"
        );
        // The connection goes on, with nothing in between.
        done.open();
        client.send(request("GET", "/shop/unknown", &[], "")).await;
        assert_eq!(client.answer().await.status, 404);
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_slows_the_upstream() {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    /// More than all socket buffers on the way together.
    const BOUND: usize = 64 << 20;
    let Flood { url, sent, .. } = flood().await;
    let rig = Rig::before(&url, "").await;
    let mut client = chat(&rig).await;
    client.head().await;
    // Until nothing moves any more: on a slow machine too early rather than too late.
    let mut still = 0;
    let mut seen = 0;
    while still < 20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = sent.load(Ordering::SeqCst);
        still = if now == seen { still + 1 } else { 0 };
        seen = now;
    }
    assert!(seen > 0 && seen < BOUND, "{seen}");
    // It waits, and goes on with the client.
    while sent.load(Ordering::SeqCst) <= seen {
        client.until("\n\n").await;
    }
}

#[tokio::test]
async fn a_call_that_nobody_can_read_is_counted() {
    let odd = "{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"send\",\"arguments\":\"{\"}}]}";
    let upstream = Upstream::start(move |_| {
        vec![
            send(EVENTS),
            chunk(event(odd)),
            chunk(end("tool_calls")),
            chunk(""),
        ]
    })
    .await;
    let rig = Rig::before(&upstream.url(), "").await;
    let mut client = chat(&rig).await;
    let note = client.until("[DONE]").await;
    assert!(note.contains("arguments_unreadable"), "{note}");
    let scrape = rig.scrape().await;
    assert!(scrape.contains("holdpoint_unreadable_calls_total{route=\"model\"} 1\n"));
    assert!(scrape.contains("holdpoint_unreadable_calls_total{route=\"shop\"} 0\n"));
}
