//! Texts from outside: public sets under `HOLDPOINT_TEST_DATA`, and folders of ordinary documents. Read in place, never copied.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::random::part;

/// One text.
#[derive(Clone, Debug)]
pub struct Row {
    /// Set, and kind within it.
    pub set: String,
    /// Whether it holds an instruction to the agent.
    pub attack: bool,
    pub text: String,
    /// Texts of one group are on the same side of the split.
    pub group: String,
}

impl Row {
    fn new(
        set: impl Into<String>,
        attack: bool,
        text: impl Into<String>,
        group: impl Into<String>,
    ) -> Self {
        Self {
            set: set.into(),
            attack,
            text: text.into(),
            group: group.into(),
        }
    }

    /// The half that the trainer may look at. The other one is scored.
    pub fn is_seen(&self) -> bool {
        !self.group.is_empty() && part(&self.group, 2) == 0
    }
}

/// Longest text that is taken whole from a folder, in bytes.
const MOST: u64 = 256 * 1024;

fn whole(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    let mut text = String::new();
    if path.extension().is_some_and(|end| end == "gz") {
        GzDecoder::new(bytes.as_slice())
            .read_to_string(&mut text)
            .with_context(|| path.display().to_string())?;
    } else {
        text = String::from_utf8(bytes).with_context(|| path.display().to_string())?;
    }
    Ok(text)
}

fn lines(path: &Path) -> Result<Vec<Value>> {
    whole(path)?
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| path.display().to_string()))
        .collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Every public set that is there.
pub fn public(data: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    tool_outputs(data, &mut rows)?;
    injecagent(data, &mut rows)?;
    bipia(data, &mut rows)?;
    spikee(data, &mut rows)?;
    prompts(data, &mut rows)?;
    Ok(rows)
}

fn tool_outputs(data: &Path, rows: &mut Vec<Row>) -> Result<()> {
    let folder = data.join("tool_output_scan");
    for row in lines(&folder.join("tool_outputs.jsonl.gz"))? {
        let attack = text(&row, "label") == "injected";
        let group = format!("{} {}", text(&row, "suite"), text(&row, "user_task"));
        let set = if attack {
            "tool outputs, injected"
        } else {
            "tool outputs, benign"
        };
        rows.push(Row::new(set, attack, text(&row, "text"), group));
    }
    for row in lines(&folder.join("tool_outputs_shifted.jsonl.gz"))? {
        // Where the recording's payload is not in the text as it stood, the rewording has nothing to show.
        let set = format!("tool outputs, {}", text(&row, "template"));
        rows.push(Row::new(
            set,
            true,
            text(&row, "text"),
            text(&row, "injection_task"),
        ));
    }
    Ok(())
}

fn injecagent(data: &Path, rows: &mut Vec<Row>) -> Result<()> {
    for setting in ["base", "enhanced"] {
        for attack in ["dh", "ds"] {
            let path = data.join(format!("injecagent/test_cases_{attack}_{setting}.jsonl.gz"));
            for row in lines(&path)? {
                let group = text(&row, "Attacker Instruction");
                rows.push(Row::new(
                    format!("InjecAgent {setting}"),
                    true,
                    text(&row, "Tool Response"),
                    group,
                ));
                if setting == "base" && attack == "dh" {
                    let clean = text(&row, "Tool Response Template").replace(
                        "<Attacker Instruction>",
                        "Arrived on time and works as described.",
                    );
                    rows.push(Row::new(
                        "InjecAgent templates, benign",
                        false,
                        clean,
                        text(&row, "User Tool"),
                    ));
                }
            }
        }
    }
    Ok(())
}

fn bipia(data: &Path, rows: &mut Vec<Row>) -> Result<()> {
    let folder = data.join("bipia");
    let mut emails = Vec::new();
    for kind in ["email", "table", "code"] {
        for row in lines(&folder.join(format!("{kind}.jsonl.gz")))? {
            let context = match row.get("context") {
                Some(Value::Array(lines)) => lines
                    .iter()
                    .filter_map(Value::as_str)
                    .collect::<Vec<_>>()
                    .join("\n"),
                _ => text(&row, "context").to_owned(),
            };
            if kind == "email" {
                emails.push(context.clone());
            }
            rows.push(Row::new(
                format!("BIPIA {kind}, benign"),
                false,
                context.clone(),
                context,
            ));
        }
    }
    let attacks: Value = serde_json::from_str(&whole(&folder.join("text_attacks.json"))?)?;
    let wordings = attacks
        .as_object()
        .into_iter()
        .flatten()
        .flat_map(|(_, wordings)| wordings.as_array().into_iter().flatten());
    for (at, wording) in wordings.filter_map(Value::as_str).enumerate() {
        let email = &emails[at % emails.len()];
        let whole = if at % 2 == 0 {
            format!("{email}\n{wording}")
        } else {
            format!("{wording}\n{email}")
        };
        rows.push(Row::new("BIPIA text attacks in mail", true, whole, wording));
    }
    Ok(())
}

fn spikee(data: &Path, rows: &mut Vec<Row>) -> Result<()> {
    let folder = data.join("spikee/seeds-cybersec-2026-01");
    let instructions = lines(&folder.join("instructions.jsonl"))?;
    let carrier =
        "Quarterly figures were in line with the plan. Staff costs rose by three percent.";
    for jailbreak in lines(&folder.join("jailbreaks.jsonl"))? {
        for instruction in &instructions {
            let attack =
                text(&jailbreak, "text").replace("<INSTRUCTION>", text(instruction, "instruction"));
            let bare = text(&jailbreak, "jailbreak_type") == "no-jailbreak";
            let set = if bare {
                "spikee, bare"
            } else {
                "spikee, in a document"
            };
            rows.push(Row::new(
                set,
                true,
                format!("{carrier}\n{attack}\n{carrier}"),
                text(&jailbreak, "text"),
            ));
        }
    }
    Ok(())
}

fn prompts(data: &Path, rows: &mut Vec<Row>) -> Result<()> {
    for row in lines(&data.join("notinject/notinject.jsonl"))? {
        rows.push(Row::new(
            "NotInject",
            false,
            text(&row, "prompt"),
            text(&row, "prompt"),
        ));
    }
    for row in lines(&data.join("llmail_benign_emails/emails.jsonl"))? {
        rows.push(Row::new(
            "LLMail mails, benign",
            false,
            text(&row, "text"),
            text(&row, "text"),
        ));
    }
    for row in lines(&data.join("agt_prompt_injection/corpus.jsonl.gz"))? {
        let attack = text(&row, "attack_class") != "benign";
        let set = if attack { "AGT attacks" } else { "AGT benign" };
        rows.push(Row::new(
            set,
            attack,
            text(&row, "text"),
            text(&row, "family_id"),
        ));
    }
    for row in lines(&data.join("cyberseceval/prompt_injection.jsonl"))? {
        let kind = text(&row, "injection_type");
        rows.push(Row::new(
            format!("CyberSecEval {kind}"),
            true,
            text(&row, "user_input"),
            text(&row, "user_input"),
        ));
    }
    for row in lines(&data.join("cyberseceval/mitre_frr.jsonl.gz"))? {
        rows.push(Row::new(
            "CyberSecEval security prompts, benign",
            false,
            text(&row, "mutated_prompt"),
            text(&row, "mutated_prompt"),
        ));
    }
    for prompt in csv_column(&whole(&data.join("giskard/prompt_injections.csv"))?, 1) {
        rows.push(Row::new("Giskard prompts", true, prompt.clone(), prompt));
    }
    Ok(())
}

/// The project's own corpus.
pub fn own(path: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for row in lines(path)? {
        let attack = text(&row, "label") == "attack";
        let way = match (attack, row.get("wrapper_seen").and_then(Value::as_bool)) {
            (true, Some(true)) => "worded, wrapper seen",
            (true, Some(false)) => "worded, wrapper unseen",
            (true, None) => "hidden",
            (false, _) => text(&row, "way"),
        };
        // Not split: what the model has seen of it is in its name.
        let language = if text(&row, "language") == "en" {
            "en"
        } else {
            "other languages"
        };
        rows.push(Row::new(
            format!("own: {way}, {language}"),
            attack,
            text(&row, "text"),
            "",
        ));
        if attack && way == "hidden" {
            rows.push(Row::new(
                format!("own: hidden by {}", text(&row, "way")),
                attack,
                text(&row, "text"),
                "",
            ));
        }
    }
    Ok(rows)
}

/// One column of a CSV, without its head (RFC 4180: quotes doubled within quotes).
fn csv_column(csv: &str, column: usize) -> Vec<String> {
    let (mut rows, mut cells, mut cell, mut quoted) =
        (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = csv.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                cells.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut cells));
            }
            '\r' if !quoted => {}
            _ => cell.push(letter),
        }
    }
    rows.into_iter()
        .skip(1)
        .filter_map(|row| row.get(column).cloned())
        .filter(|cell| !cell.is_empty())
        .collect()
}

/// Ordinary documents of a folder: `KIND=PATH`. Files that are no text, or longer than 256 KiB, are left out; at most `most`
/// are taken, those with the smallest hashes, so that no part of the folder is preferred.
pub fn folder(spec: &str, most: usize) -> Result<Vec<Row>> {
    let (kind, path) = spec
        .split_once('=')
        .with_context(|| format!("`{spec}` is not KIND=PATH"))?;
    let mut found = Vec::new();
    walk(Path::new(path), &mut found)?;
    found.sort_by_cached_key(|path| part(&path.display().to_string(), u64::MAX));
    let mut rows = Vec::new();
    for path in found {
        if rows.len() >= most {
            break;
        }
        let Ok(text) = whole(&path) else { continue };
        if text.trim().len() >= 40 {
            rows.push(Row::new(kind, false, text.clone(), text));
        }
    }
    anyhow::ensure!(!rows.is_empty(), "`{path}` has no texts");
    Ok(rows)
}

fn walk(path: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        entries.sort();
        for entry in entries.into_iter().filter(|entry| !entry.is_symlink()) {
            walk(&entry, found)?;
        }
    } else if path.metadata().is_ok_and(|file| file.len() <= MOST) {
        found.push(path.to_owned());
    }
    Ok(())
}
