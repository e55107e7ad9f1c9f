//! What a session sends to one host with its calls: never more than the budget, on every route, whatever comes at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use holdpoint::clock::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::client::{Answer, ask, request};
use crate::support::rig::Rig;
use crate::support::upstream::{Upstream, json as answer};

const POLICY: &str = "version: 1
name: budgets
layers: {catalog: off, identity: off, egress: enforce, recipients: off, ownership: off, injection: off, tickets: off}
lists:
  ours: {hosts: [hooks.example, other.example, \"*.cdn.example\"]}
tools:
  - tool: post
    egress: [{at: /url, allow: [ours], budget: {bytes: 2KiB, window: 1h}}]
  - tool: report
    egress: [{at: /url, allow: [ours], budget: {bytes: 2KiB, per: principal}}]
  - tool: tell
    egress: [{at: /url, allow: [ours], budget: {entropy: 600B}}]
  - {tool: \"*\", effect: read}
";

fn config(upstream: &str) -> String {
    format!(
        "upstreams: {{up: {{url: \"{upstream}\"}}}}
routes:
  - {{name: server, prefix: /srv, upstream: up, protocol: mcp}}
  - name: shop
    prefix: /shop
    upstream: up
    protocol: http_tools
    tools: [{{method: POST, path: \"/{{tool}}\"}}]
principal: {{fixed: {{tenant: t, subject: ann, agent: bot}}}}
"
    )
}

/// Hours since some day.
struct Hours(AtomicI64);

impl Clock for Hours {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + 3600 * self.0.load(Ordering::SeqCst)).unwrap()
    }
}

struct World {
    rig: Rig,
    upstream: Upstream,
    clock: Arc<Hours>,
}

impl World {
    async fn new() -> Self {
        let upstream = Upstream::start(|request| {
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let result = json!({"content": [{"type": "text", "text": "done"}]});
            answer(&json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string())
        })
        .await;
        let clock = Arc::new(Hours(AtomicI64::new(0)));
        let rig = Rig::at(&config(&upstream.url()), POLICY, Arc::clone(&clock) as _).await;
        Self {
            rig,
            upstream,
            clock,
        }
    }

    async fn http(&self, session: &str, tool: &str, host: &str, text: &str) -> Answer {
        self.rig.ask(http(session, tool, host, text)).await
    }

    /// Whether the server got the call.
    async fn mcp(&self, session: &str, tool: &str, host: &str, text: &str) -> bool {
        let args = json!({"url": format!("https://{host}/"), "text": text});
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": args}});
        let headers = [
            ("accept", "application/json, text/event-stream"),
            ("holdpoint-session", session),
        ];
        let request = request("POST", "/srv/mcp", &headers, call.to_string());
        let said = self.rig.ask(request).await.json();
        if said["result"]["isError"] == true {
            assert!(said.to_string().contains("budget_exceeded"), "{said}");
            return false;
        }
        true
    }

    /// Bytes of texts that have arrived.
    fn arrived(&self) -> usize {
        let received = self.upstream.received();
        let texts = received.iter().map(|request| {
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let text = body["text"].as_str();
            let text = text.or_else(|| body["params"]["arguments"]["text"].as_str());
            text.unwrap_or_default().len()
        });
        texts.sum()
    }
}

fn http(session: &str, tool: &str, host: &str, text: &str) -> Vec<u8> {
    let args = json!({"url": format!("https://{host}/"), "text": text});
    let headers = [("holdpoint-session", session)];
    request("POST", &format!("/shop/{tool}"), &headers, args.to_string())
}

#[tokio::test]
async fn calls_over_http_and_mcp_share_the_budget_of_their_session() {
    let world = World::new().await;
    let text = "x".repeat(400);
    assert_eq!(
        world
            .http("s1", "post", "hooks.example", &text)
            .await
            .status,
        200
    );
    assert!(world.mcp("s1", "post", "hooks.example", &text).await);
    let mut over = 0;
    for _ in 0..4 {
        let got = world.http("s1", "post", "hooks.example", &text).await;
        if got.status == 200 {
            continue;
        }
        assert_eq!((got.status, &*got.code()), (403, "budget_exceeded"));
        over += 1;
        assert!(!world.mcp("s1", "post", "hooks.example", &text).await);
    }
    assert!(over > 0);
    assert!(
        world.arrived() <= 2048 && world.arrived() >= 800,
        "{}",
        world.arrived()
    );
    // Another session and another host have room; in an hour there is room again.
    assert_eq!(
        world
            .http("s2", "post", "hooks.example", &text)
            .await
            .status,
        200
    );
    assert_eq!(
        world
            .http("s1", "post", "other.example", &text)
            .await
            .status,
        200
    );
    world.clock.0.store(1, Ordering::SeqCst);
    assert_eq!(
        world
            .http("s1", "post", "hooks.example", &text)
            .await
            .status,
        403
    );
    world.clock.0.store(2, Ordering::SeqCst);
    assert_eq!(
        world
            .http("s1", "post", "hooks.example", &text)
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn calls_at_once_never_pass_it_together() {
    let world = World::new().await;
    let agents = world.rig.agents();
    let mut calls = JoinSet::new();
    for _ in 0..40 {
        let call = http("s1", "post", "hooks.example", &"x".repeat(300));
        calls.spawn(ask(agents, call));
    }
    let answers = calls.join_all().await;
    let passed = answers.iter().filter(|answer| answer.status == 200).count();
    assert!(passed > 2, "{passed}");
    assert_eq!(world.arrived(), passed * 300);
    assert!(world.arrived() <= 2048);
    // Whether it was the first look or the last step that said no: the words are the same.
    for refused in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!((refused.status, &*refused.code()), (403, "budget_exceeded"));
    }
}

#[tokio::test]
async fn a_budget_of_the_principal_does_not_begin_anew_with_a_session() {
    let world = World::new().await;
    let text = "x".repeat(400);
    for session in 0..8 {
        let session = format!("s{session}");
        world.http(&session, "report", "hooks.example", &text).await;
        world.mcp(&session, "report", "hooks.example", &text).await;
    }
    assert!(
        world.arrived() <= 2048 && world.arrived() >= 800,
        "{}",
        world.arrived()
    );
}

#[tokio::test]
async fn names_below_one_wildcard_are_one_place() {
    let world = World::new().await;
    let text = "x".repeat(400);
    for n in 0..8 {
        let host = format!("n{n}.cdn.example");
        world.http("s1", "post", &host, &text).await;
    }
    assert!(
        world.arrived() <= 2048 && world.arrived() >= 800,
        "{}",
        world.arrived()
    );
}

#[tokio::test]
async fn headers_count_and_files_count_by_their_size() {
    let world = World::new().await;
    let long = "y".repeat(2100);
    let headers = [("holdpoint-session", "s1"), ("x-note", long.as_str())];
    let args = json!({"url": "https://hooks.example/"}).to_string();
    let got = world
        .rig
        .ask(request("POST", "/shop/post", &headers, args))
        .await;
    assert_eq!(got.code(), "budget_exceeded");
    // A file of bytes that are no text is told by its size alone.
    let part = |name: &str, rest: &str, body: &[u8]| {
        let head = format!("--b\r\ncontent-disposition: form-data; name=\"{name}\"{rest}\r\n\r\n");
        [head.as_bytes(), body, b"\r\n"].concat()
    };
    let send = async |size: usize| {
        let body = [
            part("url", "", b"https://hooks.example/"),
            part("doc", "; filename=\"a.bin\"", &vec![0xff; size]),
            b"--b--\r\n".to_vec(),
        ]
        .concat();
        let headers = [
            ("content-type", "multipart/form-data; boundary=b"),
            ("holdpoint-session", "s2"),
        ];
        world
            .rig
            .ask(request("POST", "/shop/post", &headers, body))
            .await
    };
    assert_eq!(send(4000).await.code(), "budget_exceeded");
    assert_eq!(send(500).await.status, 200);
}

#[tokio::test]
async fn what_tells_little_costs_little() {
    let world = World::new().await;
    let random: String = (0..900_u32)
        .map(|n| char::from(b'0' + u8::try_from(n.wrapping_mul(2_654_435_761) >> 20 & 63).unwrap()))
        .filter(char::is_ascii_alphanumeric)
        .collect();
    assert_eq!(
        world
            .http("s1", "tell", "hooks.example", &"a".repeat(20_000))
            .await
            .status,
        200
    );
    assert_eq!(
        world
            .http("s2", "tell", "hooks.example", &random)
            .await
            .status,
        403
    );
}
