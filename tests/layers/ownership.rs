//! Resources in arguments.

use holdpoint::policy::{OwnershipRule, Policy, Selector, ToolMatcher};
use holdpoint::store::Stores;
use holdpoint::verdict::LayerId;

use crate::support::{argument, call_verdict, guard, lookup, outcome, policy, problem, shop, tool};

fn with(resource: &str, sql: &str) -> Policy {
    let mut policy = policy();
    policy.lookups.insert("order_owner".into(), lookup(sql));
    let mut refund = tool("tools[0]", ToolMatcher::Exact("refund".into()));
    refund.ownership = vec![OwnershipRule {
        id: "tools[0].ownership[0]".into(),
        resource: Selector::parse(resource).unwrap(),
        bind: "order_id".to_owned(),
        owner: "order_owner".into(),
    }];
    policy.tools.push(refund);
    policy
}

const BY_ID: &str = "SELECT owner FROM orders WHERE id = :order_id AND tenant = :tenant";
const BY_NUMBER: &str = "SELECT owner FROM orders WHERE number = :order_id AND tenant = :tenant";

#[tokio::test]
async fn only_the_owner_passes() {
    let (_folder, stores) = shop();
    let guard = guard(with("/order_id", BY_ID), LayerId::Ownership, stores).unwrap();
    for (args, subject, expected) in [
        (r#"{"order_id": "o-1"}"#, "ann", "allow"),
        (r#"{"order_id": "o-1"}"#, "bob", "deny not_owner"),
        (r#"{"order_id": "o-2"}"#, "ann", "deny not_owner"),
        (r#"{"order_id": "o-9"}"#, "ann", "deny resource_unknown"),
        (r#"{"order_id": "o-3"}"#, "ann", "deny resource_unknown"),
        // Two rows, one of them somebody else's.
        (r#"{"order_id": "o-4"}"#, "ann", "deny not_owner"),
        // Another tenant's row.
        (r#"{"order_id": "o-5"}"#, "ann", "deny resource_unknown"),
        (
            r#"{"order_id": "o-1' OR '1'='1"}"#,
            "ann",
            "deny resource_unknown",
        ),
        (r#"{"order_id": null}"#, "ann", "deny resource_unknown"),
        (r#"{"order_id": ["o-1"]}"#, "ann", "deny resource_unknown"),
        (r#"{"order_id": true}"#, "ann", "deny resource_unknown"),
        ("{}", "ann", "deny resource_unknown"),
    ] {
        let (verdict, reached) = call_verdict(&guard, "refund", args, subject).await;
        assert_eq!(outcome(&verdict), expected, "{args} {subject}");
        assert!(reached);
        if expected != "allow" {
            assert_eq!(argument(&verdict), "/order_id");
        }
    }
    let (_, reached) = call_verdict(&guard, "list", "{}", "ann").await;
    assert!(!reached);
}

#[tokio::test]
async fn every_selected_id_must_pass_and_integers_are_exact() {
    let (_folder, stores) = shop();
    let guard = guard(
        with("/orders/*/number", BY_NUMBER),
        LayerId::Ownership,
        stores,
    )
    .unwrap();
    for (args, expected, place) in [
        (r#"{"orders": [{"number": 1}]}"#, "allow", ""),
        (
            r#"{"orders": [{"number": 1}, {"number": 2}]}"#,
            "deny not_owner",
            "/orders/1/number",
        ),
        (
            r#"{"orders": [{"number": 1.0}]}"#,
            "deny resource_unknown",
            "/orders/0/number",
        ),
        (
            r#"{"orders": [{"number": 9007199254740993}]}"#,
            "deny resource_unknown",
            "/orders/0/number",
        ),
        (
            r#"{"orders": []}"#,
            "deny resource_unknown",
            "/orders/*/number",
        ),
    ] {
        let (verdict, _) = call_verdict(&guard, "refund", args, "ann").await;
        assert_eq!(outcome(&verdict), expected, "{args}");
        assert_eq!(argument(&verdict), place, "{args}");
    }
}

#[tokio::test]
async fn a_key_that_a_backend_takes_for_the_id_is_judged_as_the_id() {
    let (_folder, stores) = shop();
    let guard = guard(with("/order_id", BY_ID), LayerId::Ownership, stores).unwrap();
    for (args, place) in [
        (r#"{"order_id": "o-1", "Order_ID": "o-2"}"#, "/Order_ID"),
        (r#"{"ORDER_ID": "o-2"}"#, "/ORDER_ID"),
        (
            "{\"order_id\": \"o-1\", \"order_id\\u0000\": \"o-2\"}",
            "/order_id\0",
        ),
    ] {
        let (verdict, _) = call_verdict(&guard, "refund", args, "ann").await;
        assert_eq!(outcome(&verdict), "deny not_owner", "{args}");
        assert_eq!(argument(&verdict), place, "{args}");
    }
}

#[tokio::test]
async fn an_id_that_database_and_backend_may_trim_differently_is_refused() {
    let (_folder, stores) = shop();
    let by_number = with("/order_id", BY_NUMBER);
    let guard = guard(by_number, LayerId::Ownership, stores).unwrap();
    for (id, expected) in [
        ("1", "allow"),
        (" 1", "deny resource_unknown"),
        ("1\n", "deny resource_unknown"),
        ("1\u{a0}", "deny resource_unknown"),
        ("1\0", "deny resource_unknown"),
    ] {
        let args = serde_json::json!({"order_id": id}).to_string();
        let (verdict, _) = call_verdict(&guard, "refund", &args, "ann").await;
        assert_eq!(outcome(&verdict), expected, "{id:?}");
    }
}

#[tokio::test]
async fn a_look_up_that_fails_or_answers_strangely_is_a_refusal() {
    let (folder, stores) = shop();
    let two = "SELECT owner, id FROM orders WHERE id = :order_id";
    let strange = guard(with("/order_id", two), LayerId::Ownership, stores.clone()).unwrap();
    let args = r#"{"order_id": "o-1"}"#;
    let (verdict, _) = call_verdict(&strange, "refund", args, "ann").await;
    assert_eq!(outcome(&verdict), "deny undecided");

    let gone = guard(with("/order_id", BY_ID), LayerId::Ownership, stores).unwrap();
    rusqlite::Connection::open(folder.path().join("shop.db"))
        .unwrap()
        .execute_batch("DROP TABLE orders")
        .unwrap();
    let (verdict, _) = call_verdict(&gone, "refund", args, "ann").await;
    assert_eq!(outcome(&verdict), "deny undecided");
}

#[test]
fn a_look_up_that_cannot_tell_owners_apart_is_a_problem_at_start() {
    let (_folder, stores) = shop();
    let start = |sql| {
        problem(guard(
            with("/order_id", sql),
            LayerId::Ownership,
            stores.clone(),
        ))
    };
    let (message, help) = start("SELECT :principal");
    assert!(
        message.contains(":order_id") && help.contains(":order_id"),
        "{message}"
    );
    let (message, _) = start("SELECT owner FROM no_such_table WHERE id = :order_id");
    assert!(message.contains("no_such_table"), "{message}");

    let mut policy = with(
        "/order_id",
        "SELECT owner FROM orders WHERE id = :principal",
    );
    policy.tools[0].ownership[0].bind = "principal".to_owned();
    let (message, _) = problem(guard(policy, LayerId::Ownership, stores.clone()));
    assert!(message.contains("given by the session"), "{message}");

    let none = guard(
        with("/order_id", BY_ID),
        LayerId::Ownership,
        Stores::default(),
    );
    assert!(problem(none).1.contains("stores.shop"));
}
