//! What Holdpoint adds to a request: direct, through a bare hyper proxy, through `holdpoint serve` with every layer off
//! and with every layer on, all in one run on the loopback interface. Only ratios of one run mean anything.
//!
//! `scripts/bench-proxy` runs it; `docs/performance.md` says how to read it.

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "the other bench uses the rest")]
mod support;

mod backend;
mod load;
mod messages;
mod process;
mod report;
mod targets;

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use load::{Api, Manner, Shape};
use process::Process;
use report::{Cell, Report};
use targets::Target;

/// A run that is not done by then has failed.
const LIMIT: Duration = Duration::from_mins(10);
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
    let mut targets = targets::all(backend, folder.path(), plan.pinned).await?;
    let shapes = [
        chat("chat: 2 KB request, 8 KB answer", 2 << 10, Manner::Whole),
        chat(
            "tool output: 64 KB request, 8 KB answer",
            64 << 10,
            Manner::Whole,
        ),
        chat("stream: 2 KB request, 200 events", 2 << 10, Manner::Events),
        chat(
            "first text of a stream, chat: 2 KB request",
            2 << 10,
            Manner::FirstText,
        ),
        Shape {
            name: "first text of a stream, messages: 2 KB request",
            api: Api::Messages,
            body: Bytes::from(messages::request(2 << 10)),
            manner: Manner::FirstText,
        },
    ];
    let mut report = Report::new(
        shapes.iter().map(|shape| shape.name).collect(),
        targets.iter().map(|target| target.name).collect(),
    );
    for round in 0..plan.rounds {
        for (row, shape) in shapes.iter().enumerate() {
            // A stream costs what many requests cost.
            let share = if shape.manner == Manner::Events { 4 } else { 1 };
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
    let path = target.path(sent.api);
    let answer = load::answer(target.address, path, sent)
        .await
        .with_context(failed)?;
    ensure!(
        answer.contains("get_order"),
        "{}: the call is missing",
        failed()
    );
    // Warm: connections of the proxy's pool, caches.
    load::run(target.address, path, sent, MANY, MANY)
        .await
        .with_context(failed)?;
    let alone = load::run(target.address, path, sent, 1, plan.alone.div_ceil(share))
        .await
        .with_context(failed)?;
    if sent.manner == Manner::FirstText {
        return Ok(Cell { alone, cpu: None });
    }
    let before = target.process.as_ref().map(Process::cpu).transpose()?;
    let together = plan.together.div_ceil(share);
    let done = load::run(target.address, path, sent, MANY, together)
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

fn chat(name: &'static str, bytes: usize, manner: Manner) -> Shape {
    Shape {
        name,
        api: Api::Chat,
        body: Bytes::from(support::chat_request(bytes, manner != Manner::Whole)),
        manner,
    }
}
