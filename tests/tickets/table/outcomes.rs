//! What came of a call that was sent, as far as anybody knows.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdpoint::names::TicketId;
use holdpoint::store::tickets::{Decider, Resolution, Resolver, TicketState};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use super::desk::{DONE, Desk, POLICY, Shelf, config, done, refund};
use crate::support::client::Client;
use crate::support::rig::Rig;
use crate::support::upstream::{Gate, Step, Upstream, answer};

pub async fn row_20_the_upstream_refuses_the_connection(shelf: &Shelf) {
    let Desk { rig, upstream } = Desk::open(shelf).await;
    let address = upstream.address;
    let desk = Desk { rig, upstream };
    let ticket = desk.approved(&refund()).await;
    let until = desk.ticket(&ticket).await.expires_at;
    let Desk { rig, upstream } = desk;
    drop(upstream);
    for _ in 0..2 {
        let refused = rig.ask(refund().bytes()).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (502, "upstream_unreachable")
        );
        let kept = rig.tickets().get(ticket.clone()).await.unwrap().unwrap();
        assert_eq!(
            (kept.state, kept.expires_at),
            (TicketState::Approved, until)
        );
    }
    let upstream = Upstream::at(address, done).await;
    let desk = Desk { rig, upstream };
    assert_eq!(desk.ask(&refund()).await.status, 201);
    assert_eq!(
        (desk.reached(), desk.ticket(&ticket).await.attempts),
        (1, 3)
    );
}

pub async fn row_21_the_upstream_answers_with_an_error(shelf: &Shelf) {
    for (status, number) in [("404 Not Found", 404), ("500 Internal Server Error", 500)] {
        let script = move |_: &_| answer(status, "application/json", r#"{"error":"no"}"#);
        let desk = Desk::with(shelf, POLICY, "", script).await;
        let ticket = desk.approved(&refund()).await;
        for replayed in [None, Some("true"), Some("true")] {
            let failed = desk.ask(&refund()).await;
            assert_eq!(
                (failed.status, failed.text()),
                (number, r#"{"error":"no"}"#)
            );
            assert_eq!(failed.header("holdpoint-replayed"), replayed);
        }
        assert_eq!(desk.state(&ticket).await, TicketState::Failed);
        assert_eq!(desk.reached(), 1);
    }
}

pub async fn row_22_the_upstream_times_out(shelf: &Shelf) {
    let more = "timeouts: {first_byte: 200ms}";
    let desk = Desk::with(shelf, POLICY, more, |_| vec![Step::Hang]).await;
    let ticket = desk.approved(&refund()).await;
    let told = desk.ask(&refund()).await;
    assert_eq!(
        (told.status, told.code().as_str()),
        (403, "outcome_unknown")
    );
    assert_eq!(told.json()["request_id"], ticket.as_str());
    let on_purpose = refund().with("holdpoint-again", "true");
    for call in [refund(), on_purpose] {
        assert_eq!(desk.code(&call).await, (403, "outcome_unknown".to_owned()));
    }
    assert_eq!(desk.state(&ticket).await, TicketState::Unknown);
    assert_eq!(desk.reached(), 1);

    // With a recipe the books are asked in the background. As long as they do not say, it stays unknown.
    let books = Books::new("1h");
    let desk = books.desk(shelf).await;
    let ticket = desk.approved(&refund()).await;
    for _ in 0..2 {
        assert_eq!(desk.code(&refund()).await.1, "outcome_unknown");
    }
    assert_eq!(desk.state(&ticket).await, TicketState::Unknown);
    books.enter(&ticket);
    desk.becomes(&ticket, TicketState::ResolvedDone).await;
    assert_eq!(desk.reached(), 1);
}

pub async fn row_22_sent_once_more_under_its_key(shelf: &Shelf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let shop = rusqlite::Connection::open(&path).unwrap();
    shop.execute_batch("CREATE TABLE orders (id TEXT, status TEXT)")
        .unwrap();
    let policy = POLICY
        .replace(
            "tools:\n",
            "lookups: {order: {store: shop, sql: \"SELECT status FROM orders WHERE id = :order\"}}\ntools:\n",
        )
        .replace(
            "role: finance,",
            "role: finance, idempotent: 1h, state: {resource: /order, as: order, lookup: order, columns: status},",
        );
    let more = format!(
        "timeouts: {{first_byte: 200ms}}\nstores: {{shop: {{sqlite: \"{}\"}}}}",
        path.display()
    );
    for (changed, status, sent) in [("nothing", 201, 2), ("state", 403, 1), ("approver", 403, 1)] {
        shop.execute_batch("DELETE FROM orders; INSERT INTO orders VALUES ('A-1', 'paid')")
            .unwrap();
        let mute = AtomicBool::new(true);
        let script = move |got: &_| {
            if mute.swap(false, Ordering::SeqCst) {
                vec![Step::Hang]
            } else {
                done(got)
            }
        };
        let mut desk = Desk::with(shelf, &policy, &more, script).await;
        let ticket = desk.held(&refund()).await;
        assert_eq!(desk.posts("boss", "approve", &ticket).await.status, 200);
        assert_eq!(desk.code(&refund()).await.1, "outcome_unknown");
        match changed {
            "state" => shop
                .execute_batch("UPDATE orders SET status = 'closed'")
                .unwrap(),
            "approver" => {
                let written = config(&desk.upstream.url(), shelf, &more);
                let written = written.replacen("{subject: boss,", "{subject: sam,", 1);
                let written = format!("policy: policy.yaml\n{written}");
                desk.rig = desk.rig.again(&[("holdpoint.yaml", &written)]).await;
            }
            _ => {}
        }
        let again = desk.ask(&refund()).await;
        assert_eq!(again.status, status, "{changed}: {again:?}");
        let keys = desk.upstream.received();
        let key = [ticket.as_str()];
        assert!(keys.iter().all(|got| got.header("idempotency-key") == key));
        assert_eq!(keys.len(), sent, "{changed}");
        let state = if status == 201 {
            TicketState::Succeeded
        } else {
            TicketState::Unknown
        };
        assert_eq!(desk.state(&ticket).await, state, "{changed}");
    }
}

/// What the upstream keeps of refunds.
struct Books {
    _folder: TempDir,
    path: PathBuf,
    after: &'static str,
}

impl Books {
    /// From so long after the call on a missing entry says that nothing was done.
    fn new(after: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("books.db");
        let books = rusqlite::Connection::open(&path).unwrap();
        books
            .execute_batch("CREATE TABLE refunds (ref TEXT, state TEXT)")
            .unwrap();
        Self {
            _folder: folder,
            path,
            after,
        }
    }

    /// A desk whose upstream never answers, and whose rule knows how to look into the books.
    async fn desk(&self, on: &Shelf) -> Desk {
        let told = format!(
            "role: finance, reconcile: {{lookup: refund_of, done: {{column: state, one_of: [settled]}}, after: {}}},",
            self.after
        );
        let policy = POLICY.replace("role: finance,", &told).replace(
            "tools:\n",
            "lookups: {refund_of: {store: books, sql: \"SELECT state FROM refunds WHERE ref = :ticket\"}}\ntools:\n",
        );
        let more = format!(
            "timeouts: {{first_byte: 200ms}}\nstores: {{books: {{sqlite: \"{}\"}}}}",
            self.path.display()
        );
        Desk::with(on, &policy, &more, |_| vec![Step::Hang]).await
    }

    fn enter(&self, ticket: &TicketId) {
        let books = rusqlite::Connection::open(&self.path).unwrap();
        books
            .execute(
                "INSERT INTO refunds VALUES (?1, 'settled')",
                [ticket.as_str()],
            )
            .unwrap();
    }
}

/// `holdpoint serve` as a process of its own.
struct Process {
    child: Child,
    agents: std::net::SocketAddr,
    operations: std::net::SocketAddr,
}

impl Process {
    async fn start(folder: &TempDir, environment: &[(String, String)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
            .args([
                "serve",
                "--listen-agents",
                "127.0.0.1:0",
                "--listen-operations",
                "127.0.0.1:0",
            ])
            .args(["--log-format", "json", "--config"])
            .arg(folder.path().join("holdpoint.yaml"))
            .envs(environment.iter().cloned())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (mut agents, mut operations) = (None, None);
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            let said: Value = serde_json::from_str(&line).unwrap();
            let address = || said["address"].as_str().unwrap().parse().unwrap();
            match said["message"].as_str() {
                Some("agents listener") => agents = Some(address()),
                Some("operations listener") => operations = Some(address()),
                Some("ready") => break,
                _ => {}
            }
        }
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self {
            child,
            agents: agents.unwrap(),
            operations: operations.unwrap(),
        }
    }

    /// Until a ticket is in that state.
    async fn has(&self, state: &str) {
        let wanted = format!("holdpoint_tickets{{state=\"{state}\"}} 1");
        loop {
            let request = crate::support::client::request("GET", "/metrics", &[], "");
            let scrape = crate::support::client::ask(self.operations, request).await;
            if scrape.text().contains(&wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Files of a server on which the call is approved, and which does not run any more.
async fn approved(shelf: &Shelf, upstream: &str) -> (TempDir, TicketId) {
    let config = config(upstream, shelf, "");
    let clock = holdpoint::clock::SystemClock::shared();
    let rig = Rig::opened(&config, POLICY, &shelf.next().await, clock).await;
    // The desk's own upstream is not asked.
    let desk = Desk {
        rig,
        upstream: Upstream::start(done).await,
    };
    let ticket = desk.approved(&refund()).await;
    let (folder, _, _) = desk.rig.stopped().await;
    (folder, ticket)
}

/// The call that was cut: never sent again.
async fn is_unknown(shelf: &Shelf, folder: TempDir, ticket: &TicketId) {
    let rig = Rig::on(folder, shelf.environment()).await;
    let told = rig.ask(refund().bytes()).await;
    assert_eq!(
        (told.status, told.code().as_str()),
        (403, "outcome_unknown")
    );
    let kept = rig.tickets().get(ticket.clone()).await.unwrap().unwrap();
    assert_eq!(kept.state, TicketState::Unknown);
}

pub async fn row_23_killed_before_the_receipt(shelf: &Shelf) {
    // Between the claim and the first byte: the upstream takes the connection and never shakes hands.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", mute.local_addr().unwrap());
    let (folder, ticket) = approved(shelf, &url).await;
    let process = Process::start(&folder, &shelf.environment()).await;
    let mut client = Client::connect(process.agents).await;
    client.send(refund().bytes()).await;
    process.has("redeeming").await;
    process.kill().await;
    is_unknown(shelf, folder, &ticket).await;

    // Between the send and the receipt.
    let gate = Gate::default();
    let upstream = Upstream::start(move |_| vec![Step::Wait(gate.clone())]).await;
    let (folder, ticket) = approved(shelf, &upstream.url()).await;
    let process = Process::start(&folder, &shelf.environment()).await;
    let mut client = Client::connect(process.agents).await;
    client.send(refund().bytes()).await;
    while upstream.received().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    process.kill().await;
    is_unknown(shelf, folder, &ticket).await;
    assert_eq!(upstream.received().len(), 1);
}

pub async fn row_24_killed_after_the_receipt(shelf: &Shelf) {
    let upstream = Upstream::start(done).await;
    let (folder, ticket) = approved(shelf, &upstream.url()).await;
    let process = Process::start(&folder, &shelf.environment()).await;
    let mut client = Client::connect(process.agents).await;
    client.send(refund().bytes()).await;
    process.has("succeeded").await;
    process.kill().await;
    drop(client);
    let rig = Rig::on(folder, shelf.environment()).await;
    let replayed = rig.ask(refund().bytes()).await;
    assert_eq!((replayed.status, replayed.text()), (201, DONE));
    assert_eq!(replayed.header("holdpoint-replayed"), Some("true"));
    let kept = rig.tickets().get(ticket).await.unwrap().unwrap();
    assert_eq!(kept.state, TicketState::Succeeded);
    assert_eq!(upstream.received().len(), 1);
}

pub async fn row_25_what_became_of_it(shelf: &Shelf) {
    let more = "timeouts: {first_byte: 200ms}";
    // A person has looked.
    for (found, state) in [
        (true, TicketState::ResolvedDone),
        (false, TicketState::ResolvedNotDone),
    ] {
        let desk = Desk::with(shelf, POLICY, more, |_| vec![Step::Hang]).await;
        let ticket = desk.approved(&refund()).await;
        assert_eq!(desk.code(&refund()).await.1, "outcome_unknown");
        let word = Resolution {
            ticket: ticket.clone(),
            done: found,
            by: Resolver::Person(Decider::Local("root".to_owned())),
            note: Some("looked at the ledger".to_owned()),
            receipt: None,
        };
        desk.store().resolve(word).await.unwrap();
        assert_eq!(desk.state(&ticket).await, state);
        let again = desk.ask(&refund()).await;
        if found {
            // What it answered is not known; that it was done is.
            assert_eq!(again.header("holdpoint-replayed"), Some("true"));
            assert_eq!(again.json()["reconciled"], true);
        } else {
            assert_eq!(
                (again.status, again.code().as_str()),
                (403, "approval_required")
            );
        }
        assert_eq!(desk.reached(), 1);
    }
    // The books have no entry, and say so once it would be there.
    let books = Books::new("1s");
    let desk = books.desk(shelf).await;
    let ticket = desk.approved(&refund()).await;
    assert_eq!(desk.code(&refund()).await.1, "outcome_unknown");
    desk.becomes(&ticket, TicketState::ResolvedNotDone).await;
    let next = desk.held(&refund()).await;
    assert_ne!(next, ticket);
    assert_eq!(desk.reached(), 1);
}
