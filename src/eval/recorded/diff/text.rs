//! The report for people.

use std::fmt::Write as _;

use comfy_table::{Table, presets};

use super::Diff;
use super::compare::{Change, Verdict};

/// The report for people.
pub fn render(diff: &Diff) -> String {
    let mut out = format!(
        "{} exchanges, {} items, {} of them calls; {} against {}\n",
        diff.exchanges,
        diff.items,
        diff.calls,
        short(&diff.new),
        diff.old.as_deref().map_or("what was recorded", short)
    );
    if diff.incomplete > 0 {
        let _ = writeln!(
            out,
            "{} exchanges were recorded without a part of them, such as a secret: what is said of these may differ for that",
            diff.incomplete
        );
    }
    if diff.changes.is_empty() {
        out.push_str("no verdict differs\n");
        return out;
    }
    for change in Change::ALL {
        let groups = diff
            .changes
            .iter()
            .filter(|group| group.key.change == change);
        let count: usize = groups.map(|group| group.count).sum();
        if count > 0 {
            let _ = writeln!(out, "{count} {}", change.as_str());
        }
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["change", "count", "tool", "before", "now", "examples"]);
    for group in &diff.changes {
        let examples = group.examples.iter().map(|example| {
            let mut named = example.exchange.clone();
            if let Some(call) = &example.call {
                let _ = write!(named, " {call}");
            }
            if let Some(arguments) = &example.arguments {
                let _ = write!(named, " {arguments}");
            }
            named
        });
        table.add_row([
            group.key.change.as_str().to_owned(),
            group.count.to_string(),
            group.key.tool.clone().unwrap_or_else(|| "–".to_owned()),
            said(&group.key.old),
            said(&group.key.new),
            examples.collect::<Vec<_>>().join("\n"),
        ]);
    }
    let _ = writeln!(out, "\n{table}");
    out
}

fn said(verdict: &Verdict) -> String {
    let who = [verdict.layer, verdict.rule.as_deref(), verdict.reason];
    let who: Vec<_> = who.into_iter().flatten().collect();
    if who.is_empty() {
        return verdict.verdict.as_str().to_owned();
    }
    format!("{} ({})", verdict.verdict.as_str(), who.join(", "))
}

fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
