//! Words that betray a text whose letters were swapped or that runs backwards.

use aho_corasick::packed::{Config, MatchKind, Searcher};
use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::derived;

/// Words that are looked for in those forms.
const TURNED: [&str; 16] = [
    "ignore",
    "previous",
    "instructions",
    "instruction",
    "disregard",
    "system",
    "prompt",
    "forget",
    "override",
    "reveal",
    "assistant",
    "password",
    "execute",
    "transfer",
    "forward",
    "important",
];

/// Bytes that are folded at once, and what two pieces have in common.
const PIECE: usize = 4 << 10;
const COMMON: usize = 16;

/// Ways to turn a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Turns {
    /// Letters by thirteen.
    pub rot13: bool,
    /// Letters from the other end of the alphabet.
    pub atbash: bool,
    /// From the end.
    pub reversed: bool,
}

/// What the words are looked for with: many bytes at a time where the processor can.
#[derive(Debug)]
enum Finder {
    Packed(Box<Searcher>),
    Automaton(AhoCorasick),
    Nothing,
}

/// The words in each form.
#[derive(Debug)]
pub(super) struct Turned {
    rot13: Finder,
    atbash: Finder,
    reversed: Finder,
}

impl Turned {
    pub(super) fn new() -> Self {
        let swapped = |letter: fn(u8) -> u8| {
            let words = TURNED.iter();
            Finder::new(
                words
                    .map(|word| word.bytes().map(letter).collect())
                    .collect(),
            )
        };
        let reversed = TURNED.iter().map(|word| word.bytes().rev().collect());
        Self {
            rot13: swapped(derived::rot13),
            atbash: swapped(derived::atbash),
            reversed: Finder::new(reversed.collect()),
        }
    }

    /// How the view seems to be turned.
    pub(super) fn turns(&self, view: &[u8]) -> Turns {
        let mut turns = Turns::default();
        let mut folded = [0; PIECE];
        let mut at = 0;
        while at < view.len() {
            let piece = view.get(at..view.len().min(at + PIECE)).unwrap_or_default();
            let (folded, _) = folded.split_at_mut(piece.len());
            folded.copy_from_slice(piece);
            folded.make_ascii_lowercase();
            turns.rot13 = turns.rot13 || self.rot13.finds(folded);
            turns.atbash = turns.atbash || self.atbash.finds(folded);
            turns.reversed = turns.reversed || self.reversed.finds(folded);
            at += PIECE - COMMON;
        }
        turns
    }
}

impl Finder {
    fn new(words: Vec<Vec<u8>>) -> Self {
        let packed = Config::new()
            .match_kind(MatchKind::LeftmostFirst)
            .builder()
            .extend(&words)
            .build();
        if let Some(packed) = packed {
            return Self::Packed(Box::new(packed));
        }
        AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .build(words)
            .map_or(Self::Nothing, Self::Automaton)
    }

    fn finds(&self, folded: &[u8]) -> bool {
        match self {
            Self::Packed(packed) => packed.find(folded).is_some(),
            Self::Automaton(automaton) => automaton.is_match(folded),
            Self::Nothing => false,
        }
    }
}
