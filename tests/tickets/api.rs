//! The approver API over real HTTP.

use std::time::Duration;

use holdpoint::approvals::api::{CODES, openapi};
use holdpoint::store::tickets::audit::Event;
use holdpoint::store::tickets::{Ticket, TicketState};
use serde_json::{Value, json};

use crate::desk::{CAROL, Desk, KEYS, PRINCIPAL, code};
use crate::world::{Call, refund};

const ANN: &str = "ann-key-0123456789ab";
const DAVE: &str = "dave-key-0123456789a";
const ERIN: &str = "erin-key-0123456789a";

fn path(ticket: &Ticket, verb: &str) -> String {
    format!("/v1/tickets/{}/{verb}", ticket.id)
}

fn shown(ticket: &Ticket) -> Value {
    json!({"digest_prefix": ticket.digest.to_string()[..12].to_uppercase(), "comment": "checked"})
}

#[tokio::test]
async fn a_request_is_listed_shown_and_approved_by_its_digest() {
    let desk = Desk::new(KEYS).await;
    let ticket = desk.waiting().await;
    let answer = desk.get(CAROL, "/v1/tickets?state=requested").await;
    let listed = answer.json();
    assert_eq!(listed["now"], "2026-11-30T12:00:00Z");
    assert_eq!(listed["tickets"][0]["id"], ticket.id.as_str());
    assert_eq!(listed["next"], Value::Null);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let none = desk.get(CAROL, "/v1/tickets?state=approved,denied").await;
    assert_eq!(none.json()["tickets"], json!([]));

    let one = desk.get(CAROL, &format!("/v1/tickets/{}", ticket.id)).await;
    let one = one.json();
    assert_eq!(
        one["arguments"],
        json!({"amount": 19.9, "lines": [1, 2], "order": "A-1"})
    );
    assert_eq!(one["summary"], "Refund 19.9 on order A-1");
    assert_eq!(one["digest"], ticket.digest.to_string());
    assert_eq!(
        (&one["gate"], &one["roles"], &one["expires_at"]),
        (
            &json!("approve"),
            &json!(["finance"]),
            &json!("2026-11-30T12:15:00Z")
        )
    );

    let approved = desk
        .post(CAROL, &path(&ticket, "approve"), &shown(&ticket))
        .await;
    assert_eq!(approved.status, 200);
    let approved = approved.json();
    assert_eq!(approved["state"], "approved");
    let vote = &approved["votes"][0];
    assert_eq!(vote["by"], json!({"issuer": "config", "subject": "carol"}));
    assert_eq!(
        (&vote["channel"], &vote["comment"]),
        (&json!("api"), &json!("checked"))
    );
    // The same word again is no second vote.
    let again = desk
        .post(CAROL, &path(&ticket, "approve"), &shown(&ticket))
        .await;
    assert_eq!(again.json()["votes"].as_array().unwrap().len(), 1);

    let claim = desk.world.send(&refund()).await.claim();
    assert_eq!(claim.ticket(), &ticket.id);
    let late = desk.post(CAROL, &path(&ticket, "revoke"), &json!({})).await;
    assert_eq!(code(&late), (409, "already_decided".to_owned()));
    assert_eq!(late.json()["state"], "redeeming");
}

#[tokio::test]
async fn a_denial_needs_no_digest_and_an_approval_can_be_taken_back() {
    let desk = Desk::new(KEYS).await;
    let ticket = desk.waiting().await;
    let denied = desk.post(CAROL, &path(&ticket, "deny"), &json!({})).await;
    assert_eq!(denied.json()["state"], "denied");
    assert_eq!(desk.world.send(&refund()).await.word(), "approval_denied");
    let late = desk
        .post(CAROL, &path(&ticket, "approve"), &shown(&ticket))
        .await;
    assert_eq!(code(&late), (409, "already_decided".to_owned()));

    let other = Call {
        args: r#"{"order":"A-2","amount":5}"#.to_owned(),
        ..refund()
    };
    let id = desk.world.send(&other).await.ticket();
    let ticket = desk.world.store.get(id).await.unwrap().unwrap();
    desk.post(CAROL, &path(&ticket, "approve"), &shown(&ticket))
        .await;
    let revoked = desk.post(CAROL, &path(&ticket, "revoke"), &json!({})).await;
    assert_eq!(revoked.json()["state"], "revoked");
    assert_eq!(desk.world.send(&other).await.word(), "approval_denied");
}

#[tokio::test]
async fn what_was_not_shown_is_not_approved() {
    let desk = Desk::new(KEYS).await;
    let ticket = desk.waiting().await;
    let to = path(&ticket, "approve");
    let digest = ticket.digest.to_string();
    for (body, status, expected) in [
        (json!({}), 400, "digest_prefix_required"),
        (
            json!({"digest_prefix": digest[..7]}),
            400,
            "digest_prefix_required",
        ),
        (
            json!({"digest_prefix": "not hex!"}),
            400,
            "digest_prefix_required",
        ),
        (
            json!({"digest_prefix": digest[1..20]}),
            409,
            "digest_mismatch",
        ),
        (json!({"digest_prefix": 12_345_678}), 400, "body_invalid"),
        (json!({"digest": digest}), 400, "body_invalid"),
        (json!([digest]), 400, "body_invalid"),
        (
            json!({"digest_prefix": digest, "comment": "x".repeat(2001)}),
            400,
            "body_invalid",
        ),
    ] {
        let answer = desk.post(CAROL, &to, &body).await;
        assert_eq!(code(&answer), (status, expected.to_owned()), "{body}");
    }
    let bearer = format!("Bearer {CAROL}");
    let headers = [("authorization", bearer.as_str())];
    let twice = format!(r#"{{"digest_prefix":"{digest}","digest_prefix":"{digest}"}}"#);
    for body in [twice.as_str(), "{"] {
        let answer = desk.ask("POST", &to, &headers, body).await;
        assert_eq!(code(&answer), (400, "body_invalid".to_owned()));
    }
    let long = desk.ask("POST", &to, &headers, &"x".repeat(20_000)).await;
    assert_eq!(code(&long), (413, "body_too_large".to_owned()));
    assert_eq!(desk.world.state(&ticket.id).await, TicketState::Requested);
}

#[tokio::test]
async fn only_an_approver_gets_in() {
    let desk = Desk::new(KEYS).await;
    let ticket = desk.waiting().await;
    let to = path(&ticket, "approve");
    let body = shown(&ticket).to_string();
    for (name, value, status, expected) in [
        ("x-nothing", "", 401, "credential_missing"),
        ("authorization", CAROL, 401, "credential_missing"),
        ("authorization", "Basic carol", 401, "credential_missing"),
        ("authorization", "Bearer ", 401, "credential_missing"),
        ("authorization", "Bearer agent-key", 403, "not_an_approver"),
        ("authorization", "Bearer carol", 403, "not_an_approver"),
        ("cookie", "__Host-holdpoint=x", 401, "credential_missing"),
    ] {
        for (method, path) in [
            ("POST", to.as_str()),
            ("GET", "/v1/tickets"),
            ("GET", "/v1/no"),
        ] {
            let answer = desk.ask(method, path, &[(name, value)], &body).await;
            assert_eq!(
                code(&answer),
                (status, expected.to_owned()),
                "{value} {path}"
            );
            assert_eq!(answer.header("www-authenticate").is_some(), status == 401);
        }
    }
    let bearer = format!("Bearer {CAROL}");
    let two = [
        ("authorization", bearer.as_str()),
        ("authorization", "Bearer x"),
    ];
    assert_eq!(desk.ask("POST", &to, &two, &body).await.status, 401);
    assert_eq!(desk.world.state(&ticket.id).await, TicketState::Requested);
    assert!(desk.counted("holdpoint_approver_refused_total{reason=\"unknown_credential\"} 6"));
}

/// Row 18 of the failure table.
#[tokio::test]
async fn an_agents_credential_is_refused_told_and_written_down() {
    let principal = "principal: {api_keys: {keys: [{key_env: DAVE_KEY, tenant: shop, subject: bob, agent: desk}]}}";
    let keys = "\n  keys: [{subject: carol, key_env: CAROL_KEY}]\n";
    let desk = Desk::with(keys, principal).await;
    for _ in 0..3 {
        let answer = desk.get(DAVE, "/v1/tickets").await;
        assert_eq!(code(&answer), (403, "not_an_approver".to_owned()));
    }
    assert!(desk.counted("holdpoint_approver_refused_total{reason=\"foreign_credential\"} 3"));
    let rows = desk.get(CAROL, "/v1/audit").await.json();
    let rows = rows["rows"].as_array().unwrap();
    let foreign: Vec<_> = rows
        .iter()
        .filter(|row| row["event"] == Event::ForeignCredential.as_str())
        .collect();
    // Once a minute: a stranger cannot fill the audit.
    assert_eq!(foreign.len(), 1);
    assert_eq!(foreign[0]["actor"], "config:bob");
    assert_eq!(
        foreign[0]["details"],
        json!({"agent": "desk", "tenant": "shop"})
    );
}

#[tokio::test]
async fn own_requests_and_missing_roles_are_refused() {
    let desk = Desk::new(KEYS).await;
    let ticket = desk.waiting().await;
    let to = path(&ticket, "approve");
    let own = desk.post(ANN, &to, &shown(&ticket)).await;
    assert_eq!(code(&own), (403, "self_approval".to_owned()));
    for verb in ["approve", "deny"] {
        let role = desk.post(DAVE, &path(&ticket, verb), &shown(&ticket)).await;
        assert_eq!(code(&role), (403, "role_missing".to_owned()));
    }
    let confirm = Call {
        tool: "subscribe".to_owned(),
        ..refund()
    };
    let id = desk.world.send(&confirm).await.ticket();
    let ticket = desk.world.store.get(id).await.unwrap().unwrap();
    let to = path(&ticket, "approve");
    let other = desk.post(CAROL, &to, &shown(&ticket)).await;
    assert_eq!(code(&other), (403, "not_the_requester".to_owned()));
    let own = desk.post(ANN, &to, &shown(&ticket)).await;
    assert_eq!(own.json()["state"], "approved");
}

/// Row 16: whatever else the requester is called.
#[tokio::test]
async fn an_alias_approves_no_own_request() {
    let approvers = "
  keys: [{subject: a.smith, issuer: \"https://id.example\", key_env: CAROL_KEY, roles: [finance]}]
  aliases:
    - {subject: a.smith, issuer: \"https://id.example\", is: [{subject: ann, issuer: config}]}
";
    let desk = Desk::new(approvers).await;
    let ticket = desk.waiting().await;
    let own = desk
        .post(CAROL, &path(&ticket, "approve"), &shown(&ticket))
        .await;
    assert_eq!(code(&own), (403, "self_approval".to_owned()));
    let rows = desk.get(CAROL, "/v1/audit").await.json();
    let rows = rows["rows"].as_array().unwrap();
    assert!(
        rows.iter()
            .any(|row| row["event"] == "self_approval_refused"),
        "{rows:?}"
    );
}

#[tokio::test]
async fn another_tenants_tickets_do_not_exist() {
    let desk = Desk::new(KEYS).await;
    let ticket = desk.waiting().await;
    let listed = desk.get(ERIN, "/v1/tickets").await.json();
    assert_eq!(listed["tickets"], json!([]));
    let asked = desk.get(ERIN, "/v1/tickets?tenant=acme").await.json();
    assert_eq!(asked["tickets"], json!([]));
    let one = desk.get(ERIN, &format!("/v1/tickets/{}", ticket.id)).await;
    assert_eq!(code(&one), (404, "ticket_unknown".to_owned()));
    for verb in ["approve", "deny", "revoke", "mandate"] {
        let answer = desk
            .post(
                ERIN,
                &path(&ticket, verb),
                &json!({"digest_prefix": ticket.digest.to_string()}),
            )
            .await;
        assert_eq!(code(&answer), (404, "ticket_unknown".to_owned()), "{verb}");
    }
    let resolved = json!({"done": true, "note": "looked"});
    let answer = desk.post(ERIN, &path(&ticket, "resolve"), &resolved).await;
    assert_eq!(code(&answer), (404, "ticket_unknown".to_owned()));
    let audit = desk.get(ERIN, "/v1/audit").await;
    assert_eq!(code(&audit), (403, "every_tenant_required".to_owned()));
}

#[tokio::test]
async fn lists_come_in_pages_and_are_filtered() {
    let desk = Desk::new(KEYS).await;
    for order in 0..5 {
        let call = Call {
            args: format!(r#"{{"order":"A-{order}","amount":5}}"#),
            session: Some(format!("s{order}")),
            ..refund()
        };
        desk.world.send(&call).await.ticket();
    }
    let mut orders = Vec::new();
    let mut path = "/v1/tickets?limit=2".to_owned();
    loop {
        let page = desk.get(CAROL, &path).await.json();
        for ticket in page["tickets"].as_array().unwrap() {
            orders.push(ticket["arguments"]["order"].clone());
        }
        let Some(next) = page["next"].as_u64() else {
            break;
        };
        path = format!("/v1/tickets?limit=2&before={next}");
    }
    assert_eq!(orders, ["A-4", "A-3", "A-2", "A-1", "A-0"]);
    for (query, count) in [
        ("tool=refund", 5),
        ("tool=subscribe", 0),
        ("subject=ann&issuer=config", 5),
        ("subject=bob", 0),
        ("upstream=shop", 5),
        ("tenant=acme", 5),
        ("tenant=other", 0),
    ] {
        let page = desk
            .get(CAROL, &format!("/v1/tickets?{query}"))
            .await
            .json();
        assert_eq!(page["tickets"].as_array().unwrap().len(), count, "{query}");
    }
    let rows = desk.get(CAROL, "/v1/audit?limit=3").await.json();
    assert_eq!(
        (rows["rows"][0]["seq"].as_u64(), rows["next"].as_u64()),
        (Some(1), Some(3))
    );
    let rest = desk.get(CAROL, "/v1/audit?after=3").await.json();
    assert_eq!(rest["rows"][0]["seq"], 4);
    assert_eq!(rest["rows"][0]["prev"], rows["rows"][2]["hash"]);
}

#[tokio::test]
async fn an_unknown_outcome_is_resolved_with_a_note() {
    let desk = Desk::new(KEYS).await;
    let ticket = desk.waiting().await;
    let to = path(&ticket, "resolve");
    let note = json!({"done": false, "note": "the bank shows nothing"});
    let early = desk.post(CAROL, &to, &note).await;
    assert_eq!(code(&early), (409, "not_unknown".to_owned()));
    desk.world.approve(&ticket.id).await;
    drop(desk.world.send(&refund()).await.claim());
    while desk.world.state(&ticket.id).await != TicketState::Unknown {
        tokio::task::yield_now().await;
    }
    for body in [
        json!({}),
        json!({"done": true}),
        json!({"done": true, "note": " "}),
        json!({"done": "yes", "note": "x"}),
    ] {
        let answer = desk.post(CAROL, &to, &body).await;
        assert_eq!(code(&answer), (400, "body_invalid".to_owned()), "{body}");
    }
    let resolved = desk.post(CAROL, &to, &note).await.json();
    assert_eq!(resolved["state"], "resolved_not_done");
    assert_eq!(resolved["resolved"]["by"], "config:carol");
    assert_eq!(resolved["resolved"]["note"], "the bank shows nothing");
}

#[tokio::test]
async fn nothing_changes_by_reading_and_unknown_things_are_named() {
    let desk = Desk::new(KEYS).await;
    let ticket = desk.waiting().await;
    for verb in ["approve", "deny", "revoke", "resolve", "mandate"] {
        let read = desk.get(CAROL, &path(&ticket, verb)).await;
        assert_eq!(code(&read), (405, "method_not_allowed".to_owned()));
    }
    let posted = desk.post(CAROL, "/v1/tickets", &json!({})).await;
    assert_eq!(code(&posted), (405, "method_not_allowed".to_owned()));
    for path in ["/v1/other", "/v1", "/v1/tickets/a/b/c"] {
        let answer = desk.get(CAROL, path).await;
        assert_eq!(code(&answer), (404, "not_found".to_owned()), "{path}");
    }
    for path in ["/v1/tickets/tkt_none", "/v1/tickets/%ff"] {
        let answer = desk.get(CAROL, path).await;
        assert_eq!(code(&answer), (404, "ticket_unknown".to_owned()), "{path}");
    }
    let end = desk
        .post(CAROL, "/v1/mandates/mdt_none/end", &json!({}))
        .await;
    assert_eq!(code(&end), (404, "mandate_unknown".to_owned()));
    for path in [
        "/v1/tickets?state=open",
        "/v1/tickets?limit=0",
        "/v1/tickets?limit=100000",
        "/v1/tickets?limit=x",
        "/v1/tickets?page=2",
        "/v1/mandates?live=perhaps",
        "/v1/audit?after=-1",
        "/v1/audit?after=9223372036854775808",
        "/v1/tickets?before=9223372036854775808",
    ] {
        let answer = desk.get(CAROL, path).await;
        assert_eq!(code(&answer), (400, "query_invalid".to_owned()), "{path}");
    }
    let mandate = desk
        .post(CAROL, &path(&ticket, "mandate"), &shown(&ticket))
        .await;
    assert_eq!(code(&mandate), (409, "mandate_not_offered".to_owned()));
    assert_eq!(desk.world.state(&ticket.id).await, TicketState::Requested);
    desk.world.clock.forward(Duration::from_mins(20));
    let late = desk
        .post(CAROL, &path(&ticket, "approve"), &shown(&ticket))
        .await;
    assert_eq!(code(&late), (409, "ticket_expired".to_owned()));
}

#[tokio::test]
async fn a_failing_store_is_said_without_its_words() {
    let desk = Desk::new(KEYS).await;
    let raw = rusqlite::Connection::open(desk.world.path()).unwrap();
    raw.execute_batch("DROP TABLE ticket").unwrap();
    let answer = desk.get(CAROL, "/v1/tickets").await;
    assert_eq!(code(&answer), (503, "store_unavailable".to_owned()));
    assert!(!answer.text().contains("table"), "{}", answer.text());
}

#[tokio::test]
async fn hidden_characters_of_arguments_are_escapes_on_the_wire() {
    let desk = Desk::new(KEYS).await;
    let call = Call {
        args: "{\"order\":\"A-1\u{202e}\u{200b}\",\"amount\":1e20}".to_owned(),
        ..refund()
    };
    let ticket = desk.world.send(&call).await.ticket();
    let answer = desk.get(CAROL, &format!("/v1/tickets/{ticket}")).await;
    let text = answer.text();
    assert!(text.contains(r#""order":"A-1\u202e\u200b""#), "{text}");
    assert!(text.contains(r#""amount":100000000000000000000"#), "{text}");
    assert_eq!(
        answer.json()["summary"],
        "Refund 100000000000000000000 on order \"A-1\\u{202e}\\u{200b}\""
    );
}

#[tokio::test]
async fn the_document_describes_every_route_and_every_code() {
    let desk = Desk::with(KEYS, PRINCIPAL).await;
    let served = desk.ask("GET", "/v1/openapi.json", &[], "").await.json();
    assert_eq!(served, openapi::document());
    assert_eq!(served["openapi"], "3.1.0");
    let schemas = served["components"]["schemas"].as_object().unwrap();
    let text = served.to_string();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
    // Every route of the document answers, and no other method of its does.
    let mut described = Vec::new();
    for (path, methods) in served["paths"].as_object().unwrap() {
        let real = path.replace("{id}", "none");
        for (method, operation) in methods.as_object().unwrap() {
            let bearer = format!("Bearer {CAROL}");
            let headers = [("authorization", bearer.as_str())];
            let method = method.to_uppercase();
            let answer = desk.ask(&method, &real, &headers, "").await;
            if answer.status != 200 {
                let code = code(&answer);
                let documented = &operation["responses"][code.0.to_string()];
                let codes = &documented["content"]["application/problem+json"]["schema"]["allOf"]
                    [1]["properties"]["error"]["enum"];
                assert!(
                    codes.as_array().unwrap().contains(&json!(code.1)),
                    "{path} {code:?}"
                );
            }
            let other = if method == "GET" { "POST" } else { "GET" };
            let answer = desk.ask(other, &real, &headers, "").await;
            assert_eq!(code(&answer).0, 405, "{other} {path}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                described.push((status.clone(), response.to_string()));
            }
        }
    }
    // Codes of no route stand for paths and methods that are not there.
    for (code, status) in CODES {
        let is_described = described
            .iter()
            .any(|(s, text)| *s == status.to_string() && text.contains(&format!("\"{code}\"")));
        let of_no_route = ["not_found", "method_not_allowed"].contains(&code);
        assert!(is_described != of_no_route, "{code}");
    }
}

#[test]
fn the_page_lists_every_code_and_route() {
    let page = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/tickets.md"),
    )
    .unwrap();
    for (code, status) in CODES {
        let row = page.lines().find(|line| {
            line.starts_with(&format!("| {status} |")) && line.contains(&format!("`{code}`"))
        });
        assert!(row.is_some(), "{status} {code}");
    }
    for route in openapi::ROUTES {
        let path = route.path.replace("{id}", "ID");
        let written = format!("{} {path}", route.method.to_uppercase());
        assert!(page.contains(&written), "{written}");
    }
}
