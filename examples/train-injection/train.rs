//! Makes the weights.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use holdpoint::layers::injection::model::{
    BANDS, Header, Model, SHAPES, Shape, VERSION, Within, grams, windows, words,
};

use crate::carriers::CARRIERS;
use crate::grammar::{self, Language, Side};
use crate::learn::{Example, learn, quantised};
use crate::random::{Random, fingerprint};
use crate::sets::Row;

/// Marks around a text that was put into a document, which no document has.
const MARKS: [char; 2] = ['\u{E000}', '\u{E001}'];

/// Windows of ordinary text taken from one document at most.
const FROM_ONE: usize = 3;

/// What to train from.
pub struct Inputs {
    pub languages: Vec<Language>,
    /// Ordinary texts to learn from.
    pub ordinary: Vec<Row>,
    /// Ordinary texts that only the points are set by.
    pub measured: Vec<Row>,
    pub seed: u64,
    /// Generated documents with an attack; as many without.
    pub documents: usize,
}

/// Trains, looks for ordinary windows that are taken for attacks, and trains again with those. Gives the weights file.
pub fn train(inputs: &Inputs) -> Result<Vec<u8>> {
    let mut random = Random::new(inputs.seed);
    let mut examples = Vec::new();
    for at in 0..inputs.documents {
        let language = language(&inputs.languages, at, &mut random);
        let carrier = CARRIERS[at % CARRIERS.len()].1;
        let attack = language.attack(Side::Train, &mut random);
        let marked = format!("{}{attack}{}", MARKS[0], MARKS[1]);
        with_attack(&carrier(&mut random, language, &marked), &mut examples);
        let ordinary = language.ordinary(Side::Train, &mut random);
        let document = carrier(&mut random, language, &ordinary);
        without(&document, FROM_ONE, &mut random, &mut examples);
        // What a person asks of a person, and what is only said about attacks, in short windows too.
        if random.once_in(3) {
            without(&ordinary, 1, &mut random, &mut examples);
            examples.push(Example::new(&grams(&words(&attack)), true));
        }
    }
    for row in &inputs.ordinary {
        without(&row.text, FROM_ONE, &mut random, &mut examples);
    }
    let first = file(inputs, &mut examples, &mut random)?;
    let mined = mine(
        &Model::read(&first).map_err(anyhow::Error::msg)?,
        &inputs.ordinary,
    );
    report(&format!(
        "{} ordinary windows were taken for attacks",
        mined.len()
    ));
    for _ in 0..3 {
        examples.extend(mined.iter().cloned());
    }
    file(inputs, &mut examples, &mut random)
}

/// English every third time, the others in turn.
fn language<'a>(languages: &'a [Language], at: usize, random: &mut Random) -> &'a Language {
    if at.is_multiple_of(3) {
        &languages[0]
    } else {
        random.pick(languages)
    }
}

fn with_attack(document: &str, examples: &mut Vec<Example>) {
    let mut parts = document.split(MARKS);
    let before = words(parts.next().unwrap_or_default()).len();
    let length = words(parts.next().unwrap_or_default()).len();
    let all = grams(&words(&document.replace(MARKS, " ")));
    let attack = before..before + length;
    for window in windows(all.len()) {
        let shared = window
            .end
            .min(attack.end)
            .saturating_sub(window.start.max(attack.start));
        // A window with a few words of the attack is neither.
        if shared * 3 >= length * 2 || shared * 2 >= window.len() {
            examples.push(Example::new(&all[window], true));
        } else if shared == 0 && window.start % 64 == 0 {
            examples.push(Example::new(&all[window], false));
        }
    }
}

fn without(document: &str, most: usize, random: &mut Random, examples: &mut Vec<Example>) {
    let mut words = words(document);
    words.truncate(4000);
    let all = grams(&words);
    let mut found: Vec<_> = windows(all.len()).collect();
    random.shuffle(&mut found);
    for window in found
        .into_iter()
        .take(most)
        .filter(|window| !window.is_empty())
    {
        examples.push(Example::new(&all[window], false));
    }
}

/// Windows of ordinary texts to learn from that look like attacks.
fn mine(model: &Model, rows: &[Row]) -> Vec<Example> {
    let mut mined = Vec::new();
    for row in rows {
        let mut words = words(&row.text);
        words.truncate(4000);
        let all = grams(&words);
        let mut taken = 0;
        for window in windows(all.len()).filter(|window| !window.is_empty()) {
            if taken < 4
                && model
                    .sum_of_grams(&all[window.clone()])
                    .is_some_and(|sum| sum > -1.0)
            {
                mined.push(Example::new(&all[window], false));
                taken += 1;
            }
        }
    }
    mined
}

/// Learns, and sets the points.
fn file(inputs: &Inputs, examples: &mut [Example], random: &mut Random) -> Result<Vec<u8>> {
    let attacks = examples
        .iter()
        .filter(|example| example.is_attack())
        .count();
    report(&format!(
        "{attacks} windows of attacks, {} of ordinary text",
        examples.len() - attacks
    ));
    let learned = learn(examples, random);
    let (words, word) = quantised(&learned.words);
    let (letters, letter) = quantised(&learned.letters);
    let mut sources: Vec<String> = inputs
        .ordinary
        .iter()
        .chain(&inputs.measured)
        .map(|row| row.set.clone())
        .collect();
    sources.sort();
    sources.dedup();
    let mut texts: Vec<&str> = grammar::texts().collect();
    texts.extend(
        inputs
            .ordinary
            .iter()
            .chain(&inputs.measured)
            .map(|row| row.text.as_str()),
    );
    let mut header = Header {
        version: VERSION,
        seed: inputs.seed,
        inputs: fingerprint(texts),
        sources,
        windows: [attacks, examples.len() - attacks],
        bias: f64::from(learned.bias),
        units: [word, letter],
        slope: 1.0,
        points: vec![0.0; Within::COUNT],
    };
    let write =
        |header: &Header| Model::write(header, &words, &letters).map_err(anyhow::Error::msg);
    let model = Model::read(&write(&header)?).map_err(anyhow::Error::msg)?;
    calibrate(&model, inputs, &mut header)?;
    write(&header)
}

/// Documents that a point needs: of 200, one is half a percent.
const ENOUGH: usize = 200;

/// Sets the points by ordinary documents, and by generated ones with requests that were not trained on; the slope so that half of unseen
/// attacks read 0.9 or more.
fn calibrate(model: &Model, inputs: &Inputs, header: &mut Header) -> Result<()> {
    let mut random = Random::new(inputs.seed ^ 0xCA11);
    let mut kinds: BTreeMap<Within, Vec<f64>> = BTreeMap::new();
    let mut take = |text: &str| {
        if let Some(sum) = model.sum(text) {
            kinds.entry(Within::of(text)).or_default().push(sum);
        }
    };
    let mut attacks = Vec::new();
    for at in 0..inputs.documents / 2 {
        let language = language(&inputs.languages, at, &mut random);
        let carrier = CARRIERS[at % CARRIERS.len()].1;
        let ordinary = language.request(Side::Unseen, &mut random);
        take(&carrier(&mut random, language, &ordinary));
        let attack = language.attack(Side::Unseen, &mut random);
        attacks.extend(model.sum(&carrier(&mut random, language, &attack)));
    }
    for row in inputs.measured.iter().chain(&inputs.ordinary) {
        take(&row.text);
    }
    let english = kinds
        .iter()
        .filter(|(within, _)| within.shape != Shape::Foreign);
    let mut all: Vec<f64> = english.flat_map(|(_, sums)| sums.iter().copied()).collect();
    let whole = point(&mut all).context("no ordinary documents to set the points by")?;
    for shape in SHAPES {
        let of_shape: Vec<_> = kinds
            .iter()
            .filter(|(within, _)| within.shape == shape)
            .collect();
        let mut together: Vec<f64> = of_shape
            .iter()
            .flat_map(|(_, sums)| sums.iter().copied())
            .collect();
        let shaped = if together.len() >= ENOUGH {
            point(&mut together).unwrap_or(whole)
        } else {
            whole
        };
        for band in 0..=BANDS.len() {
            let within = Within { shape, band };
            let own = kinds.get(&within).filter(|sums| sums.len() >= ENOUGH);
            header.points[within.index()] = own
                .and_then(|sums| point(&mut sums.clone()))
                .unwrap_or(shaped);
            report(&format!(
                "{within:?}: {} documents, point {:.2}",
                kinds.get(&within).map_or(0, Vec::len),
                header.points[within.index()]
            ));
        }
    }
    attacks.sort_by(f64::total_cmp);
    let middle = attacks
        .get(attacks.len() / 2)
        .copied()
        .unwrap_or(whole + 1.0);
    header.slope = 2.197_224_577 / (middle - whole).max(0.1);
    let over = attacks.iter().filter(|sum| **sum >= whole).count();
    report(&format!(
        "point of all {whole:.2}; of {} unseen attacks {over} reach it, the middle one reads {middle:.2}",
        attacks.len()
    ));
    Ok(())
}

/// What one in two hundred reaches.
fn point(sums: &mut [f64]) -> Option<f64> {
    sums.sort_by(|a, b| b.total_cmp(a));
    sums.get(sums.len() / 200).copied()
}

/// Says how far it is, on standard error.
pub fn report(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes the weights.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}
