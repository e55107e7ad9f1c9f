//! Many calls, and calls in disguise.

use holdpoint::store::tickets::{TicketState, Verdict};
use serde_json::{Value, json};

use super::desk::{BOB, Call, Desk, POLICY, Shelf, done, mcp, refund};
use crate::support::upstream::{Received, Step, answer};

pub async fn row_36_a_gated_call_in_a_generic_tool(shelf: &Shelf) {
    let policy = format!(
        "{POLICY}  - tool: http_request
    when:
      - {{at: /method, one_of: [GET, HEAD], else: hold}}
      - {{at: /url, matches: \"https://shop\\\\.example/public/[a-z]*\", else: hold}}
"
    )
    .replace("catalog: off", "catalog: enforce");
    let desk = Desk::with(shelf, &policy, "", done).await;
    let ask = |session, arguments: Value| Call {
        target: "/shop/fetch",
        session,
        ..refund().saying(&arguments.to_string())
    };
    let url = "https://shop.example/public/list";
    assert_eq!(
        desk.ask(&ask("s0", json!({"method": "GET", "url": url})))
            .await
            .status,
        201
    );
    for (session, hidden) in [
        ("s1", json!({"method": "POST", "url": url})),
        ("s2", json!({"method": "post", "url": url})),
        ("s3", json!({"method": "GET\r\nPOST", "url": url})),
        (
            "s4",
            json!({"method": "GET", "url": "https://shop.example/refunds?do=1"}),
        ),
        ("s5", json!({"url": url})),
        ("s6", json!({"method": ["GET"], "url": url})),
    ] {
        let code = desk.code(&ask(session, hidden.clone())).await;
        assert_eq!(code, (403, "approval_required".to_owned()), "{hidden}");
    }
    assert_eq!(desk.reached(), 1);
    in_texts(shelf).await;
}

/// A shell and a database: what is not of a form that is known to read is a write.
async fn in_texts(shelf: &Shelf) {
    let policy = format!(
        "{POLICY}  - {{tool: shell, when: [{{at: /command, one_of: [ls, git status], else: hold}}]}}
  - {{tool: query, when: [{{at: /sql, matches: \"SELECT [a-z_, *]+ FROM [a-z_]+( LIMIT [0-9]+)?\", else: hold}}]}}
"
    )
    .replace("catalog: off", "catalog: enforce");
    let desk = Desk::with(shelf, &policy, "", server).await;
    let ask = |tool: &str, at: &str, text: &str, session: &'static str| Call {
        session,
        ..mcp(super::desk::ANN, 1, tool, json!({ at: text }))
    };
    for (tool, at, text) in [
        ("shell", "command", "git status"),
        ("query", "sql", "SELECT * FROM orders LIMIT 5"),
    ] {
        let done = desk.ask(&ask(tool, at, text, "s0")).await.json();
        assert_eq!(done["result"]["content"][0]["text"], tool, "{done}");
    }
    for (session, tool, at, text) in [
        (
            "s1",
            "shell",
            "command",
            "curl -X POST https://shop.example/refunds",
        ),
        ("s2", "shell", "command", "ls; rm -r ."),
        ("s3", "shell", "command", "ls\nrefund A-1"),
        ("s4", "shell", "cmd", "ls"),
        (
            "s5",
            "query",
            "sql",
            "UPDATE orders SET status = 'refunded'",
        ),
        (
            "s6",
            "query",
            "sql",
            "SELECT id FROM orders; DELETE FROM orders",
        ),
        ("s7", "query", "sql", "SELECT refund(id) FROM orders"),
        // A tool that nobody has described is a write.
        ("s8", "http_fetch", "url", "https://shop.example/refunds"),
    ] {
        let held = super::desk::told(&desk.ask(&ask(tool, at, text, session)).await);
        assert_eq!(held["error"], "approval_required", "{tool} {text}");
    }
    assert_eq!(desk.reached(), 2);
}

pub async fn row_39_a_prepared_row(shelf: &Shelf) {
    // Nobody has said that preparing is harmless: it is held like a write, and a denied one leaves nothing behind.
    let desk = Desk::open(shelf).await;
    let prepare = Call {
        target: "/shop/prepare",
        ..refund()
    };
    let ticket = desk.held(&prepare).await;
    desk.say(&ticket, Verdict::Deny, "boss").await.unwrap();
    assert_eq!(
        desk.code(&prepare).await,
        (403, "approval_denied".to_owned())
    );
    assert_eq!(
        (desk.state(&ticket).await, desk.reached()),
        (TicketState::Denied, 0)
    );
}

pub async fn row_40_a_flood(shelf: &Shelf) {
    let desk = Desk::open(shelf).await;
    let nth = |n: usize, session| Call {
        session,
        ..refund().saying(&format!(r#"{{"order":"A-{n}","amount":1}}"#))
    };
    // Folded, then capped for the session.
    for n in 0..5 {
        for _ in 0..3 {
            assert!(desk.code(&nth(n, "s1")).await.1.starts_with("approval_"));
        }
    }
    let capped = desk.ask(&nth(5, "s1")).await;
    assert_eq!(
        (capped.status, capped.code().as_str()),
        (403, "approval_limit")
    );
    assert_eq!(capped.json()["retry"]["after_s"], 60);
    // And for the user, however many sessions there are.
    for (index, session) in ["s2", "s3", "s4"].into_iter().enumerate() {
        for n in 0..5 {
            let code = desk.code(&nth(10 * (index + 1) + n, session)).await.1;
            assert_eq!(code, "approval_required");
        }
    }
    assert_eq!(desk.code(&nth(99, "s5")).await.1, "approval_limit");
    // A denied call does not ask again and again.
    let first = desk.all().await.pop().unwrap();
    desk.deny(&first.id).await;
    for _ in 0..3 {
        assert_eq!(desk.code(&nth(0, "s1")).await.1, "approval_denied");
    }
    assert_eq!(desk.all().await.len(), 20);
    // Others are not affected.
    let bobs = Call {
        key: BOB,
        session: "s1",
        ..refund()
    };
    let ticket = desk.approved(&bobs).await;
    assert_eq!(desk.ask(&bobs).await.status, 201);
    assert_eq!(desk.state(&ticket).await, TicketState::Succeeded);
    assert_eq!(desk.reached(), 1);
}

/// A server of the revision with batches: what it gets it answers, id by id.
pub fn server(got: &Received) -> Vec<Step> {
    let message: Value = serde_json::from_slice(&got.body).unwrap();
    let text = message["params"]["name"].as_str().unwrap_or_default();
    let body = json!({"jsonrpc": "2.0", "id": message["id"],
        "result": {"content": [{"type": "text", "text": text}]}});
    answer("200 OK", "application/json", body.to_string())
}

pub async fn row_35_a_batch(shelf: &Shelf) {
    let desk = Desk::with(shelf, POLICY, "", server).await;
    let call = |id: u64, tool: &str, arguments: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}})
    };
    let batch = |calls: Vec<Value>| {
        mcp(super::desk::ANN, 0, "", Value::Null)
            .saying(&Value::from(calls).to_string())
            .with("mcp-protocol-version", "2025-03-26")
    };
    let calls = || {
        batch(vec![
            call(1, "get_order", json!({"order_id": "A-1"})),
            call(2, "refund", json!({"order": "A-1", "amount": 1})),
            call(3, "get_order", json!({"order_id": "A-2"})),
        ])
    };
    let answered = desk.ask(&calls()).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    let answers = answered.json();
    let of = |answers: &Value, id: u64| {
        let found = answers
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["id"] == id);
        found.unwrap()["result"].clone()
    };
    assert_eq!(of(&answers, 1)["content"][0]["text"], "get_order");
    assert_eq!(of(&answers, 3)["content"][0]["text"], "get_order");
    let held = of(&answers, 2);
    assert_eq!(held["isError"], true);
    let told = &held["_meta"]["holdpoint/refusal"];
    assert_eq!(told["error"], "approval_required");
    assert_eq!(desk.reached(), 2);
    desk.approve(&super::desk::ticket(told)).await;
    let answers = desk.ask(&calls()).await.json();
    assert_eq!(of(&answers, 2)["content"][0]["text"], "refund");
    assert_eq!(desk.reached(), 5);
    // The same call several times in one batch is one act.
    let thrice = || {
        let twin = |id| call(id, "refund", json!({"order": "A-9", "amount": 2}));
        batch(vec![twin(1), twin(2), twin(3)])
    };
    let asked = desk.ask(&thrice()).await.json();
    let asked = super::desk::ticket(&of(&asked, 1)["_meta"]["holdpoint/refusal"]);
    desk.approve(&asked).await;
    let answers = desk.ask(&thrice()).await.json();
    let done = (1..=3).filter(|id| of(&answers, *id)["isError"] != true);
    assert!(done.count() >= 1, "{answers}");
    assert_eq!(desk.reached(), 6);
    // Later revisions have none.
    let mut later = calls();
    later
        .headers
        .retain(|(name, _)| *name != "mcp-protocol-version");
    let later = later.with("mcp-protocol-version", "2025-06-18");
    assert_eq!(desk.ask(&later).await.status, 400);
    assert_eq!(desk.reached(), 6);
}
