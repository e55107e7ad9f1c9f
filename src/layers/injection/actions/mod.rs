//! What becomes of a text: spans redacted or annotated, hidden characters stripped, tokens neutralised, the whole spotlighted.
//! One list of edits, a pure function of the text, what was found in it, and the actions.

mod hidden;
mod note;
mod spotlight;
mod tokens;

use std::ops::Range;

pub(crate) use note::tells_of_finding;
pub use note::{DATA, DATA_END, HIDDEN, REMOVED};
pub(crate) use spotlight::Marker;
pub use spotlight::MarkerKey;

use crate::policy::{Spotlight, Thresholds};
use crate::verdict::{Instead, RewriteKind};

/// Whether what the actions need is there.
pub(super) fn check() -> Result<(), String> {
    tokens::check()
}

/// A stretch of a text that goes or is marked, with its score.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    pub(super) range: Range<usize>,
    pub(super) score: f64,
}

/// Ends of annotations come before marks, and these before what begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    End,
    Mark,
    Begin,
    Instead,
}

#[derive(Default)]
struct Edits {
    /// Sorted and apart.
    instead: Vec<(Range<usize>, Instead)>,
    inserted: Vec<(usize, Rank, String)>,
}

impl Edits {
    /// Insertions that would fall into what is replaced stand after it.
    fn finish(mut self) -> Changes {
        self.instead.sort_by_key(|(range, _)| range.start);
        let mut all: Vec<(Range<usize>, Rank, Instead)> = Vec::new();
        for (at, rank, text) in self.inserted {
            let next = self.instead.partition_point(|(range, _)| range.end <= at);
            let inside = self.instead.get(next).filter(|(range, _)| range.start < at);
            let at = inside.map_or(at, |(range, _)| range.end);
            all.push((at..at, rank, text.into()));
        }
        let instead = self.instead.into_iter();
        all.extend(instead.map(|(range, text)| (range, Rank::Instead, text)));
        all.sort_by(|(a, a_rank, _), (b, b_rank, _)| {
            (a.start, *a_rank, a.end).cmp(&(b.start, *b_rank, b.end))
        });
        let mut edits: Changes = Vec::with_capacity(all.len());
        for (range, _, instead) in all {
            match edits.last_mut() {
                Some((last, Instead::Text(said))) if range.is_empty() && *last == range => {
                    said.push_str(instead.as_str());
                }
                _ => edits.push((range, instead)),
            }
        }
        edits
    }
}

/// What stands in place of which bytes.
pub(super) type Changes = Vec<(Range<usize>, Instead)>;

/// What the edits of a text are, and the strongest of their kinds; `None`: it stays as it is. `marker` is that of the session,
/// where its texts may be spotlighted.
pub(super) fn edits(
    text: &str,
    found: &[Stretch],
    actions: &Thresholds,
    marker: Option<&Marker>,
) -> Option<(RewriteKind, Changes)> {
    let reaches = |least: Option<f64>, score: f64| least.is_some_and(|least| score >= least);
    let redacted = joined(found.iter().filter(|f| reaches(actions.redact, f.score)));
    let overlaps = |range: &Range<usize>| {
        let next = redacted.partition_point(|taken| taken.end <= range.start);
        redacted
            .get(next)
            .is_some_and(|taken| taken.start < range.end)
    };
    let annotated: Vec<_> = joined(found.iter().filter(|f| reaches(actions.annotate, f.score)))
        .into_iter()
        .filter(|range| !overlaps(range))
        .collect();
    let mut edits = Edits::default();
    for range in &redacted {
        edits.instead.push((range.clone(), Instead::Removed));
    }
    for range in &annotated {
        edits
            .inserted
            .push((range.start, Rank::Begin, DATA.to_owned()));
        edits
            .inserted
            .push((range.end, Rank::End, DATA_END.to_owned()));
    }
    let hidden = if actions.strip {
        hidden::hidden(text)
    } else {
        Vec::new()
    };
    let mut note = Some(HIDDEN);
    for piece in hidden.iter().flat_map(|range| outside(range, &redacted)) {
        let said = note.take().unwrap_or_default();
        edits.instead.push((piece, said.into()));
    }
    if actions.neutralise {
        let shown = Shown::new(text, &hidden);
        for (range, instead) in tokens::tokens(&shown.text) {
            let range = shown.original(&range);
            if !overlaps(&range) {
                edits.instead.push((range, instead.into()));
            }
        }
    }
    let marks = match actions.spotlight {
        Spotlight::Never => false,
        Spotlight::Prose => spotlight::is_prose(text),
        Spotlight::All => !text.trim().is_empty(),
    };
    let marker = marker.filter(|_| marks);
    if let Some(marker) = marker {
        for at in marker.forged(text) {
            let first = at..at + 1;
            let mut taken = edits.instead.iter();
            if !taken.any(|(range, _)| range.start < first.end && first.start < range.end) {
                edits.instead.push((first, "_".into()));
            }
        }
        edits.instead.sort_by_key(|(range, _)| range.start);
        let taken: Vec<_> = edits
            .instead
            .iter()
            .map(|(range, _)| range.clone())
            .collect();
        for (at, mark) in marker.marks(text, &taken) {
            // What closes stands after everything.
            let rank = if at == text.len() {
                Rank::Begin
            } else {
                Rank::Mark
            };
            edits.inserted.push((at, rank, mark));
        }
    }
    let kind = if !redacted.is_empty() {
        RewriteKind::Redact
    } else if !annotated.is_empty() {
        RewriteKind::Annotate
    } else if marker.is_some() {
        RewriteKind::Spotlight
    } else {
        RewriteKind::Strip
    };
    let edits = edits.finish();
    (!edits.is_empty()).then_some((kind, edits))
}

/// A text as a reader would have it once the layer's own marks and notes are taken away and hidden characters are gone: two that
/// are equal so say the same, whatever was done to one of them on its way.
pub(crate) fn bare(text: &str) -> String {
    let shown = Shown::new(text, &hidden::hidden(text)).text;
    let mut plain = shown
        .replace(DATA, "")
        .replace(DATA_END, "")
        .replace(HIDDEN, "");
    let mark = plain
        .split_once("\u{27e6}data ")
        .and_then(|(_, rest)| rest.split_once('\u{27e7}'));
    if let Some(mark) = mark
        .map(|(mark, _)| mark.to_owned())
        .filter(|mark| !mark.is_empty())
    {
        plain = plain
            .replace(&format!("\u{27e6}data {mark}\u{27e7} "), "")
            .replace(&format!(" \u{27e6}/data {mark}\u{27e7}"), "")
            .replace(&format!("{mark} "), "");
    }
    let opens: Vec<usize> = tokens::tokens(&plain)
        .into_iter()
        .map(|(range, _)| range.start)
        .collect();
    let chars = plain.char_indices().map(|(at, c)| match c {
        '\u{2039}' => '<',
        '\u{301a}' => '\u{27e6}',
        // A bracket that opens a token, in both forms.
        '[' if opens.binary_search(&at).is_ok() => '(',
        c => c,
    });
    chars.collect()
}

/// The parts of a range that none of `taken` covers, which are sorted and apart.
fn outside(range: &Range<usize>, taken: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut from = range.start;
    let first = taken.partition_point(|taken| taken.end <= range.start);
    for taken in taken.iter().skip(first) {
        if taken.start >= range.end {
            break;
        }
        if from < taken.start {
            parts.push(from..taken.start);
        }
        from = from.max(taken.end);
    }
    if from < range.end {
        parts.push(from..range.end);
    }
    parts
}

/// Stretches that overlap or touch, as one.
fn joined<'s>(stretches: impl Iterator<Item = &'s Stretch>) -> Vec<Range<usize>> {
    let mut sorted: Vec<_> = stretches.map(|stretch| stretch.range.clone()).collect();
    sorted.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(sorted.len());
    for range in sorted.into_iter().filter(|range| !range.is_empty()) {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// A text without what is hidden, and where its parts stood.
struct Shown {
    text: String,
    /// Where each kept part begins here and there.
    parts: Vec<(usize, usize)>,
}

impl Shown {
    fn new(text: &str, hidden: &[Range<usize>]) -> Self {
        let mut shown = Self {
            text: String::with_capacity(text.len()),
            parts: Vec::with_capacity(hidden.len() + 1),
        };
        let mut done = 0;
        for range in hidden {
            shown.parts.push((shown.text.len(), done));
            shown
                .text
                .push_str(text.get(done..range.start).unwrap_or_default());
            done = range.end;
        }
        shown.parts.push((shown.text.len(), done));
        shown.text.push_str(text.get(done..).unwrap_or_default());
        shown
    }

    /// Where one character of it stood.
    fn original(&self, range: &Range<usize>) -> Range<usize> {
        let next = self.parts.partition_point(|(here, _)| *here <= range.start);
        let part = next.checked_sub(1).and_then(|at| self.parts.get(at));
        let (here, there) = part.copied().unwrap_or_default();
        let start = range.start - here + there;
        start..start + range.len()
    }
}
