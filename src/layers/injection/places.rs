//! What was found, and how near each other: windows, their scores, and the places that reach a threshold.
//!
//! The score of a window is the noisy-or of its families, 1 − Π(1 − wᵢ), the heaviest rule of each family counting once: a long
//! document does not add up to an alarm.

use std::ops::Range;

use super::rules::{Family, WEAK_CAP};

/// Phrases whose starts are this close, in bytes of the original, speak for each other.
pub(super) const NEAR: usize = 560;

/// How a text was read when something was found in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reading {
    /// As it stands, with escapes, look-alikes and invisible characters undone.
    Text,
    /// Without tags.
    Untagged,
    /// Spaced letters or cut-up words put together.
    Joined,
    /// Digits and signs as letters.
    Leet,
    /// Words written together taken apart.
    Camel,
    /// Percent signs decoded.
    Percent,
    /// Quoted-printable decoded.
    Quoted,
    /// Letters turned by thirteen.
    Rot13,
    /// Letters from the other end of the alphabet.
    Atbash,
    /// From the end.
    Reversed,
    /// Words with inner letters in another order.
    Typos,
    /// Decoded from base64, base32, hex or numbers.
    Decoded,
    /// From characters that nobody sees.
    Invisible,
}

impl Reading {
    /// The name in findings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Untagged => "untagged",
            Self::Joined => "joined",
            Self::Leet => "leet",
            Self::Camel => "camel",
            Self::Percent => "percent",
            Self::Quoted => "quoted_printable",
            Self::Rot13 => "rot13",
            Self::Atbash => "atbash",
            Self::Reversed => "reversed",
            Self::Typos => "typos",
            Self::Decoded => "decoded",
            Self::Invisible => "invisible",
        }
    }

    /// What an instruction in this reading adds, if the text as it stands has none there.
    pub(super) const fn bonus(self) -> f64 {
        match self {
            Self::Text | Self::Untagged => 0.0,
            Self::Camel | Self::Typos | Self::Percent | Self::Quoted => 0.12,
            Self::Joined | Self::Leet => 0.18,
            Self::Rot13 | Self::Atbash | Self::Reversed | Self::Decoded | Self::Invisible => 0.3,
        }
    }
}

/// One phrase found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// By which rule.
    pub rule: &'static str,
    /// Its family.
    pub family: Family,
    /// Its weight.
    pub weight: f64,
    /// Bytes of the original text, on character boundaries.
    pub span: Range<usize>,
}

/// A place whose score reaches a threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// From the first to the last phrase of the place.
    pub span: Range<usize>,
    /// What belongs to the instruction: sentences, a paragraph, a block.
    pub extent: Range<usize>,
    /// Its score.
    pub score: f64,
    /// The rules that made it, heaviest first.
    pub rules: Vec<&'static str>,
    /// How the text was read.
    pub reading: Reading,
}

/// A window of hits that counts for something.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Window {
    pub span: Range<usize>,
    pub score: f64,
    pub rules: Vec<&'static str>,
    pub reading: Reading,
}

/// The windows of hits that are sorted by start: for each hit the window that begins with it.
pub(super) fn windows(hits: &[Hit]) -> impl Iterator<Item = (&[Hit], f64)> {
    let mut end = 0;
    hits.iter().enumerate().map(move |(first, hit)| {
        end = end.max(first + 1);
        while hits
            .get(end)
            .is_some_and(|next| next.span.start <= hit.span.start + NEAR)
        {
            end += 1;
        }
        let window = hits.get(first..end).unwrap_or_default();
        (window, noisy_or(window))
    })
}

/// The part of a window that counts: a weak phrase adds to the score but does not widen the place.
pub(super) fn described(near: &[Hit], score: f64, reading: Reading) -> Option<Window> {
    let strong = || near.iter().filter(|hit| !hit.family.is_weak());
    let start = strong().map(|hit| hit.span.start).min()?;
    let end = strong().map(|hit| hit.span.end).max()?;
    Some(Window {
        span: start..end,
        score,
        rules: heaviest(near),
        reading,
    })
}

fn heaviest(hits: &[Hit]) -> Vec<&'static str> {
    let mut sorted: Vec<&Hit> = hits.iter().collect();
    sorted.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.rule.cmp(b.rule)));
    let mut rules: Vec<_> = Vec::new();
    for hit in sorted {
        if !rules.contains(&hit.rule) {
            rules.push(hit.rule);
        }
    }
    rules
}

/// 1 − Π(1 − wᵢ) over the families; the weak ones count only beside others, and together as at most [`WEAK_CAP`].
pub(super) fn noisy_or(hits: &[Hit]) -> f64 {
    let mut heaviest = [0.0_f64; Family::COUNT];
    for hit in hits {
        if let Some(weight) = heaviest.get_mut(hit.family as usize) {
            *weight = weight.max(hit.weight);
        }
    }
    let mut strong = 1.0;
    let mut weak = 1.0_f64;
    for (family, weight) in Family::ALL.iter().zip(heaviest) {
        if *family == Family::Model {
            continue;
        }
        if family.is_weak() {
            weak *= 1.0 - weight;
        } else {
            strong *= 1.0 - weight;
        }
    }
    if strong >= 1.0 {
        return 0.0;
    }
    let model = heaviest.get(Family::Model as usize).copied().unwrap_or(0.0);
    1.0 - strong * weak.max(1.0 - WEAK_CAP) * (1.0 - model)
}

/// Windows of one reading that reach `lowest`, joined where they overlap.
pub(super) fn joined(hits: &[Hit], reading: Reading, lowest: f64) -> Vec<Window> {
    let mut found: Vec<Window> = Vec::new();
    for (near, score) in windows(hits) {
        if score < lowest {
            continue;
        }
        let Some(window) = described(near, score, reading) else {
            continue;
        };
        match found.last_mut() {
            Some(last) if window.span.start <= last.span.end => {
                last.span.end = last.span.end.max(window.span.end);
                if window.score > last.score {
                    last.score = window.score;
                    last.rules = window.rules;
                }
            }
            _ => found.push(window),
        }
    }
    found
}
