//! How many trials a core runs in a second, with the judge and both snapshots on, and where the time goes.
//!
//! `cargo bench --bench eval [-- SUITE.. --jobs N]`: suites are folders; by default the one in `evalsets/refund-ownership`, and the
//! first hundred cases of AgentDojo's banking where `HOLDPOINT_TEST_DATA` names the recordings. Without `--bench` (as tests run it)
//! each arm is run over a few cases only.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use holdpoint::eval::import::agentdojo;
use holdpoint::eval::suite::Suite;
use holdpoint::eval::{self, Plan};

/// Cases of a suite where only that it runs is of interest.
const FEW: usize = 4;

struct Asked {
    suites: Vec<PathBuf>,
    jobs: Option<usize>,
    measure: bool,
}

fn asked() -> anyhow::Result<Asked> {
    let mut asked = Asked {
        suites: Vec::new(),
        jobs: None,
        measure: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--bench" => asked.measure = true,
            "--jobs" => {
                let number = words.next().context("--jobs needs a number")?;
                asked.jobs = Some(number.parse()?);
            }
            // What the test harness says.
            flag if flag.starts_with("--") => {}
            path => asked.suites.push(path.into()),
        }
    }
    Ok(asked)
}

fn main() -> anyhow::Result<()> {
    let asked = asked()?;
    let folder = tempfile::tempdir()?;
    let mut suites = asked.suites.clone();
    if suites.is_empty() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        suites.push(root.join("evalsets/refund-ownership"));
        suites.extend(banking(folder.path())?);
    }
    for suite in suites {
        measure(&suite, &asked)?;
    }
    Ok(())
}

/// The recordings of the bank as a suite, where they are at hand.
fn banking(folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    let Ok(data) = std::env::var("HOLDPOINT_TEST_DATA") else {
        report("skipped banking: HOLDPOINT_TEST_DATA is not set");
        return Ok(None);
    };
    let out = folder.join("banking");
    let options = agentdojo::Options {
        files: vec![Path::new(&data).join("agentdojo_traces/banking.jsonl.gz")],
        env: None,
        out: out.clone(),
    };
    agentdojo::import(&options).map_err(|error| anyhow!("{error}"))?;
    Ok(Some(out))
}

fn measure(folder: &Path, asked: &Asked) -> anyhow::Result<()> {
    let mut suite = Suite::load(folder).map_err(|error| anyhow!("{error}"))?;
    if !asked.measure {
        suite.cases.truncate(FEW);
    }
    let plan = Plan {
        jobs: asked.jobs,
        ..Plan::default()
    };
    let before = cpu();
    let started = Instant::now();
    let (report_of, spent) = eval::measured(&Arc::new(suite), &plan)?;
    let wall = started.elapsed();
    let used = cpu()
        .zip(before)
        .map(|(now, then)| now.saturating_sub(then));
    ensure!(spent.trials > 0, "no trial has run");
    let trials = f64::from(spent.trials);
    report(&format!(
        "{}: {} trials in {:.2} s{}",
        report_of.suite.name,
        spent.trials,
        wall.as_secs_f64(),
        used.map_or_else(String::new, |used| format!(
            ", {:.2} s of CPU: {:.0} trials/s/core, {:.0} us each",
            used.as_secs_f64(),
            trials / used.as_secs_f64(),
            used.as_secs_f64() / trials * 1e6
        ))
    ));
    let own = spent
        .replay
        .saturating_sub(spent.guard)
        .saturating_sub(spent.judging)
        .saturating_sub(spent.sandbox);
    for (what, time) in [
        ("reset", spent.reset),
        ("snapshots", spent.snapshot),
        ("guard and proxy made", spent.guard),
        ("layers", spent.judging),
        ("sandbox", spent.sandbox),
        ("replay besides", own),
        ("judge", spent.judge),
    ] {
        let each = time.as_secs_f64() / trials * 1e6;
        report(&format!("  {what:<22} {each:>8.0} us a trial"));
    }
    Ok(())
}

/// The process's CPU time so far, over all threads; `None` where the system does not say.
fn cpu() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after) = stat.rsplit_once(") ")?;
    let mut fields = after.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    // `CLK_TCK` is 100 on every Linux that Rust runs on.
    Some(Duration::from_millis(ticks * 10))
}

#[expect(clippy::print_stdout, reason = "what the bench is for")]
fn report(line: &str) {
    println!("{line}");
}
