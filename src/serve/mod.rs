//! The running server: listeners around one guard. `holdpoint serve` runs it until a signal, the demo and tests in
//! process.

mod accept;
mod agents;
mod approvers;
mod counted;
mod forward;
mod framing;
mod furnish;
mod housekeeping;
mod journal;
mod passes;
mod places;
mod sniff;
mod taken;
mod tls;
mod usage;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agents::{Door, Speech};
use arc_swap::ArcSwap;
use axum::Router;
use furnish::furnished;
pub(crate) use housekeeping::{Housekeeping, Kept};
use places::Places;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use usage::Patience;

use crate::approvals::{Approvals, People, webhook};
use crate::clock::{Clock, SystemClock};
use crate::control::health::{self, Operations, Readiness};
use crate::coverage;
use crate::forward::{ForwardProxy, Network};
use crate::guard::{Guard, Observer, Parts};
use crate::metrics::Metrics;
use crate::policy::Policy;
use crate::proxy::{HttpUpstream, ProxyService, Setup, Upstream, readers, recorded_service};
use crate::record::{Recorder, RecorderParts};
use crate::settings::{Listen, Settings};
use crate::source::{Problem, Problems};
use crate::store::tickets::TicketStore;
use crate::store::{Stores, tickets};

/// Bound addresses: with port 0 in the settings the system has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The proxy.
    pub agents: SocketAddr,
    /// The ticket API; `None` where the settings have none, or no ticket store.
    pub approvers: Option<SocketAddr>,
    /// Health and metrics.
    pub operations: SocketAddr,
    /// The forward proxy; `None` where the settings have none.
    pub forward: Option<SocketAddr>,
}

impl Addresses {
    /// Every address that the process listens on.
    fn all(&self) -> Vec<SocketAddr> {
        let optional = [self.approvers, self.forward].into_iter().flatten();
        [self.agents, self.operations]
            .into_iter()
            .chain(optional)
            .collect()
    }
}

/// A server that takes requests. Dropped, it stops at once; [`Running::shutdown`] lets requests end.
#[derive(Debug)]
pub struct Running {
    addresses: Addresses,
    metrics: Arc<Metrics>,
    readiness: Readiness,
    service: ProxyService<HttpUpstream>,
    stop_agents: CancellationToken,
    agents: JoinHandle<()>,
    forward: Option<JoinHandle<()>>,
    control: Vec<JoinHandle<()>>,
    _kept: Kept,
    recorder: Option<Arc<Recorder>>,
    drain: Duration,
}

/// How a shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Every request has ended.
    Whole,
    /// `timeouts.drain` ran out: some were cut.
    Cut,
}

impl Running {
    /// Where it listens.
    pub const fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// What it counts.
    pub const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Stops: no longer ready, no new connections, requests in flight get `timeouts.drain` to end. Calls that a ticket was
    /// spent on are waited for even where their agent has left.
    pub async fn shutdown(mut self) -> Drained {
        self.readiness.set(false);
        self.stop_agents.cancel();
        self.service.release();
        let (agents, forward) = (&mut self.agents, &mut self.forward);
        let service = &self.service;
        let ended = async {
            let _ = agents.await;
            if let Some(forward) = forward {
                let _ = forward.await;
            }
            service.settled().await;
        };
        let drained = match tokio::time::timeout(self.drain, ended).await {
            Ok(()) => Drained::Whole,
            Err(_) => Drained::Cut,
        };
        if let Some(recorder) = &self.recorder {
            recorder.finish().await;
        }
        drained
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.agents.abort();
        for task in self.forward.iter().chain(&self.control) {
            task.abort();
        }
    }
}

/// Opens what the settings name: read-only databases, each proved unable to write, and the ticket store for serving.
///
/// # Errors
/// Every store that cannot be opened.
pub fn open_stores(settings: &Settings) -> Result<Stores, Problems> {
    open_stores_at(settings, SystemClock::shared())
}

/// As [`open_stores`], at another time.
///
/// # Errors
/// As [`open_stores`].
pub fn open_stores_at(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Stores, Problems> {
    let (sql, mut problems) = settings.open_sql();
    let mut stores = Stores {
        sql,
        clock,
        ..Stores::default()
    };
    match settings.register() {
        Ok(register) => stores.register = register,
        Err(found) => problems.extend(found.0),
    }
    match readers(settings) {
        Ok(readers) => stores.http = readers,
        Err(found) => problems.extend(found.0),
    }
    if let Some(settings) = &settings.tickets {
        let clock = Arc::clone(&stores.clock);
        match tickets::serve(settings, clock) {
            Ok(opened) => {
                stores.tickets = Some(opened.tickets);
                stores.ledger = opened.ledger.unwrap_or(stores.ledger);
                stores.acquainted = opened.acquainted.unwrap_or(stores.acquainted);
            }
            Err(error) => problems
                .0
                .push(Problem::new(error.to_string()).help("check `tickets` in the config")),
        }
    }
    if problems.has_errors() {
        return Err(problems);
    }
    Ok(stores)
}

/// Starts serving: proves that every route is guarded, binds every listener, builds the guard, then is ready.
///
/// # Errors
/// An address that cannot be bound, a layer that cannot run, a route or upstream that cannot work, or a route on which
/// content passes unjudged that should be judged.
pub async fn start(
    settings: Arc<Settings>,
    policy: Arc<Policy>,
    stores: Stores,
) -> Result<Running, Problems> {
    start_with(settings, policy, stores, Extras::default()).await
}

/// What a program that embeds the server may add.
#[derive(Clone, Default)]
pub struct Extras {
    /// Told of every decision, after the metrics and the log.
    pub observers: Vec<Arc<dyn Observer>>,
    /// How the forward proxy resolves names and connects. What it dials is checked all the same.
    pub network: Network,
}

/// As [`start`], with further observers of every decision besides the metrics.
///
/// # Errors
/// As [`start`].
pub async fn start_watched(
    settings: Arc<Settings>,
    policy: Arc<Policy>,
    stores: Stores,
    observers: Vec<Arc<dyn Observer>>,
) -> Result<Running, Problems> {
    let extras = Extras {
        observers,
        ..Extras::default()
    };
    start_with(settings, policy, stores, extras).await
}

/// As [`start`], with what the program adds.
///
/// # Errors
/// As [`start`].
pub async fn start_with(
    settings: Arc<Settings>,
    policy: Arc<Policy>,
    stores: Stores,
    extras: Extras,
) -> Result<Running, Problems> {
    let people = Arc::new(People::new(settings.approvers.clone()));
    let metrics = Metrics::new();
    let stores = furnished(&settings, (&people, &metrics), stores);
    let tickets = stores.tickets.clone();
    let clock = Arc::clone(&stores.clock);
    let recorder = recorder(&settings, &stores, &metrics)?;
    let upstream = HttpUpstream::new(&settings)?;
    let housekeeping = Housekeeping::new(&policy, &stores)?;
    let told = (extras.observers, &metrics);
    let setup = setup(&settings, &policy, stores, told)?;
    let service = recorded_service(setup.clone(), upstream, recorder.clone())?;
    service.load().await?;

    let listen = &settings.listen;
    let speech = match &listen.tls {
        Some(files) => Speech::Tls(tls::acceptor("listen.tls", files, tls::BOTH)?),
        None => Speech::Plain { h2c: listen.h2c },
    };
    let forward_speech = match &listen.forward_tls {
        Some(files) => Speech::Tls(tls::acceptor("listen.forward_tls", files, tls::ONE)?),
        None => Speech::Plain { h2c: false },
    };
    let (agents, operations, approvers, forward) = bound(listen, tickets.clone()).await?;

    let addresses = Addresses {
        agents: local(&agents)?,
        approvers: approvers.as_ref().map(|(l, _)| local(l)).transpose()?,
        operations: local(&operations)?,
        forward: forward.as_ref().map(local).transpose()?,
    };
    let forward = match forward {
        Some(listener) => {
            let own = addresses.all();
            let proxy = ForwardProxy::new(setup, service.common(), extras.network, own)?;
            proxy.load().await?;
            Some((listener, proxy))
        }
        None => None,
    };
    let readiness = Readiness::default();
    let mut control = vec![spawn_control(
        operations,
        health::router(Operations {
            readiness: readiness.clone(),
            metrics: Arc::clone(&metrics),
            tickets: tickets.clone(),
        }),
    )];
    if let Some((listener, store)) = approvers {
        let approvals = Approvals::new(&settings, people, store, clock, Arc::clone(&metrics))?;
        approvals.load().await?;
        control.extend(webhook::spawn(&approvals)?);
        let tls = listen.approvers_tls.as_ref();
        let tls = tls.map(|files| tls::acceptor("listen.approvers.tls", files, tls::ONE));
        control.push(approvers::spawn(listener, tls.transpose()?, approvals));
    }
    let stop_agents = CancellationToken::new();
    let door = Door {
        speech,
        head: settings.timeouts.request_head,
        patience: Patience {
            limit: settings.timeouts.client_idle,
            metrics: Arc::clone(&metrics),
        },
        places: Places::new(&settings.limits, Arc::clone(&metrics)),
        stop: stop_agents.clone(),
    };
    let forward = forward.map(|(listener, proxy)| {
        let door = Door {
            speech: forward_speech,
            ..door.clone()
        };
        tokio::spawn(forward::serve(listener, door, proxy))
    });
    let agents = tokio::spawn(agents::serve(agents, door, service.clone()));
    readiness.set(true);
    Ok(Running {
        addresses,
        metrics,
        readiness,
        service,
        stop_agents,
        agents,
        forward,
        control,
        _kept: housekeeping.begin(),
        recorder,
        drain: settings.timeouts.drain,
    })
}

/// The proxy as it is run for real: proved to guard every route, its decisions counted and logged, then told to `observers`.
///
/// # Errors
/// A layer that cannot run, a route that cannot work, or one on which content passes unjudged that should be judged.
pub(crate) fn proxy<U: Upstream>(
    settings: &Arc<Settings>,
    policy: &Arc<Policy>,
    stores: Stores,
    observers: Vec<Arc<dyn Observer>>,
    upstream: U,
) -> Result<(ProxyService<U>, Arc<Metrics>), Problems> {
    let people = Arc::new(People::new(settings.approvers.clone()));
    let metrics = Metrics::new();
    let stores = furnished(settings, (&people, &metrics), stores);
    let recorder = recorder(settings, &stores, &metrics)?;
    let setup = setup(settings, policy, stores, (observers, &metrics))?;
    Ok((recorded_service(setup, upstream, recorder)?, metrics))
}

/// Who records exchanges, where the settings say so.
fn recorder(
    settings: &Settings,
    stores: &Stores,
    metrics: &Arc<Metrics>,
) -> Result<Option<Arc<Recorder>>, Problems> {
    let start = |record| {
        Recorder::start(RecorderParts {
            record,
            settings,
            register: Arc::clone(&stores.register),
            metrics: Arc::clone(metrics),
        })
    };
    settings.record.as_ref().map(start).transpose()
}

/// What every listener for agents shares: one guard, proved to see what comes.
fn setup(
    settings: &Arc<Settings>,
    policy: &Arc<Policy>,
    stores: Stores,
    (mut observers, metrics): (Vec<Arc<dyn Observer>>, &Arc<Metrics>),
) -> Result<Setup, Problems> {
    // A route that lets content past the guard must never take a request.
    coverage::prove(settings)?;
    observers.splice(
        0..0,
        [
            Arc::clone(metrics) as Arc<dyn Observer>,
            Arc::new(journal::Journal),
        ],
    );
    let parts = Parts {
        stores,
        venues: settings.venues(),
        observers,
        ..Parts::default()
    };
    let guard = Guard::new(Arc::clone(policy), &policy.modes, parts)?;
    Ok(Setup {
        guard: Arc::new(ArcSwap::from_pointee(guard)),
        settings: Arc::clone(settings),
        metrics: Arc::clone(metrics),
    })
}

/// The listeners of agents, operations, approvers (with the store that they answer in) and of the forward proxy.
type Listeners = (
    TcpListener,
    TcpListener,
    Option<(TcpListener, Arc<dyn TicketStore>)>,
    Option<TcpListener>,
);

/// Binds every listener that the settings name, or says which cannot be bound.
async fn bound(
    listen: &Listen,
    tickets: Option<Arc<dyn TicketStore>>,
) -> Result<Listeners, Problems> {
    let agents = bind("agents", listen.agents).await;
    let operations = bind("operations", listen.operations).await;
    let approvers = match listen.approvers.zip(tickets) {
        Some((address, store)) => Some(bind("approvers", address).await.map(|l| (l, store))),
        None => None,
    };
    let forward = match listen.forward {
        Some(address) => Some(bind("forward", address).await),
        None => None,
    };
    all(
        agents,
        operations,
        approvers.transpose(),
        forward.transpose(),
    )
}

/// All four, or every problem.
fn all<A, B, C, D>(
    a: Result<A, Problem>,
    b: Result<B, Problem>,
    c: Result<C, Problem>,
    d: Result<D, Problem>,
) -> Result<(A, B, C, D), Problems> {
    match (a, b, c, d) {
        (Ok(a), Ok(b), Ok(c), Ok(d)) => Ok((a, b, c, d)),
        (a, b, c, d) => {
            let problems = [a.err(), b.err(), c.err(), d.err()];
            Err(Problems(problems.into_iter().flatten().collect()))
        }
    }
}

async fn bind(name: &str, address: SocketAddr) -> Result<TcpListener, Problem> {
    TcpListener::bind(address).await.map_err(|error| {
        Problem::new(format!("cannot listen on {address} for {name}: {error}"))
            .help(format!("set `listen.{name}` to a free address"))
    })
}

fn local(listener: &TcpListener) -> Result<SocketAddr, Problems> {
    listener
        .local_addr()
        .map_err(|error| Problem::new(format!("a listener has no address: {error}")).into())
}

fn spawn_control(listener: TcpListener, router: Router) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "a control listener ended");
        }
    })
}
