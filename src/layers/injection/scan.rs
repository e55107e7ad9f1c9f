//! Finds phrases in a text, in every reading that its bytes ask for, and scores the places where they stand close together.
//!
//! One pass over the words notes the pieces where a rule could match; only those are read and patterns tried, so ordinary
//! text costs one pass and hostile text stays linear. Where a strong rule matched, a wider piece is read for the weak ones.

use std::fmt;
use std::ops::Range;

use super::compile::Compiled;
use super::extent;
use super::places::{self, Hit, Place, Reading, Window};
use super::profile::Profile;
use super::readings::{Look, Read};
use super::rules::Family;
use super::seen;

/// Score of the rules from which the model is asked, and how often at most.
const ASKED: f64 = 0.3;
const QUESTIONS: usize = 64;

/// Lowest score of a place that is told of.
const TOLD: f64 = 0.2;

/// Score of the plain text up to which another reading adds its bonus.
const UNLIT: f64 = 0.4;

/// A second opinion on places that the rules find doubtful.
pub trait Corroborator: Send + Sync + fmt::Debug {
    /// What speaks for an instruction in a window of `document`, as a weight in 0..1; `None` if nothing does.
    fn weight(&self, window: &str, document: &str) -> Option<f64>;
}

/// Why bytes were not read in some way. The plain reading is always whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Skipped {
    /// More encoded pieces than are decoded.
    Pieces,
    /// Encodings inside encodings, deeper than is followed.
    Depth,
    /// A text too long to be read letter for letter.
    Long,
}

impl Skipped {
    /// The name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pieces => "encoded_pieces",
            Self::Depth => "encoding_depth",
            Self::Long => "long",
        }
    }
}

/// One phrase found, as it is told outside.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// By which rule.
    pub rule: &'static str,
    /// Its family.
    pub family: Family,
    /// Its weight.
    pub score: f64,
    /// First byte of the original, on a character boundary.
    pub start: usize,
    /// The byte behind the last.
    pub end: usize,
    /// How the text was read.
    pub view: Reading,
}

/// What a text holds.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Scan {
    /// Every phrase of the places below, by start.
    pub findings: Vec<Finding>,
    /// Characters that nobody sees and that may be left out.
    pub controls: Vec<Range<usize>>,
    /// Bytes that were not read in some way.
    pub skipped: Vec<(Skipped, usize)>,
    windows: Vec<Window>,
    extents: Vec<Range<usize>>,
}

/// Compiled rules.
#[derive(Debug)]
pub struct Scanner {
    pub(super) compiled: Compiled,
    model: Option<Box<dyn Corroborator>>,
    /// Whether only what is worth it is read; what is found is the same.
    pub(super) sifts: bool,
}

impl Scanner {
    /// Compiles the rules.
    ///
    /// # Errors
    /// A rule that does not compile, which a test rules out.
    pub fn new() -> Result<Self, String> {
        Ok(Self {
            compiled: Compiled::new()?,
            model: None,
            sifts: true,
        })
    }

    /// One that reads every word of a text.
    #[cfg(test)]
    pub(super) fn unsifted(mut self) -> Self {
        self.sifts = false;
        self
    }

    /// With a second opinion.
    #[must_use]
    pub fn with_model(mut self, model: Box<dyn Corroborator>) -> Self {
        self.model = Some(model);
        self
    }

    /// Finds every phrase in `text`, in all readings. Weak phrases that no strong one is near are left out: they count for
    /// nothing.
    pub fn scan(&self, text: &str, profile: &Profile<'_>) -> Scan {
        let look = Look {
            scanner: self,
            profile,
        };
        let mut skipped = Vec::new();
        let mut read = look.text(text, 0, &mut skipped);
        for (reading, hits) in &mut read {
            hits.sort_by_key(|hit| (hit.span.start, hit.span.end));
            if let Some(model) = &self.model {
                ask(model.as_ref(), text, *reading, hits);
            }
        }
        let mut scan = Scan {
            controls: seen::controls(text),
            skipped,
            ..Scan::default()
        };
        scan.settle(text, &read);
        scan
    }
}

/// Adds what the model says of windows that the rules find doubtful.
fn ask(model: &dyn Corroborator, text: &str, reading: Reading, hits: &mut Vec<Hit>) {
    if reading.bonus() > 0.0 {
        return;
    }
    let mut last_end = 0;
    let mut said = Vec::new();
    let doubtful = places::windows(hits).filter(|(_, score)| (ASKED..0.98).contains(score));
    for (window, _) in doubtful.take(QUESTIONS) {
        let (Some(first), Some(end)) =
            (window.first(), window.iter().map(|hit| hit.span.end).max())
        else {
            continue;
        };
        if first.span.start < last_end {
            continue;
        }
        let from = text.floor_char_boundary(first.span.start.saturating_sub(120));
        let to = text.ceil_char_boundary((end + 120).min(text.len()));
        last_end = end;
        if let Some(weight) = text
            .get(from..to)
            .and_then(|window| model.weight(window, text))
        {
            said.push(Hit {
                rule: "model.window",
                family: Family::Model,
                weight,
                span: first.span.start..end,
            });
        }
    }
    hits.extend(said);
    hits.sort_by_key(|hit| (hit.span.start, hit.span.end));
}

impl Scan {
    /// Brings the readings together: what another reading than the plain one says counts with its bonus, where the plain one is
    /// not lit.
    fn settle(&mut self, text: &str, read: &Read) {
        let mut all: Vec<Window> = Vec::new();
        let mut plain: Vec<Window> = Vec::new();
        for (reading, hits) in read {
            for mut window in places::joined(hits, *reading, TOLD) {
                if *reading == Reading::Text {
                    plain.push(window.clone());
                }
                if reading.bonus() > 0.0 {
                    // Sorted and apart from each other.
                    let from = plain.partition_point(|plain| plain.span.end <= window.span.start);
                    let near = plain
                        .iter()
                        .skip(from)
                        .take_while(|plain| plain.span.start < window.span.end);
                    let lit = near.map(|plain| plain.score).fold(0.0, f64::max);
                    if lit < UNLIT && lit < window.score {
                        window.score = (window.score + reading.bonus()).min(0.97);
                    }
                }
                all.push(window);
            }
            self.findings.extend(hits.iter().map(|hit| Finding {
                rule: hit.rule,
                family: hit.family,
                score: hit.weight,
                start: hit.span.start,
                end: hit.span.end,
                view: *reading,
            }));
        }
        self.findings.sort_by(|a, b| {
            (a.start, a.end, a.rule, a.view).cmp(&(b.start, b.end, b.rule, b.view))
        });
        self.findings
            .dedup_by(|a, b| a.rule == b.rule && a.start == b.start && a.end == b.end);
        all.sort_by_key(|window| (window.span.start, window.span.end));
        self.extents = all
            .iter()
            .map(|window| extent::extent(text, &window.span))
            .collect();
        self.windows = all;
    }

    /// The highest score of any window, 0 where there is none.
    pub fn score(&self) -> f64 {
        self.windows
            .iter()
            .map(|window| window.score)
            .fold(0.0, f64::max)
    }

    /// Places that reach `threshold`, in order, their extents apart from each other.
    pub fn places(&self, threshold: f64) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        let mut reached: Vec<_> = self
            .windows
            .iter()
            .zip(&self.extents)
            .filter(|(window, _)| window.score >= threshold)
            .collect();
        reached.sort_by_key(|(_, extent)| (extent.start, extent.end));
        for (window, extent) in reached {
            match places.last_mut() {
                Some(last) if extent.start <= last.extent.end => {
                    last.extent.end = last.extent.end.max(extent.end);
                    last.span =
                        last.span.start.min(window.span.start)..last.span.end.max(window.span.end);
                    if window.score > last.score {
                        last.score = window.score;
                        last.rules.clone_from(&window.rules);
                        last.reading = window.reading;
                    }
                }
                _ => places.push(Place {
                    span: window.span.clone(),
                    extent: extent.clone(),
                    score: window.score,
                    rules: window.rules.clone(),
                    reading: window.reading,
                }),
            }
        }
        places
    }
}
