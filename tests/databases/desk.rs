//! Calls through the running server, whose owner a look-up tells: on every protocol, and from a database that stops and comes
//! back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use holdpoint::serve::{self, Running};
use holdpoint::settings::{self, Overrides};
use holdpoint::{policy, proxy};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::servers::{Server, wanted};
use crate::support::client::{self, Answer, request};
use crate::support::upstream::{Received, Step, Upstream, chunk, json as json_steps, send};

const LAYERS: &str = "layers: {catalog: off, identity: off, egress: off, recipients: off, ownership: enforce, injection: off, tickets: off}";

const TOOLS: &str = "tools:
  - tool: get_order
    effect: read
    ownership: [{resource: /order_id, as: order_id, owner: order_owner}]
  - tool: cancel_order
    ownership: [{resource: /order_id, as: order_id, owner: order_owner}]
  - tool: resources/read
    effect: read
    ownership: [{resource: /uri, as: uri, owner: order_by_uri}]
  - {tool: '*'}
";

const BY_SQL: &str = "lookups:
  order_owner: {store: shop, sql: 'SELECT owner, id AS order_id, tenant FROM orders WHERE id = :order_id'}
  order_by_uri: {store: shop, sql: \"SELECT owner, 'orders:' || id AS uri FROM orders WHERE 'orders:' || id = :uri\"}
";

pub struct Shop {
    running: Running,
    _folder: TempDir,
}

impl Shop {
    pub async fn start(upstream: &Upstream, stores: &str, lookups: &str, database: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        sqlite(&folder.path().join("shop.db"));
        let url = upstream.url();
        let config = format!(
            "policy: policy.yaml
listen: {{agents: \"127.0.0.1:0\", operations: \"127.0.0.1:1\"}}
upstreams:
  shop: {{url: \"{url}/api\", credential: {{header: authorization, scheme: Bearer, value_env: UPSTREAM_KEY}}}}
routes:
  - name: shop
    prefix: /shop
    upstream: shop
    protocol: http_tools
    tools:
      - {{tool: get_order, method: GET, path: \"/orders/{{order_id}}\"}}
      - {{tool: cancel_order, method: POST, path: /cancel}}
  - {{name: mcp, prefix: /mcp, upstream: shop, protocol: mcp}}
  - {{name: openai, prefix: /openai, upstream: shop, protocol: openai_chat}}
  - {{name: anthropic, prefix: /anthropic, upstream: shop, protocol: anthropic_messages}}
{stores}
principal: {{fixed: {{tenant: acme, subject: ann, agent: bot}}}}
"
        );
        std::fs::write(
            folder.path().join("policy.yaml"),
            format!("version: 1\nname: shop\n{LAYERS}\n{lookups}{TOOLS}"),
        )
        .unwrap();
        let path = folder.path().join("holdpoint.yaml");
        std::fs::write(&path, config).unwrap();
        let environment: BTreeMap<String, String> =
            [("UPSTREAM_KEY", "upstream-secret"), ("SHOP_DB", database)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        let checked = settings::read(&path, &Overrides::default(), &environment)
            .unwrap_or_else(|problems| panic!("{problems}"));
        let mut settings = checked.settings;
        settings.listen.operations = ([127, 0, 0, 1], 0).into();
        let policy = policy::read(&settings.policy).unwrap_or_else(|problems| panic!("{problems}"));
        let stores = serve::open_stores(&settings).unwrap_or_else(|problems| panic!("{problems}"));
        let against = policy::check_against(&policy, &settings, &stores);
        assert!(!against.has_errors(), "{against}");
        let running = serve::start(Arc::new(settings), Arc::new(policy.policy), stores)
            .await
            .unwrap_or_else(|problems| panic!("{problems}"));
        Self {
            running,
            _folder: folder,
        }
    }

    async fn sqlite(upstream: &Upstream) -> Self {
        Self::start(upstream, "stores: {shop: {sqlite: shop.db}}", BY_SQL, "").await
    }

    pub async fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        client::ask(self.running.addresses().agents, request).await
    }

    pub async fn get(&self, id: &str) -> Answer {
        let target = format!("/shop/orders/{id}");
        self.ask(request("GET", &target, &[], "")).await
    }
}

fn sqlite(path: &Path) {
    rusqlite::Connection::open(path)
        .unwrap()
        .execute_batch(
            "CREATE TABLE orders (id TEXT PRIMARY KEY, number INTEGER, owner TEXT, tenant TEXT);
             INSERT INTO orders VALUES ('o-1', 1, 'ann', 'acme'), ('o-2', 2, 'bob', 'acme'), ('o-3', 3, NULL, 'acme'), ('o-4', 4, 'ann', 'other');",
        )
        .unwrap();
}

pub fn post(path: &str, body: &Value) -> Vec<u8> {
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("anthropic-version", "2023-06-01"),
        ("mcp-protocol-version", "2025-06-18"),
    ];
    request("POST", path, &headers, body.to_string())
}

/// A model that proposes to cancel the order that the user's last word names.
pub fn model(asked: &Received) -> Vec<Step> {
    if asked.target().starts_with("GET") {
        return json_steps("{\"ok\":true}");
    }
    let Ok(body) = serde_json::from_slice::<Value>(&asked.body) else {
        return json_steps("{}");
    };
    let Some(order) = body["messages"][0]["content"].as_str() else {
        return json_steps(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#);
    };
    let arguments = json!({"order_id": order}).to_string();
    if asked.target().contains("/chat/completions") {
        let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "cancel_order", "arguments": arguments}});
        if body["stream"] == true {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            let event = |delta: &Value, finish: Value| {
                let data = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                    "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
                chunk(format!("data: {data}\n\n"))
            };
            return vec![
                send(head),
                event(
                    &json!({"role": "assistant", "tool_calls": [call]}),
                    Value::Null,
                ),
                event(&json!({}), json!("tool_calls")),
                chunk("data: [DONE]\n\n"),
                chunk(""),
            ];
        }
        return json_steps(
            &json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0,
                "message": {"role": "assistant", "content": null, "tool_calls": [call]}, "finish_reason": "tool_calls"}]})
            .to_string(),
        );
    }
    json_steps(
        &json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "stop_sequence": null,
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [{"type": "tool_use", "id": "t", "name": "cancel_order", "input": {"order_id": order}}]})
        .to_string(),
    )
}

/// One call of each protocol that names the resource.
fn calls(id: &str) -> Vec<(&'static str, Vec<u8>)> {
    let mcp = |method: &str, params: Value| {
        post(
            "/mcp",
            &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
        )
    };
    let chat = |stream: bool| {
        let body =
            json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": id}]});
        post("/openai/v1/chat/completions", &body)
    };
    vec![
        (
            "http read",
            request("GET", &format!("/shop/orders/{id}"), &[], ""),
        ),
        ("http write", post("/shop/cancel", &json!({"order_id": id}))),
        (
            "mcp tool",
            mcp(
                "tools/call",
                json!({"name": "get_order", "arguments": {"order_id": id}}),
            ),
        ),
        (
            "mcp resource",
            mcp("resources/read", json!({"uri": format!("orders:{id}")})),
        ),
        ("chat", chat(false)),
        ("chat stream", chat(true)),
        (
            "anthropic",
            post(
                "/anthropic/v1/messages",
                &json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": id}]}),
            ),
        ),
    ]
}

/// Status, headers without the time, and body.
fn shape(answer: &Answer) -> (u16, Vec<String>, String) {
    let head = answer.head.lines().skip(1).map(str::to_ascii_lowercase);
    let head = head.filter(|line| !line.starts_with("date:")).collect();
    (answer.status, head, answer.text().to_owned())
}

/// Nobody learns what exists: a foreign row, a missing one, one without owner and one of another tenant look alike.
#[tokio::test]
async fn a_missing_and_a_foreign_resource_give_the_same_answer_on_every_protocol() {
    let upstream = Upstream::start(model).await;
    let shop = Shop::sqlite(&upstream).await;
    let mut own = Vec::new();
    for (name, call) in calls("o-1") {
        let answer = shop.ask(call).await;
        assert_eq!(answer.status, 200, "{name}: {answer:?}");
        assert!(!answer.text().contains("not_owner"), "{name}: {answer:?}");
        own.push(answer);
    }
    let executed = |upstream: &Upstream| {
        let received = upstream.received();
        let model = ["/chat/completions", "/messages"];
        received
            .iter()
            .filter(|asked| !model.iter().any(|path| asked.target().ends_with(path)))
            .count()
    };
    assert_eq!(executed(&upstream), 4);
    let foreign = calls("o-2");
    for (index, (name, call)) in foreign.into_iter().enumerate() {
        let foreign = shop.ask(call).await;
        assert!(foreign.text().contains("not_owner"), "{name}: {foreign:?}");
        for other in ["o-9", "o-3", "o-4", "O-1"] {
            // By URI the tenant is not asked for: there the fourth is Ann's.
            if name == "mcp resource" && other == "o-4" {
                continue;
            }
            let (_, call) = calls(other).swap_remove(index);
            let other_answer = shop.ask(call).await;
            assert_eq!(shape(&other_answer), shape(&foreign), "{name} {other}");
        }
    }
    assert_eq!(executed(&upstream), 4, "nothing of it went on");
}

/// A real server that goes away in the middle, and comes back.
async fn survives(mut server: Server, stores: &str) {
    let upstream = Upstream::start(model).await;
    let lookups = "lookups:
  order_owner: {store: shop, sql: 'SELECT owner, id AS order_id, tenant FROM orders WHERE id = :order_id'}
  order_by_uri: {store: shop, sql: 'SELECT owner, id AS uri FROM orders WHERE id = :uri'}
";
    let url = server.url("reader");
    let shop = Shop::start(&upstream, stores, lookups, &url).await;
    assert_eq!(shop.get("o-1").await.status, 200);
    assert_eq!(shop.get("o-2").await.code(), "not_owner");
    server.stop();
    let before = upstream.received().len();
    for _ in 0..3 {
        let down = shop.get("o-1").await;
        assert_eq!((down.status, down.code()), (403, "undecided".to_owned()));
        assert!(
            !down.text().contains("reader") && !down.text().contains("connect"),
            "{down:?}"
        );
    }
    assert_eq!(
        upstream.received().len(),
        before,
        "a call passed without an owner"
    );
    server.start_again().await;
    assert_eq!(shop.get("o-1").await.status, 200);
    assert_eq!(shop.get("o-2").await.code(), "not_owner");
    // And where it is not there at start, nothing starts.
    drop(shop);
    server.stop();
    let tls = holdpoint::store::sql::ServerTls::Off;
    let opened = match url.split(':').next() {
        Some("mysql") => holdpoint::store::sql::mysql::open(
            &url,
            &tls,
            "shop",
            holdpoint::store::sql::Limits::default(),
        ),
        _ => holdpoint::store::sql::postgres::open(
            &url,
            &tls,
            "shop",
            holdpoint::store::sql::Limits::default(),
        ),
    };
    let error = opened.err().unwrap().to_string();
    assert!(
        error.contains("shop") && !error.contains("ss:word"),
        "{error}"
    );
}

#[tokio::test]
async fn while_postgres_is_down_calls_are_refused() {
    if wanted() {
        survives(
            Server::postgres().await,
            "stores: {shop: {postgres: {url_env: SHOP_DB}}}",
        )
        .await;
    }
}

#[tokio::test]
async fn while_mysql_is_down_calls_are_refused() {
    if wanted() {
        survives(
            Server::mysql().await,
            "stores: {shop: {mysql: {url_env: SHOP_DB}}}",
        )
        .await;
    }
}

/// What the server's collation takes for the principal's own resource is another one to the backend.
#[tokio::test]
async fn the_owner_of_one_resource_does_not_act_on_another_that_mysql_takes_for_it() {
    if !wanted() {
        return;
    }
    let server = Server::mysql().await;
    server
        .admin("INSERT INTO shop.orders VALUES ('abc', 7, 'ann', 'acme')")
        .await;
    let upstream = Upstream::start(model).await;
    let lookups = "lookups:
  order_owner: {store: shop, sql: 'SELECT owner, id AS order_id FROM orders WHERE id = :order_id'}
  order_by_uri: {store: shop, sql: 'SELECT owner, number AS uri FROM orders WHERE number = :uri'}
";
    let shop = Shop::start(
        &upstream,
        "stores: {shop: {mysql: {url_env: SHOP_DB}}}",
        lookups,
        &server.url("reader"),
    )
    .await;
    assert_eq!(shop.get("abc").await.status, 200);
    for other in ["ABC", "Abc", "\u{e1}bc", "abc "] {
        let answer = shop
            .ask(post("/shop/cancel", &json!({"order_id": other})))
            .await;
        assert_eq!(answer.code(), "not_owner", "{other}");
    }
    let read = |uri: Value| {
        post(
            "/mcp",
            &json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}}),
        )
    };
    assert!(
        !shop
            .ask(read(json!("7")))
            .await
            .text()
            .contains("not_owner")
    );
    for other in ["07", "7.0", "7e0", "7x", "+7"] {
        let answer = shop.ask(read(json!(other))).await;
        assert!(answer.text().contains("not_owner"), "{other}: {answer:?}");
    }
}

/// What is written of look-ups and cannot work is told at its place.
#[test]
fn a_store_or_look_up_that_cannot_work_is_a_problem_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let read = |stores: &str, database: &str| {
        let path = folder.path().join("c.yaml");
        let config = format!(
            "policy: p.yaml\nupstreams: {{shop: {{url: \"http://127.0.0.1:1\"}}}}\nroutes: [{{name: m, prefix: /, upstream: shop, protocol: mcp}}]\nprincipal: {{fixed: {{tenant: t, subject: a, agent: b}}}}\nstores:\n  shop: {stores}\n"
        );
        std::fs::write(&path, config).unwrap();
        let environment: BTreeMap<_, _> = [("SHOP_DB".to_owned(), database.to_owned())].into();
        settings::read(&path, &Overrides::default(), &environment)
    };
    let secret = "hunter2";
    for (stores, database, words) in [
        ("{}", "", "a store is one database"),
        (
            "{sqlite: a.db, postgres: {url_env: SHOP_DB}}",
            "x",
            "a store is one database",
        ),
        ("{postgres: {}}", "", "lacks the key `url_env`"),
        ("{postgres: {url_env: OTHER}}", "", "`OTHER` is not set"),
        (
            "{postgres: {url_env: 'postgresql://u:hunter2@h/d'}}",
            "",
            "must name an environment variable",
        ),
        (
            "{postgres: {url_env: SHOP_DB}}",
            "mysql://u:hunter2@h/d",
            "not a URL of such a server",
        ),
        (
            "{mysql: {url_env: SHOP_DB}}",
            "postgresql://u:hunter2@h/d",
            "not a URL of such a server",
        ),
        (
            "{mysql: {url_env: SHOP_DB, tls: maybe}}",
            "mysql://u:hunter2@h/d",
            "`on`",
        ),
        (
            "{mysql: {url_env: SHOP_DB, tls: {}}}",
            "mysql://u:hunter2@h/d",
            "lacks the key `ca`",
        ),
    ] {
        let problems = read(stores, database).unwrap_err().to_string();
        assert!(
            problems.contains(words) && problems.contains("c.yaml:"),
            "{stores}: {problems}"
        );
        assert!(!problems.contains(secret), "{problems}");
    }
    // Unencrypted over a network is said, and on this machine it is not worth a word.
    let far = read(
        "{postgres: {url_env: SHOP_DB, tls: off}}",
        "postgresql://u:hunter2@db.example/d",
    )
    .unwrap();
    assert!(far.warnings.to_string().contains("unencrypted"));
    let near = read(
        "{postgres: {url_env: SHOP_DB}}",
        "postgresql://u:hunter2@127.0.0.1/d",
    )
    .unwrap();
    assert!(near.warnings.0.is_empty());
    let tls = |checked: &settings::Checked| format!("{:?}", checked.settings.stores);
    assert!(tls(&near).contains("Off") && !tls(&near).contains(secret));
    let far = read(
        "{mysql: {url_env: SHOP_DB}}",
        "mysql://u:hunter2@db.example/d",
    )
    .unwrap();
    assert!(tls(&far).contains("On(None)"));
    assert!(proxy::readers(&far.settings).is_ok());
}
