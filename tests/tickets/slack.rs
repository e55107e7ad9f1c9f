//! Slack: what is posted, and what a signed click does. Row 30 of the failure table.

use std::sync::{Arc, Mutex};

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use data_encoding::HEXLOWER;
use holdpoint::store::tickets::{Ticket, TicketState};
use serde_json::{Value, json};

use crate::desk::{Desk, SIGNING, encoded};
use crate::support::client::Answer;
use crate::support::upstream::{Upstream, json as ok};
use crate::world::{Call, answered, refund};

/// Slack's Web API: keeps what is posted.
struct Slack {
    server: Upstream,
    heard: tokio::sync::mpsc::UnboundedReceiver<(String, Value)>,
}

impl Slack {
    async fn start() -> Self {
        let (send, heard) = tokio::sync::mpsc::unbounded_channel();
        let send = Arc::new(Mutex::new(send));
        let server = Upstream::start(move |request| {
            let body = serde_json::from_slice(&request.body).unwrap();
            let target = request.target().to_owned();
            if target.contains("postMessage") {
                assert_eq!(request.header("authorization"), ["Bearer xoxb-token"]);
            }
            send.lock().unwrap().send((target, body)).unwrap();
            ok(r#"{"ok": true}"#)
        })
        .await;
        Self { server, heard }
    }

    async fn next(&mut self) -> (String, Value) {
        self.heard.recv().await.unwrap()
    }

    fn approvers(&self, post: bool) -> String {
        let post = if post {
            format!(
                "post: {{token_env: SLACK_TOKEN, channel: C0APPROVE, api_url: \"{}/api\"}}",
                self.server.url()
            )
        } else {
            String::new()
        };
        format!(
            "
  url: \"http://{{HERE}}\"
  keys:
    - {{subject: carol, key_env: CAROL_KEY, roles: [finance]}}
    - {{subject: ann, key_env: ANN_KEY, roles: [finance]}}
  slack:
    signing_secret_env: SLACK_SIGNING
    users: {{U0CAROL: carol, U0ANN: ann, U0DAVE: {{subject: dave, roles: [oncall]}}}}
    {post}
"
        )
    }
}

fn now(desk: &Desk) -> i64 {
    use holdpoint::clock::Clock;
    desk.world.clock.now().as_second()
}

fn signature(secret: &str, timestamp: i64, body: &str) -> String {
    let key = Key::new(HMAC_SHA256, secret.as_bytes());
    let text = format!("v0:{timestamp}:{body}");
    format!(
        "v0={}",
        HEXLOWER.encode(sign(&key, text.as_bytes()).as_ref())
    )
}

fn click(user: &str, action: &str, value: &str, answer_to: &str) -> String {
    let payload = json!({
        "type": "block_actions",
        "user": {"id": user, "username": "carol"},
        "actions": [{"type": "button", "action_id": action, "value": value}],
        "response_url": answer_to,
    });
    encoded(&[("payload", &payload.to_string())])
}

async fn send(desk: &Desk, body: &str, timestamp: i64, signed: &str) -> Answer {
    let timestamp = timestamp.to_string();
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("x-slack-request-timestamp", timestamp.as_str()),
        ("x-slack-signature", signed),
    ];
    desk.ask("POST", "/slack/actions", &headers, body).await
}

async fn signed(desk: &Desk, body: &str) -> Answer {
    let at = now(desk);
    send(desk, body, at, &signature(SIGNING, at, body)).await
}

fn value(ticket: &Ticket) -> String {
    format!("{} {}", ticket.id, &ticket.digest.to_string()[..16])
}

#[tokio::test]
async fn a_request_is_posted_with_all_that_it_asks() {
    let mut slack = Slack::start().await;
    let desk = Desk::new(&slack.approvers(true)).await;
    let call = Call {
        args: "{\"order\":\"<!channel> A\u{202e}1\",\"amount\":5}".to_owned(),
        ..refund()
    };
    let id = desk.world.send(&call).await.ticket();
    let ticket = desk.world.store.get(id).await.unwrap().unwrap();
    let (target, message) = slack.next().await;
    assert_eq!(target, "POST /api/chat.postMessage");
    assert_eq!(message["channel"], "C0APPROVE");
    let blocks = message["blocks"].as_array().unwrap();
    let buttons = blocks.last().unwrap()["elements"].as_array().unwrap();
    let actions: Vec<_> = buttons
        .iter()
        .map(|it| it["action_id"].as_str().unwrap())
        .collect();
    assert_eq!(
        actions,
        ["holdpoint_approve", "holdpoint_deny", "holdpoint_open"]
    );
    assert_eq!(buttons[0]["value"], value(&ticket));
    assert_eq!(
        buttons[2]["url"],
        format!("http://{}/tickets/{}", desk.address, ticket.id)
    );
    let mut shown = String::new();
    for block in blocks {
        if let Some(text) = block.get("text") {
            // Nothing of an agent's is markup: no mention, no link.
            assert_eq!(text["type"], "plain_text");
            shown.push_str(text["text"].as_str().unwrap());
            shown.push('\n');
        }
    }
    for part in [
        "refund",
        "For: ann (issuer config, tenant acme), agent bot",
        "Arguments, 2 in all:",
        "/amount: 5",
        "A\\u{202e}1",
        &ticket.digest.to_string()[..16],
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains('\u{202e}'));
    assert!(!message["text"].as_str().unwrap().contains('<'));
}

#[tokio::test]
async fn what_does_not_fit_cannot_be_approved_there() {
    let mut slack = Slack::start().await;
    let desk = Desk::new(&slack.approvers(true)).await;
    let mut args = serde_json::Map::new();
    args.insert("order".to_owned(), json!("A-1"));
    for index in 0..600 {
        args.insert(format!("line_{index}"), json!("x".repeat(60)));
    }
    let call = Call {
        args: Value::from(args).to_string(),
        ..refund()
    };
    desk.world.send(&call).await.ticket();
    let (_, message) = slack.next().await;
    let text = message.to_string();
    assert!(text.contains("Arguments, 601 in all:"));
    assert!(text.contains("cannot be approved here"));
    assert!(!text.contains("holdpoint_approve") && text.contains("holdpoint_deny"));
    for block in message["blocks"].as_array().unwrap() {
        let length = block["text"]["text"]
            .as_str()
            .map_or(0, |text| text.chars().count());
        assert!(length <= 3000, "{length}");
    }
    assert!(message["blocks"].as_array().unwrap().len() <= 50);
}

#[tokio::test]
async fn a_click_answers_once_and_a_second_one_does_nothing() {
    let mut slack = Slack::start().await;
    let desk = Desk::new(&slack.approvers(true)).await;
    let ticket = desk.waiting().await;
    slack.next().await;
    let to = format!("{}/api/response", slack.server.url());
    let body = click("U0CAROL", "holdpoint_approve", &value(&ticket), &to);
    assert_eq!(signed(&desk, &body).await.status, 200);
    let (target, told) = slack.next().await;
    assert_eq!(target, "POST /api/response");
    assert!(
        told["text"].as_str().unwrap().contains("is approved"),
        "{told}"
    );
    let stored = desk
        .world
        .store
        .get(ticket.id.clone())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stored.state, TicketState::Approved);
    assert_eq!(stored.votes[0].channel.as_str(), "slack");
    assert_eq!(stored.votes[0].by.subject, "carol");

    // The same request once more: replayed, or clicked twice.
    assert_eq!(signed(&desk, &body).await.status, 200);
    slack.next().await;
    let claim = desk.world.send(&refund()).await.claim();
    let outcome = answered(&ticket.id, 200, "{}");
    claim.finish(outcome).await.unwrap();
    assert_eq!(signed(&desk, &body).await.status, 200);
    let (_, told) = slack.next().await;
    assert!(
        told["text"].as_str().unwrap().contains("did nothing"),
        "{told}"
    );
    let stored = desk
        .world
        .store
        .get(ticket.id.clone())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (stored.state, stored.votes.len()),
        (TicketState::Succeeded, 1)
    );
}

#[tokio::test]
async fn who_may_not_answer_is_told_so_and_nothing_changes() {
    let mut slack = Slack::start().await;
    let desk = Desk::new(&slack.approvers(true)).await;
    let ticket = desk.waiting().await;
    slack.next().await;
    let to = format!("{}/api/response", slack.server.url());
    let other = format!("{} {}", ticket.id, "0".repeat(16));
    for (user, action, value, part) in [
        (
            "U0ANN",
            "holdpoint_approve",
            value(&ticket),
            "nobody approves an own request",
        ),
        (
            "U0DAVE",
            "holdpoint_approve",
            value(&ticket),
            "needs the role",
        ),
        ("U0DAVE", "holdpoint_deny", value(&ticket), "needs the role"),
        (
            "U0NOBODY",
            "holdpoint_approve",
            value(&ticket),
            "not in the table",
        ),
        (
            "carol",
            "holdpoint_approve",
            value(&ticket),
            "not in the table",
        ),
        ("U0CAROL", "holdpoint_approve", other, "digest"),
    ] {
        let body = click(user, action, &value, &to);
        assert_eq!(signed(&desk, &body).await.status, 200);
        let (_, told) = slack.next().await;
        assert!(
            told["text"].as_str().unwrap().contains(part),
            "{user}: {told}"
        );
    }
    for body in [
        click("U0CAROL", "holdpoint_open", &value(&ticket), &to),
        click("U0CAROL", "holdpoint_approve", "no space", &to),
        encoded(&[("payload", "{}")]),
        "payload=not+json".to_owned(),
    ] {
        assert_eq!(signed(&desk, &body).await.status, 200, "{body}");
    }
    assert_eq!(desk.world.state(&ticket.id).await, TicketState::Requested);
    assert!(desk.counted("holdpoint_slack_clicks_total{outcome=\"unknown_user\"} 2"));
}

#[tokio::test]
async fn a_forged_or_stale_request_is_401() {
    let slack = Slack::start().await;
    let desk = Desk::new(&slack.approvers(false)).await;
    let ticket = desk.waiting().await;
    let body = click("U0CAROL", "holdpoint_approve", &value(&ticket), "");
    let at = now(&desk);
    let good = signature(SIGNING, at, &body);
    let denial = click("U0CAROL", "holdpoint_deny", &value(&ticket), "");
    for (what, body, timestamp, signature) in [
        (
            "another secret",
            &body,
            at,
            signature("another secret of somebody", at, &body),
        ),
        ("another body", &denial, at, good.clone()),
        ("another time", &body, at + 1, good.clone()),
        ("old", &body, at - 301, signature(SIGNING, at - 301, &body)),
        (
            "of the future",
            &body,
            at + 301,
            signature(SIGNING, at + 301, &body),
        ),
        ("none", &body, at, String::new()),
        ("another version", &body, at, good.replace("v0=", "v1=")),
    ] {
        let answer = send(&desk, body, timestamp, &signature).await;
        assert_eq!(answer.status, 401, "{what}");
    }
    assert_eq!(desk.world.state(&ticket.id).await, TicketState::Requested);
    assert!(desk.counted("holdpoint_approver_refused_total{reason=\"slack_signature\"} 7"));
    // What was good grows stale.
    desk.world
        .clock
        .forward(std::time::Duration::from_secs(301));
    assert_eq!(send(&desk, &body, at, &good).await.status, 401);
    assert_eq!(signed(&desk, &body).await.status, 200);
    assert_eq!(desk.world.state(&ticket.id).await, TicketState::Approved);
}

#[tokio::test]
async fn without_slack_there_is_no_such_door() {
    let desk = Desk::new(crate::desk::KEYS).await;
    assert_eq!(
        send(&desk, "payload={}", now(&desk), "v0=00").await.status,
        404
    );
}
