//! Words and phrases that rules speak of, as classes: one look-up by hash while a word is read.
//!
//! An entry is a word, the beginning of words (`instruct*`), or a phrase of words. It may be of several classes. Entries are
//! folded as texts are, so they are written as people write them.

use std::collections::HashMap;

use super::folding;
use super::lexicon::{Known, Lexicon, Spelt, WIDEST, Word};

/// A class, by index.
pub(super) type Class = u16;

/// Index of an entry; 0 is none.
pub(super) type Entry = u16;

/// Words of phrases after the first, at most.
const PHRASE: usize = 6;

/// Shortest entry that is looked for inside a run of letters without spaces.
const INSIDE: usize = 4;

/// Short words that are looked for there too.
const INSIDE_TOO: [&str; 4] = ["all", "the", "you", "and"];

/// How letters are read before they are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Letters {
    /// As they are.
    Plain,
    /// Digits and signs as the letters that they are drawn like; `l` and `i` are one.
    Leet,
}

impl Letters {
    /// The letter of an ASCII byte, in lower case.
    #[inline]
    pub(super) const fn letter(self, byte: u8) -> u8 {
        let lower = byte.to_ascii_lowercase();
        match self {
            Self::Plain => lower,
            Self::Leet => match lower {
                b'0' => b'o',
                b'1' | b'!' | b'|' | b'l' => b'i',
                b'3' => b'e',
                b'4' | b'@' => b'a',
                b'5' | b'$' => b's',
                b'6' | b'9' => b'g',
                b'7' | b'+' => b't',
                b'8' => b'b',
                other => other,
            },
        }
    }
}

/// Tables for one letters.
#[derive(Debug)]
pub(super) struct Words {
    letters: Letters,
    lexicon: Lexicon,
    /// Further words of phrases, by the first.
    phrases: Vec<Vec<Phrase>>,
}

/// A phrase: its words after the first.
#[derive(Clone, Debug)]
pub(super) struct Phrase {
    pub first: Word,
    pub rest: Vec<Further>,
    pub entry: Entry,
}

/// A word of a phrase after the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Further {
    /// A whole word.
    Whole(Word),
    /// A word with this beginning.
    Beginning(Entry),
}

/// Every entry.
#[derive(Debug)]
pub(super) struct Dictionary {
    plain: Words,
    leet: Words,
    /// The classes of each entry.
    classes: Vec<Vec<Class>>,
    /// The same as bits, a row of [`Self::row`] words for each entry.
    bits: Vec<u64>,
    row: usize,
    typos: HashMap<u64, Entry>,
}

/// Entries as they are collected.
#[derive(Debug, Default)]
pub(super) struct Entries {
    known: HashMap<String, Vec<Class>>,
}

impl Entries {
    /// Adds a word, a beginning or a phrase to a class.
    pub(super) fn add(&mut self, entry: &str, class: Class) {
        let folded = folding::folded(entry);
        let classes = self.known.entry(folded).or_default();
        if !classes.contains(&class) {
            classes.push(class);
        }
    }

    /// Entries of a class.
    pub(super) fn of(&self, class: Class) -> impl Iterator<Item = &str> {
        self.known
            .iter()
            .filter(move |(_, classes)| classes.contains(&class))
            .map(|(entry, _)| entry.as_str())
    }

    /// All entries, with their classes.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &[Class])> {
        let all = self.known.iter();
        all.map(|(entry, classes)| (entry.as_str(), classes.as_slice()))
    }

    /// Builds the tables. `typos` says of which classes also words count whose inner letters are in another order.
    pub(super) fn build(self, typos: &[Class]) -> Result<Dictionary, String> {
        let mut known = self.known;
        // The last word of a phrase may be a beginning, which is then an entry too.
        let last: Vec<String> = known
            .keys()
            .filter(|entry| entry.ends_with('*'))
            .filter_map(|entry| entry.rsplit_once(' '))
            .map(|(_, last)| last.to_owned())
            .collect();
        for last in last {
            known.entry(last).or_default();
        }
        // Phrases after the words that they are made of.
        let mut sorted: Vec<_> = known.into_iter().collect();
        sorted.sort_by(|a, b| (a.0.contains(' '), &a.0).cmp(&(b.0.contains(' '), &b.0)));
        let mut dictionary = Dictionary {
            plain: Words::new(Letters::Plain, sorted.len()),
            leet: Words::new(Letters::Leet, sorted.len()),
            classes: vec![Vec::new()],
            bits: Vec::new(),
            row: 0,
            typos: HashMap::new(),
        };
        for (entry, classes) in sorted {
            let id = Entry::try_from(dictionary.classes.len())
                .map_err(|_| "there are too many words in the injection rules")?;
            dictionary.plain.insert(&entry, id)?;
            dictionary.leet.insert(&entry, id)?;
            let word = entry.strip_suffix('*').unwrap_or(&entry);
            if word.len() >= 5
                && word.is_ascii()
                && !word.contains(' ')
                && classes.iter().any(|class| typos.contains(class))
            {
                dictionary.typos.insert(shape(word.as_bytes()), id);
            }
            dictionary.classes.push(classes);
        }
        let most = dictionary
            .classes
            .iter()
            .flatten()
            .max()
            .copied()
            .unwrap_or(0);
        dictionary.row = usize::from(most) / 64 + 1;
        dictionary.bits = vec![0; dictionary.row * dictionary.classes.len()];
        for (entry, classes) in dictionary.classes.iter().enumerate() {
            for class in classes {
                let at = entry * dictionary.row + usize::from(*class) / 64;
                if let Some(word) = dictionary.bits.get_mut(at) {
                    *word |= 1 << (class % 64);
                }
            }
        }
        Ok(dictionary)
    }
}

impl Words {
    fn new(letters: Letters, words: usize) -> Self {
        Self {
            letters,
            lexicon: Lexicon::new(words),
            phrases: vec![Vec::new()],
        }
    }

    fn spelt(&self, word: &str) -> Spelt {
        Spelt::of(word.bytes().map(|byte| self.letters.letter(byte)))
    }

    fn insert(&mut self, entry: &str, id: Entry) -> Result<(), String> {
        let mut parts = entry.split(' ').filter(|part| !part.is_empty());
        let Some(first) = parts.next() else {
            return Ok(());
        };
        let mut words = entry.trim_end_matches('*').split(' ');
        if words.any(|word| word.len() > WIDEST || word.ends_with('*')) {
            return Err(format!(
                "`{entry}` has a word of more than {WIDEST} bytes, or a beginning before the end"
            ));
        }
        let mut rest = Vec::new();
        for part in parts.take(PHRASE) {
            let begins = part.strip_suffix('*').and_then(|part| {
                let known = self.lexicon.read(&self.spelt(part)).beginning;
                (known != 0).then_some(Further::Beginning(known))
            });
            let spelt = self.spelt(part.trim_end_matches('*'));
            rest.push(match begins {
                Some(begins) => begins,
                None => Further::Whole(self.word(&spelt, None)),
            });
        }
        let spelt = self.spelt(first.trim_end_matches('*'));
        if !rest.is_empty() {
            let first = self.word(&spelt, None);
            if let Some(phrases) = self.phrases.get_mut(usize::from(first)) {
                phrases.push(Phrase {
                    first,
                    rest,
                    entry: id,
                });
            }
        } else if first.ends_with('*') {
            // Of fewer letters every word is one.
            let letters = first.chars().count() - 1;
            if letters >= 3
                || (letters >= 2
                    && !first
                        .trim_end_matches('*')
                        .ends_with(|c: char| c.is_ascii()))
            {
                self.lexicon.add_beginning(&spelt, id);
            }
        } else {
            self.word(&spelt, Some(id));
        }
        Ok(())
    }

    fn word(&mut self, spelt: &Spelt, entry: Option<Entry>) -> Word {
        let word = self.lexicon.add(spelt, entry);
        if usize::from(word) >= self.phrases.len() {
            self.phrases.resize(usize::from(word) + 1, Vec::new());
        }
        word
    }

    /// What is known of a word.
    #[inline]
    pub(super) fn read(&self, spelt: &Spelt) -> Known {
        self.lexicon.read(spelt)
    }

    /// Its words, with only what `keep` leaves of each.
    pub(super) fn filtered(&self, keep: impl Fn(Known) -> Known) -> Lexicon {
        self.lexicon.filtered(keep)
    }

    /// Entries and first words of phrases that a run of letters may begin with, the longest first.
    pub(super) fn prefixes<'a>(
        &'a self,
        spelt: &'a Spelt,
    ) -> impl Iterator<Item = (usize, Known)> + 'a {
        self.lexicon
            .prefixes(spelt)
            .map(|(length, known)| {
                let starts = !self.phrases(known.word).is_empty();
                (length, known, starts)
            })
            .filter(|(_, known, starts)| known.whole != 0 || known.beginning != 0 || *starts)
            .map(|(length, known, _)| (length, known))
    }

    /// Whether a run may begin with an entry that is looked for in runs.
    #[inline]
    pub(super) fn may_stand_inside(&self, spelt: &Spelt) -> bool {
        self.lexicon.may_begin(spelt)
    }

    /// Phrases that begin with a word.
    #[inline]
    pub(super) fn phrases(&self, word: Word) -> &[Phrase] {
        self.phrases
            .get(usize::from(word))
            .map_or(&[], Vec::as_slice)
    }

    /// Every phrase.
    pub(super) fn all_phrases(&self) -> impl Iterator<Item = &Phrase> {
        self.phrases.iter().flatten()
    }
}

/// A word for which the first and last letter and the set of the others are the same gives the same number.
pub(super) fn shape(word: &[u8]) -> u64 {
    let (Some(first), Some(last)) = (word.first(), word.last()) else {
        return 0;
    };
    let inner = word.get(1..word.len() - 1).unwrap_or_default();
    let sum = inner
        .iter()
        .fold(0_u64, |sum, byte| sum.wrapping_add(mixed(*byte)));
    (sum ^ u64::from(*first) << 8 ^ u64::from(*last)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Bytes as numbers whose sums tell apart which they were.
const fn mixed(byte: u8) -> u64 {
    let mixed = (byte as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

impl Dictionary {
    /// The words in one way of reading letters.
    pub(super) fn words(&self, letters: Letters) -> &Words {
        match letters {
            Letters::Plain => &self.plain,
            Letters::Leet => &self.leet,
        }
    }

    /// The entry of a word with its inner letters in another order.
    pub(super) fn misspelt(&self, word: &[u8]) -> Entry {
        self.typos.get(&shape(word)).copied().unwrap_or(0)
    }

    /// Whether an entry is of a class.
    #[inline]
    pub(super) fn is_of(&self, entry: Entry, class: Class) -> bool {
        let at = usize::from(entry) * self.row + usize::from(class) / 64;
        self.bits
            .get(at)
            .is_some_and(|word| (word >> (class % 64)) & 1 == 1)
    }

    /// The classes of an entry.
    #[inline]
    pub(super) fn classes(&self, entry: Entry) -> &[Class] {
        self.classes
            .get(usize::from(entry))
            .map_or(&[], Vec::as_slice)
    }

    /// The entry of a word of its own spelling.
    pub(super) fn named(&self, word: &str) -> Entry {
        self.plain.read(&Spelt::of(word.bytes())).whole
    }

    /// How many entries there are, with the empty one.
    pub(super) fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether an entry of this many letters is looked for inside a run without spaces.
    pub(super) fn stands_inside(word: &[u8]) -> bool {
        word.len() >= INSIDE || INSIDE_TOO.iter().any(|short| short.as_bytes() == word)
    }
}

impl Further {
    /// Whether it is this word.
    #[inline]
    pub(super) fn is(self, word: Word, beginning: Entry) -> bool {
        match self {
            Self::Whole(whole) => whole == word,
            Self::Beginning(entry) => entry == beginning,
        }
    }
}
