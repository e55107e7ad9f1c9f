//! A running server from the text of a config and a policy, on ports that the system chooses.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use holdpoint::clock::{Clock, SystemClock};
use holdpoint::serve::{self, Running};
use holdpoint::settings::{self, Overrides, Settings};
use holdpoint::store::tickets::TicketStore;
use holdpoint::{policy, store::Stores};
use tempfile::TempDir;

use super::client::{self, Answer};

/// A server with its files.
pub struct Rig {
    running: Option<Running>,
    folder: TempDir,
    tickets: Option<Arc<dyn TicketStore>>,
    environment: Vec<(String, String)>,
    clock: Arc<dyn Clock>,
}

/// A policy in which every layer is off.
pub const OFF: &str = "version: 1
name: off
layers: {catalog: off, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: off}
tools:
  - {tool: get_order, effect: read}
  - {tool: refund}
  - {tool: send}
";

/// One listener address for all: the system chooses the ports.
fn anywhere() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Reads both files, as the command does.
pub fn load(folder: &Path, config: &str, policy: &str) -> (Settings, policy::Policy) {
    std::fs::write(folder.join("policy.yaml"), policy).unwrap();
    let config = format!("policy: policy.yaml\n{config}");
    std::fs::write(folder.join("holdpoint.yaml"), config).unwrap();
    reload(folder, &[])
}

/// Opens the stores. Of a server that has just ended the last tasks let go of its store a moment later.
async fn opened(settings: &Settings, clock: &Arc<dyn Clock>) -> Stores {
    let mut tries = 100;
    loop {
        match serve::open_stores_at(settings, Arc::clone(clock)) {
            Ok(stores) => return stores,
            Err(problems) if tries > 0 && problems.to_string().contains("is served by") => {
                tries -= 1;
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            Err(problems) => panic!("{problems}"),
        }
    }
}

/// Reads the files that are there.
fn reload(folder: &Path, more: &[(String, String)]) -> (Settings, policy::Policy) {
    let path = folder.join("holdpoint.yaml");
    let mut environment: BTreeMap<String, String> = [
        ("UPSTREAM_KEY", "upstream-secret"),
        ("GIT_TOKEN", "ghp_the-secret-of-git"),
        ("AGENT_KEY", "the-key-of-an-agent"),
        ("APPROVER_KEY", "an-approver-key-of-some-length"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    environment.extend(more.iter().cloned());
    let checked = settings::read(&path, &Overrides::default(), &environment)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let mut settings = checked.settings;
    settings.listen.agents = anywhere();
    settings.listen.operations = anywhere();
    settings.listen.approvers = settings.listen.approvers.map(|_| anywhere());
    let policy = policy::load(&settings.policy).unwrap_or_else(|problems| panic!("{problems}"));
    (settings, policy)
}

impl Rig {
    pub async fn start(config: &str, policy: &str) -> Self {
        Self::at(config, policy, SystemClock::shared()).await
    }

    /// One whose time the test sets.
    pub async fn at(config: &str, policy: &str, clock: Arc<dyn Clock>) -> Self {
        Self::opened(config, policy, &[], clock).await
    }

    /// One with more variables.
    pub async fn opened(
        config: &str,
        policy: &str,
        environment: &[(String, String)],
        clock: Arc<dyn Clock>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("policy.yaml"), policy).unwrap();
        let config = format!("policy: policy.yaml\n{config}");
        std::fs::write(folder.path().join("holdpoint.yaml"), config).unwrap();
        Self::run(folder, environment.to_vec(), clock).await
    }

    async fn run(
        folder: TempDir,
        environment: Vec<(String, String)>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (settings, policy) = reload(folder.path(), &environment);
        let stores = opened(&settings, &clock).await;
        let tickets = stores.tickets.clone();
        let running = serve::start(Arc::new(settings), Arc::new(policy), stores)
            .await
            .unwrap_or_else(|problems| panic!("{problems}"));
        Self {
            running: Some(running),
            folder,
            tickets,
            environment,
            clock,
        }
    }

    /// Ends the server, and starts it once more with the same files and stores, some of the files changed.
    pub async fn again(self, changed: &[(&str, &str)]) -> Self {
        let (folder, environment, clock) = self.stopped().await;
        for (name, text) in changed {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self::run(folder, environment, clock).await
    }

    /// Ends the server; its files stay.
    pub async fn stopped(mut self) -> (TempDir, Vec<(String, String)>, Arc<dyn Clock>) {
        if let Some(running) = self.running.take() {
            running.shutdown().await;
        }
        drop(self.tickets.take());
        (self.folder, self.environment, self.clock)
    }

    /// As [`Rig::opened`], with files that are there already.
    pub async fn on(folder: TempDir, environment: Vec<(String, String)>) -> Self {
        Self::run(folder, environment, SystemClock::shared()).await
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its ticket store.
    pub fn tickets(&self) -> &Arc<dyn TicketStore> {
        self.tickets.as_ref().unwrap()
    }

    /// Routes to one upstream: `/shop` as HTTP tools, `/openai` as a model.
    pub async fn before(upstream: &str, more: &str) -> Self {
        Self::start(&config(upstream, more), OFF).await
    }

    pub fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    pub fn take(&mut self) -> Running {
        self.running.take().unwrap()
    }

    pub fn agents(&self) -> SocketAddr {
        self.running().addresses().agents
    }

    pub fn operations(&self) -> SocketAddr {
        self.running().addresses().operations
    }

    /// One request on a connection of its own.
    pub async fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        client::ask(self.agents(), request).await
    }

    /// What a scrape shows.
    pub async fn scrape(&self) -> String {
        let request = client::request("GET", "/metrics", &[], "");
        let answer = client::ask(self.operations(), request).await;
        assert_eq!(answer.status, 200);
        answer.text().to_owned()
    }
}

/// The config of [`Rig::before`], with `more` lines.
pub fn config(upstream: &str, more: &str) -> String {
    let principal = if more.contains("principal:") {
        ""
    } else {
        "principal: {fixed: {tenant: t, subject: ann, agent: bot}}"
    };
    format!(
        "upstreams:
  shop: {{url: \"{upstream}\"}}
  model: {{url: \"{upstream}/base\", credential: {{header: authorization, scheme: Bearer, value_env: UPSTREAM_KEY}}}}
routes:
  - name: shop
    prefix: /shop
    upstream: shop
    protocol: http_tools
    tools:
      - {{tool: get_order, method: GET, path: \"/orders/{{order_id}}\"}}
      - {{tool: refund, method: POST, path: \"/orders/{{order_id}}/refund\"}}
      - {{tool: send, method: POST, path: /send}}
  - {{name: model, prefix: /openai, upstream: model, protocol: openai_chat}}
{principal}
{more}
"
    )
}
