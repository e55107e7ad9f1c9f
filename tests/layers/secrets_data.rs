//! False alarms on ordinary texts, and what the call side can say of labelled commands and prompts.

use std::collections::BTreeMap;

use holdpoint::layers::egress::{self, Class, Scanner};
use serde_json::Value;

use crate::support::{data, json_lines};

fn scanner(classes: &[Class]) -> Scanner {
    Scanner {
        classes: classes.iter().copied().collect(),
        ..Scanner::default()
    }
}

/// Every string of a value.
fn texts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(elements) => elements.iter().for_each(|element| texts(element, into)),
        Value::Object(members) => members.values().for_each(|member| texts(member, into)),
        _ => {}
    }
}

/// Ordinary texts: benign by label, or from sets without attacks.
fn ordinary() -> Vec<(&'static str, Vec<String>)> {
    let mut sets = Vec::new();
    let mut rows = |file: &'static str, keep: &dyn Fn(&Value) -> bool| {
        let Some(path) = data(file) else { return };
        let mut all = Vec::new();
        json_lines(&path)
            .iter()
            .filter(|row| keep(row))
            .for_each(|row| texts(row, &mut all));
        sets.push((file, all));
    };
    let benign = |row: &Value| row["label"] == "benign";
    rows("tool_output_scan/tool_outputs.jsonl.gz", &benign);
    rows("llmail_benign_emails/emails.jsonl", &|_| true);
    rows("notinject/notinject.jsonl", &|_| true);
    let runs = |row: &Value| row.pointer("/_labels/kind") == Some(&Value::from("benign"));
    for file in ["banking", "slack", "travel", "workspace"] {
        let file = match file {
            "banking" => "agentdojo_traces/banking.jsonl.gz",
            "slack" => "agentdojo_traces/slack.jsonl.gz",
            "travel" => "agentdojo_traces/travel.jsonl.gz",
            _ => "agentdojo_traces/workspace.jsonl.gz",
        };
        rows(file, &runs);
    }
    sets
}

#[test]
fn ordinary_texts_hold_no_secrets() {
    let credentials = scanner(&[Class::Credentials]);
    let cards = scanner(&[Class::Cards]);
    let files = scanner(&[Class::CredentialFiles]);
    for (name, texts) in ordinary() {
        assert!(!texts.is_empty(), "{name} is empty");
        let mut alarms = 0_usize;
        let mut others = [0_usize; 2];
        for text in &texts {
            if let Some(kind) = credentials.text(text, None) {
                alarms += 1;
                let near: String = text.chars().take(160).collect();
                println!("{name}: {} in {near:?}", kind.as_str());
            }
            others[0] += usize::from(cards.text(text, None).is_some());
            others[1] += usize::from(files.text(text, None).is_some());
        }
        println!(
            "{name}: {alarms} of {} texts hold credentials, {} cards, {} credential files",
            texts.len(),
            others[0],
            others[1]
        );
        assert!(
            alarms * 1000 <= texts.len(),
            "{name}: {alarms} of {}",
            texts.len()
        );
    }
}

#[test]
fn labelled_texts_and_commands_by_class() {
    let all = scanner(&[Class::Credentials, Class::Cards, Class::CredentialFiles]);
    for file in [
        "defenseclaw/exfil.jsonl",
        "defenseclaw/toolcall.jsonl",
        "defenseclaw/pii.jsonl",
    ] {
        let Some(path) = data(file) else { return };
        let mut said: BTreeMap<String, [usize; 4]> = BTreeMap::new();
        // With a rule for URLs that lists no host: near misses and attacks.
        let mut reached = [0_usize; 2];
        for row in json_lines(&path) {
            let class = match (&row["rule_id"], &row["expected_categories"]) {
                (Value::String(rule), _) => rule.clone(),
                (_, Value::Array(named)) => named
                    .iter()
                    .filter_map(Value::as_str)
                    .collect::<Vec<_>>()
                    .join("+"),
                _ => "(near miss)".to_owned(),
            };
            let mut found = None;
            let mut told = Vec::new();
            for key in ["content", "command", "args"] {
                texts(&row[key], &mut told);
            }
            for text in &told {
                found = found.or_else(|| all.text(text, None));
            }
            let leads = told.iter().any(|text| !egress::find(text).is_empty());
            let with_urls = &mut reached[usize::from(row["is_attack"] == true)];
            *with_urls += usize::from(found.is_some() || leads);
            let [caught, missed, alarms, quiet] = said.entry(class).or_default();
            match (row["is_attack"] == true, found.is_some()) {
                (true, true) => *caught += 1,
                (true, false) => *missed += 1,
                (false, true) => {
                    *alarms += 1;
                    println!("{file}: false alarm in {}", row["id"]);
                }
                (false, false) => *quiet += 1,
            }
        }
        let mut sum = [0; 4];
        for (class, counts) in &said {
            let [caught, missed, alarms, quiet] = counts;
            println!(
                "{file} {class}: caught {caught}, missed {missed}, false alarms {alarms}, quiet {quiet}"
            );
            sum.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
        println!(
            "{file}: caught {}, missed {}, false alarms {}, quiet {}",
            sum[0], sum[1], sum[2], sum[3]
        );
        println!(
            "{file}: with a rule for URLs that lists no host, caught {}, false alarms {}",
            reached[1], reached[0]
        );
        assert!(sum[2] <= 3, "{file}: {} false alarms", sum[2]);
        if file == "defenseclaw/exfil.jsonl" {
            assert_eq!((sum[2], reached[0]), (0, 0), "near misses");
            assert!(
                sum[0] >= 30 && reached[1] >= 42,
                "{} {}",
                sum[0],
                reached[1]
            );
        }
    }
}
