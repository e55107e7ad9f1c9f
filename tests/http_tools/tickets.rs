//! A ticket binds every argument of a call, wherever it stands, and a file by its bytes.

use serde_json::{Value, json};

use crate::desk::{Desk, FORM, file, multipart_type, named, parts};
use crate::support::client::{Answer, ask, request};
use crate::support::rig::Rig;
use crate::support::upstream::{Upstream, json as json_answer};

const TICKETS: &str = "version: 1
name: tickets
layers: {catalog: off, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: enforce}
tools:
  - {tool: send, ticket: {gate: approve, role: oncall, ttl: 15m, summary: \"Send to {/to} for {/X-Account}\"}}
  - {tool: upload, ticket: {gate: approve, role: oncall, ttl: 15m, summary: \"Upload {/doc/filename}\"}}
  - {tool: '*', effect: read}
";

const STORE: &str = "tickets: {store: tickets.db}
listen: {approvers: \"127.0.0.1:1\"}
approvers:
  - {subject: boss, key_env: APPROVER_KEY, roles: [oncall]}";

/// Approves what is held, and gives it as the approver saw it.
async fn approve(desk: &Desk, held: &Answer) -> Value {
    assert_eq!(
        (held.status, held.code().as_str()),
        (403, "approval_required"),
        "{held:?}"
    );
    let problem = held.json();
    let ticket = problem["request_id"].as_str().unwrap();
    let address = desk.rig.running().addresses().approvers.unwrap();
    let key = [("authorization", "Bearer an-approver-key-of-some-length")];
    let target = format!("/v1/tickets/{ticket}");
    let shown = ask(address, request("GET", &target, &key, "")).await.json();
    let prefix = &shown["digest"].as_str().unwrap()[..12];
    let body = format!("{{\"digest_prefix\":\"{prefix}\"}}");
    let target = format!("{target}/approve");
    let answered = ask(address, request("POST", &target, &key, body)).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    shown
}

#[tokio::test]
async fn a_form_and_headers_are_sent_in_their_stored_form() {
    let desk = Desk::start(TICKETS, STORE).await;
    let headers = [FORM, ("x-account", "A-1")];
    let send =
        |headers, body: &'static str| request("POST", "/desk/send?cc=x&cc=y%20z", headers, body);
    let held = desk.rig.ask(send(&headers, "to=%61nn&note=a+b%26c")).await;
    assert_eq!(held.json()["summary"], "Send to ann for A-1");
    approve(&desk, &held).await;
    for other in [
        send(&[FORM, ("x-account", "A-2")], "to=ann&note=a+b%26c"),
        send(&[FORM], "to=ann&note=a+b%26c"),
        send(&headers, "to=ann&note=a+b&c"),
        send(&headers, "to=ann&to=bob&note=a+b%26c"),
    ] {
        assert_eq!(desk.refused(other).await.1, "approval_required");
    }
    let spelled = desk.rig.ask(send(&headers, "note=a%20b%26c&to=ann")).await;
    assert_eq!(spelled.status, 200, "{spelled:?}");
    let got = desk.upstream.only();
    assert_eq!(got.target(), "POST /send?cc=x&cc=y%20z");
    assert_eq!(got.text(), "note=a%20b%26c&to=ann");
    assert_eq!(got.header("content-type"), [FORM.1]);
    assert_eq!(got.header("x-account"), ["A-1"]);
    let again = desk.rig.ask(send(&headers, "to=ann&note=a+b%26c")).await;
    assert_eq!(again.header("holdpoint-replayed"), Some("true"));
}

#[tokio::test]
async fn a_file_is_bound_by_its_bytes() {
    let desk = Desk::start(TICKETS, STORE).await;
    let content_type = multipart_type();
    let upload = |content: &str, note: &str, filename: &str| {
        let body = parts(&[
            (&named("note"), note),
            (&file("doc", filename, "application/pdf"), content),
        ]);
        let headers = [("content-type", content_type.as_str())];
        (request("POST", "/desk/folders/in", &headers, &body), body)
    };
    let (sent, body) = upload("\u{0}%PDF-1", "n", "a.pdf");
    let held = desk.rig.ask(&sent).await;
    assert_eq!(held.json()["summary"], "Upload a.pdf");
    let shown = approve(&desk, &held).await;
    let hash = holdpoint::store::tickets::digest::sha256_hex(b"\0%PDF-1");
    assert!(shown.to_string().contains(&hash), "{shown}");
    for (other, _) in [
        upload("\u{0}%PDF-2", "n", "a.pdf"),
        upload("\u{0}%PDF-1", "m", "a.pdf"),
        upload("\u{0}%PDF-1", "n", "b.pdf"),
    ] {
        assert_eq!(desk.refused(other).await.1, "approval_required");
    }
    let done = desk.rig.ask(&sent).await;
    assert_eq!((done.status, done.json()), (200, json!({"ok": true})));
    assert_eq!(desk.upstream.only().body, body.as_bytes());
}

/// A document with two operations, whose words a test chooses.
fn document(refund: &str, find: &str) -> String {
    format!(
        "openapi: 3.0.3
info: {{title: Shop, version: '1'}}
paths:
  /refund:
    post:
      operationId: refund
      summary: {refund}
      requestBody: {{$ref: '#/components/requestBodies/Refund'}}
      responses: {{201: {{description: done}}}}
  /find:
    get:
      operationId: find
      summary: {find}
      responses: {{200: {{description: found}}}}
components:
  requestBodies:
    Refund: {{content: {{application/json: {{schema: {{type: object}}}}}}}}
"
    )
}

#[tokio::test]
async fn an_approval_is_bound_to_the_operation_as_its_document_describes_it() {
    let upstream = Upstream::start(|_| json_answer("{}")).await;
    let policy = TICKETS.replace("tool: send,", "tool: refund,");
    let config = format!(
        "policy: policy.yaml
upstreams: {{shop: {{url: \"{}\"}}}}
routes: [{{name: shop, prefix: /shop, upstream: shop, protocol: http_tools, openapi: api.yaml}}]
principal: {{fixed: {{tenant: t, subject: ann, agent: bot}}}}
{STORE}
",
        upstream.url()
    );
    let folder = tempfile::tempdir().unwrap();
    let api = document("Refunds to the customer.", "Finds.");
    for (name, text) in [
        ("policy.yaml", &policy),
        ("holdpoint.yaml", &config),
        ("api.yaml", &api),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let rig = Rig::on(folder, Vec::new()).await;
    let mut desk = Desk { rig, upstream };
    let refund = |to: &str| request("POST", "/shop/refund", &[], format!("{{\"to\":\"{to}\"}}"));
    let held = desk.rig.ask(refund("ann")).await;
    let bound = approve(&desk, &held).await["bound"]["definition"].clone();
    assert_eq!(bound.as_str().unwrap().len(), 64);

    // Another operation, and another spelling, change nothing.
    let other = document("'Refunds to the customer.'", "Finds whatever there is.");
    desk.rig = desk.rig.again(&[("api.yaml", &other)]).await;
    assert_eq!(desk.rig.ask(refund("ann")).await.status, 200);
    assert_eq!(desk.upstream.received().len(), 1);

    // What the operation does, or what it refers to, is another tool.
    let schema = other.replace("type: object", "type: object, maxProperties: 9");
    for changed in [document("Refunds twice.", "Finds."), schema] {
        let held = desk.rig.ask(refund("bob")).await;
        approve(&desk, &held).await;
        desk.rig = desk.rig.again(&[("api.yaml", &changed)]).await;
        assert_eq!(
            desk.refused(refund("bob")).await,
            (403, "state_changed".to_owned())
        );
    }
}
