//! The approver listener over real HTTP, around the store of a `World`.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::Arc;

use holdpoint::approvals::{self, Approvals, People, password, webhook};
use holdpoint::metrics::Metrics;
use holdpoint::settings::{self, Environment, Overrides};
use holdpoint::store::tickets::Ticket;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::support::client::{Answer, ask, request};
use crate::world::{World, refund};

pub const PASSWORD: &str = "correct horse battery";
pub const CAROL: &str = "carol-key-0123456789";
pub const SIGNING: &str = "slack-signing-secret-01";
pub const HOOK: &str = "secret-of-the-receiver-1";

/// Approvers as keys: carol may approve refunds, ann made them, dave has no role, erin sees another tenant.
pub const KEYS: &str = "
  keys:
    - {subject: carol, key_env: CAROL_KEY, roles: [finance]}
    - {subject: ann, key_env: ANN_KEY, roles: [finance]}
    - {subject: dave, key_env: DAVE_KEY}
    - {subject: erin, key_env: ERIN_KEY, roles: [finance], tenants: [other]}
";

pub const PRINCIPAL: &str = "principal: {fixed: {subject: bot}}";

pub fn environment() -> Environment {
    let mut all: BTreeMap<String, String> = [
        ("CAROL_KEY", CAROL),
        ("ANN_KEY", "ann-key-0123456789ab"),
        ("DAVE_KEY", "dave-key-0123456789a"),
        ("ERIN_KEY", "erin-key-0123456789a"),
        ("OIDC_SECRET", "client+secret/with=signs"),
        ("SLACK_SIGNING", SIGNING),
        ("SLACK_TOKEN", "xoxb-token"),
        ("HOOK_SECRET", HOOK),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    all.insert(
        "CAROL_HASH".to_owned(),
        password::hash(PASSWORD).unwrap_or_default(),
    );
    all
}

/// A whole config with these approvers.
pub fn config(approvers: &str, principal: &str) -> String {
    format!(
        "policy: p.yaml
upstreams: {{shop: {{url: \"http://127.0.0.1:1\"}}}}
routes: [{{name: tools, prefix: /, upstream: shop, protocol: mcp}}]
{principal}
tickets: {{store: t.db}}
approvers:{approvers}"
    )
}

pub struct Desk {
    pub world: World,
    pub address: SocketAddr,
    pub metrics: Arc<Metrics>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Desk {
    pub async fn new(approvers: &str) -> Self {
        Self::with(approvers, PRINCIPAL).await
    }

    /// `{HERE}` in the config is the listener's own address.
    pub async fn with(approvers: &str, principal: &str) -> Self {
        let world = World::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let text = config(approvers, principal).replace("{HERE}", &address.to_string());
        let metrics = Metrics::new();
        let approvals = approvals(&world, &text, &metrics);
        approvals
            .load()
            .await
            .unwrap_or_else(|problems| panic!("{problems}"));
        let mut tasks = webhook::spawn(&approvals).unwrap_or_else(|problems| panic!("{problems}"));
        let server = axum::serve(listener, approvals::router(approvals)).into_future();
        tasks.push(tokio::spawn(async move { drop(server.await) }));
        Self {
            world,
            address,
            metrics,
            tasks,
        }
    }

    /// A second process that follows the same store.
    pub fn also_follow(&mut self, approvers: &str) {
        let text = config(approvers, PRINCIPAL);
        let other = approvals(&self.world, &text, &self.metrics);
        let tasks = webhook::spawn(&other).unwrap_or_else(|problems| panic!("{problems}"));
        self.tasks.extend(tasks);
    }

    /// A waiting request of ann's.
    pub async fn waiting(&self) -> Ticket {
        let id = self.world.send(&refund()).await.ticket();
        self.world.store.get(id).await.unwrap().unwrap()
    }

    /// Any request, with these headers beside `Host`.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let bytes = String::from_utf8(request(method, path, headers, body)).unwrap();
        let named = bytes.replacen("host: localhost", &format!("host: {}", self.address), 1);
        ask(self.address, named).await
    }

    pub async fn get(&self, key: &str, path: &str) -> Answer {
        let bearer = format!("Bearer {key}");
        self.ask("GET", path, &[("authorization", &bearer)], "")
            .await
    }

    pub async fn post(&self, key: &str, path: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {key}");
        let body = body.to_string();
        self.ask("POST", path, &[("authorization", &bearer)], &body)
            .await
    }

    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A form as a page of ours sends it.
    pub async fn form(&self, path: &str, cookie: &str, fields: &[(&str, &str)]) -> Answer {
        let origin = self.origin();
        let mut headers = vec![
            ("content-type", "application/x-www-form-urlencoded"),
            ("origin", origin.as_str()),
            ("sec-fetch-site", "same-origin"),
        ];
        if !cookie.is_empty() {
            headers.push(("cookie", cookie));
        }
        self.ask("POST", path, &headers, &encoded(fields)).await
    }

    /// A page as a browser asks for it.
    pub async fn page(&self, path: &str, cookie: &str) -> Answer {
        let headers = [("accept", "text/html"), ("cookie", cookie)];
        self.ask("GET", path, &headers, "").await
    }

    pub fn counted(&self, series: &str) -> bool {
        self.metrics.render().contains(series)
    }
}

fn approvals(world: &World, text: &str, metrics: &Arc<Metrics>) -> Arc<Approvals> {
    let read = settings::parse("config.yaml", text, &Overrides::default(), &environment());
    let settings = read
        .unwrap_or_else(|problems| panic!("{problems}"))
        .settings;
    let approvals = Approvals::new(
        &settings,
        Arc::new(People::new(settings.approvers.clone())),
        world.store.clone(),
        world.clock.clone(),
        Arc::clone(metrics),
    );
    approvals.unwrap_or_else(|problems| panic!("{problems}"))
}

pub fn encoded(fields: &[(&str, &str)]) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields);
    form.finish()
}

/// Name and value of a cookie that an answer sets.
pub fn set_cookie(answer: &Answer, name: &str) -> Option<String> {
    let lines = answer.head.lines();
    let mut values = lines.filter_map(|line| {
        let (key, value) = line.split_once(": ")?;
        key.eq_ignore_ascii_case("set-cookie").then_some(value)
    });
    let value = values.find(|value| value.starts_with(&format!("{name}=")))?;
    Some(value.split(';').next().unwrap().to_owned())
}

/// Code of a problem, with everything that every problem has.
pub fn code(answer: &Answer) -> (u16, String) {
    let problem = answer.json();
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(problem["status"], answer.status);
    let code = problem["error"].as_str().unwrap().to_owned();
    assert_eq!(problem["type"], format!("urn:holdpoint:error:{code}"));
    (answer.status, code)
}
