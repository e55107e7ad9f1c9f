//! Makes and measures the injection layer's linear model, and makes its corpus.
//!
//! ```text
//! cargo run --release --example train-injection -- train [--ordinary KIND=PATH]... [--points KIND=PATH]...
//! cargo run --release --example train-injection -- corpus
//! cargo run --release --example train-injection -- measure [--ordinary KIND=PATH]...
//! ```
//!
//! Public sets are read from `HOLDPOINT_TEST_DATA` where it is set. See `docs/injection-results.md`.

#![expect(
    clippy::indexing_slicing,
    reason = "a tool for developers: an index out of range is a fault that may stop it"
)]

mod carriers;
mod corpus;
mod grammar;
mod learn;
mod measure;
mod obfuscate;
mod random;
mod sets;
mod train;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};

use sets::Row;
use train::Inputs;

/// Sets whose ordinary texts the model may learn from (their half by hash). Their licences are MIT or Apache-2.0; no attack of
/// any public set is learned from.
const LEARNED: [&str; 6] = [
    "tool outputs, benign",
    "NotInject",
    "LLMail mails, benign",
    "AGT benign",
    "CyberSecEval security prompts, benign",
    "BIPIA email, benign",
];

/// Makes and measures the injection layer's linear model.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Folder of the public sets; `HOLDPOINT_TEST_DATA` where it is left out.
    #[arg(long, global = true)]
    data: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes `src/layers/injection/model/weights.bin`.
    Train {
        /// Ordinary documents to learn from, KIND=PATH; their half by hash.
        #[arg(long)]
        ordinary: Vec<String>,
        /// Ordinary documents that only the points are set by, KIND=PATH; their half by hash.
        #[arg(long)]
        points: Vec<String>,
        /// Most documents of a folder.
        #[arg(long, default_value_t = 2000)]
        most: usize,
        #[arg(long, default_value_t = 20_261_201)]
        seed: u64,
        /// Documents with an attack that are generated; as many without.
        #[arg(long, default_value_t = 24_000)]
        documents: usize,
        #[arg(long, default_value = "src/layers/injection/model/weights.bin")]
        out: PathBuf,
    },
    /// Writes `evalsets/injection/corpus.jsonl`.
    Corpus {
        #[arg(long, default_value = "evalsets/injection/corpus.jsonl")]
        out: PathBuf,
    },
    /// Writes the table of alarms: rules, model, both.
    Measure {
        #[arg(long, default_value = "evalsets/injection/corpus.jsonl")]
        corpus: PathBuf,
        /// Ordinary documents, KIND=PATH.
        #[arg(long)]
        ordinary: Vec<String>,
        /// Most documents of a folder.
        #[arg(long, default_value_t = 2000)]
        most: usize,
        /// Also the half that the trainer may look at.
        #[arg(long)]
        everything: bool,
        /// Prints what was missed, or raised, in the sets whose name holds this.
        #[arg(long)]
        misses: Option<String>,
    },
}

fn main() -> Result<()> {
    let mut args = Args::parse();
    args.data = args
        .data
        .or_else(|| std::env::var_os("HOLDPOINT_TEST_DATA").map(PathBuf::from));
    match args.command {
        Command::Train {
            ordinary,
            points,
            most,
            seed,
            documents,
            out,
        } => {
            let mut learned = Vec::new();
            if let Some(data) = &args.data {
                learned.extend(
                    sets::public(data)?
                        .into_iter()
                        .filter(|row| LEARNED.contains(&row.set.as_str())),
                );
            }
            learned.extend(folders(&ordinary, most)?);
            let mut measured = folders(&points, most)?;
            learned.retain(Row::is_seen);
            measured.retain(Row::is_seen);
            let inputs = Inputs {
                languages: grammar::read()?,
                ordinary: learned,
                measured,
                seed,
                documents,
            };
            train::write(&out, &train::train(&inputs)?)
        }
        Command::Corpus { out } => corpus::write(&grammar::read()?, &out),
        Command::Measure {
            ordinary,
            corpus,
            most,
            everything,
            misses,
        } => {
            let mut rows = args
                .data
                .as_deref()
                .map(sets::public)
                .transpose()?
                .unwrap_or_default();
            rows.extend(sets::own(&corpus)?);
            rows.extend(folders(&ordinary, most)?);
            let table = measure::measure(&rows, everything, misses.as_deref())?;
            std::io::stdout().write_all(table.as_bytes())?;
            Ok(())
        }
    }
}

fn folders(specs: &[String], most: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for spec in specs {
        rows.extend(sets::folder(spec, most).with_context(|| spec.clone())?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained(seed: u64) -> Vec<u8> {
        let ordinary = vec![
            Row {
                set: "a".to_owned(),
                attack: false,
                text: "The museum is open every day but Monday.".to_owned(),
                group: String::new()
            };
            3
        ];
        let inputs = Inputs {
            languages: grammar::read().unwrap(),
            ordinary,
            measured: Vec::new(),
            seed,
            documents: 40,
        };
        train::train(&inputs).unwrap()
    }

    #[test]
    fn the_same_inputs_give_the_same_weights_to_the_byte() {
        assert!(trained(1) == trained(1));
        assert!(trained(1) != trained(2));
    }

    #[test]
    fn the_corpus_is_what_its_generator_writes() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/evalsets/injection/corpus.jsonl"
        );
        let lines = corpus::lines(&grammar::read().unwrap()).unwrap();
        assert!(
            lines == std::fs::read_to_string(path).unwrap(),
            "write it again: cargo run --example train-injection -- corpus"
        );
        let count = |label: &str| lines.lines().filter(|line| line.contains(label)).count();
        assert!(count("\"label\":\"attack\"") >= 1000 && count("\"label\":\"ordinary\"") >= 400);
    }

    #[test]
    fn a_text_never_changes_sides() {
        assert_eq!(
            ["a", "b", "d", "f"].map(|text| random::part(text, 4)),
            [2, 2, 1, 2]
        );
    }
}
