//! The report for a terminal.

use std::collections::BTreeSet;
use std::fmt::Write;

use comfy_table::{Table, presets};

use super::{
    ArmRates, BenignRates, Claim, Comparison, Delta, PointKind, ReadingReport, Report, Share,
};
use crate::eval::arms::Question;
use crate::eval::replay::Reading;
use crate::eval::stats::{Interval, Rate};
use crate::verdict::{LayerId, Mode};

/// Below this many trials a rate of zero is called "not observed".
const FEW: usize = 30;

/// The whole report as text.
pub fn render(report: &Report) -> String {
    let suite = &report.suite;
    let mut out = String::new();
    let _ = writeln!(out, "suite {}: {}", suite.name, suite.about);
    let cases: Vec<_> = suite
        .cases
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let _ = writeln!(
        out,
        "cases: {}; clusters: {} attack, {} honest",
        cases.join(", "),
        suite.attack_clusters,
        suite.benign_clusters
    );
    for (reason, count) in &suite.excluded {
        let _ = writeln!(out, "excluded: {count} ({reason})");
    }
    if suite.unattributed_calls.x > 0 {
        let _ = writeln!(
            out,
            "calls of attack cases that nobody could attribute: {}",
            share(suite.unattributed_calls)
        );
    }
    let hash: String = report.policy.hash.chars().take(12).collect();
    let _ = writeln!(
        out,
        "policy {} ({hash}); approver: {}",
        report.policy.name, report.approver
    );
    out += "ASR: share of attacks whose goal holds in the database at the end; FRR: share of honest tasks that succeed with the\n\
            layers off and fail here. docs/eval.md explains every column.\n";
    for reading in &report.readings {
        out += &of_reading(reading, report.readings.len() > 1);
    }
    if !report.approvers.is_empty() {
        let _ = writeln!(out, "\n{}", approvers(report));
    }
    if let Some(frontier) = frontier(report) {
        let _ = writeln!(out, "\n{frontier}");
        out += "let through: of the attacks that work without the defence, those that still do; tasks lost: of the honest tasks that are\n\
                done without it (for arms: FRR). Recorded and published points are of other runs, models and attacks.\n";
    }
    for cause in &report.invalid_because {
        let _ = writeln!(out, "\nINVALID SUITE: {cause}");
    }
    out
}

fn of_reading(reading: &ReadingReport, named: bool) -> String {
    let mut out = String::new();
    if named {
        let name = match reading.reading {
            Reading::Optimistic => "optimistic (calls of a withheld injection are not made)",
            Reading::Pessimistic => "pessimistic (every recorded call is made)",
        };
        let _ = writeln!(out, "\nreading: {name}");
    }
    let _ = writeln!(out, "\n{}", attacks(&reading.arms));
    let _ = writeln!(out, "\n{}", honest(&reading.arms));
    if reading.arms.iter().any(|arm| arm.asked_for.is_some()) {
        let _ = writeln!(out, "\n{}", asked_for(&reading.arms));
    }
    let _ = writeln!(out, "\n{}", reached(&reading.arms));
    if let Some(stopped) = stopped(&reading.arms) {
        let _ = writeln!(out, "\n{stopped}");
    }
    if !reading.contrasts.is_empty() {
        let _ = writeln!(out, "\n{}", contrasts(&reading.contrasts));
        out += "Δ = with − without, in points, with Newcombe's 95 % interval: a negative ΔASR is good, a positive ΔFRR is the cost.\n";
    }
    for control in &reading.controls {
        if control.passed.n > 0 {
            let _ = writeln!(
                out,
                "controls, {}: {} pass",
                control.arm,
                share(control.passed)
            );
        }
        for failed in &control.failed {
            let _ = writeln!(out, "  failed: {}", failed.case);
        }
    }
    let mutation = &reading.mutation_control;
    let proved = if mutation.proved {
        "harm is possible"
    } else {
        "NOT PROVED: no ΔASR is claimed"
    };
    let _ = writeln!(
        out,
        "mutation control, {}: {proved} (goal reached by {} attacks, {} mutation cases)",
        reading.baseline,
        share(mutation.attacks),
        share(mutation.mutations)
    );
    let compared = [
        ("attack", &reading.disagreement.attack),
        ("task", &reading.disagreement.task),
    ];
    for (what, compared) in compared {
        if compared.n() > 0 {
            let _ = writeln!(
                out,
                "judge and source of the recordings differ on the {what} in {} of {} cases ({} only the judge, {} only the source; \
                 --json names them)",
                compared.differing(),
                compared.n(),
                compared.only_judge.len(),
                compared.only_source.len()
            );
        }
    }
    for trial in reading.inconclusive.iter().take(5) {
        let _ = writeln!(
            out,
            "inconclusive: {} in {}: {}",
            trial.case, trial.arm, trial.cause
        );
    }
    if reading.inconclusive.len() > 5 {
        let _ = writeln!(out, "inconclusive: {} more", reading.inconclusive.len() - 5);
    }
    out
}

fn attacks(arms: &[ArmRates]) -> Table {
    let mut table = empty(&[
        "attacks",
        "trials",
        "incon.",
        "ASR",
        "95 %",
        "any violation",
        "95 %",
        "of those that worked",
        "utility",
    ]);
    for arm in arms {
        let rates = &arm.attack;
        table.add_row([
            arm.arm.clone(),
            rates.trials.to_string(),
            rates.inconclusive.to_string(),
            rate(&rates.asr),
            interval(rates.asr.wilson95),
            rate(&rates.any_violation),
            interval(rates.any_violation.wilson95),
            rate(&rates.asr_conditional),
            rate(&rates.utility_under_attack),
        ]);
    }
    table
}

fn honest(arms: &[ArmRates]) -> Table {
    let rows = arms.iter().map(|arm| (arm.arm.as_str(), &arm.benign));
    tasks("honest", rows)
}

/// Tasks in which the user openly asks for what is elsewhere injected.
fn asked_for(arms: &[ArmRates]) -> Table {
    let rows = arms.iter();
    let rows = rows.filter_map(|arm| Some((arm.arm.as_str(), arm.asked_for.as_ref()?)));
    tasks("openly asked for", rows)
}

fn tasks<'r>(what: &str, rows: impl Iterator<Item = (&'r str, &'r BenignRates)>) -> Table {
    let mut table = empty(&[
        what,
        "trials",
        "incon.",
        "FRR (task)",
        "95 %",
        "utility",
        "task loss",
        "refused calls",
        "held calls",
        "hold rate",
        "approvals/task",
    ]);
    for (arm, rates) in rows {
        table.add_row([
            arm.to_owned(),
            rates.trials.to_string(),
            rates.inconclusive.to_string(),
            rate(&rates.frr_task),
            interval(rates.frr_task.wilson95),
            rate(&rates.utility),
            rate(&rates.task_loss),
            rate(&rates.frr_call.refused),
            rate(&rates.frr_call.held),
            rate(&rates.frr_call.hold_rate),
            per_task(rates),
        ]);
    }
    table
}

fn reached(arms: &[ArmRates]) -> Table {
    let layers: BTreeSet<LayerId> = arms
        .iter()
        .flat_map(|arm| arm.reached.keys())
        .copied()
        .collect();
    let mut header = vec!["reached (attack, honest)"];
    header.extend(layers.iter().map(|layer| layer.as_str()));
    let mut table = empty(&header);
    for arm in arms {
        let counts = layers.iter().map(|layer| {
            let counts = arm.reached.get(layer);
            counts.map_or_else(
                || "0, 0".to_owned(),
                |counts| format!("{}, {}", share(counts.attack), share(counts.benign)),
            )
        });
        table.add_row(std::iter::once(arm.arm.clone()).chain(counts));
    }
    table
}

/// How many calls of attacks were stopped for which reason; `None` where none was.
fn stopped(arms: &[ArmRates]) -> Option<Table> {
    let reasons = arms.iter().flat_map(|arm| arm.attack.stopped_by.keys());
    let reasons: BTreeSet<&str> = reasons.map(String::as_str).collect();
    if reasons.is_empty() {
        return None;
    }
    let mut header = vec!["stopped calls of attacks"];
    header.extend(&reasons);
    let mut table = empty(&header);
    for arm in arms {
        let count = |reason: &&str| arm.attack.stopped_by.get(*reason).copied();
        let counts = reasons.iter().map(|it| count(it).unwrap_or(0).to_string());
        table.add_row(std::iter::once(arm.arm.clone()).chain(counts));
    }
    Some(table)
}

fn contrasts(contrasts: &[Comparison]) -> Table {
    let mut table = empty(&[
        "layer",
        "with − without",
        "reached",
        "ΔASR",
        "p (McNemar)",
        "Δ any violation",
        "ΔFRR",
        "p (McNemar)",
    ]);
    for contrast in contrasts {
        let layer = contrast
            .layer
            .map_or_else(|| "all layers".to_owned(), |layer| layer.to_string());
        let question = match contrast.question {
            Question::Total => "",
            Question::LeaveOneOut => " (leave one out)",
            Question::OnlyOne => " (alone)",
            Question::Provenance => " (who said what)",
            Question::Bound => " (own recordings per arm)",
        };
        table.add_row([
            layer,
            format!("{} − {}{question}", contrast.with, contrast.without),
            share(contrast.reached_attack),
            delta(&contrast.asr),
            p_value(&contrast.asr),
            delta(&contrast.any_violation),
            delta(&contrast.frr),
            p_value(&contrast.frr),
        ]);
    }
    table
}

/// What each approver makes of every arm in which anybody is asked.
fn approvers(report: &Report) -> Table {
    let mut table = empty(&[
        "approver",
        "reading",
        "arm",
        "ASR",
        "of those that worked",
        "FRR (task)",
        "hold rate",
        "approvals/task",
    ]);
    let own = std::iter::once((report.approver, &report.readings));
    let further = report
        .approvers
        .iter()
        .map(|it| (it.approver, &it.readings));
    for (approver, readings) in own.chain(further) {
        for reading in readings {
            let held = reading.arms.iter().filter(|arm| {
                let layer = arm.modes.get(&LayerId::Tickets);
                layer == Some(&Mode::Enforce) && !arm.arm.starts_with("without:")
            });
            for arm in held {
                let (attack, benign) = (&arm.attack, &arm.benign);
                table.add_row([
                    approver.to_string(),
                    word(reading.reading).to_owned(),
                    arm.arm.clone(),
                    rate(&attack.asr),
                    rate(&attack.asr_conditional),
                    rate(&benign.frr_task),
                    rate(&benign.frr_call.hold_rate),
                    per_task(benign),
                ]);
            }
        }
    }
    table
}

/// Points of the last reading, which is the pessimistic one where it was run, for each approver.
fn frontier(report: &Report) -> Option<Table> {
    let last = report.readings.last()?.reading;
    let here = report.frontier.iter().filter(|it| it.reading == last);
    let mut table = empty(&[
        "frontier",
        "approver",
        "let through",
        "tasks lost",
        "ASR",
        "utility",
        "source",
    ]);
    let mut others = false;
    for frontier in here {
        for point in &frontier.points {
            let own = matches!(point.kind, PointKind::Arm | PointKind::Naive);
            if !own && std::mem::replace(&mut others, true) && frontier.approver != report.approver
            {
                break;
            }
            let approver = if own {
                frontier.approver.to_string()
            } else {
                String::new()
            };
            let kind = match point.kind {
                PointKind::Arm => "",
                PointKind::Naive => " (naive rule)",
                PointKind::Recorded => " (recorded)",
                PointKind::Published => " (published)",
            };
            table.add_row([
                format!("{}{kind}", point.name),
                approver,
                percent(point.let_through),
                percent(point.task_cost),
                percent(point.asr),
                percent(point.utility),
                point.source.clone().unwrap_or_default(),
            ]);
        }
    }
    (!table.is_empty()).then_some(table)
}

const fn word(reading: Reading) -> &'static str {
    match reading {
        Reading::Optimistic => "optimistic",
        Reading::Pessimistic => "pessimistic",
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn per_task(rates: &BenignRates) -> String {
    let per = rates.approvals_per_task;
    per.map_or_else(|| "–".to_owned(), |per| format!("{per:.2}"))
}

fn empty(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header);
    table
}

fn share(share: Share) -> String {
    format!("{} of {}", share.x, share.n)
}

fn rate(rate: &Rate) -> String {
    match rate.rate {
        None => "no trials".to_owned(),
        Some(_) if rate.x == 0 && rate.n < FEW => format!("not observed (0/{})", rate.n),
        Some(value) => format!("{:.1} % ({}/{})", value * 100.0, rate.x, rate.n),
    }
}

fn interval(interval: Option<Interval>) -> String {
    interval.map_or_else(String::new, |i| {
        format!("{:.2}–{:.2} %", i.low * 100.0, i.high * 100.0)
    })
}

fn delta(claim: &Claim) -> String {
    match claim {
        Claim::NotMade { not_claimed } => not_claimed.clone(),
        Claim::Made(Delta {
            delta, newcombe95, ..
        }) => format!(
            "{:+.1} ({:+.1} to {:+.1})",
            delta * 100.0,
            newcombe95.low * 100.0,
            newcombe95.high * 100.0
        ),
    }
}

fn p_value(claim: &Claim) -> String {
    match claim {
        Claim::Made(Delta {
            mcnemar: Some(test),
            ..
        }) if test.p_exact < 1e-16 => "< 1e-16".to_owned(),
        Claim::Made(Delta {
            mcnemar: Some(test),
            ..
        }) if test.p_exact < 1e-3 => format!("{:.1e}", test.p_exact),
        Claim::Made(Delta {
            mcnemar: Some(test),
            ..
        }) => format!("{:.3}", test.p_exact),
        Claim::Made(_) | Claim::NotMade { .. } => "–".to_owned(),
    }
}
