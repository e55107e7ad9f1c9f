//! `kill -9` at each step of ticketed calls and at random moments under load: the upstream's own ledger never shows a ticket, or a
//! call, twice, and whatever nobody knows is `unknown`.
//!
//! `HOLDPOINT_KILL_ROUNDS` says how many rounds; `scripts/kill-tickets` runs many.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use holdpoint::clock::SystemClock;
use holdpoint::store::sql::ServerTls;
use holdpoint::store::tickets::audit::Verifier;
use holdpoint::store::tickets::{
    Answer, Filter, Ticket, TicketLimits, TicketState, TicketStore, Verdict, postgres, sqlite,
};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStderr, Command};

use crate::conformance::local;
use crate::support::upstream::header;

/// Calls of a round: as many as one session may have open.
const CALLS: usize = 5;

/// After so many rounds everything is looked at, and told: a long run may be ended before its last round.
const TOLD: u64 = 60;

/// When the process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// Approved, and no call came yet.
    Approved,
    /// The upstream has a connection: claimed, and nothing or little was sent.
    Connected,
    /// The upstream has the whole request and has not acted.
    Arrived,
    /// The upstream has acted and not answered.
    Acted,
    /// The upstream has answered: before or after the receipt is stored, and before or after the agent hears.
    Answered,
    /// Any time after the calls have started.
    Random,
}

impl Moment {
    const ALL: [Self; 6] = [
        Self::Approved,
        Self::Connected,
        Self::Arrived,
        Self::Acted,
        Self::Answered,
        Self::Random,
    ];
}

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// One thing that the upstream did.
struct Act {
    key: String,
    order: String,
}

/// What kills, and after how many times of what.
struct Trigger {
    moment: Moment,
    left: u64,
    pid: u32,
}

#[derive(Default)]
struct Books {
    acts: Mutex<Vec<Act>>,
    trigger: Mutex<Option<Trigger>>,
    pause: Mutex<Duration>,
}

impl Books {
    fn reached(&self, moment: Moment) {
        let mut armed = self.trigger.lock().unwrap();
        let Some(trigger) = armed.as_mut().filter(|it| it.moment == moment) else {
            return;
        };
        trigger.left -= 1;
        if trigger.left == 0 {
            kill(trigger.pid);
            *armed = None;
        }
    }

    fn acts(&self, order: &str) -> usize {
        let acts = self.acts.lock().unwrap();
        acts.iter().filter(|act| act.order == order).count()
    }
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It may have gone already.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Refunds an order whenever asked, and keeps books.
async fn upstream(books: Arc<Books>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            books.reached(Moment::Connected);
            tokio::spawn(serve(stream, Arc::clone(&books)));
        }
    });
    address
}

async fn serve(mut stream: TcpStream, books: Arc<Books>) {
    while let Some((head, _)) = message(&mut stream).await {
        books.reached(Moment::Arrived);
        let key = header(&head, "idempotency-key").first().copied();
        let target = head.split(' ').nth(1).unwrap_or_default();
        let order = target.split('/').nth(2).unwrap_or_default().to_owned();
        let number = {
            let mut acts = books.acts.lock().unwrap();
            acts.push(Act {
                key: key.unwrap_or_default().to_owned(),
                order,
            });
            acts.len()
        };
        books.reached(Moment::Acted);
        let pause = *books.pause.lock().unwrap();
        tokio::time::sleep(pause).await;
        let body = format!("{{\"refund\":{number}}}");
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        books.reached(Moment::Answered);
    }
}

/// One whole message with a length; `None`: it was cut, or the peer has gone.
async fn message(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
            let length = header(&head, "content-length");
            let length: usize = length.first().map_or(Some(0), |text| text.parse().ok())?;
            if bytes.len() >= at + 4 + length {
                return Some((head, bytes[at + 4..at + 4 + length].to_vec()));
            }
        }
        match stream.read(&mut chunk).await {
            Ok(read) if read > 0 => bytes.extend_from_slice(&chunk[..read]),
            _ => return None,
        }
    }
}

const POLICY: &str = "version: 1
name: killed
layers: {catalog: off, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: enforce}
tools:
  - {tool: refund, ticket: {gate: approve, ttl: 1h, summary: \"Refund {/order_id}\"}}
";

/// Names the database to the process.
const URL: &str = "KILLED_DB_URL";

/// Each round has a user of its own, who may ask so often an hour.
fn config(upstream: SocketAddr, tenant: &str, round: u64, url: Option<&String>) -> String {
    let place = match url {
        Some(_) => format!("postgres: {{url_env: {URL}}}"),
        None => "store: tickets.db".to_owned(),
    };
    format!(
        "policy: policy.yaml
upstreams: {{shop: {{url: \"http://{upstream}\"}}}}
routes:
  - name: shop
    prefix: /shop
    upstream: shop
    protocol: http_tools
    tools: [{{tool: refund, method: POST, path: \"/orders/{{order_id}}/refund\"}}]
principal: {{fixed: {{tenant: {tenant}, subject: user-{round}, agent: bot}}}}
tickets: {{{place}}}
"
    )
}

/// The real command.
struct Served {
    child: Child,
    agents: SocketAddr,
}

impl Served {
    async fn start(folder: &Path, url: Option<&str>) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
            .args(["serve", "--config"])
            .arg(folder.join("holdpoint.yaml"))
            .args(["--listen-agents", "127.0.0.1:0"])
            .args(["--listen-operations", "127.0.0.1:0"])
            .args(["--log-format", "json"])
            .envs(url.map(|url| (URL, url)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let agents = wait_for(&mut log, "agents listener").await;
        let agents = agents["address"].as_str().unwrap().parse().unwrap();
        wait_for(&mut log, "ready").await;
        // Read on, so that it can write on.
        tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
        Self { child, agents }
    }

    async fn killed(mut self) {
        self.child.start_kill().unwrap();
        self.child.wait().await.unwrap();
    }
}

async fn wait_for(log: &mut Lines<BufReader<ChildStderr>>, message: &str) -> Value {
    let mut seen = Vec::new();
    while let Some(line) = log.next_line().await.unwrap() {
        let value: Value = serde_json::from_str(&line).unwrap_or_default();
        if value["message"] == message {
            return value;
        }
        seen.push(line);
    }
    panic!("it ended before {message:?}: {seen:#?}")
}

/// What the agent hears: status and body; `None` where the connection broke.
async fn call(agents: SocketAddr, order: &str) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(agents).await.ok()?;
    let request = format!(
        "POST /shop/orders/{order}/refund HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let (head, body) = message(&mut stream).await?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_slice(&body).unwrap_or_default()))
}

/// As [`call`], once nobody redeems the ticket any more: a database may take a moment to know that a process has died.
async fn settled(agents: SocketAddr, order: &str) -> (u16, Value) {
    loop {
        let said = call(agents, order).await.unwrap();
        if said.1["error"] != "in_progress" {
            return said;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What became of the calls of all rounds that were killed at one moment.
#[derive(Debug, Default)]
struct Tally {
    rounds: u32,
    calls: u32,
    heard_before: u32,
    receipt_only: u32,
    sent_after: u32,
    unknown_done: u32,
    unknown_not_done: u32,
}

struct Run {
    folder: tempfile::TempDir,
    books: Arc<Books>,
    upstream: SocketAddr,
    dice: Dice,
    /// Tickets of this run alone.
    tenant: String,
    /// The database; `None`: a file.
    url: Option<String>,
    tallies: BTreeMap<Moment, Tally>,
}

impl Run {
    fn path(&self) -> PathBuf {
        self.folder.path().join("tickets.db")
    }

    /// Beside the process, as the command line.
    async fn store(&self) -> Arc<dyn TicketStore> {
        let clock = SystemClock::shared();
        let limits = TicketLimits::default();
        let Some(url) = self.url.clone() else {
            return sqlite::open_existing(&self.path(), clock, limits).unwrap();
        };
        let open =
            move || postgres::open_existing(&url, &ServerTls::Off, "of the test", clock, limits);
        let opened = tokio::task::spawn_blocking(open).await.unwrap();
        opened.unwrap().tickets
    }

    async fn round(&mut self, round: u64) {
        let moment = Moment::ALL[usize::try_from(round).unwrap() % Moment::ALL.len()];
        let config = config(self.upstream, &self.tenant, round, self.url.as_ref());
        std::fs::write(self.folder.path().join("holdpoint.yaml"), config).unwrap();
        let served = Served::start(self.folder.path(), self.url.as_deref()).await;
        let orders: Vec<_> = (0..CALLS).map(|n| format!("r{round}-{n}")).collect();
        for order in &orders {
            let (status, said) = call(served.agents, order).await.unwrap();
            assert_eq!((status, &said["error"]), (403, &"approval_required".into()));
        }
        self.approve().await;
        let heard = self.kill(served, moment, &orders).await;

        let served = Served::start(self.folder.path(), self.url.as_deref()).await;
        self.look(&served, moment, &orders, &heard).await;
        served.killed().await;
    }

    async fn approve(&self) {
        let store = self.store().await;
        let waiting = store.list(Filter {
            tenants: Some(vec![self.tenant.clone()]),
            ..Filter::state(TicketState::Requested)
        });
        for ticket in waiting.await.unwrap() {
            let answer = Answer {
                ticket: ticket.id,
                verdict: Verdict::Approve,
                by: local(),
                digest_prefix: None,
                comment: None,
            };
            store.answer(answer).await.unwrap();
        }
    }

    /// Sends every call twice at once and kills the process; gives the orders of which an agent heard that it was done.
    async fn kill(&mut self, served: Served, moment: Moment, orders: &[String]) -> Vec<String> {
        let pid = served.child.id().unwrap();
        let calls = u64::try_from(CALLS).unwrap();
        *self.books.pause.lock().unwrap() = Duration::from_millis(self.dice.roll(8));
        let after = Duration::from_micros(self.dice.roll(60_000));
        let left = 1 + self.dice.roll(calls);
        *self.books.trigger.lock().unwrap() = Some(Trigger { moment, left, pid });
        let mut heard = Vec::new();
        if moment == Moment::Approved {
            kill(pid);
        } else {
            let sent = orders.iter().chain(orders).map(|order| async {
                let said = call(served.agents, order).await;
                said.filter(|(status, _)| *status == 200)
                    .map(|_| order.clone())
            });
            let sent = join_all(sent);
            if moment == Moment::Random {
                let (said, ()) = tokio::join!(sent, async {
                    tokio::time::sleep(after).await;
                    kill(pid);
                });
                heard = said;
            } else {
                heard = sent.await;
            }
        }
        *self.books.trigger.lock().unwrap() = None;
        served.killed().await;
        heard.into_iter().flatten().collect()
    }

    /// What is to be had of each call afterwards, and whether it fits the upstream's books.
    async fn look(&mut self, served: &Served, moment: Moment, orders: &[String], heard: &[String]) {
        let tally = self.tallies.entry(moment).or_default();
        tally.rounds += 1;
        for order in orders {
            let before = self.books.acts(order);
            let said = [
                settled(served.agents, order).await,
                settled(served.agents, order).await,
            ];
            let after = self.books.acts(order);
            assert!(after <= 1, "{moment:?}: {order} was done {after} times");
            tally.calls += 1;
            let was_heard = heard.contains(order);
            if said.iter().all(|(status, _)| *status == 200) {
                assert_eq!((after, &said[0].1), (1, &said[1].1), "{moment:?}");
                match (was_heard, before) {
                    (true, _) => tally.heard_before += 1,
                    (false, 0) => tally.sent_after += 1,
                    (false, _) => tally.receipt_only += 1,
                }
                continue;
            }
            for (status, said) in &said {
                let expected = (403, &Value::from("outcome_unknown"));
                assert_eq!((*status, &said["error"]), expected, "{moment:?}: {order}");
            }
            assert!(!was_heard, "{moment:?}: {order} was done, and is unknown");
            if after == 1 {
                tally.unknown_done += 1;
            } else {
                tally.unknown_not_done += 1;
            }
        }
    }

    /// What the store holds in the end, against the upstream's books.
    async fn close(&self) {
        let store = self.store().await;
        let mut tickets = Vec::new();
        loop {
            let filter = Filter {
                tenants: Some(vec![self.tenant.clone()]),
                before: tickets.last().map(|ticket: &Ticket| ticket.seq),
                limit: 1000,
                ..Filter::default()
            };
            let page = store.list(filter).await.unwrap();
            if page.is_empty() {
                break;
            }
            tickets.extend(page);
        }
        let mut by_key: HashMap<String, usize> = HashMap::new();
        for act in self.books.acts.lock().unwrap().iter() {
            *by_key.entry(act.key.clone()).or_default() += 1;
        }
        let mut verifier = Verifier::new(None);
        loop {
            let rows = store.audit(verifier.head().seq, 1000).await.unwrap();
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                verifier.take(row).unwrap();
            }
        }
        for ticket in &tickets {
            let acts = by_key.remove(ticket.id.as_str()).unwrap_or_default();
            assert!(fits(ticket, acts), "{acts} acts: {ticket:?}");
            assert!(verifier.agrees(ticket), "{ticket:?}");
        }
        assert!(by_key.is_empty(), "acts without a ticket: {by_key:?}");
        verifier.end().unwrap();
    }
}

/// Whether the upstream acted as often as the ticket says.
fn fits(ticket: &Ticket, acts: usize) -> bool {
    match ticket.state {
        TicketState::Succeeded => acts == 1,
        TicketState::Unknown => acts <= 1,
        _ => false,
    }
}

/// One round for each moment, or as many as the environment says, on a file or on the database of that URL.
pub async fn rounds(url: Option<String>) {
    let rounds = std::env::var("HOLDPOINT_KILL_ROUNDS");
    let rounds = rounds.map_or(Moment::ALL.len() as u64, |rounds| rounds.parse().unwrap());
    let books = Arc::new(Books::default());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.yaml"), POLICY).unwrap();
    let mut run = Run {
        upstream: upstream(Arc::clone(&books)).await,
        folder,
        books,
        dice: Dice(0x9e37_79b9_7f4a_7c15),
        tenant: holdpoint::store::tickets::new_ticket_id().to_string(),
        url,
        tallies: BTreeMap::new(),
    };
    for round in 1..=rounds {
        run.round(round - 1).await;
        if round % TOLD == 0 || round == rounds {
            run.close().await;
            for (moment, tally) in &run.tallies {
                eprintln!("{moment:?}: {tally:?}");
            }
            eprintln!("{round} rounds: no call and no ticket twice, every loss told as unknown");
        }
    }
}
