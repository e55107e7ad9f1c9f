//! Messages through a running proxy over real sockets.

use serde_json::{Value, json};

use crate::driver::streamed;
use crate::streams::{START, event};
use crate::support::client::{Answer, Client, request};
use crate::support::rig::Rig;
use crate::support::upstream::{EVENTS, Gate, Step, Upstream, chunk, json, send};

const POLICY: &str = "version: 1
name: messages
layers: {catalog: enforce, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: off}
tools:
  - {tool: look, effect: read}
  - {tool: pay, deny: true}
";

async fn rig(upstream: &Upstream) -> Rig {
    rig_with(upstream, "").await
}

async fn rig_with(upstream: &Upstream, more: &str) -> Rig {
    let url = upstream.url();
    let config = format!(
        "upstreams: {{claude: {{url: \"{url}\"}}}}
routes: [{{name: claude, prefix: /anthropic, upstream: claude, protocol: anthropic_messages}}]
principal: {{fixed: {{tenant: t, subject: ann, agent: bot}}}}
{more}
"
    );
    Rig::start(&config, POLICY).await
}

async fn ask(rig: &Rig, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    rig.ask(request(
        "POST",
        "/anthropic/v1/messages?beta=true",
        &all,
        body,
    ))
    .await
}

const BODY: &str = r#"{ "model":"m","stream" : true, "max_tokens":12345678901234567890123,"messages":[{"role":"user","content":"h\u0069"}] }"#;

/// A stream of a turn with these blocks, each a name of a tool or a block.
fn turn(blocks: &[Value]) -> Vec<Step> {
    let mut all = vec![event(START)];
    for (index, block) in blocks.iter().enumerate() {
        let block = match block.as_str() {
            Some(name) => {
                json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": {}})
            }
            None => block.clone(),
        };
        all.push(event(
            &json!({"type": "content_block_start", "index": index, "content_block": block})
                .to_string(),
        ));
        all.push(event(
            &json!({"type": "content_block_stop", "index": index}).to_string(),
        ));
    }
    all.push(event(r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}"#));
    all.push(event(r#"{"type":"message_stop"}"#));
    let mut steps = vec![send(EVENTS)];
    steps.extend(all.iter().map(chunk));
    steps.push(chunk(""));
    steps
}

#[tokio::test]
async fn what_is_not_edited_goes_on_as_it_came() {
    let upstream = Upstream::start(|_| turn(&[json!("look")])).await;
    let rig = rig(&upstream).await;
    for version in ["2023-06-01", "2026-10-21"] {
        let headers = [
            ("anthropic-version", version),
            (
                "anthropic-beta",
                "mcp-client-2026-09-15, inline-tools-2026-09-15",
            ),
            ("x-api-key", "sk-ant-test"),
            ("x-stainless-retry-count", "0"),
        ];
        let answer = ask(&rig, &headers, BODY).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert_eq!(streamed(&answer.body)["content"][0]["name"], "look");
        let received = upstream.received().pop().unwrap();
        assert_eq!(received.target(), "POST /v1/messages?beta=true");
        assert_eq!(received.text(), BODY);
        for (name, value) in headers {
            assert_eq!(received.header(name), [value]);
        }
    }
}

#[tokio::test]
async fn a_denied_tool_is_neither_offered_nor_called() {
    let upstream = Upstream::start(|_| turn(&[json!("look"), json!("pay")])).await;
    let rig = rig(&upstream).await;
    let body = r#"{"messages":[],"tools":[{"name":"pay","input_schema":{}},{"name":"look","input_schema":{}}]}"#;
    let answer = ask(&rig, &[], body).await;
    assert!(!upstream.only().text().contains("pay"));
    let client = streamed(&answer.body);
    assert_eq!(client["content"][0]["name"], "look");
    assert_eq!(client["content"][1]["type"], "text");
    assert_eq!(client["stop_reason"], "tool_use");
}

#[tokio::test]
async fn behind_signed_reasoning_a_refused_call_refuses_the_others() {
    let thinking = json!({"type": "thinking", "thinking": "t", "signature": "c2ln"});
    let blocks = [thinking, json!("look"), json!("pay")];
    let whole = {
        let calls = ["look", "pay"]
            .map(|name| json!({"type": "tool_use", "id": name, "name": name, "input": {}}));
        let content = [&blocks[..1], &calls[..]].concat();
        json!({"type": "message", "content": content, "stop_reason": "tool_use", "usage": {}})
            .to_string()
    };
    let upstream = Upstream::start(move |request| {
        if request.text().contains("stream") {
            turn(&blocks)
        } else {
            json(&whole)
        }
    })
    .await;
    let rig = rig(&upstream).await;
    let live = ask(&rig, &[], BODY).await;
    let live = streamed(&live.body);
    let plain = ask(&rig, &[], r#"{"messages":[]}"#).await;
    let plain: Value = serde_json::from_slice(&plain.body).unwrap();
    assert_eq!(live["content"], plain["content"]);
    assert_eq!(live["stop_reason"], "end_turn");
    assert!(
        plain["content"][1]["text"]
            .as_str()
            .unwrap()
            .contains("turn_refused")
    );
}

#[tokio::test]
async fn a_tool_of_the_provider_that_no_policy_lists_is_refused_in_the_apis_shape() {
    let upstream = Upstream::start(|_| panic!("nothing is sent")).await;
    let rig = rig(&upstream).await;
    for body in [
        r#"{"messages":[],"tools":[{"type":"web_search_20250305","name":"web_search"}]}"#,
        r#"{"messages":[],"mcp_servers":[{"type":"url","name":"n","url":"https://mcp.test/"}]}"#,
    ] {
        let answer = ask(&rig, &[], body).await;
        assert_eq!(answer.status, 403);
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        let error: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(error["type"], "error");
        assert_eq!(error["error"]["type"], "permission_error");
        assert_eq!(error["error"]["code"], "provider_tool_unlisted");
    }
    assert!(upstream.received().is_empty());
    let answer = rig
        .ask(request("POST", "/anthropic/v1/files", &[], ""))
        .await;
    assert_eq!(answer.status, 404);
    let error: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(error["error"]["type"], "not_found_error");
}

#[tokio::test]
async fn a_stream_that_is_cut_while_a_call_waits_reaches_no_end() {
    let upstream = Upstream::start(|_| {
        let mut steps = turn(&[json!({"type": "text", "text": "a"}), json!("look")]);
        steps.truncate(5);
        steps.push(chunk(""));
        steps
    })
    .await;
    let rig = rig(&upstream).await;
    let answer = ask(&rig, &[], BODY).await;
    assert_eq!(answer.status, 200);
    assert!(!answer.whole);
    assert!(!answer.text().contains("look"));
}

#[tokio::test]
async fn a_call_that_waits_is_bridged_by_pings_that_clients_skip() {
    let gate = Gate::default();
    let opened = gate.clone();
    let upstream = Upstream::start(move |_| {
        let mut steps = turn(&[json!("look")]);
        steps.insert(3, Step::Wait(gate.clone()));
        steps
    })
    .await;
    let rig = rig_with(&upstream, "timeouts: {keep_alive: 100ms}").await;
    let mut client = Client::connect(rig.agents()).await;
    client
        .send(request("POST", "/anthropic/v1/messages", &[], BODY))
        .await;
    let before = client
        .until("event: ping\ndata: {\"type\": \"ping\"}\n\n")
        .await;
    assert!(!before.contains("look"));
    opened.open();
    let after = client.until("message_stop").await;
    assert!(after.contains("look"));
}
