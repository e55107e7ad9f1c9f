//! Resources in arguments.

use holdpoint::policy::{OwnershipRule, Policy, Selector, ToolMatcher};
use holdpoint::store::Stores;
use holdpoint::verdict::{LayerId, Verdict};

use crate::support::{argument, call_verdict, guard, lookup, outcome, policy, problem, shop, tool};

fn with(resource: &str, sql: &str) -> Policy {
    let mut policy = policy();
    policy.lookups.insert("order_owner".into(), lookup(sql));
    let mut refund = tool("tools[0]", ToolMatcher::Exact("refund".into()));
    refund.ownership = vec![OwnershipRule::new(
        "tools[0].ownership[0]",
        Selector::parse(resource).unwrap(),
        "order_id",
        "order_owner",
    )];
    policy.tools.push(refund);
    policy
}

const BY_ID: &str =
    "SELECT owner, id AS order_id FROM orders WHERE id = :order_id AND tenant = :tenant";
const BY_NUMBER: &str =
    "SELECT owner, number AS order_id FROM orders WHERE number = :order_id AND tenant = :tenant";

#[tokio::test]
async fn only_the_owner_passes() {
    let (_folder, stores) = shop();
    let guard = guard(with("/order_id", BY_ID), LayerId::Ownership, stores).unwrap();
    for (args, subject, expected) in [
        (r#"{"order_id": "o-1"}"#, "ann", "allow"),
        (r#"{"order_id": "O-1"}"#, "ann", "deny not_owner"),
        (r#"{"order_id": "o-1"}"#, "bob", "deny not_owner"),
        (r#"{"order_id": "o-2"}"#, "ann", "deny not_owner"),
        (r#"{"order_id": "o-9"}"#, "ann", "deny not_owner"),
        (r#"{"order_id": "o-3"}"#, "ann", "deny not_owner"),
        // Two rows, one of them somebody else's.
        (r#"{"order_id": "o-4"}"#, "ann", "deny not_owner"),
        // Another tenant's row.
        (r#"{"order_id": "o-5"}"#, "ann", "deny not_owner"),
        (r#"{"order_id": "o-1' OR '1'='1"}"#, "ann", "deny not_owner"),
        (r#"{"order_id": null}"#, "ann", "deny not_owner"),
        (r#"{"order_id": ["o-1"]}"#, "ann", "deny not_owner"),
        (r#"{"order_id": true}"#, "ann", "deny not_owner"),
        ("{}", "ann", "deny not_owner"),
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
            "deny not_owner",
            "/orders/0/number",
        ),
        (
            r#"{"orders": [{"number": 9007199254740993}]}"#,
            "deny not_owner",
            "/orders/0/number",
        ),
        (r#"{"orders": []}"#, "deny not_owner", "/orders"),
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
        (" 1", "deny not_owner"),
        ("1\n", "deny not_owner"),
        ("1\u{a0}", "deny not_owner"),
        ("1\0", "deny not_owner"),
    ] {
        let args = serde_json::json!({"order_id": id}).to_string();
        let (verdict, _) = call_verdict(&guard, "refund", &args, "ann").await;
        assert_eq!(outcome(&verdict), expected, "{id:?}");
    }
}

#[tokio::test]
async fn a_look_up_that_fails_or_answers_strangely_is_a_refusal() {
    let (folder, stores) = shop();
    let real = "SELECT 1.5 AS owner, id AS order_id FROM orders WHERE id = :order_id";
    let strange = guard(with("/order_id", real), LayerId::Ownership, stores.clone()).unwrap();
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
        "SELECT owner, id AS order_id FROM orders WHERE id = :order_id",
    );
    policy.tools[0].ownership[0].with =
        vec![("item_id".to_owned(), Selector::parse("/item").unwrap())];
    let (message, _) = problem(guard(policy, LayerId::Ownership, stores.clone()));
    assert!(message.contains("does not ask for `:item_id`"), "{message}");
    for (sql, words) in [
        (
            "SELECT owner FROM orders WHERE id = :order_id",
            "no column `order_id`",
        ),
        (
            "SELECT id AS order_id FROM orders WHERE id = :order_id",
            "no column `owner`",
        ),
        (
            "SELECT owner, :order_id AS order_id FROM orders WHERE id = :order_id",
            "itself",
        ),
        (
            "SELECT owner, id AS order_id, number FROM orders WHERE id = :order_id",
            "`number`",
        ),
    ] {
        let (message, _) = start(sql);
        assert!(message.contains(words), "{message}");
    }

    let none = guard(
        with("/order_id", BY_ID),
        LayerId::Ownership,
        Stores::default(),
    );
    assert!(problem(none).1.contains("stores.shop"));
}

/// A text that a column takes for another id by its affinity: the owner of 10 does not act on `1e1`.
#[tokio::test]
async fn what_an_affinity_makes_equal_stays_another_id() {
    let (_folder, stores) = shop();
    let by_number = with("/order_id", BY_NUMBER);
    let guard = guard(by_number, LayerId::Ownership, stores).unwrap();
    for (id, expected) in [
        ("1", "allow"),
        ("1e0", "deny not_owner"),
        ("1.0", "deny not_owner"),
        ("01", "deny not_owner"),
        ("+1", "deny not_owner"),
    ] {
        let args = serde_json::json!({"order_id": id}).to_string();
        let (verdict, _) = call_verdict(&guard, "refund", &args, "ann").await;
        assert_eq!(outcome(&verdict), expected, "{id:?}");
    }
}

/// Findings differ for the operator and in nothing else.
#[tokio::test]
async fn the_operator_learns_what_the_agent_does_not() {
    let (_folder, stores) = shop();
    let guard = guard(with("/order_id", BY_ID), LayerId::Ownership, stores).unwrap();
    let mut details = Vec::new();
    for id in ["o-2", "o-9", "o-3"] {
        let args = serde_json::json!({"order_id": id}).to_string();
        let (verdict, _) = call_verdict(&guard, "refund", &args, "ann").await;
        let Verdict::Deny(finding) = verdict else {
            panic!("{id} passed")
        };
        assert_eq!(finding.reason.as_str(), "not_owner");
        details.push(finding.detail.into_owned());
    }
    assert_eq!(
        details,
        [
            "the resource belongs to another subject",
            "the look-up returned no row",
            "the resource has no owner"
        ]
    );
}
