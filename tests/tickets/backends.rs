//! Look-ups by HTTP of what a ticket relies on: the state of what a call names, and the books that know what became of it.

use std::sync::{Arc, Mutex};

use holdpoint::store::tickets::TicketState;
use serde_json::{Value, json};

use crate::support::upstream::{Received, Step, answer, json as ok};
use crate::table::desk::{Desk, POLICY, Shelf, refund};

/// What the shop's own API answers.
#[derive(Default)]
struct Api {
    order: Value,
    refunds: Value,
    /// Calls are taken and never answered.
    mute: bool,
}

const ORDER: &str = "order: {http: {upstream: shop, path: \"/orders/{order}\", columns: {status: /state/name, owner: /owner}}}";
const REFUNDS: &str = "refund_of: {http: {upstream: shop, path: /refunds, query: {ref: ticket, of: order}, rows: /items, columns: {state: /state}}}";

async fn desk(rule: &str, api: &Arc<Mutex<Api>>) -> Desk {
    let policy = POLICY
        .replace(
            "tools:\n",
            &format!("lookups:\n  {ORDER}\n  {REFUNDS}\ntools:\n"),
        )
        .replace("role: finance,", &format!("role: finance, {rule},"));
    let api = Arc::clone(api);
    let script = move |got: &Received| {
        let api = api.lock().unwrap();
        let target = got.target();
        let steps = |told: &Value| {
            if told.is_null() {
                answer("404 Not Found", "application/json", "{}")
            } else {
                ok(&told.to_string())
            }
        };
        if target.starts_with("GET /orders/") {
            steps(&api.order)
        } else if target.starts_with("GET /refunds?") {
            steps(&api.refunds)
        } else if api.mute {
            vec![Step::Hang]
        } else {
            answer("201 Created", "application/json", "{}")
        }
    };
    let more = "timeouts: {first_byte: 200ms}";
    Desk::with(&Shelf::sqlite(), &policy, more, script).await
}

/// Requests of a kind that have reached the shop.
fn asked(desk: &Desk, target: &str) -> Vec<String> {
    let received = desk.upstream.received();
    let targets = received.iter().map(|got| got.target().to_owned());
    targets.filter(|got| got.starts_with(target)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_at_a_backend_voids_the_approval_where_it_changes() {
    let order =
        |status: &str, owner: &str| json!({"state": {"name": status, "more": 1}, "owner": owner});
    let api = Arc::new(Mutex::new(Api {
        order: order("paid", "ann"),
        ..Api::default()
    }));
    let rule = "state: [{resource: /order, as: order, lookup: order, columns: [status, owner]}]";
    let desk = desk(rule, &api).await;
    let ticket = desk.approved(&refund()).await;
    let bound = desk.ticket(&ticket).await.bound;
    let state = &bound.resources[0].state;
    assert_eq!(state["status"].as_deref(), Some("paid"));
    assert_eq!(state["owner"].as_deref(), Some("ann"));
    // What no column names may change.
    api.lock().unwrap().order["state"]["more"] = json!(2);
    assert_eq!(desk.ask(&refund()).await.status, 201);
    for (n, changed) in [order("shipped", "ann"), order("paid", "eve"), Value::Null]
        .into_iter()
        .enumerate()
    {
        api.lock().unwrap().order = order("paid", "ann");
        let call = refund().saying(&format!(r#"{{"order":"A-{n} ?x","amount":2}}"#));
        let ticket = desk.approved(&call).await;
        api.lock().unwrap().order = changed;
        assert_eq!(desk.code(&call).await.1, "state_changed");
        assert_eq!(desk.state(&ticket).await, TicketState::Cancelled);
    }
    // A value of another shape is another state; an answer that is none sends nothing, and the approval stands.
    api.lock().unwrap().order = order("paid", "ann");
    let call = refund().saying(r#"{"order":"A-9","amount":2}"#);
    let ticket = desk.approved(&call).await;
    api.lock().unwrap().order = json!({"state": {"name": {"deep": 1}}, "owner": "ann"});
    assert_eq!(desk.code(&call).await, (403, "state_changed".to_owned()));
    assert_eq!(desk.state(&ticket).await, TicketState::Cancelled);
    api.lock().unwrap().order = order("paid", "ann");
    let call = refund().saying(r#"{"order":"A-10","amount":2}"#);
    let ticket = desk.approved(&call).await;
    api.lock().unwrap().order = json!([order("paid", "ann")]);
    assert_eq!(
        desk.code(&call).await,
        (503, "tickets_unavailable".to_owned())
    );
    assert_eq!(desk.state(&ticket).await, TicketState::Approved);
    assert_eq!(asked(&desk, "POST /refund").len(), 1);
    assert!(
        asked(&desk, "GET /orders/A-0").contains(&"GET /orders/A-0%20%3Fx".to_owned()),
        "{:?}",
        asked(&desk, "GET /orders/A-0")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn books_at_a_backend_say_what_became_of_a_call() {
    let api = Arc::new(Mutex::new(Api {
        mute: true,
        refunds: json!({"items": [{"state": "settled"}, {"state": "pending"}]}),
        ..Api::default()
    }));
    let rule = "reconcile: {lookup: refund_of, with: {order: /order}, done: {column: state, one_of: [settled]}, after: 1s}";
    let desk = desk(rule, &api).await;
    let ticket = desk.approved(&refund()).await;
    assert_eq!(desk.code(&refund()).await.1, "outcome_unknown");
    // One of two rows says otherwise: it is not said yet.
    let books = format!("GET /refunds?of=A-1&ref={ticket}");
    let reads = |desk: &Desk| asked(desk, "GET /refunds?");
    while reads(&desk).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(reads(&desk)[0], books);
    assert_eq!(desk.state(&ticket).await, TicketState::Unknown);
    api.lock().unwrap().refunds = json!({"items": [{"state": "settled"}, {"state": "settled"}]});
    desk.becomes(&ticket, TicketState::ResolvedDone).await;
    let receipt = desk.ask(&refund()).await.json();
    assert_eq!(
        receipt["found"],
        json!([{"state": "settled"}, {"state": "settled"}])
    );

    // An empty list is an answer, a missing one is none.
    let lost = refund().saying(r#"{"order":"A-2","amount":1}"#);
    let ticket = desk.approved(&lost).await;
    api.lock().unwrap().refunds = json!({"other": []});
    assert_eq!(desk.code(&lost).await.1, "outcome_unknown");
    let before = reads(&desk).len();
    while reads(&desk).len() == before {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(desk.state(&ticket).await, TicketState::Unknown);
    api.lock().unwrap().refunds = json!({"items": []});
    desk.becomes(&ticket, TicketState::ResolvedNotDone).await;
    assert_eq!(asked(&desk, "POST /refund").len(), 2);
}
