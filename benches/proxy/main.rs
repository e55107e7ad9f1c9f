//! What Holdpoint adds to a request: direct, through a bare hyper proxy, through `holdpoint serve` with every layer off
//! and with every layer on, all in one run on the loopback interface. Only ratios of one run mean anything.
//!
//! `scripts/bench-proxy` runs it; `docs/performance.md` says how to read it.

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "the other bench uses the rest")]
mod support;

mod backend;
mod load;
mod process;
mod report;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use load::Shape;
use process::{Process, free_address};
use report::{Cell, Report};

/// A run that is not done by then has failed.
const LIMIT: Duration = Duration::from_mins(10);
/// How long a proxy may take to come up.
const START: Duration = Duration::from_secs(20);
const MANY: usize = 32;

/// How much is measured.
struct Plan {
    rounds: usize,
    /// Requests one after another on one connection, per round.
    alone: usize,
    /// Requests over [`MANY`] connections, per round.
    together: usize,
    pinned: bool,
    measured: bool,
}

impl Plan {
    /// Measures where `cargo bench` asks for it; else, as under `cargo test`, takes every path once. `--pinned`: the proxies
    /// on the first core alone.
    fn from_arguments(arguments: &[String]) -> Result<Self> {
        let given = |name: &str| arguments.iter().any(|argument| argument == name);
        if let Some(other) = arguments
            .iter()
            .find(|argument| !["--bench", "--test", "--pinned"].contains(&argument.as_str()))
        {
            bail!("unknown argument `{other}`; there are --test and --pinned");
        }
        let measured = given("--bench") && !given("--test");
        Ok(Self {
            rounds: if measured { 5 } else { 1 },
            alone: if measured { 400 } else { 4 },
            together: if measured { 1600 } else { MANY },
            pinned: given("--pinned"),
            measured,
        })
    }
}

/// Where the load goes.
struct Target {
    name: &'static str,
    address: SocketAddr,
    path: &'static str,
    /// None for the backend itself.
    process: Option<Process>,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new()?;
    if let [mode, listen, backend] = arguments.as_slice()
        && mode == "--passthru"
    {
        return runtime.block_on(backend::passthru(listen.parse()?, backend.parse()?));
    }
    let plan = Plan::from_arguments(&arguments)?;
    let report = runtime
        .block_on(async { tokio::time::timeout(LIMIT, measure(&plan)).await })
        .context("the run took too long")??;
    if plan.measured {
        holdpoint::cli::print(report);
    } else {
        holdpoint::cli::print("every way works; `scripts/bench-proxy` measures");
    }
    Ok(())
}

async fn measure(plan: &Plan) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let backend = backend::start().await?;
    let mut targets = [
        Target {
            name: "direct",
            address: backend,
            path: "/v1/chat/completions",
            process: None,
        },
        passthru(backend, plan.pinned).await?,
        holdpoint("layers off", "off", backend, folder.path(), plan.pinned).await?,
        holdpoint("layers on", "enforce", backend, folder.path(), plan.pinned).await?,
    ];
    let shapes = [
        shape("chat: 2 KB request, 8 KB answer", 2 << 10, false),
        shape("tool output: 64 KB request, 8 KB answer", 64 << 10, false),
        shape("stream: 2 KB request, 200 events", 2 << 10, true),
    ];
    let mut report = Report::new(
        shapes.iter().map(|shape| shape.name).collect(),
        targets.iter().map(|target| target.name).collect(),
    );
    for round in 0..plan.rounds {
        for (row, shape) in shapes.iter().enumerate() {
            // A stream costs what many requests cost.
            let share = if shape.streamed { 4 } else { 1 };
            for step in 0..targets.len() {
                // Another order each round, so that no target is always the first.
                let column = (step + round) % targets.len();
                let target = targets.get_mut(column).context("no such target")?;
                let cell = visit(target, shape, plan, share).await?;
                report.add(row, column, cell);
            }
        }
    }
    for (column, target) in targets.iter().enumerate() {
        if let Some(process) = &target.process {
            report.resident(column, process.resident()?);
        }
    }
    Ok(report)
}

async fn visit(target: &mut Target, sent: &Shape, plan: &Plan, share: usize) -> Result<Cell> {
    let failed = || format!("{}, {}", target.name, sent.name);
    // A proxy that refuses, or drops the call, must not look fast.
    let answer = load::answer(target.address, target.path, sent)
        .await
        .with_context(failed)?;
    ensure!(
        answer.contains("get_order"),
        "{}: the call is missing",
        failed()
    );
    // Warm: connections of the proxy's pool, caches.
    load::run(target.address, target.path, sent, MANY, MANY)
        .await
        .with_context(failed)?;
    let alone = load::run(
        target.address,
        target.path,
        sent,
        1,
        plan.alone.div_ceil(share),
    )
    .await
    .with_context(failed)?;
    let before = target.process.as_ref().map(Process::cpu).transpose()?;
    let together = plan.together.div_ceil(share);
    let done = load::run(target.address, target.path, sent, MANY, together)
        .await
        .with_context(failed)?;
    let after = target.process.as_ref().map(Process::cpu).transpose()?;
    if let Some(process) = &mut target.process {
        process.check()?;
    }
    let count = u32::try_from(done.len()).unwrap_or(u32::MAX).max(1);
    let cpu = before
        .zip(after)
        .map(|(before, after)| after.saturating_sub(before) / count);
    Ok(Cell { alone, cpu })
}

fn shape(name: &'static str, bytes: usize, streamed: bool) -> Shape {
    Shape {
        name,
        body: Bytes::from(support::chat_request(bytes, streamed)),
        streamed,
    }
}

async fn passthru(backend: SocketAddr, pinned: bool) -> Result<Target> {
    let address = free_address()?;
    let arguments = [
        "--passthru".to_owned(),
        address.to_string(),
        backend.to_string(),
    ];
    let process = Process::start(&std::env::current_exe()?, &arguments, pinned)?;
    let started = Instant::now();
    while !load::answers(address, "/").await.unwrap_or(false) {
        ensure!(started.elapsed() < START, "the bare proxy does not come up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Target {
        name: "bare proxy",
        address,
        path: "/v1/chat/completions",
        process: Some(process),
    })
}

async fn holdpoint(
    name: &'static str,
    mode: &str,
    backend: SocketAddr,
    folder: &Path,
    pinned: bool,
) -> Result<Target> {
    let (address, operations) = (free_address()?, free_address()?);
    let config = write_config(folder, mode, backend, address, operations)?;
    let arguments = [
        "serve".as_ref(),
        "--log-level=warn".as_ref(),
        "--config".as_ref(),
        config.as_os_str(),
    ];
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_holdpoint"));
    let mut process = Process::start(&binary, &arguments, pinned)?;
    let started = Instant::now();
    while !load::answers(operations, "/readyz").await.unwrap_or(false) {
        process.check()?;
        ensure!(started.elapsed() < START, "holdpoint does not come up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Target {
        name,
        address,
        path: "/openai/v1/chat/completions",
        process: Some(process),
    })
}

/// The config and policy of one Holdpoint, in a folder of its own. Every layer is in `mode`.
fn write_config(
    folder: &Path,
    mode: &str,
    backend: SocketAddr,
    agents: SocketAddr,
    operations: SocketAddr,
) -> Result<PathBuf> {
    let folder = folder.join(mode);
    std::fs::create_dir(&folder)?;
    let config = format!(
        "\
policy: policy.yaml
listen: {{agents: \"{agents}\", operations: \"{operations}\"}}
upstreams:
  openai: {{url: \"http://{backend}\"}}
routes:
  - {{name: model, prefix: /openai, upstream: openai, protocol: openai_chat, note: true}}
principal:
  fixed: {{tenant: shop, subject: {subject}, agent: bench}}
session: {{header: holdpoint-session}}
stores:
  commerce: {{sqlite: shop.db}}
tickets: {{store: tickets.db}}
",
        subject = support::SUBJECT,
    );
    let path = folder.join("holdpoint.yaml");
    std::fs::write(&path, config)?;
    std::fs::write(folder.join("policy.yaml"), support::policy(mode))?;
    support::make_shop(&folder.join("shop.db"))?;
    Ok(path)
}
