//! What rules, model and both together say of every set.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use holdpoint::eval::stats::Rate;
use holdpoint::layers::injection::model::{Model, Within};
use holdpoint::layers::injection::{Profile, Scanner};

use crate::sets::Row;

/// Score from which a place is taken out.
const REDACT: f64 = 0.6;

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
    let scanner = || Scanner::new().map_err(anyhow::Error::msg);
    let model = Model::embedded().map_err(anyhow::Error::msg)?;
    let (alone, together) = (scanner()?, scanner()?.with_model(Box::new(model)));
    let mut sets: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut shown = String::new();
    for row in rows.iter().filter(|row| everything || !row.is_seen()) {
        let tally = sets.entry(&row.set).or_default();
        let within = Within::of(&row.text);
        let score = |scanner: &Scanner| scanner.scan(&row.text, &Profile::default()).score();
        let (rules, both) = (score(&alone), score(&together));
        tally.attack = row.attack;
        tally.n += 1;
        tally.rules += usize::from(rules >= REDACT);
        tally.model += usize::from(model.weight(&row.text, within).is_some());
        tally.both += usize::from(both >= REDACT);
        if misses.is_some_and(|set| row.set.contains(set)) && (both >= REDACT) != row.attack {
            let head: String = row.text.chars().take(400).collect();
            let reading = model.reading(&row.text, within);
            let _ = writeln!(
                shown,
                "--- {} rules {rules:.2} both {both:.2} reading {reading:.2}\n{head}",
                row.set
            );
        }
    }
    Ok(table(&sets) + &shown)
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
