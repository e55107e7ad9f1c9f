//! What rules, model and both together say of every set.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use holdpoint::eval::stats::Rate;
use holdpoint::layers::injection::Scanner;
use holdpoint::layers::injection::model::{ASKED_FROM, Model, Within};

use crate::sets::Row;

/// Score from which a place is taken out.
const REDACT: f64 = 0.6;

/// Bytes around a place that the model is asked about.
const AROUND: usize = 200;

/// Alarms of one set.
#[derive(Default)]
struct Tally {
    attack: bool,
    n: usize,
    rules: usize,
    model: usize,
    both: usize,
}

/// Judges every text of the half that was not trained on, and writes a table.
pub fn measure(rows: &[Row], everything: bool, misses: Option<&str>) -> Result<String> {
    let scanner = Scanner::new().map_err(anyhow::Error::msg)?;
    let model = Model::embedded().map_err(anyhow::Error::msg)?;
    let mut sets: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut shown = String::new();
    for row in rows.iter().filter(|row| everything || !row.is_seen()) {
        let tally = sets.entry(&row.set).or_default();
        let within = Within::of(&row.text);
        let rules = scanner.scan(&row.text).score();
        let both =
            rules >= REDACT || (rules >= ASKED_FROM && spoken(&scanner, model, &row.text, within));
        tally.attack = row.attack;
        tally.n += 1;
        tally.rules += usize::from(rules >= REDACT);
        tally.model += usize::from(model.weight(&row.text, within).is_some());
        tally.both += usize::from(both);
        if misses.is_some_and(|set| row.set.contains(set)) && both != row.attack {
            let head: String = row.text.chars().take(400).collect();
            let _ = writeln!(
                shown,
                "--- {} rules {rules:.2} reading {:.2}\n{head}",
                row.set,
                model.reading(&row.text, within)
            );
        }
    }
    Ok(table(&sets) + &shown)
}

fn spoken(scanner: &Scanner, model: &Model, text: &str, within: Within) -> bool {
    scanner.scan(text).places(ASKED_FROM).iter().any(|place| {
        let from = text.floor_char_boundary(place.span.start.saturating_sub(AROUND));
        let to = text.ceil_char_boundary((place.span.end + AROUND).min(text.len()));
        text.get(from..to)
            .is_some_and(|window| model.weight(window, within).is_some())
    })
}

fn table(sets: &BTreeMap<&str, Tally>) -> String {
    let mut lines = "| set | kind | n | rules | model alone | both | 95 % of both |\n|---|---|---|---|---|---|---|\n".to_owned();
    for (set, tally) in sets {
        let rate = Rate::new(tally.both, tally.n);
        let (low, high) = rate
            .wilson95
            .map_or((0.0, 1.0), |interval| (interval.low, interval.high));
        let kind = if tally.attack { "attack" } else { "ordinary" };
        let _ = writeln!(
            lines,
            "| {set} | {kind} | {} | {} | {} | {} ({:.1} %) | {:.1} – {:.1} % |",
            tally.n,
            tally.rules,
            tally.model,
            tally.both,
            rate.rate.unwrap_or_default() * 100.0,
            low * 100.0,
            high * 100.0,
        );
    }
    lines
}
