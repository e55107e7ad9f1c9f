//! The real proxy before a shop that counts what reaches it, for some people and their approvers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use holdpoint::clock::{Clock, SystemClock};
use holdpoint::names::TicketId;
use holdpoint::store::tickets::issued::SigningKey;
use holdpoint::store::tickets::{
    Answer as Vote, AnswerError, Channel, Decider, Filter, Person, Ticket, TicketState,
    TicketStore, Verdict, Voter,
};
use serde_json::{Value, json};

use crate::support::client::{Answer, Client, ask, request};
use crate::support::rig::Rig;
use crate::support::upstream::{Received, Step, Upstream, answer};

/// Variables of a process, by name.
pub type Environment = Vec<(String, String)>;

/// What makes an empty store, and names it in the variables that it gives.
pub type Fresh = Arc<dyn Fn() -> BoxFuture<'static, Environment> + Send + Sync>;

/// Where tickets are kept: the part of a config that says so.
pub struct Shelf {
    /// Below `tickets:`, in braces.
    pub tickets: String,
    /// An empty store for each desk; `None`: it is empty wherever the desk is.
    pub fresh: Option<Fresh>,
    /// Variables that name the newest store.
    pub newest: Mutex<Environment>,
    /// Other variables that the config names.
    pub own: Environment,
    /// How it is broken.
    pub breaks: fn(PathBuf, Environment) -> BoxFuture<'static, Broken>,
}

/// A store that fails while this is kept.
pub type Broken = Box<dyn Send>;

impl Shelf {
    /// A file of the desk's own.
    pub fn sqlite() -> Self {
        Self {
            tickets: "store: tickets.db".to_owned(),
            fresh: None,
            newest: Mutex::default(),
            own: Vec::new(),
            breaks: |folder, _| {
                let path = folder.join("tickets.db");
                Box::pin(async move {
                    let other = rusqlite::Connection::open(path).unwrap();
                    // As a disk that takes nothing more: nobody else can write.
                    other.execute_batch("BEGIN IMMEDIATE").unwrap();
                    Box::new(other) as Broken
                })
            },
        }
    }

    /// The variables that name an empty store, which is the newest from now on.
    pub async fn next(&self) -> Environment {
        if let Some(fresh) = &self.fresh {
            let made = fresh().await;
            *self.newest.lock().unwrap() = made;
        }
        self.environment()
    }

    /// The variables that name the newest store, and the others.
    pub fn environment(&self) -> Environment {
        [&self.newest.lock().unwrap()[..], &self.own].concat()
    }

    /// The same store with another config.
    pub fn with(&self, tickets: String, own: Environment) -> Self {
        Self {
            tickets,
            fresh: self.fresh.clone(),
            newest: Mutex::new(self.newest.lock().unwrap().clone()),
            own,
            breaks: self.breaks,
        }
    }

    /// Makes the store of a desk in that folder fail until what this gives is dropped.
    pub async fn breaks(&self, folder: &Path) -> Broken {
        (self.breaks)(folder.to_owned(), self.environment()).await
    }
}

/// The rules of most rows: a refund needs finance, a subscription its own user.
pub const POLICY: &str = r#"version: 1
name: table
layers: {catalog: off, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: enforce}
tools:
  - {tool: get_order, effect: read}
  - {tool: refund, ticket: {gate: approve, role: finance, ttl: 15m, summary: "Refund {/amount} on {/order}"}}
  - {tool: subscribe, ticket: {gate: confirm, ttl: 15m, summary: "Subscribe to {/plan}"}}
"#;

/// The same, and calls wait for an answer.
pub fn holding(hold: &str) -> String {
    POLICY.replace("ttl: 15m,", &format!("ttl: 15m, hold: {hold},"))
}

/// Keys of agents: who they act for.
const KEYS: [(&str, &str); 4] = [
    (
        "ann-key-of-her-own",
        "tenant: acme, subject: ann, agent: bot",
    ),
    (
        "bob-key-of-his-own",
        "tenant: acme, subject: bob, agent: bot",
    ),
    (
        "other-tenant-key-ann",
        "tenant: globex, subject: ann, agent: bot",
    ),
    (
        "other-agent-key-ann",
        "tenant: acme, subject: ann, agent: robot",
    ),
];

/// The key of Ann's agent.
pub const ANN: &str = KEYS[0].0;
/// Of Bob's.
pub const BOB: &str = KEYS[1].0;
/// Of an Ann at another customer.
pub const FOREIGN: &str = KEYS[2].0;
/// Of another agent of Ann's.
pub const ROBOT: &str = KEYS[3].0;

/// One call of `refund`, and how it is sent.
#[derive(Clone)]
pub struct Call {
    pub key: &'static str,
    pub session: &'static str,
    pub target: &'static str,
    pub body: String,
    pub headers: Vec<(&'static str, String)>,
}

/// Ann's refund of 19.9 on A-1, in session `s1`.
pub fn refund() -> Call {
    Call {
        key: ANN,
        session: "s1",
        target: "/shop/refund",
        body: r#"{"order":"A-1","amount":19.9,"to":"Jose"}"#.to_owned(),
        headers: Vec::new(),
    }
}

impl Call {
    pub fn saying(self, body: &str) -> Self {
        Self {
            body: body.to_owned(),
            ..self
        }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let own = [
            ("x-agent-key", self.key),
            ("holdpoint-session", self.session),
        ];
        let more = self.headers.iter().map(|(name, value)| (*name, &**value));
        let headers: Vec<_> = own.into_iter().chain(more).collect();
        request("POST", self.target, &headers, &self.body)
    }
}

/// A running proxy and its shop.
pub struct Desk {
    pub rig: Rig,
    pub upstream: Upstream,
}

/// What the shop says to a refund.
pub const DONE: &str = r#"{"refund":"R-1"}"#;

pub fn done(_: &Received) -> Vec<Step> {
    answer("201 Created", "application/json", DONE)
}

/// The key of somebody who may approve.
pub fn approver_key(subject: &str) -> String {
    format!("the-approver-key-of-{subject}")
}

/// `more` may go on with keys of `approvers`, and may have another `principal`.
pub fn config(upstream: &str, shelf: &Shelf, more: &str) -> String {
    let keys = KEYS.iter().map(|(key, who)| {
        let digest = holdpoint::store::tickets::digest::sha256_hex(key.as_bytes());
        format!("{{key_sha256: \"{digest}\", {who}}}")
    });
    let keys: Vec<_> = keys.collect();
    let principal = if more.contains("principal:") {
        String::new()
    } else {
        let keys = keys.join(", ");
        format!("principal: {{api_keys: {{header: x-agent-key, keys: [{keys}]}}}}")
    };
    // Ann may approve, though never what she has asked for.
    let approvers = ["boss", "chief", "cfo", "ann"].map(|subject| {
        let digest =
            holdpoint::store::tickets::digest::sha256_hex(approver_key(subject).as_bytes());
        format!("{{subject: {subject}, key_sha256: \"{digest}\", roles: [finance]}}")
    });
    let tools = "tools:
      - {tool: get_order, method: GET, path: \"/orders/{order_id}\"}
      - {tool: refund, method: POST, path: /refund}
      - {tool: subscribe, method: POST, path: /subscribe}
      - {tool: prepare_refund, method: POST, path: /prepare}
      - {tool: http_request, method: POST, path: /fetch}";
    format!(
        "upstreams:
  shop: {{url: \"{upstream}\"}}
  depot: {{url: \"{upstream}\"}}
  mcp: {{url: \"{upstream}/mcp\"}}
  model: {{url: \"{upstream}/base\"}}
routes:
  - name: shop
    prefix: /shop
    upstream: shop
    protocol: http_tools
    {tools}
  - name: depot
    prefix: /depot
    upstream: depot
    protocol: http_tools
    tools: [{{tool: pay_back, method: POST, path: /pay}}]
  - {{name: mcp, prefix: /mcp, upstream: mcp, protocol: mcp}}
  - {{name: model, prefix: /openai, upstream: model, protocol: openai_chat}}
{principal}
tickets: {{{}}}
listen: {{approvers: \"127.0.0.1:{}\"}}
approvers:
  url: https://approve.example
  keys: [{}]
{more}
",
        shelf.tickets,
        free_port(),
        approvers.join(", ")
    )
}

/// For a process that does not choose its ports.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Desk {
    /// The usual rules, and a shop that does every refund.
    pub async fn open(shelf: &Shelf) -> Self {
        Self::with(shelf, POLICY, "", done).await
    }

    pub async fn with(
        shelf: &Shelf,
        policy: &str,
        more: &str,
        script: impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        Self::at(shelf, policy, more, SystemClock::shared(), script).await
    }

    /// At a time that the test sets.
    pub async fn at(
        shelf: &Shelf,
        policy: &str,
        more: &str,
        clock: Arc<dyn Clock>,
        script: impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let upstream = Upstream::start(script).await;
        let config = config(&upstream.url(), shelf, more);
        let rig = Rig::opened(&config, policy, &shelf.next().await, clock).await;
        Self { rig, upstream }
    }

    pub fn store(&self) -> &Arc<dyn TicketStore> {
        self.rig.tickets()
    }

    /// How many requests have reached the shop.
    pub fn reached(&self) -> usize {
        self.upstream.received().len()
    }

    pub async fn ask(&self, call: &Call) -> Answer {
        self.rig.ask(call.bytes()).await
    }

    /// Asks, and gives what stands in `error`.
    pub async fn code(&self, call: &Call) -> (u16, String) {
        let answer = self.ask(call).await;
        (answer.status, answer.code())
    }

    /// A connection with the call on it, whose answer is still to be read.
    pub async fn begin(&self, call: &Call) -> Client {
        let mut client = Client::connect(self.rig.agents()).await;
        client.send(call.bytes()).await;
        client
    }

    /// Asks for the call: the request that is made.
    pub async fn held(&self, call: &Call) -> TicketId {
        let answer = self.ask(call).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (403, "approval_required"),
            "{answer:?}"
        );
        ticket(&answer.json())
    }

    /// Asks for the call and has it approved.
    pub async fn approved(&self, call: &Call) -> TicketId {
        let ticket = self.held(call).await;
        self.approve(&ticket).await;
        ticket
    }

    pub async fn approve(&self, ticket: &TicketId) -> Ticket {
        let said = self.say(ticket, Verdict::Approve, "boss").await;
        said.unwrap()
    }

    pub async fn deny(&self, ticket: &TicketId) -> Ticket {
        self.say(ticket, Verdict::Deny, "boss").await.unwrap()
    }

    /// What somebody of finance says.
    pub async fn say(
        &self,
        ticket: &TicketId,
        verdict: Verdict,
        subject: &str,
    ) -> Result<Ticket, AnswerError> {
        let person = Person::new("config", subject);
        let voter = Voter::new(person, vec!["finance".to_owned()], Channel::Api);
        self.answer(ticket, verdict, Decider::Person(voter)).await
    }

    pub async fn answer(
        &self,
        ticket: &TicketId,
        verdict: Verdict,
        by: Decider,
    ) -> Result<Ticket, AnswerError> {
        let shown = self.ticket(ticket).await;
        let prefix = shown.digest.to_string()[..12].to_owned();
        let vote = Vote {
            ticket: ticket.clone(),
            verdict,
            by,
            digest_prefix: Some(prefix),
            comment: None,
        };
        self.store().answer(vote).await
    }

    /// Where people answer.
    pub fn approvers(&self) -> std::net::SocketAddr {
        self.rig.running().addresses().approvers.unwrap()
    }

    /// What somebody with a key says at the approver listener.
    pub async fn posts(&self, subject: &str, verb: &str, ticket: &TicketId) -> Answer {
        let digest = self.ticket(ticket).await.digest.to_string();
        let body = json!({"digest_prefix": &digest[..12]}).to_string();
        let bearer = format!("Bearer {}", approver_key(subject));
        let target = format!("/v1/tickets/{ticket}/{verb}");
        let headers = [("authorization", bearer.as_str())];
        ask(self.approvers(), request("POST", &target, &headers, body)).await
    }

    /// Until a ticket is in that state, which is soon.
    pub async fn becomes(&self, ticket: &TicketId, state: TicketState) {
        let wait = async {
            while self.state(ticket).await != state {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_mins(1), wait).await;
        assert!(waited.is_ok(), "{state} within a minute");
    }

    pub async fn ticket(&self, ticket: &TicketId) -> Ticket {
        self.store().get(ticket.clone()).await.unwrap().unwrap()
    }

    pub async fn state(&self, ticket: &TicketId) -> TicketState {
        self.ticket(ticket).await.state
    }

    /// Until so many tickets stand in the store: whoever waits has asked by then.
    pub async fn asked(&self, tickets: usize) -> Vec<Ticket> {
        loop {
            let all = self.all().await;
            if all.len() >= tickets {
                return all;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Until so many messages have begun to wait.
    pub async fn waiting(&self, messages: usize) {
        loop {
            let scrape = self.rig.scrape().await;
            let held = scrape
                .lines()
                .filter(|line| line.starts_with("holdpoint_holds_total{"))
                .filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok())
                .sum::<usize>();
            if held >= messages {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Until no request is in flight any more, which is soon.
    pub async fn idle(&self) {
        let idle = async {
            while !self
                .rig
                .scrape()
                .await
                .contains("\nholdpoint_in_flight 0\n")
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), idle)
            .await
            .unwrap();
    }

    /// Until so many requests have reached the shop.
    pub async fn reaches(&self, requests: usize) {
        while self.reached() < requests {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn all(&self) -> Vec<Ticket> {
        let filter = Filter {
            limit: 1000,
            ..Filter::default()
        };
        self.store().list(filter).await.unwrap()
    }

    /// The same under another policy.
    pub async fn under(mut self, policy: &str) -> Self {
        self.rig = self.rig.again(&[("policy.yaml", policy)]).await;
        self
    }
}

/// The ticket that an answer names.
pub fn ticket(facts: &Value) -> TicketId {
    TicketId::from(facts["request_id"].as_str().unwrap())
}

/// A call of a tool over MCP, of the revision with sessions.
pub fn mcp(key: &'static str, id: u64, tool: &str, arguments: Value) -> Call {
    let params = Value::from_iter([("name", Value::from(tool)), ("arguments", arguments)]);
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    Call {
        key,
        session: "s1",
        target: "/mcp",
        body: body.to_string(),
        headers: vec![("accept", "application/json, text/event-stream".to_owned())],
    }
}

/// What an MCP answer says of a refusal.
pub fn told(answer: &Answer) -> Value {
    answer.json()["result"]["_meta"]["holdpoint/refusal"].clone()
}

/// A key of an orchestrator: what the config says of it, and the key.
pub fn signing_key() -> (String, SigningKey) {
    let key = SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap();
    let public = format!("{{kid: \"{}\", public: \"{}\"}}", key.kid(), key.public());
    (public, key)
}
