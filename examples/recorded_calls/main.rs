//! What policies say of every call of recorded runs, without a world: attack calls stopped beside honest runs that lose a
//! call, from the naive rule to the loosest.
//!
//! ```text
//! cargo run --release --example recorded_calls -- [--json] [--reading pessimistic|optimistic] [--policies DIR] PATH...
//! ```
//!
//! `PATH` is a recording (`.jsonl`, `.jsonl.gz`: what `holdpoint eval import agentdojo` reads) or a folder of them; records
//! name their suite, and `DIR` (by default `policies/worlds`) has its policy, `SUITE.yaml`. See `docs/provenance.md`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Parser, ValueEnum};
use comfy_table::{Table, presets};
use holdpoint::cli::print;
use holdpoint::eval::recorded::{
    Point, Rates, Strictness, SuiteRuns, frontier, policy_file, suites,
};
use holdpoint::eval::replay::Reading;
use holdpoint::eval::stats::Rate;
use serde::Serialize;

/// The layout of `--json`.
const SCHEMA: &str = "holdpoint-recorded-calls/1";

/// What policies say of every call of recorded runs.
#[derive(Debug, Parser)]
struct Args {
    /// Recordings, or folders of them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The folder with a policy `SUITE.yaml` for each suite.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/policies/worlds"))]
    policies: PathBuf,
    /// Whether what was refused stays in the conversation.
    #[arg(long, value_enum, default_value_t)]
    reading: ReadingArg,
    /// JSON in place of tables.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ReadingArg {
    /// The conversation is as recorded, also after a refusal.
    #[default]
    Pessimistic,
    /// What was refused has never happened: neither the call nor its output is in later requests.
    Optimistic,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    reading: Reading,
    suites: Vec<SuiteReport>,
}

#[derive(Serialize)]
struct SuiteReport {
    suite: String,
    /// All runs of the recordings.
    runs: usize,
    /// Runs that count: benign or asked for and successful, or with a labelled attack call.
    counted: usize,
    points: Vec<Point>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let reading = match args.reading {
        ReadingArg::Pessimistic => Reading::Pessimistic,
        ReadingArg::Optimistic => Reading::Optimistic,
    };
    let recorded = suites(&args.paths)?;
    if recorded.is_empty() {
        bail!("the recordings hold no run");
    }
    let reports = recorded
        .iter()
        .map(|suite| of_suite(suite, &args.policies, reading))
        .collect::<Result<Vec<_>>>()?;
    let report = Report {
        schema: SCHEMA,
        reading,
        suites: reports,
    };
    if args.json {
        print(serde_json::to_string_pretty(&report)?);
    } else {
        print(text(&report));
    }
    Ok(())
}

fn of_suite(suite: &SuiteRuns, policies: &Path, reading: Reading) -> Result<SuiteReport> {
    let file = policy_file(policies, &suite.suite)?;
    let points = frontier(&file, &suite.runs, reading)
        .with_context(|| format!("the suite {} under {}", suite.suite, file.display()))?;
    Ok(SuiteReport {
        suite: suite.suite.clone(),
        runs: suite.all,
        counted: suite.runs.len(),
        points,
    })
}

fn text(report: &Report) -> String {
    let mut out = String::from(
        "The injection layer is off and nobody approves. FRR: successful benign runs with a refused or held call.\n\
         Strictness:\n",
    );
    for strictness in Strictness::ALL {
        let _ = writeln!(out, "  {:8} {}", strictness.as_str(), strictness.about());
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "suite",
        "strictness",
        "FRR by run",
        "refused",
        "held",
        "attack calls stopped",
        "in successful attacks",
        "attack runs stopped",
        "asked for, lost",
    ]);
    for suite in &report.suites {
        for point in &suite.points {
            let Rates {
                attack_calls_stopped,
                attack_calls_stopped_in_successful,
                attack_runs_stopped,
                benign_runs_stopped,
                benign_runs_refused,
                benign_runs_held,
                asked_for_runs_stopped,
                ..
            } = &point.rates;
            let mut row = vec![suite.suite.clone(), point.strictness.as_str().to_owned()];
            row.extend(
                [
                    benign_runs_stopped,
                    benign_runs_refused,
                    benign_runs_held,
                    attack_calls_stopped,
                    attack_calls_stopped_in_successful,
                    attack_runs_stopped,
                    asked_for_runs_stopped,
                ]
                .map(share),
            );
            table.add_row(row);
        }
    }
    let _ = writeln!(out, "\n{table}");
    for suite in &report.suites {
        let shipped = suite
            .points
            .iter()
            .find(|point| point.strictness == Strictness::Shipped);
        out += &shipped
            .map(|point| losses(&suite.suite, &point.rates))
            .unwrap_or_default();
    }
    out
}

/// What the shipped policy refuses of good work and lets through of attacks, by tool and argument.
fn losses(suite: &str, rates: &Rates) -> String {
    let mut out = String::new();
    for stopped in &rates.refused_work {
        let _ = writeln!(
            out,
            "{suite}: {} call(s) of good work stopped: {} {} ({}, {})",
            stopped.calls, stopped.tool, stopped.argument, stopped.layer, stopped.reason
        );
    }
    for (tool, calls) in &rates.attack_calls_let_through {
        let _ = writeln!(out, "{suite}: {calls} attack call(s) let through: {tool}");
    }
    out
}

fn share(rate: &Rate) -> String {
    match rate.rate {
        Some(value) => format!("{:.1} % ({}/{})", 100.0 * value, rate.x, rate.n),
        None => "–".to_owned(),
    }
}
