//! One write, proposed on a model's route and executed on a route to tools: asked for once, in the place where it executes.

use holdpoint::serve::Running;
use serde_json::{Value, json};

use super::shared::client::{Answer, ask, request};
use super::shared::rig::Rig;
use super::shared::upstream::{Upstream, json as json_answer};

const SESSION: (&str, &str) = ("holdpoint-session", "conversation-1");

fn config(upstream: &str, mcp_tools: &str) -> String {
    format!(
        "upstreams: {{up: {{url: \"{upstream}\"}}}}
routes:
  - {{name: model, prefix: /openai, upstream: up, protocol: openai_chat}}
  - {{name: files, prefix: /files, upstream: up, protocol: mcp{mcp_tools}}}
  - name: shop
    prefix: /shop
    upstream: up
    protocol: http_tools
    tools: [{{tool: refund, method: POST, path: /refund}}]
principal: {{fixed: {{tenant: t, subject: ann, agent: bot}}}}
tickets: {{store: tickets.db}}
listen: {{approvers: \"127.0.0.1:1\"}}
approvers:
  - {{subject: boss, key_env: APPROVER_KEY, roles: [oncall]}}
"
    )
}

fn policy(rules: &str) -> String {
    format!(
        "version: 1
name: writes
layers: {{catalog: off, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: enforce}}
tools:
{rules}
"
    )
}

/// An upstream that proposes a call on the model's path and carries out everything else.
async fn upstream(tool: &'static str) -> Upstream {
    Upstream::start(move |received| {
        if received.target().ends_with("/chat/completions") {
            let call = json!({"id": "c1", "type": "function", "function": {"name": tool, "arguments": "{\"amount\":5}"}});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
            return json_answer(&json!({"id": "r", "choices": [choice]}).to_string());
        }
        let asked: Value = serde_json::from_slice(&received.body).unwrap_or_default();
        if asked["jsonrpc"] == "2.0" {
            let result = json!({"content": [{"type": "text", "text": "written"}]});
            let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
            return json_answer(&answer.to_string());
        }
        json_answer("{\"done\":true}")
    })
    .await
}

/// Whether the model's proposal reaches the agent.
async fn proposes(rig: &Rig) -> bool {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "go"}]});
    let target = "/openai/v1/chat/completions";
    let answer = rig
        .ask(request("POST", target, &[SESSION], body.to_string()))
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["choices"][0]["message"]["tool_calls"].is_array()
}

async fn refund(rig: &Rig) -> Answer {
    let body = "{\"amount\":5}";
    rig.ask(request("POST", "/shop/refund", &[SESSION], body))
        .await
}

/// The result of the MCP tool.
async fn writes(rig: &Rig, tool: &str) -> Value {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {"amount": 5}}});
    let headers = [
        SESSION,
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    let asked = request("POST", "/files/mcp", &headers, call.to_string());
    rig.ask(asked).await.json()["result"].clone()
}

const KEY: [(&str, &str); 1] = [("authorization", "Bearer an-approver-key-of-some-length")];

/// Ids of the requests that wait.
async fn waiting(running: &Running) -> Vec<String> {
    let address = running.addresses().approvers.unwrap();
    let list = ask(
        address,
        request("GET", "/v1/tickets?state=requested", &KEY, ""),
    )
    .await;
    let list = list.json();
    let tickets = list["tickets"]
        .as_array()
        .unwrap_or_else(|| panic!("{list}"));
    let id = |ticket: &Value| ticket["id"].as_str().unwrap().to_owned();
    tickets.iter().map(id).collect()
}

async fn approve(running: &Running, ticket: &str) {
    let address = running.addresses().approvers.unwrap();
    let target = format!("/v1/tickets/{ticket}");
    let shown = ask(address, request("GET", &target, &KEY, "")).await.json();
    let prefix = &shown["digest"].as_str().unwrap()[..12];
    let body = json!({"digest_prefix": prefix}).to_string();
    let answered = ask(
        address,
        request("POST", &format!("{target}/approve"), &KEY, body),
    )
    .await;
    assert_eq!(answered.status, 200, "{answered:?}");
}

#[tokio::test]
async fn a_call_that_a_route_executes_is_asked_for_there_and_spent_once() {
    let upstream = upstream("refund").await;
    let rules = "  - {tool: refund, executes_at: {route: shop}, ticket: {gate: approve, ttl: 15m}}";
    for rules in [rules, &rules.replace("executes_at: {route: shop}, ", "")] {
        let rig = Rig::start(&config(&upstream.url(), ""), &policy(rules)).await;
        assert!(proposes(&rig).await, "a proposal is no execution");
        assert_eq!(waiting(rig.running()).await, [] as [&str; 0]);
        let held = refund(&rig).await;
        assert_eq!(
            (held.status, held.code().as_str()),
            (403, "approval_required")
        );
        let tickets = waiting(rig.running()).await;
        assert_eq!(tickets.len(), 1);
        approve(rig.running(), &tickets[0]).await;
        // Proposed again in the next turn: the approval is not spent on it.
        assert!(proposes(&rig).await);
        let done = refund(&rig).await;
        assert_eq!(
            (done.status, done.header("holdpoint-replayed")),
            (200, None)
        );
        let again = refund(&rig).await;
        assert_eq!(again.header("holdpoint-replayed"), Some("true"));
        assert_eq!(waiting(rig.running()).await, [] as [&str; 0]);
    }
}

#[tokio::test]
async fn a_call_that_the_agent_executes_is_asked_for_at_the_proposal() {
    let upstream = upstream("deploy").await;
    let rules = "  - {tool: deploy, executes_at: agent, ticket: {gate: approve, ttl: 15m}}";
    let rig = Rig::start(&config(&upstream.url(), ""), &policy(rules)).await;
    assert!(!proposes(&rig).await);
    let tickets = waiting(rig.running()).await;
    assert_eq!(tickets.len(), 1);
    approve(rig.running(), &tickets[0]).await;
    assert!(proposes(&rig).await, "released: that is the execution");
    assert!(!proposes(&rig).await, "and only once");
}

#[tokio::test]
async fn an_mcp_route_that_names_the_tool_settles_it_and_otherwise_both_do() {
    let upstream = upstream("write_file").await;
    let rules = policy("  - {tool: write_file, ticket: {gate: approve, ttl: 15m}}");
    let named = config(&upstream.url(), ", tools: [write_file]");
    let rig = Rig::start(&named, &rules).await;
    assert!(proposes(&rig).await);
    assert_eq!(waiting(rig.running()).await, [] as [&str; 0]);
    assert_eq!(writes(&rig, "write_file").await["isError"], true);
    let tickets = waiting(rig.running()).await;
    assert_eq!(tickets.len(), 1);
    approve(rig.running(), &tickets[0]).await;
    let written = writes(&rig, "write_file").await;
    assert_eq!(written["content"][0]["text"], "written");

    // A write that no route names may execute in either place.
    let rig = Rig::start(&config(&upstream.url(), ""), &rules).await;
    assert!(!proposes(&rig).await);
    assert_eq!(writes(&rig, "write_file").await["isError"], true);
    assert_eq!(
        waiting(rig.running()).await.len(),
        2,
        "an approval for the one place is none for the other"
    );
}

#[tokio::test]
async fn an_approval_is_of_one_session() {
    let upstream = upstream("refund").await;
    let rules = policy("  - {tool: refund, ticket: {gate: approve, ttl: 15m}}");
    let rig = Rig::start(&config(&upstream.url(), ""), &rules).await;
    assert_eq!(refund(&rig).await.status, 403);
    approve(rig.running(), &waiting(rig.running()).await[0]).await;
    let other = [("holdpoint-session", "conversation-2")];
    let answer = rig
        .ask(request("POST", "/shop/refund", &other, "{\"amount\":5}"))
        .await;
    assert_eq!(answer.code(), "approval_required");
    assert_eq!(refund(&rig).await.status, 200);
}

#[tokio::test]
async fn without_a_session_each_conversation_is_its_own() {
    let upstream = upstream("wire").await;
    let config = config(&upstream.url(), "");
    let rig = Rig::start(
        &config,
        &policy("  - {tool: wire, ticket: {gate: approve, ttl: 15m}}"),
    )
    .await;
    let proposed = async |words: &str| {
        let said = [
            json!({"role": "user", "content": words}),
            json!({"role": "assistant", "content": "what else?"}),
            json!({"role": "user", "content": "go"}),
        ];
        let mut calls = Vec::new();
        // The same conversation, one turn on.
        for turns in [1, 3] {
            let body = json!({"model": "m", "messages": said[..turns]}).to_string();
            let asked = request("POST", "/openai/v1/chat/completions", &[], body);
            calls.push(
                rig.ask(asked).await.json()["choices"][0]["message"]["tool_calls"].is_array(),
            );
        }
        calls
    };
    assert_eq!(proposed("pay Ann").await, [false, false]);
    let waits = waiting(rig.running()).await;
    assert_eq!(waits.len(), 1, "one request for both turns");
    approve(rig.running(), &waits[0]).await;
    assert_eq!(
        proposed("pay Bob").await,
        [false, false],
        "not approved for this one"
    );
    assert_eq!(waiting(rig.running()).await.len(), 1);
    assert!(proposed("pay Ann").await[0]);
}
