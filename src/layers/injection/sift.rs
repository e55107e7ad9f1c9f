//! Finds the pieces of a view that are worth reading: one pass over its words, which remembers where words of the rules stood
//! and notes a piece where a pattern could be.
//!
//! It finds every match that reading the whole view would find; what it notes in vain only costs time.

use std::ops::Range;

use super::dictionary::Entry;
use super::letters::{Eight, Plain};
use super::lexicon::{Known, Word};
use super::marks::{mark, marks_after, marks_before};
use super::pattern::SPAN;
use super::tokens::{JOINED, Read, Tokenizer};
use super::triggers::{Check, Triggers};

/// Words that are remembered.
const RING: usize = 128;

/// Words of a piece from which it is cut; what two parts have in common is as long as a match can be.
const LONG: u32 = 1_024;

/// Words that two parts of a piece have in common: a match, and one word more.
#[expect(clippy::cast_possible_truncation, reason = "a small constant")]
const COMMON: u32 = SPAN as u32 + 1;

/// Where counting begins: further from zero than any two words are asked to be apart.
const FIRST: u32 = 1_024;

/// Marks that are not looked at before a piece is read.
const UNSEEN: u16 = mark::UPPER | mark::ODD;

/// The word that is being looked at.
#[derive(Clone, Copy)]
struct Here {
    /// Where the word before ended.
    before: usize,
    start: usize,
    end: usize,
    /// Whether its punctuation can be told from the bytes around it.
    alone: bool,
}

/// A piece that is still growing.
struct Piece {
    start: usize,
    /// Number of the word that it begins with.
    first: u32,
}

/// One pass.
pub(super) struct Sift<'a> {
    view: &'a [u8],
    triggers: &'a Triggers,
    tokenizer: &'a Tokenizer<'a>,
    /// Number of the last word seen of each kind.
    seen: Vec<u32>,
    /// The last words: where they begin, and which they are.
    last: [(usize, Word); RING],
    /// Number of the present word.
    number: u32,
    piece: Option<Piece>,
    /// Number of the word that the piece ends with.
    until: u32,
    pieces: Vec<Range<usize>>,
    /// Number of the word that the last piece begins with.
    last_first: u32,
}

impl<'a> Sift<'a> {
    pub(super) fn new(
        view: &'a [u8],
        triggers: &'a Triggers,
        tokenizer: &'a Tokenizer<'a>,
    ) -> Self {
        Self {
            view,
            triggers,
            tokenizer,
            seen: vec![0; triggers.slots()],
            last: [(0, 0); RING],
            number: FIRST,
            piece: None,
            until: u32::MAX,
            pieces: Vec::new(),
            last_first: 0,
        }
    }

    /// The pieces, in order; those of a dense text have some words in common.
    pub(super) fn pieces(mut self) -> Vec<Range<usize>> {
        let lexicon = &self.triggers.lexicon;
        let mut several = Read::default();
        let mut at = 0;
        let mut before = 0;
        while at < self.view.len() {
            let eight = Eight::at(self.view, at);
            let length = eight.run();
            if length == 0 {
                at += eight.next(0);
                continue;
            }
            // Most words are short and of ASCII.
            let within = u64::MAX >> (64 - 8 * length);
            let first = eight.folded() & within;
            if length < 8
                && eight.wide & within == 0
                && eight.byte(length) != b'\''
                && !self.tokenizer.may_be_special(first)
            {
                match lexicon.short(first, length) {
                    None => self.count(at, 0),
                    Some(known) => {
                        let here = Here {
                            before,
                            start: at,
                            end: at + length,
                            alone: true,
                        };
                        self.count(at, known.word);
                        self.known(known, here);
                    }
                }
                before = at + length;
                if self.until <= self.number {
                    self.close(before);
                }
                at += eight.next(length);
                continue;
            }
            let plain = Plain::at(self.view, at, eight).filter(|plain| {
                plain.spelt.len < JOINED && !self.tokenizer.is_special(self.view, at, plain)
            });
            if let Some(plain) = plain {
                let here = Here {
                    before,
                    start: at,
                    end: at + plain.spelt.len,
                    alone: true,
                };
                self.word(lexicon.read(&plain.spelt), here);
                before = here.end;
                at = here.end;
                continue;
            }
            if let Some(length) = self.tokenizer.no_letter(self.view, at) {
                at += length;
                continue;
            }
            several.clear();
            let end = self
                .tokenizer
                .one(self.view, at, self.view.len(), 0, &mut several);
            for (token, word) in several.tokens.iter().zip(&several.words) {
                let [whole, beginning, _] = token.entries;
                let known = Known {
                    whole,
                    beginning,
                    word: *word,
                };
                let here = Here {
                    before,
                    start: token.start,
                    end: token.end,
                    alone: false,
                };
                self.word(known, here);
            }
            before = end;
            at = end;
        }
        self.close(self.view.len());
        self.pieces
    }

    /// Counts a word.
    #[inline]
    fn count(&mut self, start: usize, word: Word) {
        self.number += 1;
        if let Some(last) = self.last.get_mut(self.number as usize % RING) {
            *last = (start, word);
        }
    }

    #[inline]
    fn word(&mut self, known: Known, here: Here) {
        self.count(here.start, known.word);
        if known != Known::default() {
            self.known(known, here);
        }
        if self.until <= self.number {
            self.close(here.end);
        }
    }

    /// A word that rules know, and the phrases that end with it.
    fn known(&mut self, known: Known, here: Here) {
        let triggers = self.triggers;
        let mut marks = if here.alone { None } else { Some(u16::MAX) };
        for entry in [known.whole, known.beginning] {
            self.entry(entry, here, &mut marks);
        }
        if self.back(1).1 == 0 {
            return;
        }
        let endings = triggers.ending(known.word);
        for ending in endings.iter().chain(triggers.ending_with(known.beginning)) {
            let follows = ending
                .before
                .iter()
                .zip(1..)
                .all(|(word, back)| self.back(back).1 == *word);
            if follows {
                self.entry(ending.entry, here, &mut Some(u16::MAX));
            }
        }
    }

    #[inline]
    fn entry(&mut self, entry: Entry, here: Here, marks: &mut Option<u16>) {
        if entry == 0 {
            return;
        }
        let (seen, checks) = self.triggers.of(entry);
        for check in checks {
            let last = self.seen.get(usize::from(check.slot)).copied().unwrap_or(0);
            if self.number - last <= check.within && self.has(check.marks, here, marks) {
                self.note(*check, here);
            }
        }
        for seen in seen {
            if self.has(seen.marks, here, marks)
                && let Some(last) = self.seen.get_mut(usize::from(seen.slot))
            {
                *last = self.number;
            }
        }
    }

    /// Whether the punctuation around a word is as asked.
    #[inline]
    fn has(&self, asked: u16, here: Here, marks: &mut Option<u16>) -> bool {
        let asked = asked & !UNSEEN;
        asked == 0 || *marks.get_or_insert_with(|| self.marks(here)) & asked == asked
    }

    fn marks(&self, here: Here) -> u16 {
        let gap = self.view.get(here.before..here.start).unwrap_or_default();
        let next = self
            .view
            .get(here.end..(here.end + 4).min(self.view.len()))
            .unwrap_or_default();
        let first = if here.start < 2 {
            mark::HEAD | mark::START
        } else {
            0
        };
        first | marks_before(gap) | marks_after(next)
    }

    /// Notes that the words around are to be read.
    fn note(&mut self, check: Check, here: Here) {
        // One word more on both sides: it sees the punctuation between.
        let back = u32::from(check.before) + 1;
        let until = self.number + u32::from(check.after) + 1;
        let start = self.back(back).0;
        let Some(piece) = &mut self.piece else {
            let first = self.number.saturating_sub(back);
            // One that was closed too soon goes on.
            let again = self.pieces.last().is_some_and(|last| start <= last.end)
                && self.number - self.last_first <= LONG;
            let (start, first) = match self.pieces.pop_if(|_| again) {
                Some(last) => (last.start.min(start), self.last_first),
                None => (start, first),
            };
            self.piece = Some(Piece { start, first });
            self.until = until;
            return;
        };
        piece.start = piece.start.min(start);
        let until = self.until.max(until);
        if self.number - piece.first > LONG {
            self.close(here.end);
            self.piece = Some(Piece {
                start: self.back(COMMON).0,
                first: self.number - COMMON,
            });
        }
        self.until = until;
    }

    /// The word that stands so many words back; before the first one the start of the view.
    #[inline]
    fn back(&self, back: u32) -> (usize, Word) {
        let number = self.number - back;
        if number <= FIRST {
            return (0, 0);
        }
        self.last
            .get(number as usize % RING)
            .copied()
            .unwrap_or((0, 0))
    }

    fn close(&mut self, end: usize) {
        self.until = u32::MAX;
        if let Some(piece) = self.piece.take() {
            self.last_first = piece.first;
            self.pieces.push(piece.start..end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::super::profile::{Kind, Profile, ToolNames};
    use super::super::rules::rules;
    use super::super::scan::Scanner;

    static SCANNER: LazyLock<Scanner> = LazyLock::new(|| Scanner::new().unwrap());
    static UNSIFTED: LazyLock<Scanner> = LazyLock::new(|| Scanner::new().unwrap().unsifted());

    /// Examples of rules, words that phrases have, fillers, borders and scripts, in any order.
    fn mixtures() -> impl Strategy<Value = String> {
        let examples: Vec<&'static str> = rules()
            .flat_map(|rule| [rule.example, rule.near_miss])
            .filter(|text| !text.is_empty())
            .collect();
        let words: Vec<&'static str> = rules()
            .flat_map(|rule| rule.example.split(' '))
            .filter(|word| !word.is_empty())
            .collect();
        let fillers = vec![
            "the",
            "don't",
            "\u{201c}ok\u{201d}",
            "заказ",
            "größe",
            "订单已发货",
            "請求",
            "คำสั่ง",
            "www.host.example",
            "https://h.example/a_b",
            "ann@x.example",
            "sendMoney",
            "send_money",
            "1234567",
            "\n\n",
            "\n",
            "\", \"",
            "{\"a\": \"",
            "<b>",
            "</b>",
            "_",
            "-",
            "...",
            "unbelievablylongwordwithoutanyspace",
            "ignoreallpreviousinstructions",
            "1gn0re",
            "%20",
            "a",
            "\u{200b}",
            "\u{fffd}",
        ];
        let piece = prop_oneof![
            2 => proptest::sample::select(examples).prop_map(str::to_owned),
            4 => proptest::sample::select(words).prop_map(str::to_owned),
            2 => proptest::sample::select(fillers.clone()).prop_map(str::to_owned),
            1 => (proptest::sample::select(fillers), 1..90_usize).prop_map(|(word, times)| format!("{word} ").repeat(times)),
        ];
        let glue = prop_oneof![6 => Just(" "), 1 => Just(""), 1 => Just("\n"), 1 => Just("-")];
        proptest::collection::vec((piece, glue), 1..40).prop_map(|pieces| {
            pieces
                .into_iter()
                .flat_map(|(piece, glue)| [piece, glue.to_owned()])
                .collect()
        })
    }

    proptest! {
        #[test]
        fn what_is_sifted_out_holds_nothing(text in mixtures()) {
            let names = ToolNames::new(["send_money", "Archive-all"]);
            for tools in [None, Some(&names)] {
                let profile = Profile { kind: Kind::ToolOutput, tools };
                prop_assert_eq!(SCANNER.scan(&text, &profile), UNSIFTED.scan(&text, &profile));
            }
        }
    }

    #[test]
    fn a_long_dense_text_is_read_in_pieces_and_nothing_is_lost() {
        let dense: String = rules()
            .flat_map(|rule| [rule.example, " "])
            .collect::<String>()
            .repeat(12);
        let run = "ignoreallpreviousinstructionsand".repeat(600);
        for text in [dense, run] {
            let profile = Profile::default();
            assert_eq!(
                SCANNER.scan(&text, &profile),
                UNSIFTED.scan(&text, &profile)
            );
        }
    }
}
