//! What a ticket costs: durable claims per second, and what a gated write takes longer than the same write without a ticket, through
//! the whole proxy with an upstream in memory. Calls that need no ticket are measured with and without a store. Only ratios of one
//! run mean anything.
//!
//! `cargo bench --bench tickets`; with a URL in `HOLDPOINT_BENCH_POSTGRES` on that database too, which must be empty.
//! `docs/performance.md` says how to read it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all, try_join_all};
use holdpoint::clock::SystemClock;
use holdpoint::guard::{Cleared, Guard, Parts};
use holdpoint::metrics::Metrics;
use holdpoint::names::{RouteName, RuleId, SessionKey, TicketId, ToolName, UpstreamName};
use holdpoint::policy::{self, Gate, PolicyHash};
use holdpoint::principal::Principal;
use holdpoint::proxy::{Body, ProxyService, Setup, Upstream, UpstreamError, full, service};
use holdpoint::settings::{self, Overrides};
use holdpoint::store::Stores;
use holdpoint::store::sql::ServerTls;
use holdpoint::store::tickets::digest::{BoundCall, CallDigest, sha256_hex};
use holdpoint::store::tickets::{
    Answer, Bound, Claiming, Decider, Filter, Presented, Standing, Terms, TicketLimits,
    TicketState, TicketStore, Verdict, postgres, sqlite,
};
use holdpoint::verdict::{LayerId, Reason};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

/// How much is measured.
struct Plan {
    claims: usize,
    calls: usize,
    measured: bool,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |name: &str| arguments.iter().any(|argument| argument == name);
    let measured = given("--bench") && !given("--test");
    let plan = Plan {
        claims: if measured { 2000 } else { 64 },
        calls: if measured { 1000 } else { 4 },
        measured,
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let folder = tempfile::tempdir()?;
    let mut report = String::new();
    runtime.block_on(async {
        let file = folder.path().join("tickets.db");
        let store = sqlite::open_serving(&file, SystemClock::shared(), limits())?;
        measure("SQLite", store, &plan, &mut report).await?;
        if let Ok(url) = std::env::var("HOLDPOINT_BENCH_POSTGRES") {
            let clock = SystemClock::shared();
            let opened =
                postgres::open_serving(&url, &ServerTls::Off, "of the bench", clock, limits())?;
            measure("PostgreSQL", opened.tickets, &plan, &mut report).await?;
        }
        anyhow::Ok(())
    })?;
    if plan.measured {
        holdpoint::cli::print(report);
    } else {
        holdpoint::cli::print("every way works; `cargo bench --bench tickets` measures");
    }
    Ok(())
}

/// Nothing that is measured runs into a cap.
fn limits() -> TicketLimits {
    TicketLimits {
        pending_per_session: u32::MAX,
        requests_per_user: u32::MAX,
        ..TicketLimits::default()
    }
}

async fn measure(
    name: &str,
    store: Arc<dyn TicketStore>,
    plan: &Plan,
    report: &mut String,
) -> Result<()> {
    use std::fmt::Write as _;
    writeln!(report, "{name}")?;
    for at_once in [1, 16, 64] {
        let claims = if at_once == 1 {
            plan.claims / 4
        } else {
            plan.claims
        };
        let took = claims_of(&store, at_once, claims).await?;
        let rate = f64::from(u32::try_from(claims)?) / took.as_secs_f64();
        writeln!(
            report,
            "  durable claims, {at_once:>2} at once   {rate:>8.0} per second"
        )?;
    }
    for (what, times) in latencies(store, plan).await? {
        let at = |percent: usize| {
            let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
            times.get(index).copied().unwrap_or_default()
        };
        writeln!(
            report,
            "  {what:<32} p50 {:>9.1} us   p99 {:>9.1} us",
            micros(at(50)),
            micros(at(99))
        )?;
    }
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A call like no other.
fn presented() -> Result<Presented> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let arguments = format!("{{\"amount\":\"10.00\",\"order\":\"A-{number}\"}}");
    let digest = CallDigest::from_hex(&sha256_hex(arguments.as_bytes()));
    Ok(Presented {
        call: BoundCall {
            digest: digest.context("a digest")?,
            arguments: Bytes::from(arguments),
        },
        principal: Arc::new(Principal {
            tenant: "t".into(),
            issuer: "config".into(),
            subject: "claims".into(),
            agent: "bot".into(),
            actors: Vec::new(),
            scopes: std::collections::BTreeSet::new(),
        }),
        session: Some(SessionKey::from("s")),
        route: RouteName::from("shop"),
        upstream: UpstreamName::from("shop"),
        tool: ToolName::from("refund"),
        again: false,
        hint: None,
        said: None,
        bound: Bound::default(),
        terms: Terms {
            policy: PolicyHash("0".repeat(64).into()),
            layer: LayerId::Tickets,
            rule: RuleId::from("tools[0].ticket"),
            reason: Reason::ApprovalRequired,
            gate: Gate::Approve,
            roles: Vec::new(),
            approvals: 1,
            fresh: false,
            ttl: Duration::from_hours(1),
            summary: "Refund".to_owned(),
            reconcile: None,
            mandate: None,
            idempotent: None,
        },
    })
}

async fn approve(store: &Arc<dyn TicketStore>, ticket: TicketId) -> Result<()> {
    let answer = Answer {
        ticket,
        verdict: Verdict::Approve,
        by: Decider::Local("bench".to_owned()),
        digest_prefix: None,
        comment: None,
    };
    store.answer(answer).await?;
    Ok(())
}

async fn approved(store: &Arc<dyn TicketStore>) -> Result<(Presented, TicketId)> {
    let call = presented()?;
    let Standing::Waiting { ticket, .. } = store.present(call.clone()).await? else {
        bail!("no request was made");
    };
    approve(store, ticket.id.clone()).await?;
    Ok((call, ticket.id))
}

/// How long so many claims take, so many at once.
async fn claims_of(
    store: &Arc<dyn TicketStore>,
    at_once: usize,
    claims: usize,
) -> Result<Duration> {
    let mut ready = Vec::new();
    while ready.len() < claims {
        let made = (0..64).map(|_| approved(store));
        ready.extend(try_join_all(made).await?);
    }
    ready.truncate(claims);
    let shares: Vec<Vec<_>> = (0..at_once)
        .map(|n| ready.iter().skip(n).step_by(at_once).cloned().collect())
        .collect();
    let started = Instant::now();
    let workers = shares.into_iter().map(|share| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let mut claimed = Vec::with_capacity(share.len());
            for (call, ticket) in share {
                match store.claim(call, ticket).await? {
                    Claiming::Claimed(claim) => claimed.push(claim),
                    Claiming::Lost(standing) => bail!("not claimed: {standing:?}"),
                }
            }
            Ok(claimed)
        })
    });
    let done = join_all(workers).await;
    let took = started.elapsed();
    for worker in done {
        for claim in worker?? {
            let given_back = claim.finish(holdpoint::guard::Outcome::NotSent).await;
            given_back.map_err(|undecided| anyhow!(undecided.cause))?;
        }
    }
    Ok(took)
}

/// Answers at once.
#[derive(Clone)]
struct Shop;

impl Upstream for Shop {
    fn send(
        &self,
        _: &UpstreamName,
        _: Cleared<Request<Bytes>>,
    ) -> BoxFuture<'static, Result<Response<Body>, UpstreamError>> {
        let mut response = Response::new(full("{\"done\":true}"));
        response.headers_mut().insert(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("application/json"),
        );
        Box::pin(std::future::ready(Ok(response)))
    }
}

const CONFIG: &str = "policy: policy.yaml
upstreams: {shop: {url: \"http://shop.invalid\"}}
routes:
  - name: shop
    prefix: /shop
    upstream: shop
    protocol: http_tools
    tools:
      - {tool: pay, method: POST, path: \"/pay/{id}\"}
      - {tool: refund, method: POST, path: \"/refund/{id}\"}
principal: {fixed: {tenant: t, subject: bench, agent: bot}}
tickets: {store: unused.db}
";

const POLICY: &str = "version: 1
name: bench
layers: {catalog: off, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: MODE}
tools:
  - {tool: pay}
  - {tool: refund, ticket: {gate: approve, ttl: 1h, summary: \"Refund {/id}\"}}
";

fn proxy(
    folder: &Path,
    mode: &str,
    tickets: Option<Arc<dyn TicketStore>>,
) -> Result<ProxyService<Shop>> {
    let path = folder.join("holdpoint.yaml");
    std::fs::write(&path, CONFIG)?;
    std::fs::write(folder.join("policy.yaml"), POLICY.replace("MODE", mode))?;
    let checked = settings::read(&path, &Overrides::default(), &BTreeMap::new())
        .map_err(|problems| anyhow!("{problems}"))?;
    let settings = checked.settings;
    let policy = policy::load(&settings.policy).map_err(|problems| anyhow!("{problems}"))?;
    let modes = policy.modes.clone();
    let metrics = Metrics::new();
    let parts = Parts {
        stores: Stores {
            tickets,
            ..Stores::default()
        },
        venues: settings.venues(),
        observers: vec![Arc::clone(&metrics) as _],
        ..Parts::default()
    };
    let guard =
        Guard::new(Arc::new(policy), &modes, parts).map_err(|problems| anyhow!("{problems}"))?;
    let setup = Setup {
        guard: Arc::new(ArcSwap::from_pointee(guard)),
        settings: Arc::new(settings),
        metrics,
    };
    service(setup, Shop).map_err(|problems| anyhow!("{problems}"))
}

async fn post(proxy: &ProxyService<Shop>, target: &str) -> Result<(u16, Duration)> {
    let request = Request::post(target)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(full("{}"))?;
    let started = Instant::now();
    let response = match proxy.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let status = response.status().as_u16();
    let body = response.into_body().collect().await;
    body.map_err(|error| anyhow!("{error}"))?;
    Ok((status, started.elapsed()))
}

/// How long a call takes that passes.
async fn timed(proxy: &ProxyService<Shop>, target: &str) -> Result<Duration> {
    let (status, took) = post(proxy, target).await?;
    ensure!(status == 200, "{target}: {status}");
    Ok(took)
}

/// How long calls take one after another, sorted.
async fn latencies(
    store: Arc<dyn TicketStore>,
    plan: &Plan,
) -> Result<Vec<(&'static str, Vec<Duration>)>> {
    let folder = tempfile::tempdir()?;
    let without = proxy(folder.path(), "off", None)?;
    let with = proxy(folder.path(), "enforce", Some(Arc::clone(&store)))?;
    let (mut free, mut beside, mut gated) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..plan.calls {
        let (status, _) = post(&with, &format!("/shop/refund/{n}")).await?;
        ensure!(status == 403, "the call is held first: {status}");
        for ticket in store.list(Filter::state(TicketState::Requested)).await? {
            approve(&store, ticket.id).await?;
        }
        let took = timed(&with, &format!("/shop/refund/{n}")).await?;
        gated.push(took);
        // After a call that counts for nothing, and each as often the first: both meet a machine in the same mood.
        timed(&without, &format!("/shop/pay/{n}")).await?;
        let mut pair = [(&without, &mut free), (&with, &mut beside)];
        pair.rotate_left(n % 2);
        for (proxy, times) in pair {
            times.push(timed(proxy, &format!("/shop/pay/{n}")).await?);
        }
    }
    for times in [&mut free, &mut beside, &mut gated] {
        times.sort_unstable();
    }
    Ok(vec![
        ("write without tickets", free),
        ("the same, and others need tickets", beside),
        ("gated write, approved", gated),
    ])
}
