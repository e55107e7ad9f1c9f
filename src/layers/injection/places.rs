//! What was found, and how near each other: windows, their scores, and the places that reach a threshold.
//!
//! The score of a window is the noisy-or of its families, 1 − Π(1 − wᵢ), the heaviest rule of each family counting once: a long
//! document does not add up to an alarm.

use std::collections::VecDeque;
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
    let mut heaviest = Heaviest::default();
    hits.iter().enumerate().map(move |(first, hit)| {
        end = end.max(first);
        while let Some(next) = hits
            .get(end)
            .filter(|next| end == first || next.span.start <= hit.span.start + NEAR)
        {
            heaviest.enter(end, next);
            end += 1;
        }
        heaviest.leave(first);
        (hits.get(first..end).unwrap_or_default(), heaviest.score())
    })
}

/// The heaviest hit of each family in a window that moves on: of each family those that no later one outweighs.
#[derive(Default)]
struct Heaviest([VecDeque<(usize, f64)>; Family::COUNT]);

impl Heaviest {
    fn enter(&mut self, at: usize, hit: &Hit) {
        if let Some(family) = self.0.get_mut(hit.family as usize) {
            while family
                .pop_back_if(|(_, weight)| *weight <= hit.weight)
                .is_some()
            {}
            family.push_back((at, hit.weight));
        }
    }

    /// What stands before `first` is left behind.
    fn leave(&mut self, first: usize) {
        for family in &mut self.0 {
            while family.pop_front_if(|(at, _)| *at < first).is_some() {}
        }
    }

    fn score(&self) -> f64 {
        combined(|family| {
            let family = self.0.get(family as usize);
            family
                .and_then(VecDeque::front)
                .map_or(0.0, |(_, weight)| *weight)
        })
    }
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
fn combined(heaviest: impl Fn(Family) -> f64) -> f64 {
    let mut strong = 1.0;
    let mut weak = 1.0_f64;
    for family in Family::ALL {
        if family == Family::Model {
            continue;
        }
        if family.is_weak() {
            weak *= 1.0 - heaviest(family);
        } else {
            strong *= 1.0 - heaviest(family);
        }
    }
    if strong >= 1.0 {
        return 0.0;
    }
    1.0 - strong * weak.max(1.0 - WEAK_CAP) * (1.0 - heaviest(Family::Model))
}

/// Windows of one reading that reach `lowest`, joined where they overlap. A weak phrase adds to the score but does not widen the
/// place.
pub(super) fn joined(hits: &[Hit], reading: Reading, lowest: f64) -> Vec<Window> {
    let mut found: Vec<Window> = Vec::new();
    let mut strong = Strong::default();
    for (near, score) in windows(hits) {
        strong.see(near);
        let Some(span) = strong.span().filter(|_| score >= lowest) else {
            continue;
        };
        match found.last_mut() {
            Some(last) if span.start <= last.span.end => {
                last.span.end = last.span.end.max(span.end);
                if score > last.score {
                    last.score = score;
                    last.rules = heaviest(near);
                }
            }
            _ => found.push(Window {
                span,
                score,
                rules: heaviest(near),
                reading,
            }),
        }
    }
    found
}

/// The strong hits of a window that moves on by one hit at a time: the first, and those that no later one ends behind.
#[derive(Default)]
struct Strong {
    /// Hits that the window has left, and those that it has seen.
    left: usize,
    seen: usize,
    starts: VecDeque<(usize, usize)>,
    ends: VecDeque<(usize, usize)>,
}

impl Strong {
    /// The next window, which begins one hit later.
    fn see(&mut self, near: &[Hit]) {
        let first = self.left;
        for (at, hit) in (first..).zip(near).skip(self.seen - first) {
            if !hit.family.is_weak() {
                self.starts.push_back((at, hit.span.start));
                while self
                    .ends
                    .pop_back_if(|(_, end)| *end <= hit.span.end)
                    .is_some()
                {}
                self.ends.push_back((at, hit.span.end));
            }
        }
        self.seen = self.seen.max(first + near.len());
        while self.starts.pop_front_if(|(at, _)| *at < first).is_some() {}
        while self.ends.pop_front_if(|(at, _)| *at < first).is_some() {}
        self.left += 1;
    }

    fn span(&self) -> Option<Range<usize>> {
        let (_, start) = self.starts.front()?;
        let (_, end) = self.ends.front()?;
        Some(*start..*end)
    }
}
