//! The ticket store and the ledger in a PostgreSQL that is started here: every promise of a store, and what several processes on
//! one database owe each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use holdpoint::clock::{Clock, SystemClock};
use holdpoint::guard::{Claim, Outcome, Receipt};
use holdpoint::ledger::{Account, Entry, Ledger, Owner, Uncharged};
use holdpoint::names::{RuleId, SessionKey, TicketId};
use holdpoint::principal::Who;
use holdpoint::store::sql::ServerTls;
use holdpoint::store::tickets::audit::Verifier;
use holdpoint::store::tickets::{
    Claiming, Filter, Opened, Presented, Standing, TicketError, TicketLimits, TicketState,
    TicketStore, postgres,
};
use rust_decimal::Decimal;

use crate::conformance::clock::StillClock;
use crate::conformance::{Bed, Desk, answered, receipt, refund};
use crate::servers::{Server, wanted};
use crate::support::client::{ask, request};
use crate::support::rig::Rig;
use crate::support::upstream::{Upstream, answer};
use crate::table::shown::{PASSWORD, at, log_in};

/// One server, and databases on it.
struct Beds {
    server: Arc<Server>,
    made: AtomicUsize,
}

struct Base {
    server: Arc<Server>,
    url: String,
}

impl Beds {
    async fn fresh(&self) -> Base {
        let name = format!("tickets{}", self.made.fetch_add(1, Ordering::Relaxed));
        self.server.admin(&format!("CREATE DATABASE {name}")).await;
        Base {
            server: Arc::clone(&self.server),
            url: self.server.url_of("admin", &name),
        }
    }
}

async fn beds() -> Option<Beds> {
    if !wanted() {
        return None;
    }
    Some(Beds {
        server: Arc::new(Server::postgres().await),
        made: AtomicUsize::new(0),
    })
}

impl Base {
    /// Opening waits for the server: off the async threads.
    async fn open(
        &self,
        clock: Arc<dyn Clock>,
        limits: TicketLimits,
        serving: bool,
    ) -> Result<Opened, TicketError> {
        let url = self.url.clone();
        let open = move || {
            let open = if serving {
                postgres::open_serving
            } else {
                postgres::open_existing
            };
            open(&url, &ServerTls::Off, "here", clock, limits)
        };
        tokio::task::spawn_blocking(open).await.unwrap()
    }

    async fn serving(&self) -> Opened {
        let opened = self.open(SystemClock::shared(), TicketLimits::default(), true);
        opened.await.unwrap()
    }

    async fn sql(&self, sql: &str) {
        self.server.run_at(&self.url, sql).await.unwrap();
    }
}

impl Bed for Base {
    fn serve(
        &self,
        clock: Arc<dyn Clock>,
        limits: TicketLimits,
    ) -> BoxFuture<'_, Arc<dyn TicketStore>> {
        Box::pin(async move { self.open(clock, limits, true).await.unwrap().tickets })
    }

    fn beside(
        &self,
        clock: Arc<dyn Clock>,
        limits: TicketLimits,
    ) -> BoxFuture<'_, Arc<dyn TicketStore>> {
        Box::pin(async move { self.open(clock, limits, true).await.unwrap().tickets })
    }
}

/// One test for each module, whose promises are tried one after the other: a server costs much and has room for several beds.
macro_rules! promises_in_turn {
    ($beds:path; $($module:ident { $($promise:ident)* })*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $module() {
            if let Some(beds) = $beds().await {
                $(
                    eprintln!("{}", stringify!($promise));
                    $crate::conformance::$module::$promise(&beds.fresh().await).await;
                )*
            }
        }
    )* };
}

crate::conformance::every_promise!(promises_in_turn, crate::tickets::beds);

async fn approved(store: &Arc<dyn TicketStore>, call: &Presented) -> TicketId {
    let desk = Desk {
        store: Arc::clone(store),
        clock: StillClock::new(),
    };
    desk.approved(call).await
}

async fn claim(store: &Arc<dyn TicketStore>, call: &Presented, id: &TicketId) -> Claiming {
    store.claim(call.clone(), id.clone()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_one_redeems() {
    let Some(beds) = beds().await else { return };
    let base = beds.fresh().await;
    let nodes = [base.serving().await, base.serving().await];
    let call = refund("A-1");
    let id = approved(&nodes[0].tickets, &call).await;
    let claims = (0..100).map(|n| claim(&nodes[n % 2].tickets, &call, &id));
    let mut won: Vec<Box<dyn Claim>> = Vec::new();
    for claiming in join_all(claims).await {
        match claiming {
            Claiming::Claimed(claim) => won.push(claim),
            Claiming::Lost(standing) => {
                assert!(matches!(standing, Standing::Redeeming(_)), "{standing:?}");
            }
        }
    }
    assert_eq!(won.len(), 1);
    let claim = won.pop().unwrap();
    // These processes go by the system's clock.
    let receipt = Receipt {
        completed_at: jiff::Timestamp::now(),
        ..receipt(&id, 200, "{}")
    };
    claim.finish(Outcome::Answered(receipt)).await.unwrap();
    for node in &nodes {
        let said = node.tickets.present(call.clone()).await.unwrap();
        assert!(matches!(said, Standing::Done(_)), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lost_process_was_redeeming_is_unknown_and_its_own_word_comes_too_late() {
    let Some(beds) = beds().await else { return };
    let base = beds.fresh().await;
    let (first, second) = (base.serving().await, base.serving().await);
    let (lost, own) = (refund("A-1"), refund("A-2"));
    let lost_id = approved(&first.tickets, &lost).await;
    let own_id = approved(&second.tickets, &own).await;
    let Claiming::Claimed(late) = claim(&first.tickets, &lost, &lost_id).await else {
        panic!("not claimed")
    };
    let Claiming::Claimed(kept) = claim(&second.tickets, &own, &own_id).await else {
        panic!("not claimed")
    };
    // The first process is cut off: its lease ends, and so does every connection of its own.
    base.sql("UPDATE holdpoint.node SET lease_until = clock_timestamp() - interval '1 second' WHERE epoch = 1")
        .await;
    let third = base.serving().await;
    let state = |id: &TicketId| {
        let (store, id) = (Arc::clone(&third.tickets), id.clone());
        async move { store.get(id).await.unwrap().unwrap().state }
    };
    assert_eq!(state(&lost_id).await, TicketState::Unknown);
    assert_eq!(state(&own_id).await, TicketState::Redeeming);
    assert!(late.finish(answered(&lost_id, 200, "{}")).await.is_err());
    assert_eq!(state(&lost_id).await, TicketState::Unknown);
    kept.finish(answered(&own_id, 200, "{}")).await.unwrap();
    assert_eq!(state(&own_id).await, TicketState::Succeeded);
    // Until it has a new lease the first one redeems nothing.
    let next = refund("A-3");
    let next_id = approved(&second.tickets, &next).await;
    let refused = first.tickets.claim(next.clone(), next_id.clone()).await;
    assert!(matches!(refused, Err(TicketError::Unavailable { .. })));
    assert_eq!(state(&next_id).await, TicketState::Approved);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_serve_claims_nothing() {
    let Some(beds) = beds().await else { return };
    let base = beds.fresh().await;
    let missing = base.open(SystemClock::shared(), TicketLimits::default(), false);
    assert!(matches!(
        missing.await,
        Err(TicketError::NotATicketStore { .. })
    ));
    let serving = base.serving().await;
    let beside = base.open(SystemClock::shared(), TicketLimits::default(), false);
    let beside = beside.await.unwrap().tickets;
    let call = refund("A-1");
    let id = approved(&serving.tickets, &call).await;
    assert!(beside.claim(call.clone(), id.clone()).await.is_err());
    base.sql("UPDATE holdpoint.version SET version = 99").await;
    let newer = base.open(SystemClock::shared(), TicketLimits::default(), true);
    assert!(matches!(
        newer.await,
        Err(TicketError::Newer { found: 99, .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_forgotten_is_not_believed() {
    let Some(beds) = beds().await else { return };
    let base = beds.fresh().await;
    let node = base.serving().await;
    let call = refund("A-1");
    let id = approved(&node.tickets, &call).await;
    let Claiming::Claimed(claim) = claim(&node.tickets, &call, &id).await else {
        panic!("not claimed")
    };
    claim.finish(answered(&id, 200, "{}")).await.unwrap();
    // As a standby would that took over before it had everything: the ticket is approved again there.
    base.sql(&format!(
        "UPDATE holdpoint.ticket SET state = 'approved', ended_at = NULL WHERE id = '{id}';
         DELETE FROM holdpoint.audit WHERE seq > 2;
         UPDATE holdpoint.audit_head SET seq = 2, hash = (SELECT hash FROM holdpoint.audit WHERE seq = 2);
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name = 'holdpoint'"
    ))
    .await;
    // Connections that were cut are noticed one by one; none that is new is taken.
    let mut said = String::new();
    for _ in 0..20 {
        match node.tickets.claim(call.clone(), id.clone()).await {
            Ok(_) => panic!("redeemed twice"),
            Err(error) => said = error.to_string(),
        }
    }
    assert!(said.contains("forgotten"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_is_an_error_and_comes_back() {
    let Some(mut beds) = beds().await else { return };
    let base = beds.fresh().await;
    let node = base.serving().await;
    let call = refund("A-1");
    let id = approved(&node.tickets, &call).await;
    let url = base.url.clone();
    drop(base);
    Arc::get_mut(&mut beds.server).unwrap().stop();
    let gone = node.tickets.claim(call.clone(), id.clone()).await;
    assert!(matches!(gone, Err(TicketError::Unavailable { .. })));
    Arc::get_mut(&mut beds.server).unwrap().start_again().await;
    let base = Base {
        server: Arc::clone(&beds.server),
        url,
    };
    // What was approved is approved still, and redeemed once by whoever serves.
    let node = base.serving().await;
    let Claiming::Claimed(claim) = claim(&node.tickets, &call, &id).await else {
        panic!("not claimed")
    };
    claim.finish(Outcome::NotSent).await.unwrap();
    let mut verifier = Verifier::new(None);
    for row in node.tickets.audit(0, 1000).await.unwrap() {
        verifier.take(&row).unwrap();
    }
    assert_eq!(verifier.end().unwrap(), node.tickets.head().await.unwrap());
}

fn ann() -> Who {
    Who {
        tenant: "acme".into(),
        issuer: "config".into(),
        subject: "ann".into(),
    }
}

fn entry(amount: i64, at_most: i64, window: Option<Duration>) -> Entry {
    Entry {
        account: Account {
            rule: RuleId::from("tools[0].when[0]"),
            of: None,
            owner: Owner {
                who: ann(),
                session: Some(SessionKey::from("s1")),
            },
        },
        amount: Decimal::from(amount),
        window,
        at_most: Some(Decimal::from(at_most)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_count_together() {
    let Some(beds) = beds().await else { return };
    let base = beds.fresh().await;
    let nodes = [base.serving().await, base.serving().await];
    let ledgers: Vec<Arc<dyn Ledger>> = nodes.into_iter().map(|n| n.ledger.unwrap()).collect();
    let now = "2026-11-30T12:00:00Z".parse().unwrap();
    let asked = (0..40).map(|n| ledgers[n % 2].charge(vec![entry(7, 100, None)], now));
    let mut made = Vec::new();
    for charged in join_all(asked).await {
        match charged {
            Ok(charged) => made.push(charged),
            Err(error) => assert!(matches!(error, Uncharged::Exceeded(_)), "{error}"),
        }
    }
    // 14 times 7 is 98.
    assert_eq!(made.len(), 14);
    ledgers[1]
        .check(vec![entry(2, 100, None)], now)
        .await
        .unwrap();
    assert!(
        ledgers[1]
            .check(vec![entry(3, 100, None)], now)
            .await
            .is_err()
    );
    ledgers[0].give_back(made.pop().unwrap()).await;
    ledgers[1]
        .check(vec![entry(9, 100, None)], now)
        .await
        .unwrap();
    // Two entries of one account count together, and nothing is written where one does not fit.
    let both = vec![entry(5, 100, None), entry(5, 100, None)];
    assert!(ledgers[0].charge(both, now).await.is_err());
    ledgers[1]
        .check(vec![entry(9, 100, None)], now)
        .await
        .unwrap();
    // A window moves.
    let hour = Some(Duration::from_hours(1));
    let mut other = entry(10, 10, hour);
    other.account.rule = RuleId::from("tools[0].when[1]");
    ledgers[0].charge(vec![other.clone()], now).await.unwrap();
    assert!(ledgers[1].check(vec![other.clone()], now).await.is_err());
    let later = now + jiff::SignedDuration::from_mins(62);
    ledgers[1].charge(vec![other], later).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_know_the_same_targets() {
    let Some(beds) = beds().await else { return };
    let base = beds.fresh().await;
    let nodes = [base.serving().await, base.serving().await];
    crate::conformance::acquainted::knows(nodes.map(|node| node.acquainted.unwrap())).await;
    // They go with the tickets of their time.
    let node = base.serving().await;
    node.tickets.prune().await.unwrap();
    base.sql("UPDATE holdpoint.target SET used = 0").await;
    node.tickets.prune().await.unwrap();
    base.sql("DO $$ BEGIN ASSERT NOT EXISTS (SELECT 1 FROM holdpoint.target); END $$")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_may_be_sent_to_any_process() {
    let Some(beds) = beds().await else { return };
    let base = beds.fresh().await;
    let config = "upstreams: {shop: {url: \"http://127.0.0.1:1\"}}
routes: [{name: tools, prefix: /, upstream: shop, protocol: mcp}]
principal: {fixed: {subject: ann}}
tickets: {postgres: {url_env: TICKETS_URL}}
listen: {approvers: \"127.0.0.1:1\"}
approvers:
  url: https://approve.example
  accounts: [{name: carol, subject: carol, password_hash_env: CAROL_HASH, roles: [finance]}]
";
    let hash = holdpoint::approvals::password::hash(PASSWORD).unwrap();
    let environment = [("TICKETS_URL", base.url.clone()), ("CAROL_HASH", hash)]
        .map(|(name, value)| (name.to_owned(), value));
    let clock = SystemClock::shared;
    let one = Rig::opened(config, POLICY, &environment, clock()).await;
    let other = Rig::opened(config, POLICY, &environment, clock()).await;
    let [one, other] = [&one, &other].map(|rig| rig.running().addresses().approvers.unwrap());
    let cookie = log_in(one).await;
    let page = async |address, cookie: &str| {
        let headers = [("accept", "text/html"), ("cookie", cookie)];
        ask(address, at(address, request("GET", "/", &headers, ""))).await
    };
    let shown = page(other, &cookie).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    assert!(shown.text().contains("carol"));
    assert_eq!(page(other, &format!("{cookie}x")).await.status, 303);
    // Its forms are good there, and logging out ends it everywhere.
    let csrf = shown.text().split("name=\"csrf\" value=\"").nth(1).unwrap();
    let form = format!("csrf={}", csrf.split('"').next().unwrap());
    let origin = format!("http://{other}");
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("origin", origin.as_str()),
        ("sec-fetch-site", "same-origin"),
        ("cookie", cookie.as_str()),
    ];
    let out = at(other, request("POST", "/logout", &headers, form));
    assert_eq!(ask(other, out).await.status, 303);
    assert_eq!(page(one, &cookie).await.status, 303);

    // One that is not used ends, and of one person only so many are kept.
    let mut cookies = Vec::new();
    for _ in 0..3 {
        cookies.push(log_in(one).await);
    }
    base.sql("UPDATE holdpoint.login SET used = used - 31 * 60 * 1000000")
        .await;
    assert_eq!(page(one, &cookies[0]).await.status, 303);
    cookies.push(log_in(other).await);
    base.sql("DO $$ BEGIN ASSERT (SELECT count(*) FROM holdpoint.login) = 1; END $$")
        .await;
    assert_eq!(page(one, &cookies[3]).await.status, 200);
    base.sql(
        "INSERT INTO holdpoint.login SELECT sha256(n::text::bytea), human, facts, since, used + n
           FROM holdpoint.login, generate_series(1, 30) AS n",
    )
    .await;
    log_in(one).await;
    base.sql("DO $$ BEGIN ASSERT (SELECT count(*) FROM holdpoint.login) = 20; END $$")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_ticket_is_handed_out_beside_those_who_serve() {
    let Some(beds) = beds().await else { return };
    let base = beds.fresh().await;
    let node = base.serving().await;
    let id = approved(&node.tickets, &refund("A-1")).await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let config = "policy: policy.yaml
upstreams: {shop: {url: \"http://127.0.0.1:1\"}}
routes: [{name: tools, prefix: /, upstream: shop, protocol: mcp}]
principal: {fixed: {subject: ann}}
tickets: {postgres: {url_env: TICKETS_URL}}
";
    std::fs::write(path("holdpoint.yaml"), config).unwrap();
    let run = |args: &[&str], files: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_holdpoint"));
        command.args(args).args(files.iter().map(|name| path(name)));
        command.env("TICKETS_URL", &base.url).output().unwrap()
    };
    assert!(
        run(&["ticket", "key", "new"], &["key.pem"])
            .status
            .success()
    );
    let key = path("key.pem").display().to_string();
    let export = || {
        let args = ["ticket", "export", id.as_str(), "--key", &key, "--config"];
        run(&args, &["holdpoint.yaml"])
    };
    let done = export();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(text.contains("hpt1."), "{done:?}");
    let ticket = node.tickets.get(id.clone()).await.unwrap().unwrap();
    assert_eq!(ticket.state, TicketState::Succeeded);
    assert_eq!(export().status.code(), Some(1), "once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_carried_out_twice_and_no_loss_is_silent() {
    if let Some(beds) = beds().await {
        let base = beds.fresh().await;
        crate::killed::rounds(Some(base.url.clone())).await;
    }
}

/// One agent behind one of two proxies, who may refund with a ticket.
const POLICY: &str = "version: 1
name: fleet
layers: {catalog: off, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: enforce}
tools:
  - {tool: refund, ticket: {gate: approve, ttl: 15m, hold: 5s}}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_proxies_send_an_approved_call_once() {
    let Some(beds) = beds().await else { return };
    let base = beds.fresh().await;
    let upstream = Upstream::start(|_| answer("201 Created", "application/json", "{}")).await;
    let config = format!(
        "upstreams: {{shop: {{url: \"{}\"}}}}
routes:
  - {{name: shop, prefix: /shop, upstream: shop, protocol: http_tools, tools: [{{tool: refund, method: POST, path: /refund}}]}}
principal: {{fixed: {{tenant: acme, subject: ann, agent: bot}}}}
session: {{fixed: s1}}
tickets: {{postgres: {{url_env: TICKETS_URL}}}}
",
        upstream.url()
    );
    let environment = [("TICKETS_URL".to_owned(), base.url.clone())];
    let one = Rig::opened(&config, POLICY, &environment, SystemClock::shared()).await;
    let other = Rig::opened(&config, POLICY, &environment, SystemClock::shared()).await;
    let call = request("POST", "/shop/refund", &[], r#"{"order": "A-1"}"#);
    // Held, and let go of without an answer: the request stands.
    let asked = tokio::time::timeout(Duration::from_secs(2), one.ask(&call)).await;
    drop(asked);
    let waiting = one.tickets().list(Filter::state(TicketState::Requested));
    let waiting = waiting.await.unwrap();
    assert_eq!(waiting.len(), 1);
    let desk = Desk {
        store: Arc::clone(other.tickets()),
        clock: StillClock::new(),
    };
    desk.approve(&waiting[0].id).await;
    let asks = (0..100).map(|n| if n % 2 == 0 { &one } else { &other }.ask(&call));
    let answers = join_all(asks).await;
    assert_eq!(upstream.received().len(), 1);
    let (shared, busy): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.status == 201);
    assert!(!shared.is_empty());
    for answer in busy {
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (409, "in_progress")
        );
    }
    let again = other.ask(&call).await;
    assert_eq!(
        (again.status, again.header("holdpoint-replayed")),
        (201, Some("true"))
    );
    assert_eq!(upstream.received().len(), 1);
}
