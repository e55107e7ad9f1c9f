//! A backend that tells the owner: what is asked of it, and what of its answers counts.

use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::desk::{Shop, model, post};
use crate::support::upstream::{Step, Upstream, answer, json as json_steps};

const BY_HTTP: &str = "lookups:
  order_owner:
    http: {upstream: shop, path: '/tenants/{tenant}/orders/{order_id}', owner: /customer/id, tenant: /tenant, echo: {order_id: /id}}
  order_by_uri: {http: {upstream: shop, path: '/by-uri/{uri}', owner: /owners}}
";

/// A backend that answers look-ups as the test says.
async fn backend(script: Arc<Mutex<Vec<Step>>>) -> Upstream {
    Upstream::start(move |asked| {
        let target = asked.target();
        if target.starts_with("GET /api/tenants/") || target.starts_with("GET /api/by-uri/") {
            return script.lock().unwrap().clone();
        }
        json_steps("{\"ok\":true}")
    })
    .await
}

#[tokio::test]
async fn a_backend_tells_the_owner_by_a_read_with_the_proxys_own_credential() {
    let script = Arc::new(Mutex::new(json_steps(
        r#"{"id": "o-1", "tenant": "acme", "customer": {"id": "ann"}}"#,
    )));
    let upstream = backend(Arc::clone(&script)).await;
    let shop = Shop::start(&upstream, "", BY_HTTP, "").await;
    assert_eq!(shop.get("o-1").await.status, 200);
    let asked = upstream.received();
    assert_eq!(asked[0].target(), "GET /api/tenants/acme/orders/o-1");
    assert_eq!(asked[0].header("authorization"), ["Bearer upstream-secret"]);
    assert_eq!(asked[0].header("host"), [upstream.address.to_string()]);
    assert!(asked[0].body.is_empty());
    assert_eq!(asked[1].target(), "GET /api/orders/o-1");

    let cancel = |id: &str| post("/shop/cancel", &json!({"order_id": id}));
    let reads = |upstream: &Upstream| {
        let received = upstream.received();
        received
            .iter()
            .filter(|asked| asked.target().starts_with("GET /api/tenants/"))
            .count()
    };
    let big = format!(
        "{{\"id\": \"o-1\", \"tenant\": \"acme\", \"customer\": {{\"id\": \"ann\"}}, \"x\": \"{}\"}}",
        "x".repeat(2 << 20)
    );
    let gone = vec![Step::Close];
    for (steps, code) in [
        (
            json_steps(r#"{"id": "o-1", "tenant": "acme", "customer": {"id": "bob"}}"#),
            "not_owner",
        ),
        (
            json_steps(r#"{"id": "o-1", "tenant": "acme", "customer": {}}"#),
            "not_owner",
        ),
        (
            json_steps(r#"{"id": "o-1", "tenant": "acme", "customer": {"id": null}}"#),
            "not_owner",
        ),
        (
            json_steps(r#"{"id": "o-1", "tenant": "acme", "customer": {"id": []}}"#),
            "not_owner",
        ),
        // Every owner of a list, unless the rule says otherwise.
        (
            json_steps(r#"{"id": "o-1", "tenant": "acme", "customer": {"id": ["ann", "bob"]}}"#),
            "not_owner",
        ),
        (
            json_steps(r#"{"id": "o-1", "tenant": "other", "customer": {"id": "ann"}}"#),
            "not_owner",
        ),
        (
            json_steps(r#"{"id": "O-1", "tenant": "acme", "customer": {"id": "ann"}}"#),
            "not_owner",
        ),
        (
            json_steps(r#"{"tenant": "acme", "customer": {"id": "ann"}}"#),
            "not_owner",
        ),
        (answer("404 Not Found", "text/html", "no"), "not_owner"),
        (
            json_steps(r#"{"id": "o-1", "tenant": "acme", "customer": {"id": 1.5}}"#),
            "undecided",
        ),
        (
            json_steps(r#"{"id": "o-1", "tenant": "acme", "customer": {"id": true}}"#),
            "undecided",
        ),
        (
            json_steps(
                r#"{"id": "o-1", "tenant": "acme", "customer": {"id": "bob"}, "customer": {"id": "ann"}}"#,
            ),
            "undecided",
        ),
        (json_steps("{"), "undecided"),
        (json_steps(&big), "undecided"),
        (
            answer(
                "200 OK",
                "text/html",
                r#"{"id": "o-1", "tenant": "acme", "customer": {"id": "ann"}}"#,
            ),
            "undecided",
        ),
        (
            answer("204 No Content", "application/json", ""),
            "undecided",
        ),
        (
            answer("401 Unauthorized", "application/json", "{}"),
            "undecided",
        ),
        (answer("410 Gone", "application/json", "{}"), "undecided"),
        (
            answer("500 Internal Server Error", "application/json", "{}"),
            "undecided",
        ),
        (
            answer(
                "302 Found\r\nlocation: /api/tenants/acme/orders/o-2",
                "application/json",
                "{}",
            ),
            "undecided",
        ),
        (gone, "undecided"),
        (vec![Step::Hang], "undecided"),
    ] {
        let shown = format!("{steps:?}").chars().take(200).collect::<String>();
        *script.lock().unwrap() = steps;
        let before = reads(&upstream);
        let refused = shop.ask(cancel("o-1")).await;
        assert_eq!(
            (refused.status, refused.code()),
            (403, code.to_owned()),
            "{shown}"
        );
        assert!(reads(&upstream) >= before);
    }
    let cancelled = |upstream: &Upstream| {
        let received = upstream.received();
        received
            .iter()
            .any(|asked| asked.target() == "POST /api/cancel")
    };
    assert!(!cancelled(&upstream));

    // A value that would step out of its segment asks for nothing, and is told like a missing one.
    *script.lock().unwrap() =
        json_steps(r#"{"id": "..", "tenant": "acme", "customer": {"id": "ann"}}"#);
    let before = reads(&upstream);
    for id in [
        "..",
        ".",
        "",
        "../../admin",
        "a/b",
        "a\\b",
        "%2e%2e",
        "a%2fb",
    ] {
        let refused = shop.ask(cancel(id)).await;
        assert_eq!(
            (refused.status, refused.code()),
            (403, "not_owner".to_owned()),
            "{id}"
        );
    }
    assert_eq!(reads(&upstream), before);
    // And what needs escapes stays one segment.
    *script.lock().unwrap() =
        json_steps(r##"{"id": "#W 1?x=y", "tenant": "acme", "customer": {"id": "ann"}}"##);
    assert_eq!(shop.ask(cancel("#W 1?x=y")).await.status, 200);
    let received = upstream.received();
    let asked = received
        .iter()
        .rev()
        .find(|asked| asked.target().starts_with("GET /api/tenants/"));
    assert_eq!(
        asked.unwrap().target(),
        "GET /api/tenants/acme/orders/%23W%201%3Fx%3Dy"
    );
}

#[tokio::test]
async fn a_backend_that_is_down_is_a_refusal() {
    let upstream = Upstream::start(model).await;
    let shop = Shop::start(&upstream, "", BY_HTTP, "").await;
    drop(upstream);
    let down = shop
        .ask(post("/shop/cancel", &json!({"order_id": "o-1"})))
        .await;
    assert_eq!((down.status, down.code()), (403, "undecided".to_owned()));
}
