//! `holdpoint demo`: a shop, a scripted model and the proxy on real sockets, five scenes and a sixth for
//! whoever runs it, and what the database holds after each. Nothing here judges: the verdicts shown are the guard's own.

mod agent;
mod model;
mod scenes;
mod shop;
mod show;
mod turn;
mod watch;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::{Agent, Happening};
use anyhow::Context as _;
use http::Method;
use scenes::{SCENES, Scene};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use watch::Watch;

use crate::approvals::password;
use crate::clock::SystemClock;
use crate::identity::api_key::sha256;
use crate::names::{RouteName, SessionKey, StoreName, ToolName, UpstreamName};
use crate::policy::{self, Policy};
use crate::principal::Principal;
use crate::serve::{self, Addresses, Running};
use crate::settings::{
    Account, Approver, ApproverKey, Approvers, HttpTool, HumanId, Limits, Listen, ModelRoute,
    Principals, Route, RouteProtocol, Secret, SessionSource, Settings, SqlStore, TicketPlace,
    TicketSettings, Timeouts, Upstream,
};
use crate::store::sql::{self, ReadOnlySql};
use crate::store::{Stores, tickets};

/// The policy that the demo runs on where no file is given.
pub const POLICY: &str = include_str!("../../policies/demo.yaml");

/// What the user chose.
#[derive(Debug, Default)]
pub struct Options {
    /// A policy in place of [`POLICY`].
    pub policy: Option<PathBuf>,
    /// End after the scenes.
    pub exit: bool,
}

/// Plays the scenes, then waits for ctrl-c unless told to exit.
///
/// # Errors
/// [`Problems`](crate::source::Problems) of a policy that cannot run, or a part of the demo that failed.
pub async fn run(options: &Options, print: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    let policy = match &options.policy {
        Some(path) => policy::load(path)?,
        None => policy::parse("policies/demo.yaml", POLICY.to_owned())?,
    };
    let stage = Stage::set(policy).await?;
    show::opening(print, &stage.policy, options.policy.as_deref());
    for (index, scene) in SCENES.iter().enumerate() {
        stage.play(index + 1, scene, print).await?;
    }
    if options.exit {
        print("All scenes played.");
    } else {
        let asked = stage.ask_you(SCENES.len() + 1, print).await?;
        show::by_hand(
            print,
            stage.running.addresses(),
            &stage.key,
            &stage.database(),
        );
        let follow = async {
            if asked && let Err(error) = stage.follow_you(print).await {
                print(&format!("   agent     gave up: {error:#}"));
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            stopped = tokio::signal::ctrl_c() => stopped?,
            () = follow => {}
        }
    }
    stage.running.shutdown().await;
    Ok(())
}

/// Everything that runs during the demo.
struct Stage {
    folder: TempDir,
    policy: Arc<Policy>,
    running: Running,
    watch: Arc<Watch>,
    judge: Arc<dyn ReadOnlySql>,
    /// Sam's: for the API, and as the password for the page.
    key: String,
}

impl Stage {
    async fn set(policy: Policy) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("holdpoint-demo-")
            .tempdir()?;
        let database = folder.path().join("shop.db");
        let shop = listen(shop::router(shop::create(&database)?)).await?;
        let model = listen(model::router()).await?;
        let key = uuid::Uuid::now_v7().simple().to_string();
        let settings = Arc::new(settings(folder.path(), shop, model, &key)?);
        let policy = Arc::new(policy);
        let watch = Arc::new(Watch::default());
        let stores = stores(folder.path(), &database)?;
        let running = serve::start_watched(
            settings,
            Arc::clone(&policy),
            stores,
            vec![Arc::clone(&watch) as _],
        )
        .await?;
        let judge = sql::sqlite::open(&database)?;
        Ok(Self {
            folder,
            policy,
            running,
            watch,
            judge,
            key,
        })
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    async fn play(
        &self,
        number: usize,
        scene: &Scene,
        print: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        let addresses = self.running.addresses();
        let agent = Agent::new(addresses.agents);
        let happenings = agent.ask(scene.user, scene.streamed).await?;
        show::scene(print, number, scene, &happenings, &self.watch.take());
        if scene.approved && waits(&happenings) {
            self.approve(&agent, addresses, print).await?;
            self.repeat(&agent, &happenings, print).await?;
        }
        show::database(print, self.judge.as_ref()).await?;
        Ok(())
    }

    /// A person approves what waits, over the approver listener, with a key the agent does not have.
    async fn approve(
        &self,
        agent: &Agent,
        addresses: Addresses,
        print: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        let approvers = addresses
            .approvers
            .context("there is no approver listener")?;
        let key = Some(self.key.as_str());
        let waiting = agent
            .send(
                approvers,
                Method::GET,
                "/v1/tickets?state=requested",
                key,
                None,
            )
            .await?;
        let list: serde_json::Value = serde_json::from_str(&waiting.body)?;
        let ticket = list.pointer("/tickets/0").context("no ticket waits")?;
        let field = |name: &str| {
            let value = ticket.get(name).and_then(serde_json::Value::as_str);
            value.with_context(|| format!("the ticket has no {name}"))
        };
        let (id, digest) = (field("id")?, field("digest")?);
        let prefix: String = digest.chars().take(12).collect();
        let body = json!({"digest_prefix": prefix, "comment": "seen in the demo"});
        let path = format!("/v1/tickets/{id}/approve");
        let answer = agent
            .send(approvers, Method::POST, &path, key, Some(&body))
            .await?;
        anyhow::ensure!(answer.status == 200, "the approval failed: {}", answer.body);
        print(&format!(
            "   approver  sam approves {id}: {}",
            ticket
                .get("summary")
                .and_then(serde_json::Value::as_str)
                .unwrap_or("-")
        ));
        Ok(())
    }

    /// The agent sends the identical call twice: once it goes through, once the receipt comes back.
    async fn repeat(
        &self,
        agent: &Agent,
        happenings: &[Happening],
        print: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        let call = happenings
            .iter()
            .rev()
            .find_map(|happening| match happening {
                Happening::Called { tool, args } => Some((tool, args)),
                _ => None,
            });
        let (tool, args) = call.context("no call to repeat")?;
        for _ in 0..2 {
            let answer = agent.run(tool, args).await?;
            show::repeated(print, tool, &answer);
            show::verdicts(print, &self.watch.take());
        }
        Ok(())
    }
}

fn waits(happenings: &[Happening]) -> bool {
    happenings.iter().any(|happening| {
        matches!(happening, Happening::Answered { status: 403, body, .. } if body.contains("approval_required"))
    })
}

async fn listen(router: axum::Router) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

fn stores(folder: &Path, database: &Path) -> anyhow::Result<Stores> {
    let clock = SystemClock::shared();
    let tickets = tickets::sqlite::open_serving(
        &folder.join("tickets.db"),
        Arc::clone(&clock),
        tickets::TicketLimits::default(),
    )?;
    Ok(Stores {
        sql: [(StoreName::from("shop"), sql::sqlite::open(database)?)].into(),
        tickets: Some(tickets),
        clock,
        ..Stores::default()
    })
}

/// What a config file would say; ports are free ones.
fn settings(
    folder: &Path,
    shop: SocketAddr,
    model: SocketAddr,
    key: &str,
) -> anyhow::Result<Settings> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let upstream = |name: &str, address: SocketAddr| -> anyhow::Result<_> {
        let name = UpstreamName::from(name);
        let upstream = Upstream {
            name: name.clone(),
            url: format!("http://{address}").parse()?,
            credential: None,
            ca: None,
        };
        Ok((name, upstream))
    };
    let tool = |tool: &str, method: Method, path: &str| {
        HttpTool::new(Some(ToolName::from(tool)), method, path)
    };
    let route = |name: &str, prefix: &str, upstream: &str, protocol| Route {
        name: RouteName::from(name),
        prefix: prefix.to_owned(),
        upstream: UpstreamName::from(upstream),
        protocol,
    };
    let tools = vec![
        tool("get_order", Method::GET, "/orders/{order_id}"),
        tool("refund_order", Method::POST, "/orders/{order_id}/refunds"),
        tool("get_reviews", Method::GET, "/products/{product}/reviews"),
        tool("send_email", Method::POST, "/emails"),
    ];
    Ok(Settings {
        listen: Listen {
            approvers: Some(free),
            ..Listen::plain(free, free)
        },
        policy: PathBuf::from("policies/demo.yaml"),
        upstreams: [upstream("model", model)?, upstream("shop", shop)?].into(),
        routes: vec![
            route(
                "model",
                "/openai",
                "model",
                RouteProtocol::OpenAiChat(ModelRoute::default()),
            ),
            route(
                "shop",
                "/shop",
                "shop",
                RouteProtocol::HttpTools(tools.into()),
            ),
        ],
        stores: [(
            StoreName::from("shop"),
            SqlStore::Sqlite(folder.join("shop.db")),
        )]
        .into(),
        tickets: Some(TicketSettings {
            store: TicketPlace::File(folder.join("tickets.db")),
            limits: tickets::TicketLimits::default(),
            issuers: Vec::new(),
            state_keys: Vec::new(),
        }),
        approvers: approvers(key)?,
        principals: Principals::Fixed(Arc::new(Principal {
            tenant: "shop".into(),
            issuer: "config".into(),
            subject: "alice".into(),
            agent: "demo-agent".into(),
            actors: Vec::new(),
            scopes: [].into(),
        })),
        secrets: Vec::new(),
        registered: Vec::new(),
        session: SessionSource::Fixed(SessionKey::from("demo")),
        spotlight_key: None,
        limits: Limits::default(),
        timeouts: Timeouts {
            drain: Duration::from_secs(2),
            ..Timeouts::default()
        },
        record: None,
    })
}

/// Sam of the support team, over the API and on the page.
fn approvers(key: &str) -> anyhow::Result<Approvers> {
    let sam = Approver {
        id: HumanId::new("config", "sam"),
        roles: vec!["support".to_owned()],
        tenants: None,
    };
    Ok(Approvers {
        keys: vec![ApproverKey {
            digest: sha256(key.as_bytes()),
            who: sam.clone(),
        }],
        accounts: vec![Account {
            name: "sam".into(),
            hash: Secret(password::hash(key).map_err(anyhow::Error::msg)?.into()),
            who: sam,
        }],
        ..Approvers::default()
    })
}
