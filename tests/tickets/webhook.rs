//! Webhooks: signed, in order, at least once, and to nobody else.

use std::sync::{Arc, Mutex};

use aws_lc_rs::hmac::{HMAC_SHA256, Key, verify};
use data_encoding::HEXLOWER;
use holdpoint::settings::{self, Overrides};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::desk::{Desk, HOOK, PRINCIPAL, config, environment};
use crate::support::upstream::{Received, Upstream, answer, json as ok};
use crate::world::{Call, refund};

struct Receiver {
    server: Upstream,
    heard: UnboundedReceiver<Received>,
}

impl Receiver {
    /// Fails the first `failures` deliveries.
    async fn start(failures: usize) -> Self {
        let (send, heard) = unbounded_channel();
        let state = Arc::new(Mutex::new((send, failures)));
        let server = Upstream::start(move |request| {
            let mut state = state.lock().unwrap();
            state.0.send(request.clone()).unwrap();
            if state.1 > 0 {
                state.1 -= 1;
                return answer("500 Internal Server Error", "text/plain", "later");
            }
            ok("{}")
        })
        .await;
        Self { server, heard }
    }

    fn approvers(&self, more: &str) -> String {
        format!(
            "
  url: https://approve.example
  keys: [{{subject: carol, key_env: CAROL_KEY, roles: [finance]}}]
  webhooks: [{{name: desk, url: \"{}/hook?x=1\", secret_env: HOOK_SECRET, private: true{more}}}]
",
            self.server.url()
        )
    }

    /// The next event, as a receiver reads it.
    async fn next(&mut self) -> (Received, Value) {
        let request = self.heard.recv().await.unwrap();
        let timestamp = request.header("holdpoint-timestamp")[0].to_owned();
        let signature = request.header("holdpoint-signature")[0].to_owned();
        let signature = HEXLOWER
            .decode(signature.strip_prefix("v1=").unwrap().as_bytes())
            .unwrap();
        let key = Key::new(HMAC_SHA256, HOOK.as_bytes());
        let text = format!("{timestamp}.{}", request.text());
        verify(&key, text.as_bytes(), &signature).unwrap();
        let event: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(
            request.header("holdpoint-event-id"),
            [event["id"].as_str().unwrap()]
        );
        (request, event)
    }
}

#[tokio::test]
async fn events_come_signed_in_order_and_without_arguments() {
    let mut receiver = Receiver::start(0).await;
    let desk = Desk::new(&receiver.approvers("")).await;
    let call = Call {
        args: r#"{"order":"A-1","amount":5,"card":"4111-secret"}"#.to_owned(),
        ..refund()
    };
    let ticket = desk.world.done(&call, 200).await;
    let mut kinds = Vec::new();
    let mut ids = Vec::new();
    for _ in 0..4 {
        let (request, event) = receiver.next().await;
        assert_eq!(request.target(), "POST /hook?x=1");
        assert_eq!(event["ticket"]["id"], ticket.as_str());
        assert_eq!(event["ticket"]["summary"], "Refund 5 on order A-1");
        assert_eq!(
            event["ticket"]["url"],
            format!("https://approve.example/tickets/{ticket}")
        );
        assert_eq!(event["ticket"]["principal"]["subject"], "ann");
        assert!(!request.text().contains("4111-secret"), "{event}");
        kinds.push(event["type"].as_str().unwrap().to_owned());
        ids.push(event["id"].clone());
    }
    assert_eq!(kinds, ["requested", "approved", "claimed", "succeeded"]);
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert!(
        desk.counted("holdpoint_webhook_deliveries_total{outcome=\"failed\",webhook=\"desk\"} 0")
    );
}

#[tokio::test]
async fn what_is_not_taken_comes_again_before_anything_later() {
    let mut receiver = Receiver::start(2).await;
    let desk = Desk::new(&receiver.approvers(", events: [requested, denied]")).await;
    let ticket = desk.waiting().await;
    desk.world.deny(&ticket.id).await;
    let mut events = Vec::new();
    for _ in 0..4 {
        let (_, event) = receiver.next().await;
        events.push((
            event["type"].as_str().unwrap().to_owned(),
            event["id"].clone(),
        ));
    }
    let kinds: Vec<_> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["requested", "requested", "requested", "denied"]);
    assert_eq!(events[0].1, events[2].1, "the same event has the same id");
    assert!(
        desk.counted("holdpoint_webhook_deliveries_total{outcome=\"failed\",webhook=\"desk\"} 2")
    );
}

#[tokio::test]
async fn a_follower_goes_on_where_it_was() {
    let mut receiver = Receiver::start(0).await;
    let desk = Desk::new(&receiver.approvers("")).await;
    let ticket = desk.waiting().await;
    let (_, first) = receiver.next().await;
    assert_eq!(first["type"], "requested");
    while desk
        .world
        .store
        .cursor("webhook:desk".to_owned())
        .await
        .unwrap()
        == 0
    {
        tokio::task::yield_now().await;
    }
    let at = desk
        .world
        .store
        .cursor("webhook:desk".to_owned())
        .await
        .unwrap();
    assert_eq!(at, first["seq"].as_u64().unwrap());
    desk.world.deny(&ticket.id).await;
    let (_, second) = receiver.next().await;
    assert_eq!(second["type"], "denied");
}

#[tokio::test]
async fn of_two_processes_one_tells() {
    let mut receiver = Receiver::start(0).await;
    let approvers = receiver.approvers("");
    let mut desk = Desk::new(&approvers).await;
    desk.also_follow(&approvers);
    let mut ids = Vec::new();
    for order in 0..5 {
        let call = Call {
            args: format!(r#"{{"order":"A-{order}","amount":5}}"#),
            session: Some(format!("s{order}")),
            ..refund()
        };
        let ticket = desk.world.send(&call).await.ticket();
        desk.world.deny(&ticket).await;
    }
    for _ in 0..10 {
        ids.push(receiver.next().await.1["seq"].as_u64().unwrap());
    }
    assert_eq!(ids, (1..=10).collect::<Vec<_>>());
    while desk
        .world
        .store
        .cursor("webhook:desk".to_owned())
        .await
        .unwrap()
        < 10
    {
        tokio::task::yield_now().await;
    }
    assert!(receiver.heard.try_recv().is_err(), "nothing came twice");
}

/// Whoever names an address inside must say so, and no name leads there otherwise.
#[test]
fn a_private_address_must_be_meant() {
    let read = |url: &str, more: &str| {
        let approvers = format!(
            "\n  keys: [{{subject: carol, key_env: CAROL_KEY}}]\n  webhooks: [{{name: desk, url: \"{url}\", secret_env: HOOK_SECRET{more}}}]\n"
        );
        let text = config(&approvers, PRINCIPAL);
        settings::parse("c.yaml", &text, &Overrides::default(), &environment())
            .map(drop)
            .map_err(|problems| problems.to_string())
    };
    for url in [
        "https://10.0.0.7/hook",
        "https://192.168.1.1/hook",
        "https://[fd00::1]/hook",
        "https://169.254.169.254/latest",
        "http://localhost:9000/hook",
        "https://hooks.internal/hook",
        "https://hooks/hook",
    ] {
        let error = read(url, "").unwrap_err();
        assert!(
            error.contains("private address") && error.contains("c.yaml:"),
            "{url}: {error}"
        );
        read(url, ", private: true").unwrap();
    }
    read("https://hooks.shop.example/hook", "").unwrap();
    for url in [
        "http://hooks.shop.example/hook",
        "https://user:pass@hooks.shop.example/",
        "ftp://x.example/",
    ] {
        let error = read(url, "").unwrap_err();
        assert!(error.contains("`https`"), "{url}: {error}");
    }
}

/// The receiver of the page takes what is sent, and nothing else.
#[tokio::test]
async fn the_snippet_of_the_page_tells_ours_from_forged() {
    let python = std::process::Command::new("python3")
        .arg("--version")
        .output();
    if python.is_err() {
        eprintln!("skipped: there is no python3");
        return;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/approvers.md");
    let page = std::fs::read_to_string(page).unwrap();
    let snippet = page.split("```python\n").nth(1).unwrap();
    let snippet = snippet.split("```").next().unwrap();
    let mut receiver = Receiver::start(0).await;
    let desk = Desk::new(&receiver.approvers("")).await;
    desk.waiting().await;
    let (request, _) = receiver.next().await;
    let timestamp = request.header("holdpoint-timestamp")[0];
    let signature = request.header("holdpoint-signature")[0];
    // The desk's clock stands still; so does the snippet's.
    let check = format!(
        "{snippet}
import json, sys
body = sys.stdin.buffer.read()
headers = {{'holdpoint-timestamp': '{timestamp}', 'holdpoint-signature': '{signature}'}}
secret = b'{HOOK}'
time.time = lambda: {timestamp} + 300
assert is_from_holdpoint(secret, headers, body)
assert not is_from_holdpoint(b'another', headers, body)
assert not is_from_holdpoint(secret, headers, body + b' ')
assert not is_from_holdpoint(secret, {{}}, body)
time.time = lambda: {timestamp} + 301
assert not is_from_holdpoint(secret, headers, body)
"
    );
    let folder = tempfile::tempdir().unwrap();
    let (script, body) = (folder.path().join("check.py"), folder.path().join("body"));
    std::fs::write(&script, check).unwrap();
    std::fs::write(&body, &request.body).unwrap();
    let output = std::process::Command::new("python3")
        .arg(&script)
        .stdin(std::fs::File::open(&body).unwrap())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
