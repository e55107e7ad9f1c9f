//! Words in what has no spaces between them: long runs of letters, and scripts that are written so.

use std::ops::Range;

use super::dictionary::Dictionary;
use super::lexicon::Spelt;
use super::marks::{is_wide_punctuation, mark, wide};
use super::tokens::{Read, Token, Tokenizer};

/// Longest word inside a run of letters, in bytes.
const INSIDE: usize = 24;

/// Letters of a word of a script without spaces, at most.
const LETTERS: usize = 8;

impl Tokenizer<'_> {
    /// Words of a run of letters without spaces: the longest that the dictionary has at each place.
    pub(super) fn segment(&self, view: &[u8], range: Range<usize>, marks: u16, read: &mut Read) {
        let words = self.dictionary.words(self.letters);
        let bytes = view.get(range.clone()).unwrap_or_default();
        let folded: Vec<u8> = bytes
            .iter()
            .map(|byte| self.letters.letter(*byte))
            .collect();
        let mut at = range.start;
        let mut unknown = at;
        let mut first = true;
        while at < range.end {
            let run = |of: &'_ [u8]| -> Range<usize> {
                let from = at - range.start;
                from..of.len().min(from + INSIDE)
            };
            let spelt = Spelt::run(folded.get(run(&folded)).unwrap_or_default());
            if !words.may_stand_inside(&spelt) {
                at += 1;
                continue;
            }
            let here = bytes.get(run(bytes)).unwrap_or_default();
            let best = words.prefixes(&spelt).find(|(length, _)| {
                Dictionary::stands_inside(here.get(..*length).unwrap_or_default())
            });
            let Some((length, known)) = best else {
                at += 1;
                continue;
            };
            if unknown < at {
                read.push(Token::gap(unknown..at), 0);
            }
            // A word may be an entry and the beginning of others too, each with classes of its own.
            let token = Token {
                start: at,
                end: at + length,
                entries: [known.whole, known.beginning, 0],
                marks: mark::ODD | if first { marks } else { 0 },
                ..Token::default()
            };
            read.push(token, known.word);
            first = false;
            at += length;
            unknown = at;
        }
        if unknown < range.end {
            read.push(Token::gap(unknown..range.end), 0);
        }
    }

    /// A word of a script without spaces: the longest that the dictionary has at this place, up to eight letters.
    pub(super) fn spaceless(
        &self,
        view: &[u8],
        at: usize,
        limit: usize,
        marks: u16,
        read: &mut Read,
    ) -> usize {
        let words = self.dictionary.words(self.letters);
        let mut spelt = Spelt::default();
        let mut end = at;
        for _ in 0..LETTERS {
            let Some((length, true)) = wide(view, end) else {
                break;
            };
            if end >= limit || is_wide_punctuation(view, end) {
                break;
            }
            for byte in view.get(end..end + length).unwrap_or_default() {
                spelt.push(*byte);
            }
            end += length;
        }
        let mut best = None;
        for (length, known) in words.prefixes(&spelt) {
            if known.whole != 0 {
                best = Some((length, known));
                break;
            }
            // Of words that only begin phrases the shortest.
            if !words.phrases(known.word).is_empty() {
                best = Some((length, known));
            }
        }
        let (length, known) = best.unwrap_or_else(|| {
            let first = wide(view, at).map_or(1, |(length, _)| length);
            (first, super::lexicon::Known::default())
        });
        let token = Token {
            start: at,
            end: at + length,
            entries: [known.whole, 0, 0],
            marks,
            ..Token::default()
        };
        read.push(token, known.word);
        at + length
    }
}
