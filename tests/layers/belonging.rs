//! Resources that belong to others of the same call, shared ones, lists of them, and how often a look-up is asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use holdpoint::item::{Item, Located, Place, ToolCall};
use holdpoint::policy::{Owners, OwnershipRule, Policy, Selector, ToolMatcher};
use holdpoint::store::Stores;
use holdpoint::store::sql::{Described, ReadOnlySql, Rows, SqlError, SqlValue, sqlite};
use holdpoint::verdict::LayerId;

use crate::support::{
    argument, arguments, call_verdict, exchange, guard, lookup, outcome, policy, tool,
};

/// A shop with items in orders, payments of people, and lists that are shared.
fn desk() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("desk.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TABLE orders (id TEXT, owner TEXT, tenant TEXT);
             INSERT INTO orders VALUES ('o-1', 'ann', 'acme'), ('o-2', 'bob', 'acme'), ('o-3', 'ann', 'acme'), ('o-4', 'ann', 'other');
             CREATE TABLE items (order_id TEXT, id TEXT);
             INSERT INTO items VALUES ('o-1', 'i-1'), ('o-1', 'i-2'), ('o-2', 'i-3'), ('o-3', 'i-1');
             CREATE TABLE payments (id TEXT, owner TEXT);
             INSERT INTO payments VALUES ('p-1', 'ann'), ('p-2', 'bob');
             CREATE TABLE members (list TEXT, member TEXT);
             INSERT INTO members VALUES ('l-1', 'bob'), ('l-1', 'ann'), ('l-2', 'bob');",
        )
        .unwrap();
    (folder, path)
}

fn stores(path: &std::path::Path) -> Stores {
    let mut stores = Stores::default();
    stores
        .sql
        .insert("shop".into(), sqlite::open(path).unwrap());
    stores
}

fn rule(resource: &str, bind: &str, owner: &str) -> OwnershipRule {
    let id = format!("ownership {resource}");
    OwnershipRule::new(id, Selector::parse(resource).unwrap(), bind, owner)
}

fn desk_policy(rules: Vec<OwnershipRule>) -> Policy {
    let mut policy = policy();
    for (name, sql) in [
        (
            "order_owner",
            "SELECT owner, tenant, id AS order_id FROM orders WHERE id = :order_id",
        ),
        (
            "item_owner",
            "SELECT o.owner, i.order_id, i.id AS item_id FROM items i JOIN orders o ON o.id = i.order_id
             WHERE i.id = :item_id AND i.order_id = :order_id",
        ),
        ("payment_owner", "SELECT owner, id AS payment_id FROM payments WHERE id = :payment_id"),
        ("list_member", "SELECT member AS owner, list AS list_id FROM members WHERE list = :list_id"),
    ] {
        policy.lookups.insert(name.into(), lookup(sql));
    }
    let mut rule = tool("tools[0]", ToolMatcher::Exact("exchange".into()));
    rule.ownership = rules;
    policy.tools.push(rule);
    policy
}

async fn verdicts(rules: Vec<OwnershipRule>, cases: &[(&str, &str, &str)]) {
    let (_folder, path) = desk();
    let guard = guard(desk_policy(rules), LayerId::Ownership, stores(&path)).unwrap();
    for (args, expected, place) in cases {
        let (verdict, _) = call_verdict(&guard, "exchange", args, "ann").await;
        assert_eq!(outcome(&verdict), *expected, "{args}");
        assert_eq!(argument(&verdict), *place, "{args}");
    }
}

#[tokio::test]
async fn items_belong_to_the_order_that_the_call_names() {
    let mut items = rule("/item_ids/*", "item_id", "item_owner");
    items.with = vec![("order_id".to_owned(), Selector::parse("/order_id").unwrap())];
    let deny = "deny not_owner";
    verdicts(
        vec![items],
        &[
            (
                r#"{"order_id": "o-1", "item_ids": ["i-1", "i-2"]}"#,
                "allow",
                "",
            ),
            // Of an order of somebody else, and of another of Ann's own orders.
            (
                r#"{"order_id": "o-1", "item_ids": ["i-1", "i-3"]}"#,
                deny,
                "/item_ids/1",
            ),
            (
                r#"{"order_id": "o-3", "item_ids": ["i-2"]}"#,
                deny,
                "/item_ids/0",
            ),
            (
                r#"{"order_id": "o-2", "item_ids": ["i-3"]}"#,
                deny,
                "/item_ids/0",
            ),
            (r#"{"order_id": "o-1", "item_ids": []}"#, deny, "/item_ids"),
            (
                r#"{"order_id": "o-1", "item_ids": "i-1"}"#,
                deny,
                "/item_ids",
            ),
            (
                r#"{"order_id": "o-1", "item_ids": [["i-1"]]}"#,
                deny,
                "/item_ids/0",
            ),
            (r#"{"order_id": "o-1"}"#, deny, "/item_ids/*"),
            (r#"{"item_ids": ["i-1"]}"#, deny, "/order_id"),
            // Said twice, in two spellings: both must hold.
            (
                r#"{"order_id": "o-1", "Order_Id": "o-2", "item_ids": ["i-1"]}"#,
                deny,
                "/item_ids/0",
            ),
            (
                r#"{"order_id": "o-1", "item_ids": ["i-1"], "ITEM_IDS": ["i-3"]}"#,
                deny,
                "/ITEM_IDS/0",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn parts_of_a_list_belong_to_their_own_element() {
    let mut items = rule("/orders/*/items/*/id", "item_id", "item_owner");
    items.with = vec![(
        "order_id".to_owned(),
        Selector::parse("/orders/*/order_id").unwrap(),
    )];
    let deny = "deny not_owner";
    verdicts(
        vec![items],
        &[
            (
                r#"{"orders": [{"order_id": "o-1", "items": [{"id": "i-2"}]}, {"order_id": "o-3", "items": [{"id": "i-1"}]}]}"#,
                "allow",
                "",
            ),
            // The item is Ann's, and in her other order.
            (
                r#"{"orders": [{"order_id": "o-1", "items": [{"id": "i-1"}]}, {"order_id": "o-3", "items": [{"id": "i-2"}]}]}"#,
                deny,
                "/orders/1/items/0/id",
            ),
            (
                r#"{"orders": [{"order_id": "o-1", "items": [{"id": "i-1"}, {"no": 1}]}]}"#,
                deny,
                "/orders/0/items/1",
            ),
            (
                r#"{"orders": [{"order_id": "o-1", "items": [{"id": "i-1"}]}, "o-2"]}"#,
                deny,
                "/orders/1",
            ),
            (
                r#"{"orders": [{"items": [{"id": "i-1"}]}]}"#,
                deny,
                "/orders/0",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_optional_resource_may_be_absent_and_not_malformed() {
    let mut payment = rule("/payment_id", "payment_id", "payment_owner");
    payment.optional = true;
    let mut several = rule("/more/*", "payment_id", "payment_owner");
    several.optional = true;
    let deny = "deny not_owner";
    verdicts(
        vec![
            rule("/order_id", "order_id", "order_owner"),
            payment,
            several,
        ],
        &[
            (
                r#"{"order_id": "o-1", "payment_id": "p-1", "more": ["p-1"]}"#,
                "allow",
                "",
            ),
            (r#"{"order_id": "o-1"}"#, "allow", ""),
            (
                r#"{"order_id": "o-1", "payment_id": null, "more": []}"#,
                "allow",
                "",
            ),
            (
                r#"{"order_id": "o-1", "payment_id": "p-2"}"#,
                deny,
                "/payment_id",
            ),
            (
                r#"{"order_id": "o-1", "payment_id": ""}"#,
                deny,
                "/payment_id",
            ),
            (
                r#"{"order_id": "o-1", "payment_id": false}"#,
                deny,
                "/payment_id",
            ),
            (
                r#"{"order_id": "o-1", "payment_id": ["p-2"]}"#,
                deny,
                "/payment_id",
            ),
            (r#"{"order_id": "o-1", "more": "p-2"}"#, deny, "/more"),
            (
                r#"{"order_id": "o-1", "more": {"0": "p-2"}}"#,
                deny,
                "/more/0",
            ),
            // Another tenant's, by the look-up's own column.
            (r#"{"order_id": "o-4"}"#, deny, "/order_id"),
            ("{}", deny, "/order_id"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_shared_resource_needs_one_owner_and_several_things_need_each() {
    let mut shared = rule("/list", "list_id", "list_member");
    shared.owners = Owners::Any;
    let each = rule("/list", "list_id", "list_member");
    let deny = "deny not_owner";
    verdicts(
        vec![shared],
        &[
            (r#"{"list": "l-1"}"#, "allow", ""),
            (r#"{"list": "l-2"}"#, deny, "/list"),
            (r#"{"list": "l-3"}"#, deny, "/list"),
        ],
    )
    .await;
    verdicts(vec![each], &[(r#"{"list": "l-1"}"#, deny, "/list")]).await;
}

#[tokio::test]
async fn a_call_that_names_very_many_resources_is_refused() {
    let items = rule("/ids/*", "order_id", "order_owner");
    let same = serde_json::json!({"ids": vec!["o-1"; 5_000]}).to_string();
    let many: Vec<String> = (0..2_000).map(|i| format!("o-{i}")).collect();
    let many = serde_json::json!({"ids": many}).to_string();
    verdicts(
        vec![items],
        &[(&same, "allow", ""), (&many, "deny not_owner", "/ids/1000")],
    )
    .await;
}

/// Counts what is asked.
struct Counted {
    inner: Arc<dyn ReadOnlySql>,
    asked: AtomicUsize,
    fails: Mutex<bool>,
}

impl ReadOnlySql for Counted {
    fn check(&self, sql: &str) -> Result<Described, SqlError> {
        self.inner.check(sql)
    }

    fn query<'a>(
        &'a self,
        sql: &'a str,
        params: Vec<(String, SqlValue)>,
    ) -> BoxFuture<'a, Result<Rows, SqlError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if *self.fails.lock().unwrap() {
            let cause = "gone".to_owned();
            return Box::pin(std::future::ready(Err(SqlError::Run { cause })));
        }
        self.inner.query(sql, params)
    }
}

/// Once per question and message, and anew with the next: an owner may change.
#[tokio::test]
async fn a_question_is_asked_once_per_message() {
    let (_folder, path) = desk();
    let counted = Arc::new(Counted {
        inner: sqlite::open(&path).unwrap(),
        asked: AtomicUsize::new(0),
        fails: Mutex::new(false),
    });
    let mut stores = Stores::default();
    stores
        .sql
        .insert("shop".into(), Arc::clone(&counted) as Arc<dyn ReadOnlySql>);
    let rules = vec![
        rule("/order_id", "order_id", "order_owner"),
        rule("/orders/*", "order_id", "order_owner"),
    ];
    let guard = guard(desk_policy(rules), LayerId::Ownership, stores).unwrap();
    let call = |args: &str| Located {
        place: Place::default(),
        item: Item::ToolCall(ToolCall::new("exchange".into(), arguments(args))),
    };
    let own = r#"{"order_id": "o-1", "orders": ["o-3", "o-1", "o-3"]}"#;
    let mut message = exchange(call(own).item, "ann");
    message.items = vec![
        call(own),
        call(own),
        call(r#"{"order_id": "o-3", "orders": ["o-2"]}"#),
    ];
    let decided = async || {
        let decision = guard.decide(&message).await.unwrap();
        let verdicts = decision
            .rulings
            .into_iter()
            .map(|ruling| outcome(&ruling.verdict));
        (
            verdicts.collect::<Vec<_>>(),
            counted.asked.swap(0, Ordering::SeqCst),
        )
    };
    let said = ["allow", "allow", "deny not_owner"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(decided().await, (said.clone(), 3));
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("UPDATE orders SET owner = 'bob' WHERE id = 'o-3'")
        .unwrap();
    let said = ["deny not_owner"; 3].map(str::to_owned).to_vec();
    assert_eq!(decided().await, (said, 2));
    // A failure is not tried again and again either.
    *counted.fails.lock().unwrap() = true;
    let (said, asked) = decided().await;
    assert_eq!(said, ["deny undecided"; 3].map(str::to_owned));
    assert_eq!(asked, 2);
}
