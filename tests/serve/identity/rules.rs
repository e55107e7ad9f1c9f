//! What a policy asks of the caller's identity, on every kind of route.

use std::sync::Arc;

use serde_json::{Value, json};

use super::issuer::{Hands, Issuer, Key};
use crate::streams::{CHAT, end, event};
use crate::support::client::{Answer, Client, request};
use crate::support::rig::Rig;
use crate::support::upstream::{EVENTS, Gate, Received, Step, Upstream, chunk, json as ok, send};

const POLICY: &str = "version: 1
name: identity
layers: {catalog: off, identity: MODE, egress: off, recipients: off, ownership: off, injection: off, tickets: off}
tools:
  - {tool: get_order, effect: read}
  - {tool: refund, scopes: [refund:create, orders:read], agents: [desk], session: own}
  - {tool: send, scopes: [mail:send]}
  - {tool: \"*\"}
";

fn policy(mode: &str) -> String {
    POLICY.replace("MODE", mode)
}

fn config(upstream: &str, principal: &str) -> String {
    let base = crate::support::rig::config(upstream, principal);
    base.replace(
        "routes:\n",
        "routes:\n  - {name: files, prefix: /files, upstream: shop, protocol: mcp}\n",
    )
}

async fn rig(upstream: &Upstream, issuer: &Issuer, mode: &str) -> Rig {
    let principal = issuer.principal("claims: {session: sid}");
    Rig::start(&config(&upstream.url(), &principal), &policy(mode)).await
}

struct Caller<'r> {
    rig: &'r Rig,
    bearer: String,
    session: &'static str,
}

impl<'r> Caller<'r> {
    fn new(rig: &'r Rig, key: &Key, scope: &str) -> Self {
        let token = key.token(&json!({"scope": scope, "sid": "s-1"}));
        Self {
            rig,
            bearer: format!("Bearer {token}"),
            session: "s-1",
        }
    }

    async fn post(&self, target: &str, body: &Value) -> Answer {
        let headers = [
            ("authorization", self.bearer.as_str()),
            ("holdpoint-session", self.session),
            ("accept", "application/json, text/event-stream"),
        ];
        self.rig
            .ask(request("POST", target, &headers, body.to_string()))
            .await
    }

    async fn refund(&self) -> Answer {
        self.post("/shop/orders/1/refund", &json!({})).await
    }
}

#[tokio::test]
async fn an_http_tool_asks_for_scopes_agent_and_session() {
    let upstream = Upstream::start(|_| ok("{}")).await;
    let key = Key::ed("a");
    let issuer = Issuer::of(&[&key]).await;
    let rig = rig(&upstream, &issuer, "enforce").await;
    let both = "refund:create orders:read";
    assert_eq!(Caller::new(&rig, &key, both).refund().await.status, 200);
    for scope in [
        "",
        "refund:create",
        "orders:read",
        "refund",
        "REFUND:CREATE orders:read",
    ] {
        let refused = Caller::new(&rig, &key, scope).refund().await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (403, "scope_missing"),
            "{scope}"
        );
    }
    let mut other = Caller::new(&rig, &key, both);
    other.session = "s-2";
    assert_eq!(other.refund().await.code(), "session_mismatch");
    for (change, code) in [
        (json!({"scope": both, "sid": null}), "session_mismatch"),
        (
            json!({"scope": both, "sid": "s-1", "act": {"sub": "bulk"}}),
            "agent_not_allowed",
        ),
        (
            json!({"scope": both, "sid": "s-1", "act": null}),
            "agent_not_allowed",
        ),
    ] {
        let mut caller = Caller::new(&rig, &key, both);
        caller.bearer = format!("Bearer {}", key.token(&change));
        assert_eq!(caller.refund().await.code(), code, "{change}");
    }
    assert_eq!(upstream.received().len(), 1);
    let scrape = rig.scrape().await;
    assert!(
        scrape.contains("layer=\"identity\",mode=\"enforce\""),
        "{scrape}"
    );
}

#[tokio::test]
async fn in_shadow_it_counts_and_changes_nothing() {
    let upstream = Upstream::start(|_| ok("{}")).await;
    let key = Key::ed("a");
    let issuer = Issuer::of(&[&key]).await;
    let rig = rig(&upstream, &issuer, "shadow").await;
    assert_eq!(Caller::new(&rig, &key, "").refund().await.status, 200);
    let scrape = rig.scrape().await;
    let counted =
        |line: &&str| line.contains("layer=\"identity\"") && line.contains("verdict=\"deny\"");
    let line = scrape
        .lines()
        .filter(counted)
        .find(|line| line.contains("shadow"));
    assert!(line.is_some_and(|line| line.ends_with(" 1")), "{line:?}");
}

fn mcp(received: &Received) -> Vec<Step> {
    let body: Value = serde_json::from_slice(&received.body).unwrap();
    let tool = |name: &str| json!({"name": name, "description": "A tool.", "inputSchema": {"type": "object"}});
    let result = match body["method"].as_str() {
        Some("tools/list") => json!({"tools": [tool("send"), tool("list_files")]}),
        _ => json!({"content": [{"type": "text", "text": "done"}]}),
    };
    ok(&json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string())
}

#[tokio::test]
async fn on_mcp_a_tool_is_neither_offered_nor_called_without_its_scope() {
    let upstream = Upstream::start(mcp).await;
    let key = Key::ed("a");
    let issuer = Issuer::of(&[&key]).await;
    let rig = rig(&upstream, &issuer, "enforce").await;
    for (scope, offered, code) in [
        ("mail:send", vec!["send", "list_files"], None),
        ("mail", vec!["list_files"], Some("scope_missing")),
    ] {
        let caller = Caller::new(&rig, &key, scope);
        let message = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let listed = caller
            .post("/files", &message("tools/list", json!({})))
            .await
            .json();
        let tools = listed["result"]["tools"].as_array().unwrap();
        let names: Vec<_> = tools
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, offered);
        let call = message("tools/call", json!({"name": "send", "arguments": {}}));
        let answer = caller.post("/files", &call).await;
        assert_eq!(answer.status, 200);
        let result = &answer.json()["result"];
        let refusal = &result["_meta"]["holdpoint/refusal"]["error"];
        assert_eq!(refusal.as_str(), code, "{result}");
        assert_eq!(result["isError"] == true, code.is_some());
    }
}

fn proposal() -> Vec<Step> {
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "send", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    ok(
        &json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]})
            .to_string(),
    )
}

#[tokio::test]
async fn a_models_proposal_is_judged_for_its_caller() {
    let upstream = Upstream::start(|_| proposal()).await;
    let key = Key::ed("a");
    let issuer = Issuer::of(&[&key]).await;
    let rig = rig(&upstream, &issuer, "enforce").await;
    let ask = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    let passed = Caller::new(&rig, &key, "mail:send")
        .post(CHAT, &ask)
        .await
        .json();
    assert!(
        passed["choices"][0]["message"]["tool_calls"].is_array(),
        "{passed}"
    );
    let refused = Caller::new(&rig, &key, "").post(CHAT, &ask).await.json();
    let message = &refused["choices"][0]["message"];
    assert!(message["tool_calls"].is_null(), "{refused}");
    assert!(
        message["content"]
            .as_str()
            .unwrap()
            .contains("scope_missing"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_token_that_runs_out_during_a_stream_releases_no_more_calls() {
    let gate = Gate::default();
    let wait = gate.clone();
    let call = event(
        "{\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\",\
         \"function\":{\"name\":\"get_order\",\"arguments\":\"{}\"}}]}",
    );
    let upstream = Upstream::start(move |_| {
        vec![
            send(EVENTS),
            chunk(event("{\"content\":\"one\"}")),
            Step::Wait(wait.clone()),
            chunk(&call),
            chunk(end("tool_calls")),
            chunk(""),
        ]
    })
    .await;
    let key = Key::ed("a");
    let issuer = Issuer::of(&[&key]).await;
    let hands = Hands::new();
    let principal = issuer.principal("claims: {session: sid}");
    let config = config(&upstream.url(), &principal);
    let rig = Rig::at(&config, &policy("enforce"), Arc::new(hands.clone())).await;
    for late in [false, true] {
        let bearer = format!("Bearer {}", key.token(&json!({})));
        let ask =
            json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
        let mut client = Client::connect(rig.agents()).await;
        let headers = [("authorization", bearer.as_str())];
        client
            .send(request("POST", CHAT, &headers, ask.to_string()))
            .await;
        client.until("one").await;
        if late {
            hands.forward(3700);
        }
        gate.open();
        let rest = client.until("[DONE]").await;
        assert_eq!(rest.contains("get_order\""), !late, "{rest}");
        assert_eq!(rest.contains("grant_expired"), late, "{rest}");
    }
}

#[tokio::test]
async fn the_session_may_be_the_tokens_own() {
    let upstream = Upstream::start(|_| ok("{}")).await;
    let key = Key::ed("a");
    let issuer = Issuer::of(&[&key]).await;
    let principal = format!("{}\nsession: {{claim: sid}}", issuer.principal(""));
    let rig = Rig::start(&config(&upstream.url(), &principal), &policy("enforce")).await;
    let mut caller = Caller::new(&rig, &key, "refund:create orders:read");
    // Whatever a header says.
    caller.session = "another";
    assert_eq!(caller.refund().await.status, 200);
}
