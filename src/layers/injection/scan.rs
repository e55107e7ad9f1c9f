//! Finds phrases in a text, in every reading that its bytes ask for, and scores the places where they stand close together.
//!
//! One automaton looks for the words at which a rule can begin; only around them words are read and patterns tried, so ordinary
//! text costs one pass and hostile text stays linear. Where a strong rule matched, a wider piece is read for the weak ones.

use std::fmt;
use std::ops::Range;

use super::compile::{Anchor, Compiled};
use super::decoded;
use super::derived;
use super::dictionary::Letters;
use super::extent;
use super::pattern::Match;
use super::places::{self, Hit, NEAR, Place, Reading, Window};
use super::profile::Profile;
use super::quotation;
use super::rules::Family;
use super::seen;
use super::tokens::{Token, Tokenizer};
use super::view::View;

/// Bytes of a view before and after an anchor that are read.
const BEFORE: usize = 140;
const AFTER: usize = 220;

/// Length from which a region is cut, and what two parts of one have in common.
const LONG: usize = 8 << 10;
const OVERLAP: usize = 480;

/// Levels of encodings.
const DEPTH: usize = 3;

/// Longest text that is read in a way that no anchor points to, in bytes.
const WHOLE: usize = 64 << 10;

/// Longest text in which words with swapped letters are looked for, in bytes.
const TYPOS: usize = 16 << 10;

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
    compiled: Compiled,
    model: Option<Box<dyn Corroborator>>,
}

/// What one reading is looked through for.
struct Look<'a> {
    scanner: &'a Scanner,
    profile: &'a Profile<'a>,
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
        })
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

type Read = Vec<(Reading, Vec<Hit>)>;

impl Look<'_> {
    /// Hits of every reading of a text, mapped to its bytes.
    fn text(&self, text: &str, depth: usize, skipped: &mut Vec<(Skipped, usize)>) -> Read {
        let main = View::new(text);
        let view = main.bytes();
        let mut turned = [0_usize; 3];
        let hits = self.view(view, Some(&mut turned));
        let mut hits = mapped(text, &main, hits, self);
        self.images(text, &main, &mut hits);
        self.hidden(text, depth, &mut hits, skipped);
        self.encoded(text, &main, depth, &mut hits, skipped);
        let mut read = vec![(Reading::Text, hits)];
        let mut add = |reading: Reading, derived: &View<'_>, letters: Letters, typos: bool| {
            let found = match (letters, typos) {
                (Letters::Plain, false) => self.view(derived.bytes(), None),
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
        let joined = derived::joined(view);
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
        let [rot13, atbash, reversed] = turned;
        if rot13 > 0 {
            add(
                Reading::Rot13,
                &derived::swapped(view, derived::rot13),
                Letters::Plain,
                false,
            );
        }
        if atbash > 0 {
            add(
                Reading::Atbash,
                &derived::swapped(view, derived::atbash),
                Letters::Plain,
                false,
            );
        }
        if reversed > 0 {
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
    fn view(&self, view: &[u8], turned: Option<&mut [usize; 3]>) -> Vec<Match> {
        let compiled = &self.scanner.compiled;
        let mut found = Vec::new();
        let mut tokens = Vec::new();
        let tokenizer = self.tokenizer(Letters::Plain, false);
        let mut strong: Vec<Range<usize>> = Vec::new();
        for region in self.regions(view, turned) {
            tokens.clear();
            tokenizer.read(view, &region, &mut tokens);
            let from = found.len();
            compiled
                .patterns
                .matches(&tokens, &compiled.dictionary, &mut found);
            for hit in found.drain(from..) {
                if compiled.is_strong(hit.rule) {
                    strong.push(hit.span);
                }
            }
        }
        if strong.is_empty() {
            return found;
        }
        strong.sort_by_key(|span| span.start);
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
            &mut Vec::new(),
            &mut found,
        );
        found
    }

    fn read(
        &self,
        view: &[u8],
        range: &Range<usize>,
        tokenizer: &Tokenizer<'_>,
        tokens: &mut Vec<Token>,
        found: &mut Vec<Match>,
    ) {
        tokens.clear();
        tokenizer.read(view, range, tokens);
        self.scanner
            .compiled
            .patterns
            .matches(tokens, &self.scanner.compiled.dictionary, found);
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

    /// Pieces around the anchors, joined where they meet.
    fn regions(&self, view: &[u8], mut turned: Option<&mut [usize; 3]>) -> Vec<Range<usize>> {
        let compiled = &self.scanner.compiled;
        let mut regions: Vec<Range<usize>> = Vec::new();
        for anchor in compiled.automaton.find_overlapping_iter(view) {
            let span = anchor.start()..anchor.end();
            match compiled.anchors.get(anchor.pattern().as_usize()) {
                Some(Anchor::Word { whole }) if is_word(view, &span, *whole) => {}
                Some(Anchor::Turned(turn)) => {
                    if let Some(count) = turned
                        .as_mut()
                        .and_then(|turned| turned.get_mut(*turn as usize))
                    {
                        *count += 1;
                    }
                    continue;
                }
                _ => continue,
            }
            let start = span.start.saturating_sub(BEFORE);
            let end = (span.end + AFTER).min(view.len());
            join(view, &mut regions, start..end);
        }
        regions
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

/// Matches of a view as hits of the text.
fn mapped(text: &str, view: &View<'_>, found: Vec<Match>, look: &Look<'_>) -> Vec<Hit> {
    let compiled = &look.scanner.compiled;
    let mut hits: Vec<Hit> = Vec::with_capacity(found.len());
    for found in found {
        let (Some(rule), Some(family)) =
            (compiled.rules.get(found.rule), compiled.family(found.rule))
        else {
            continue;
        };
        let span = on_characters(text, &view.original(&found.span));
        let factor = if family.is_weak() {
            1.0
        } else {
            quotation::factor(text, &span)
        };
        let share = look.profile.kind.share(family);
        if share <= 0.0 {
            continue;
        }
        hits.push(Hit {
            rule: rule.id,
            family,
            weight: rule.weight * factor * share,
            span,
        });
    }
    hits.sort_by(|a, b| {
        (a.span.start, a.rule, a.span.end).cmp(&(b.span.start, b.rule, b.span.end))
    });
    hits.dedup_by(|later, first| later.rule == first.rule && later.span.start == first.span.start);
    hits.sort_by_key(|hit| (hit.span.start, hit.span.end));
    hits
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

/// A phrase begins at a word, so an anchor inside one is none; unless the word is so long that it must be several.
fn is_word(view: &[u8], anchor: &Range<usize>, whole: bool) -> bool {
    let part = |at: usize| view.get(at).is_some_and(u8::is_ascii_alphanumeric);
    if !view.get(anchor.start).is_some_and(u8::is_ascii) {
        return true;
    }
    let inside = anchor.start.checked_sub(1).is_some_and(part);
    let goes_on = whole && part(anchor.end);
    if !inside && !goes_on {
        return true;
    }
    if anchor.len() < 4 {
        return false;
    }
    let left = (1..=24)
        .take_while(|back| anchor.start.checked_sub(*back).is_some_and(part))
        .count();
    let right = (0..24).take_while(|ahead| part(anchor.end + ahead)).count();
    left + anchor.len() + right >= 20
}

/// The smallest range of whole characters around `range`.
fn on_characters(text: &str, range: &Range<usize>) -> Range<usize> {
    text.floor_char_boundary(range.start.min(text.len()))
        ..text.ceil_char_boundary(range.end.min(text.len()))
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
