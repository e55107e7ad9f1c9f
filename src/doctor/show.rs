//! The report, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Level, Report, Row};
use crate::coverage::Look;
use crate::item::Leg;
use crate::protocols::canary::Fate;

/// Widths of the matrix.
const PLACE: usize = 17;
const CONTENT: usize = 46;

/// A table for each route, then the checks, the worst last.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let mut route = None;
    for row in &report.rows {
        if route != Some(&row.cell.route) {
            let _ = writeln!(out, "route {} ({})", row.cell.route, row.cell.protocol);
            route = Some(&row.cell.route);
        }
        let (place, content) = (place(row), row.cell.content);
        let _ = writeln!(out, "  {place:PLACE$} {content:CONTENT$} {}", fate(row));
    }
    if !report.rows.is_empty() {
        out.push_str("\n(some): only where a rule for the item's tool says so\n\n");
    }
    for level in [Level::Ok, Level::Note, Level::Warning, Level::Problem] {
        for check in report.checks.iter().filter(|check| check.level == level) {
            let word = match level {
                Level::Ok => "ok",
                Level::Note => "note",
                Level::Warning => "warning",
                Level::Problem => "problem",
            };
            let _ = writeln!(out, "{word:8} {}: {}", check.about, check.message);
            if let Some(help) = &check.help {
                let _ = writeln!(out, "{:8} help: {help}", "");
            }
        }
    }
    let _ = write!(
        out,
        "\n{} problems, {} warnings",
        report.count(Level::Problem),
        report.count(Level::Warning)
    );
    out
}

fn place(row: &Row) -> String {
    match row.cell.leg {
        Leg::ToUpstream => "request".to_owned(),
        Leg::ToAgent => format!("answer, {}", row.cell.mode.as_str()),
    }
}

fn fate(row: &Row) -> String {
    match row.cell.fate {
        Fate::Refused(code) => format!("refused: {code}"),
        Fate::Passed(reason) => format!("passed unscanned: {}", reason.as_str()),
        Fate::Judged(kind) if row.looks.is_empty() => {
            format!("{}: no layer looks at it (no_rule)", kind.as_str())
        }
        Fate::Judged(kind) => {
            let looks: Vec<_> = row.looks.iter().copied().map(look).collect();
            format!("{}: {}", kind.as_str(), looks.join(", "))
        }
    }
}

fn look(look: Look) -> String {
    let some = if look.some { " (some)" } else { "" };
    format!("{} {}{some}", look.layer, look.mode.as_str())
}

/// The same as one JSON object.
pub fn json(report: &Report) -> Value {
    json!({
        "problems": report.count(Level::Problem),
        "warnings": report.count(Level::Warning),
        "checks": report.checks,
        "matrix": report.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn row(row: &Row) -> Value {
    let cell = &row.cell;
    let (outcome, detail) = match cell.fate {
        Fate::Judged(kind) => ("judged", kind.as_str()),
        Fate::Passed(reason) => ("passed", reason.as_str()),
        Fate::Refused(code) => ("refused", code),
    };
    let layers: Vec<_> = row
        .looks
        .iter()
        .map(|look| json!({"layer": look.layer, "mode": look.mode, "some": look.some}))
        .collect();
    json!({
        "route": cell.route,
        "protocol": cell.protocol,
        "direction": match cell.leg { Leg::ToUpstream => "request", Leg::ToAgent => "answer" },
        "mode": cell.mode.as_str(),
        "content": cell.content,
        "outcome": outcome,
        "as": detail,
        "layers": layers,
    })
}
