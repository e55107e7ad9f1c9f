//! The report for people.

use std::fmt::Write as _;

use comfy_table::{Table, presets};

use super::Report;
use super::rates::Rates;
use super::strictness::Strictness;
use crate::eval::stats::Rate;

/// The report for people.
pub fn render(report: &Report) -> String {
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
