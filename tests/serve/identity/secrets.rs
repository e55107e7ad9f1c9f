//! Placeholders: the agent writes a name, the upstream reads the secret, and nobody else ever does.

use serde_json::json;

use crate::streams::{ASK, CHAT, end, text};
use crate::support::client::{Client, request};
use crate::support::rig::{OFF, Rig, config};
use crate::support::upstream::{EVENTS, Received, Step, Upstream, answer, chunk, json as ok, send};

const SECRET: &str = "ghp_the-secret-of-git";
const PLACED: &str = "{{holdpoint:git_token}}";

fn secrets(more: &str) -> String {
    format!("secrets: {{git_token: {{value_env: GIT_TOKEN, upstreams: [shop]{more}}}}}")
}

/// Says back what it got.
fn echo(received: &Received) -> Vec<Step> {
    let body = json!({"head": received.head, "body": received.text()}).to_string();
    let mut steps = answer("200 OK", "application/json", body);
    let extra = received.header("x-token").join(",");
    if let Some(Step::Send(bytes)) = steps.first_mut() {
        let head = format!("HTTP/1.1 200 OK\r\nx-echo: {extra}\r\n");
        bytes.splice(.."HTTP/1.1 200 OK\r\n".len(), head.into_bytes());
    }
    steps
}

#[tokio::test]
async fn the_upstream_reads_the_secret_and_the_agent_its_name() {
    let upstream = Upstream::start(echo).await;
    let rig = Rig::before(&upstream.url(), &secrets(", in: [header, query, body]")).await;
    let header = format!("token {PLACED}");
    let headers = [("x-token", header.as_str())];
    let body = json!({"note": format!("with {PLACED}")}).to_string();
    let target = format!("/shop/orders/1/refund?key={PLACED}");
    let answer = rig.ask(request("POST", &target, &headers, body)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let sent = upstream.only();
    assert_eq!(sent.header("x-token"), [format!("token {SECRET}")]);
    assert_eq!(
        sent.text(),
        json!({"note": format!("with {SECRET}")}).to_string()
    );
    let query = sent.target().split_once('?').unwrap().1;
    assert_eq!(query, "key=ghp%5Fthe%2Dsecret%2Dof%2Dgit");
    // Echoed in a header and in the body, and taken out of both.
    assert!(
        !answer.head.contains(SECRET) && !answer.text().contains(SECRET),
        "{answer:?}"
    );
    assert_eq!(answer.header("x-echo"), Some(header.as_str()));
    assert!(answer.text().contains(PLACED));
}

#[tokio::test]
async fn a_placeholder_goes_nowhere_else() {
    let upstream = Upstream::start(|_| ok("{}")).await;
    let rig = Rig::before(&upstream.url(), &secrets("")).await;
    let body = json!({"note": PLACED}).to_string();
    let query = format!("/shop/orders/1?key={PLACED}");
    for (method, target, header, body) in [
        // Another upstream, whatever the host in it.
        ("GET", "/openai/v1/models", PLACED, ""),
        ("GET", "/shop/orders/1", "{{holdpoint:other}}", ""),
        ("GET", query.as_str(), "-", ""),
        ("POST", "/shop/orders/1/refund", "-", body.as_str()),
    ] {
        let refused = rig
            .ask(request(method, target, &[("x-token", header)], body))
            .await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (403, "secret_refused"),
            "{target}"
        );
    }
    assert!(upstream.received().is_empty());
    // A model is told of placeholders in its prompt.
    let ask = json!({"model": "m", "messages": [{"role": "user", "content": PLACED}]}).to_string();
    let _ = rig.ask(request("POST", CHAT, &[], &ask)).await;
    assert_eq!(upstream.only().text(), ask);
}

#[tokio::test]
async fn a_credential_that_comes_back_in_a_stream_is_taken_out_at_any_cut() {
    let upstream = Upstream::start(|_| {
        let mut steps = vec![send(EVENTS)];
        let events = format!("{}{}", text("your key is upstream-secret."), end("stop"));
        steps.extend(events.as_bytes().chunks(7).map(chunk));
        steps.push(chunk(""));
        steps
    })
    .await;
    let rig = Rig::start(&config(&upstream.url(), ""), OFF).await;
    let mut client = Client::connect(rig.agents()).await;
    client.send(request("POST", CHAT, &[], ASK)).await;
    let said = client.until("[DONE]").await;
    assert!(
        said.contains("your key is [holdpoint: credential withheld]."),
        "{said}"
    );
    assert!(!said.contains("upstream-secret"));
}
