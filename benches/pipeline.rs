//! What judging costs, without sockets: a chat request and its answer through protocol and guard, the scans alone, and who said
//! what in a long conversation.
//!
//! `cargo bench --bench pipeline`; `docs/performance.md` says how to read it.

#[path = "pipeline/provenance.rs"]
mod provenance;
#[path = "pipeline/scanner.rs"]
mod scanner;
mod support;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::Bytes;
use criterion::{Criterion, Throughput};
use holdpoint::guard::{Guard, Parts};
use holdpoint::item::{Exchange, Item, Leg, Located, Origin, Place, RouteKind, ToolOutput};
use holdpoint::layers::egress::{Class, Register, Registered, Scanner};
use holdpoint::layers::{Context, LAYERS, Layer, Memo};
use holdpoint::policy::{self, Policy};
use holdpoint::principal::{Principal, Session};
use holdpoint::protocols::openai_chat::OpenAiChat;
use holdpoint::protocols::{Frame, Framing, Protocol, Request, ResponseReader, Written};
use holdpoint::settings::{Limits, ModelRoute};
use holdpoint::store::{Stores, sql, tickets};
use holdpoint::verdict::LayerId;
use holdpoint::wire::json::Document;
use holdpoint::wire::sse::Decoder;
use support::Text;
use tokio::runtime::Runtime;

const KIB: usize = 1024;
/// Depth to which a body is read.
const DEPTH: usize = 256;

fn main() -> Result<()> {
    // Short enough to be run often; `--measurement-time` lengthens it.
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let folder = tempfile::tempdir()?;
    let stores = stores(folder.path())?;
    requests(&mut criterion, &runtime, &stores)?;
    answers(&mut criterion, &runtime, &stores)?;
    scans(&mut criterion, &runtime, &stores)?;
    scanner::scanner(&mut criterion)?;
    secrets(&mut criterion)?;
    provenance::provenance(&mut criterion, &runtime)?;
    criterion.final_summary();
    Ok(())
}

fn stores(folder: &Path) -> Result<Stores> {
    let database = folder.join("shop.db");
    support::make_shop(&database)?;
    let mut stores = Stores::default();
    let commerce = sql::sqlite::open(&database)?;
    stores.sql.insert("commerce".into(), commerce);
    let clock = Arc::clone(&stores.clock);
    let limits = tickets::TicketLimits::default();
    stores.tickets = Some(tickets::sqlite::open(Path::new(":memory:"), clock, limits)?);
    Ok(stores)
}

fn policy(mode: &str) -> Result<Arc<Policy>> {
    let policy = policy::parse("bench.yaml", support::policy(mode))
        .map_err(|problems| anyhow!("{problems}"))?;
    Ok(Arc::new(policy))
}

fn exchange(leg: Leg, items: Vec<Located>) -> Exchange {
    let principal = Principal {
        tenant: "shop".into(),
        issuer: "config".into(),
        subject: support::SUBJECT.into(),
        agent: "bench".into(),
        actors: Vec::new(),
        scopes: std::collections::BTreeSet::new(),
    };
    Exchange {
        leg,
        route: "openai".into(),
        kind: RouteKind::Model,
        upstream: "openai".into(),
        session: Arc::new(Session {
            key: None,
            principal: Arc::new(principal),
            grant: None,
        }),
        items,
        evidence: None,
        headers: None,
    }
}

fn guard(mode: &str, stores: &Stores) -> Result<Guard> {
    let policy = policy(mode)?;
    let parts = Parts {
        stores: stores.clone(),
        ..Parts::default()
    };
    let modes = policy.modes.clone();
    Guard::new(policy, &modes, parts).map_err(|problems| anyhow!("{problems}"))
}

fn read_request(body: Bytes) -> Result<Request> {
    let (parts, ()) = http::Request::post("/v1/chat/completions")
        .header("content-type", "application/json")
        .body(())?
        .into_parts();
    let json = Document::read(body.clone(), DEPTH).map_err(|error| anyhow!("{error:?}"))?;
    Ok(Request {
        parts,
        body,
        json: Some(json),
    })
}

/// From the body's bytes to the bytes that would be forwarded.
async fn clear(guard: &Guard, protocol: &OpenAiChat, body: Bytes) -> Result<Bytes> {
    let request = read_request(body)?;
    let exchange = exchange(Leg::ToUpstream, protocol.read(&request)?);
    let decision = guard.decide(&exchange).await?;
    match protocol.write(request, &decision)? {
        Written::Forward(request) => Ok(request.body),
        Written::Refuse(_) | Written::Ask(..) | Written::Replay(_) => {
            bail!("a harmless request is not forwarded")
        }
    }
}

fn requests(criterion: &mut Criterion, runtime: &Runtime, stores: &Stores) -> Result<()> {
    let protocol = OpenAiChat::new(&Limits::default(), &ModelRoute::default());
    let mut group = criterion.benchmark_group("request");
    for (size, name) in [(2 * KIB, "2 KB"), (64 * KIB, "64 KB")] {
        let body = Bytes::from(support::chat_request(size, false));
        group.throughput(Throughput::Bytes(u64::try_from(body.len())?));
        for mode in ["off", "enforce"] {
            let guard = guard(mode, stores)?;
            // Fails here, and not while it is timed, where something does not work.
            runtime.block_on(clear(&guard, &protocol, body.clone()))?;
            group.bench_function(format!("{name}, layers {mode}"), |bencher| {
                bencher
                    .iter(|| runtime.block_on(clear(&guard, &protocol, black_box(body.clone()))));
            });
        }
    }
    group.finish();
    Ok(())
}

/// From the bytes of an upstream's answer to those that would reach the agent; returns how many.
async fn answer(guard: &Guard, mut reader: Box<dyn ResponseReader>, body: Bytes) -> Result<usize> {
    let frames = match reader.framing() {
        Framing::Whole => vec![Frame::Whole(body)],
        Framing::Events => {
            let events = Decoder::new(64 * KIB).push(body)?;
            events.into_iter().map(Frame::Event).collect()
        }
    };
    let mut sent = 0;
    for frame in frames.into_iter().map(Some).chain([None]) {
        let step = match frame {
            Some(frame) => reader.push(frame)?,
            None => reader.finish()?,
        };
        sent += step.send.iter().map(Bytes::len).sum::<usize>();
        if !step.judge.is_empty() {
            let decision = guard.decide(&exchange(Leg::ToAgent, step.judge)).await?;
            sent += reader
                .resolve(&decision)?
                .iter()
                .map(Bytes::len)
                .sum::<usize>();
        }
    }
    ensure!(sent > 0, "a harmless answer does not reach the agent");
    Ok(sent)
}

fn answers(criterion: &mut Criterion, runtime: &Runtime, stores: &Stores) -> Result<()> {
    let protocol = OpenAiChat::new(&Limits::default(), &ModelRoute::default());
    let mut group = criterion.benchmark_group("answer");
    let shapes = [
        ("8 KB", support::chat_answer(8 * KIB), false),
        ("200 events", support::chat_stream(200), true),
    ];
    for (name, body, streamed) in shapes {
        let body = Bytes::from(body);
        let request = read_request(support::chat_request(2 * KIB, streamed).into())?;
        let kind = if streamed {
            "text/event-stream"
        } else {
            "application/json"
        };
        let (head, ()) = http::Response::builder()
            .header("content-type", kind)
            .body(())?
            .into_parts();
        group.throughput(Throughput::Bytes(u64::try_from(body.len())?));
        for mode in ["off", "enforce"] {
            let guard = guard(mode, stores)?;
            let once = || {
                let reader = protocol.response(&request, &head)?;
                runtime.block_on(answer(&guard, reader, black_box(body.clone())))
            };
            once()?;
            group.bench_function(format!("{name}, layers {mode}"), |bencher| {
                bencher.iter(once);
            });
        }
    }
    group.finish();
    Ok(())
}

/// Credentials and one registered secret in texts without any.
fn secrets(criterion: &mut Criterion) -> Result<()> {
    let registered = Registered::new("not-in-any-text-4711")?;
    let scanner = Scanner {
        classes: [Class::Credentials, Class::Registered].into(),
        register: Arc::new(Register::new([registered])?),
    };
    let mut group = criterion.benchmark_group("secrets scan");
    for text in Text::ALL {
        for (size, name) in [(4 * KIB, "4 KB"), (1024 * KIB, "1 MB")] {
            let text_of_size = text.of_size(size);
            group.throughput(Throughput::Bytes(u64::try_from(text_of_size.len())?));
            group.sample_size(if size > 64 * KIB { 10 } else { 50 });
            group.bench_function(format!("{}, {name}", text.name()), |bencher| {
                bencher.iter(|| scanner.text(black_box(&text_of_size), None));
            });
        }
    }
    group.finish();
    Ok(())
}

fn scans(criterion: &mut Criterion, runtime: &Runtime, stores: &Stores) -> Result<()> {
    let layer = LAYERS.iter().find(|layer| layer.id == LayerId::Injection);
    let layer: Arc<dyn Layer> =
        (layer.context("no injection layer")?.build)(&policy("enforce")?, stores)
            .map_err(|problems| anyhow!("{problems}"))?;
    let mut group = criterion.benchmark_group("injection layer");
    for text in Text::ALL {
        // What was scanned before is remembered: this is what a text costs that comes again.
        for (size, name) in [(64 * KIB, "64 KB"), (1024 * KIB, "1 MB")] {
            let text_of_size = text.of_size(size);
            group.throughput(Throughput::Bytes(u64::try_from(text_of_size.len())?));
            group.sample_size(if size > 64 * KIB { 10 } else { 50 });
            let item = Located {
                place: Place::default(),
                item: Item::ToolOutput(ToolOutput {
                    tool: None,
                    call_id: None,
                    origin: Origin::Tool,
                    text: text_of_size.into(),
                }),
            };
            let exchange = exchange(Leg::ToUpstream, Vec::new());
            let memo = Memo::default();
            let context = Context {
                exchange: &exchange,
                rule: None,
                executes_here: false,
                memo: &memo,
                tainted: None,
            };
            runtime.block_on(layer.judge(&item, &context))?;
            group.bench_function(format!("{}, {name}", text.name()), |bencher| {
                bencher.iter(|| runtime.block_on(layer.judge(black_box(&item), &context)));
            });
        }
    }
    group.finish();
    Ok(())
}
