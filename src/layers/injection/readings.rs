//! One text in every reading that its bytes ask for, and what is found in each, as places of the text.

use std::ops::Range;

use super::cut;
use super::decoded;
use super::derived;
use super::dictionary::Letters;
use super::pattern::Match;
use super::places::{self, Hit, NEAR, Reading};
use super::profile::Profile;
use super::quotation;
use super::rules::Family;
use super::scan::{Scanner, Skipped};
use super::seen;
use super::sift::Sift;
use super::tokens::{Read as Words, Tokenizer};
use super::view::View;

/// Length from which a region is cut, and what two parts of one have in common.
const LONG: usize = 8 << 10;
const OVERLAP: usize = 480;

/// Levels of encodings.
const DEPTH: usize = 3;

/// Longest text that is read in a way that no anchor points to, in bytes.
const WHOLE: usize = 64 << 10;

/// Longest text in which words with swapped letters are looked for, in bytes.
const TYPOS: usize = 16 << 10;

/// What one reading is looked through for.
pub(super) struct Look<'a> {
    pub(super) scanner: &'a Scanner,
    pub(super) profile: &'a Profile<'a>,
}

/// Hits of each reading.
pub(super) type Read = Vec<(Reading, Vec<Hit>)>;

impl Look<'_> {
    /// Hits of every reading of a text, mapped to its bytes.
    pub(super) fn text(
        &self,
        text: &str,
        depth: usize,
        skipped: &mut Vec<(Skipped, usize)>,
    ) -> Read {
        let main = View::new(text);
        let view = main.bytes();
        let turns = self.scanner.compiled.turned.turns(view);
        let hits = self.view(view);
        let mut hits = mapped(text, &main, hits, self);
        self.images(text, &main, &mut hits);
        self.hidden(text, depth, &mut hits, skipped);
        self.encoded(text, &main, depth, &mut hits, skipped);
        let mut read = vec![(Reading::Text, hits)];
        let mut add = |reading: Reading, derived: &View<'_>, letters: Letters, typos: bool| {
            let found = match (letters, typos) {
                (Letters::Plain, false) => self.view(derived.bytes()),
                _ => self.whole(derived.bytes(), letters, typos, skipped),
            };
            let odd = letters == Letters::Leet || typos;
            let hits = found
                .into_iter()
                .filter(|found| !odd || found.odd)
                .map(|found| Match {
                    span: derived.original(&found.span),
                    ..found
                })
                .collect();
            read.push((reading, mapped(text, &main, hits, self)));
        };
        if let Some(derived) = derived::untagged(view) {
            add(Reading::Untagged, &derived, Letters::Plain, false);
        }
        let joined = cut::joined(view);
        if let Some(derived) = &joined {
            add(Reading::Joined, derived, Letters::Plain, false);
        }
        let spelt = joined.as_ref().map_or(view, View::bytes);
        if derived::is_leet(spelt) {
            match &joined {
                Some(derived) => add(Reading::Leet, derived, Letters::Leet, false),
                None => add(Reading::Leet, &main.whole(), Letters::Leet, false),
            }
        }
        if let Some(derived) = derived::uncamelled(view) {
            add(Reading::Camel, &derived, Letters::Plain, false);
        }
        for (sign, reading) in [(b'%', Reading::Percent), (b'=', Reading::Quoted)] {
            if let Some(derived) = derived::unescaped(view, sign) {
                add(reading, &derived, Letters::Plain, false);
            }
        }
        if turns.rot13 {
            add(
                Reading::Rot13,
                &derived::swapped(view, derived::rot13),
                Letters::Plain,
                false,
            );
        }
        if turns.atbash {
            add(
                Reading::Atbash,
                &derived::swapped(view, derived::atbash),
                Letters::Plain,
                false,
            );
        }
        if turns.reversed {
            add(
                Reading::Reversed,
                &derived::reversed(view),
                Letters::Plain,
                false,
            );
            add(
                Reading::Reversed,
                &derived::reversed_words(view),
                Letters::Plain,
                false,
            );
        }
        if view.len() <= TYPOS && depth == 0 {
            add(Reading::Typos, &main.whole(), Letters::Plain, true);
        }
        read
    }

    /// Matches in a view, around anchors.
    fn view(&self, view: &[u8]) -> Vec<Match> {
        let compiled = &self.scanner.compiled;
        let mut found = Vec::new();
        let mut tokens = Words::default();
        let tokenizer = self.tokenizer(Letters::Plain, false);
        let mut strong: Vec<Range<usize>> = Vec::new();
        let pieces = if self.scanner.sifts {
            Sift::new(view, &compiled.triggers, &tokenizer).pieces()
        } else {
            std::iter::once(0..view.len()).collect()
        };
        for region in pieces {
            tokenizer.read(view, &region, &mut tokens);
            compiled.patterns.matches(
                &tokens.tokens,
                &compiled.dictionary,
                |rule| compiled.is_strong(rule),
                &mut found,
            );
            strong.extend(found.drain(..).map(|hit| hit.span));
        }
        if strong.is_empty() {
            return found;
        }
        strong.sort_unstable_by_key(|span| (span.start, span.end));
        let mut wide: Vec<Range<usize>> = Vec::new();
        for span in strong {
            join(
                view,
                &mut wide,
                span.start.saturating_sub(NEAR)..(span.end + NEAR).min(view.len()),
            );
        }
        for region in wide {
            self.read(view, &region, &tokenizer, &mut tokens, &mut found);
        }
        found
    }

    /// Matches in a view that no anchor points into: all of it, up to a length.
    fn whole(
        &self,
        view: &[u8],
        letters: Letters,
        typos: bool,
        skipped: &mut Vec<(Skipped, usize)>,
    ) -> Vec<Match> {
        let end = view.len().min(WHOLE);
        if end < view.len() {
            skipped.push((Skipped::Long, view.len() - end));
        }
        let mut found = Vec::new();
        self.read(
            view,
            &(0..end),
            &self.tokenizer(letters, typos),
            &mut Words::default(),
            &mut found,
        );
        found
    }

    fn read(
        &self,
        view: &[u8],
        range: &Range<usize>,
        tokenizer: &Tokenizer<'_>,
        tokens: &mut Words,
        found: &mut Vec<Match>,
    ) {
        tokenizer.read(view, range, tokens);
        let compiled = &self.scanner.compiled;
        compiled
            .patterns
            .matches(&tokens.tokens, &compiled.dictionary, |_| true, found);
    }

    fn tokenizer(&self, letters: Letters, typos: bool) -> Tokenizer<'_> {
        Tokenizer {
            dictionary: &self.scanner.compiled.dictionary,
            special: self.scanner.compiled.special,
            letters,
            typos,
            tools: self.profile.tools,
        }
    }

    fn images(&self, text: &str, main: &View<'_>, hits: &mut Vec<Hit>) {
        let Some(rule) = self.scanner.compiled.rule("exfiltration.image") else {
            return;
        };
        for span in seen::images(main.bytes()) {
            let span = on_characters(text, &main.original(&span));
            hits.push(Hit {
                rule: rule.id,
                family: rule.family,
                weight: rule.weight,
                span,
            });
        }
    }

    /// Texts in characters that nobody sees.
    fn hidden(
        &self,
        text: &str,
        depth: usize,
        hits: &mut Vec<Hit>,
        skipped: &mut Vec<(Skipped, usize)>,
    ) {
        let (hidden, inside) = seen::hidden(text);
        for piece in hidden {
            let Some(rule) = self.scanner.compiled.rule(piece.rule) else {
                continue;
            };
            hits.push(Hit {
                rule: rule.id,
                family: rule.family,
                weight: rule.weight,
                span: piece.span.clone(),
            });
            if depth < DEPTH {
                let inner = self.text(&piece.text, depth + 1, skipped);
                hits.extend(inner_hit(&inner, &piece.span));
            }
        }
        if inside.len() >= 3
            && let Some(rule) = self.scanner.compiled.rule("invisible.in_words")
        {
            hits.extend(inside.into_iter().map(|span| Hit {
                rule: rule.id,
                family: rule.family,
                weight: rule.weight,
                span,
            }));
        }
    }

    /// Texts behind encodings.
    fn encoded(
        &self,
        text: &str,
        main: &View<'_>,
        depth: usize,
        hits: &mut Vec<Hit>,
        skipped: &mut Vec<(Skipped, usize)>,
    ) {
        let (pieces, left) = decoded::pieces(main.bytes());
        if left > 0 {
            skipped.push((Skipped::Pieces, left));
        }
        for piece in pieces {
            if depth >= DEPTH {
                skipped.push((Skipped::Depth, piece.text.len()));
                continue;
            }
            let span = on_characters(text, &main.original(&piece.span));
            let inner = self.text(&piece.text, depth + 1, skipped);
            hits.extend(inner_hit(&inner, &span));
        }
    }
}

/// What a decoded piece says, as one phrase of the text around it.
fn inner_hit(inner: &Read, span: &Range<usize>) -> Option<Hit> {
    let mut best: Option<(f64, &'static str)> = None;
    for (_, hits) in inner {
        let mut sorted = hits.clone();
        sorted.sort_by_key(|hit| (hit.span.start, hit.span.end));
        for (window, score) in places::windows(&sorted) {
            let heaviest = window
                .iter()
                .filter(|hit| !hit.family.is_weak())
                .max_by(|a, b| a.weight.total_cmp(&b.weight));
            if let Some(heaviest) = heaviest
                && best.is_none_or(|(best, _)| score > best)
            {
                best = Some((score, heaviest.rule));
            }
        }
    }
    let (score, _) = best?;
    let weight = (score + Reading::Decoded.bonus()).min(0.95);
    Some(Hit {
        rule: "encoded.instruction",
        family: Family::Encoded,
        weight,
        span: span.clone(),
    })
}

/// Matches of a view as hits of the text: of each rule the shortest that begins at a place.
fn mapped(text: &str, view: &View<'_>, found: Vec<Match>, look: &Look<'_>) -> Vec<Hit> {
    let compiled = &look.scanner.compiled;
    let mut spans: Vec<(usize, u16, usize, usize)> = found
        .into_iter()
        .map(|found| {
            let span = on_characters(text, &view.original(&found.span));
            let rank = compiled.ranks.get(found.rule).copied().unwrap_or(0);
            (span.start, rank, span.end, found.rule)
        })
        .collect();
    spans.sort_unstable();
    spans.dedup_by_key(|(start, rank, ..)| (*start, *rank));
    spans.sort_unstable_by_key(|(start, rank, end, _)| (*start, *end, *rank));
    let hits = spans.into_iter().filter_map(|(start, _, end, rule)| {
        let rule = compiled.rules.get(rule)?;
        let share = look.profile.kind.share(rule.family);
        if share <= 0.0 {
            return None;
        }
        let factor = if rule.family.is_weak() {
            1.0
        } else {
            quotation::factor(text, &(start..end))
        };
        Some(Hit {
            rule: rule.id,
            family: rule.family,
            weight: rule.weight * factor * share,
            span: start..end,
        })
    });
    hits.collect()
}

/// Adds a region to those before it, whole words at both ends. Long ones are cut, with room for a match over the cut: what is
/// read at once stays small.
fn join(view: &[u8], regions: &mut Vec<Range<usize>>, region: Range<usize>) {
    match regions.last_mut() {
        Some(last) if region.end <= last.end => {}
        Some(last) if region.start <= last.end && last.len() < LONG => {
            last.end = on_word(view, last.start..region.end).end;
        }
        Some(last) if region.start <= last.end => {
            let start = region
                .start
                .max(last.end.saturating_sub(OVERLAP))
                .max(last.start);
            regions.push(on_word(view, start..region.end));
        }
        _ => regions.push(on_word(view, region)),
    }
}

/// A region from the start of a word on.
fn on_word(view: &[u8], range: Range<usize>) -> Range<usize> {
    let is_part = |at: usize| {
        view.get(at)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())
    };
    let mut start = range.start;
    while start > 0 && start + 64 > range.start && is_part(start) && is_part(start - 1) {
        start -= 1;
    }
    let mut end = range.end;
    while end < range.end + 64 && end > 0 && is_part(end) && is_part(end - 1) {
        end += 1;
    }
    start..end.min(view.len())
}

/// The smallest range of whole characters around `range`.
fn on_characters(text: &str, range: &Range<usize>) -> Range<usize> {
    text.floor_char_boundary(range.start.min(text.len()))
        ..text.ceil_char_boundary(range.end.min(text.len()))
}
