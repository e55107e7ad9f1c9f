//! The approver API.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use holdpoint::clock::Clock;
use holdpoint::control::approvals::router;
use holdpoint::settings::{Approver, Secret};
use holdpoint::store::tickets::{Ticket, TicketState};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;

use crate::world::{Call, World, refund};

const CAROL: &str = "carol-key";

fn approvers() -> Vec<Approver> {
    let approver = |subject: &str, key: &str, roles: &[&str]| Approver {
        subject: subject.into(),
        key: Secret(key.into()),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
    };
    vec![
        approver("carol", CAROL, &["finance"]),
        approver("ann", "ann-key", &["finance"]),
        approver("dave", "dave-key", &[]),
    ]
}

fn api(world: &World) -> Router {
    let clock: Arc<dyn Clock> = world.clock.clone();
    router(world.store.clone(), approvers(), clock)
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    fn code(&self) -> (u16, String) {
        let problem = self.json();
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(problem["status"], self.status.as_u16());
        let code = problem["error"].as_str().unwrap().to_owned();
        assert_eq!(problem["type"], format!("urn:holdpoint:error:{code}"));
        (self.status.as_u16(), code)
    }
}

async fn ask(world: &World, request: Request<Body>) -> Answer {
    let response = api(world).oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    assert_eq!(parts.headers["cache-control"], "no-store");
    assert_eq!(parts.headers["x-content-type-options"], "nosniff");
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status,
        headers: parts.headers,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

fn request(method: &str, path: &str, key: &str, body: impl Into<Body>) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .body(body.into())
        .unwrap()
}

async fn get(world: &World, path: &str) -> Answer {
    ask(world, request("GET", path, CAROL, "")).await
}

async fn post(world: &World, key: &str, path: &str, body: &Value) -> Answer {
    ask(world, request("POST", path, key, body.to_string())).await
}

/// A waiting request of ann's.
async fn waiting(world: &World) -> Ticket {
    let id = world.send(&refund()).await.ticket();
    world.store.get(id).await.unwrap().unwrap()
}

fn path(ticket: &Ticket, verb: &str) -> String {
    format!("/v1/tickets/{}/{verb}", ticket.id)
}

fn shown(ticket: &Ticket) -> Value {
    json!({"digest_prefix": ticket.digest.to_string()[..12].to_uppercase(), "comment": "checked"})
}

#[tokio::test]
async fn a_request_is_listed_shown_and_approved_by_its_digest() {
    let world = World::new();
    let ticket = waiting(&world).await;
    let listed = get(&world, "/v1/tickets?state=requested").await.json();
    assert_eq!(listed["now"], "2026-11-30T12:00:00Z");
    assert_eq!(listed["tickets"][0]["id"], ticket.id.as_str());
    assert_eq!(
        get(&world, "/v1/tickets?state=approved").await.json()["tickets"],
        json!([])
    );

    let one = get(&world, &format!("/v1/tickets/{}", ticket.id))
        .await
        .json();
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

    let approved = post(&world, CAROL, &path(&ticket, "approve"), &shown(&ticket)).await;
    assert_eq!(approved.status, StatusCode::OK);
    assert_eq!(approved.json()["state"], "approved");
    assert_eq!(
        approved.json()["votes"][0]["by"],
        json!({"issuer": "config", "subject": "carol"})
    );
    assert_eq!(approved.json()["votes"][0]["comment"], "checked");
    let claim = world.send(&refund()).await.claim();
    assert_eq!(claim.ticket(), &ticket.id);

    let second = post(&world, CAROL, &path(&ticket, "approve"), &shown(&ticket)).await;
    assert_eq!(second.code(), (409, "already_decided".to_owned()));
    assert_eq!(second.json()["state"], "redeeming");
}

#[tokio::test]
async fn a_denial_needs_no_digest_and_ends_the_matter() {
    let world = World::new();
    let ticket = waiting(&world).await;
    let denied = ask(&world, request("POST", &path(&ticket, "deny"), CAROL, "")).await;
    assert_eq!(denied.json()["state"], "denied");
    assert_eq!(world.send(&refund()).await.word(), "approval_denied");
    let late = post(&world, CAROL, &path(&ticket, "approve"), &shown(&ticket)).await;
    assert_eq!(late.code(), (409, "already_decided".to_owned()));
}

#[tokio::test]
async fn what_was_not_shown_is_not_approved() {
    let world = World::new();
    let ticket = waiting(&world).await;
    let to = path(&ticket, "approve");
    let digest = ticket.digest.to_string();
    for (body, status, code) in [
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
    ] {
        let answer = post(&world, CAROL, &to, &body).await;
        assert_eq!(answer.code(), (status, code.to_owned()), "{body}");
    }
    let twice = format!(r#"{{"digest_prefix":"{digest}","digest_prefix":"{digest}"}}"#);
    for body in [twice, "{".to_owned()] {
        let answer = ask(&world, request("POST", &to, CAROL, body)).await;
        assert_eq!(answer.code(), (400, "body_invalid".to_owned()));
    }
    let long = ask(&world, request("POST", &to, CAROL, "x".repeat(20_000))).await;
    assert_eq!(long.code(), (413, "body_too_large".to_owned()));
    assert_eq!(world.state(&ticket.id).await, TicketState::Requested);
}

#[tokio::test]
async fn only_an_approver_gets_in() {
    let world = World::new();
    let ticket = waiting(&world).await;
    let to = path(&ticket, "approve");
    for (name, value, status, code) in [
        ("x-nothing", "", 401, "credential_missing"),
        ("authorization", "carol-key", 401, "credential_missing"),
        (
            "authorization",
            "Basic carol-key",
            401,
            "credential_missing",
        ),
        ("authorization", "Bearer ", 401, "credential_missing"),
        ("authorization", "Bearer agent-key", 403, "not_an_approver"),
        ("authorization", "Bearer carol-key2", 403, "not_an_approver"),
        ("authorization", "Bearer carol", 403, "not_an_approver"),
    ] {
        for (method, path) in [
            ("POST", to.as_str()),
            ("GET", "/v1/tickets"),
            ("GET", "/no"),
        ] {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header(name, value)
                .body(Body::from(shown(&ticket).to_string()))
                .unwrap();
            let answer = ask(&world, request).await;
            assert_eq!(answer.code(), (status, code.to_owned()), "{value} {path}");
            assert_eq!(
                answer.headers.contains_key("www-authenticate"),
                status == 401
            );
        }
    }
    let mut two = request("POST", &to, CAROL, shown(&ticket).to_string());
    two.headers_mut()
        .append("authorization", "Bearer x".parse().unwrap());
    assert_eq!(ask(&world, two).await.code().0, 401);
    assert_eq!(world.state(&ticket.id).await, TicketState::Requested);
}

#[tokio::test]
async fn own_requests_and_missing_roles_are_refused() {
    let world = World::new();
    let ticket = waiting(&world).await;
    let to = path(&ticket, "approve");
    let own = post(&world, "ann-key", &to, &shown(&ticket)).await;
    assert_eq!(own.code(), (403, "self_approval".to_owned()));
    for verb in ["approve", "deny"] {
        let role = post(&world, "dave-key", &path(&ticket, verb), &shown(&ticket)).await;
        assert_eq!(role.code(), (403, "role_missing".to_owned()));
    }
    let confirm = Call {
        tool: "subscribe".to_owned(),
        ..refund()
    };
    let id = world.send(&confirm).await.ticket();
    let ticket = world.store.get(id).await.unwrap().unwrap();
    let other = post(&world, CAROL, &path(&ticket, "approve"), &shown(&ticket)).await;
    assert_eq!(other.code(), (403, "not_the_requester".to_owned()));
    let own = post(
        &world,
        "ann-key",
        &path(&ticket, "approve"),
        &shown(&ticket),
    )
    .await;
    assert_eq!(own.json()["state"], "approved");
}

#[tokio::test]
async fn nothing_changes_by_reading_and_unknown_things_are_named() {
    let world = World::new();
    let ticket = waiting(&world).await;
    let read = get(&world, &path(&ticket, "approve")).await;
    assert_eq!(read.code(), (405, "method_not_allowed".to_owned()));
    let put = ask(&world, request("PUT", "/v1/tickets", CAROL, "")).await;
    assert_eq!(put.code(), (405, "method_not_allowed".to_owned()));
    assert_eq!(
        get(&world, "/v1/other").await.code(),
        (404, "not_found".to_owned())
    );
    for path in ["/v1/tickets/tkt_none", "/v1/tickets/%ff"] {
        assert_eq!(
            get(&world, path).await.code(),
            (404, "ticket_unknown".to_owned())
        );
    }
    for query in ["state=open", "limit=0", "limit=100000", "limit=x", "page=2"] {
        let answer = get(&world, &format!("/v1/tickets?{query}")).await;
        assert_eq!(answer.code(), (400, "query_invalid".to_owned()), "{query}");
    }
    assert_eq!(world.state(&ticket.id).await, TicketState::Requested);
    world.clock.forward(std::time::Duration::from_mins(20));
    let late = post(&world, CAROL, &path(&ticket, "approve"), &shown(&ticket)).await;
    assert_eq!(late.code(), (409, "ticket_expired".to_owned()));
}

#[tokio::test]
async fn a_failing_store_is_said_without_its_words() {
    let world = World::new();
    let raw = rusqlite::Connection::open(world.path()).unwrap();
    raw.execute_batch("DROP TABLE ticket").unwrap();
    let answer = get(&world, "/v1/tickets").await;
    assert_eq!(answer.code(), (503, "store_unavailable".to_owned()));
    assert!(!answer.text.contains("table"), "{}", answer.text);
}

#[tokio::test]
async fn hidden_characters_of_arguments_are_escapes_on_the_wire() {
    let world = World::new();
    let call = Call {
        args: "{\"order\":\"A-1\u{202e}\u{200b}\",\"amount\":1e20}".to_owned(),
        ..refund()
    };
    let ticket = world.send(&call).await.ticket();
    let answer = get(&world, &format!("/v1/tickets/{ticket}")).await;
    assert!(
        answer.text.contains(r#""order":"A-1\u202e\u200b""#),
        "{}",
        answer.text
    );
    assert!(
        answer.text.contains(r#""amount":100000000000000000000"#),
        "{}",
        answer.text
    );
    assert_eq!(
        answer.json()["summary"],
        "Refund 100000000000000000000 on order \"A-1\\u{202e}\\u{200b}\""
    );
}

#[tokio::test]
async fn the_api_answers_on_a_socket() {
    let world = World::new();
    let ticket = waiting(&world).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(axum::serve(listener, api(&world)).into_future());

    let body = shown(&ticket).to_string();
    let request = format!(
        "POST {} HTTP/1.1\r\nhost: {address}\r\nauthorization: bearer {CAROL}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        path(&ticket, "approve"),
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.to_lowercase().contains("cache-control: no-store"),
        "{answer}"
    );
    assert!(answer.contains(r#""state":"approved""#), "{answer}");
    server.abort();
    assert_eq!(world.state(&ticket.id).await, TicketState::Approved);
}
