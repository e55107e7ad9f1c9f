//! Words and phrases that rules speak of, as classes: one look-up by hash while a word is read.
//!
//! An entry is a word, the beginning of words (`instruct*`), or a phrase of words. It may be of several classes. Entries are
//! folded as texts are, so they are written as people write them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::view;

/// A class, by index.
pub(super) type Class = u16;

/// Index of an entry; 0 is none.
pub(super) type Entry = u16;

/// Words of phrases after the first, at most.
const PHRASE: usize = 6;

/// Bits of the filter before the tables.
const FILTER_BITS: u32 = 16;

/// Shortest entry that is looked for inside a run of letters without spaces.
const INSIDE: usize = 4;

/// Short words that are looked for there too.
const INSIDE_TOO: [&str; 4] = ["all", "the", "you", "and"];

/// The hash of a word, byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordHash(u64);

impl WordHash {
    pub(super) const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    #[inline]
    pub(super) const fn with(self, byte: u8) -> Self {
        let mixed = (self.0 ^ byte as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(mixed ^ (mixed >> 29))
    }

    #[inline]
    fn slot(self) -> (usize, u64) {
        let bit = (self.0 >> (64 - FILTER_BITS)) as usize;
        (bit / 64, 1 << (bit % 64))
    }
}

/// The hash is one already.
#[derive(Default)]
pub(super) struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = WordHash(self.0).with(*byte).0;
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

type Table<V> = HashMap<u64, V, BuildHasherDefault<Same>>;

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
#[derive(Debug, Default)]
struct Words {
    whole: Table<Entry>,
    beginnings: Table<Entry>,
    filter: Vec<u64>,
    /// Further words of phrases, by the hash of the first.
    phrases: Table<Vec<(Vec<Further>, Entry)>>,
}

/// A word of a phrase after the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Further {
    /// A whole word, by its hash.
    Whole(u64),
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
    typos: Table<Entry>,
}

/// Entries as they are collected.
#[derive(Debug, Default)]
pub(super) struct Entries {
    known: HashMap<String, Vec<Class>>,
}

impl Entries {
    /// Adds a word, a beginning or a phrase to a class.
    pub(super) fn add(&mut self, entry: &str, class: Class) {
        let folded = view::folded(entry);
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
            plain: Words::default(),
            leet: Words::default(),
            classes: vec![Vec::new()],
            bits: Vec::new(),
            row: 0,
            typos: Table::default(),
        };
        for words in [&mut dictionary.plain, &mut dictionary.leet] {
            words.filter = vec![0; (1 << FILTER_BITS) / 64];
        }
        for (entry, classes) in sorted {
            let id = Entry::try_from(dictionary.classes.len())
                .map_err(|_| "there are too many words in the injection rules")?;
            dictionary.plain.insert(&entry, id, Letters::Plain);
            dictionary.leet.insert(&entry, id, Letters::Leet);
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
    fn insert(&mut self, entry: &str, id: Entry, letters: Letters) {
        let hash = |word: &str| {
            word.bytes().fold(WordHash::EMPTY, |hash, byte| {
                hash.with(letters.letter(byte))
            })
        };
        let mut parts = entry.split(' ').filter(|part| !part.is_empty());
        let Some(first) = parts.next() else { return };
        let further = |part: &str| match part.strip_suffix('*') {
            Some(beginning) => self
                .beginnings
                .get(&hash(beginning).0)
                .map_or(Further::Whole(hash(beginning).0), |entry| {
                    Further::Beginning(*entry)
                }),
            None => Further::Whole(hash(part).0),
        };
        let rest: Vec<Further> = parts.map(further).take(PHRASE).collect();
        if !rest.is_empty() {
            self.phrases
                .entry(hash(first).0)
                .or_default()
                .push((rest, id));
            self.note(hash(first));
        } else if let Some(beginning) = first.strip_suffix('*') {
            self.beginnings.insert(hash(beginning).0, id);
            self.note(hash(beginning));
        } else {
            self.whole.insert(hash(first).0, id);
            self.note(hash(first));
        }
    }

    fn note(&mut self, hash: WordHash) {
        let (word, bit) = hash.slot();
        if let Some(word) = self.filter.get_mut(word) {
            *word |= bit;
        }
    }

    #[inline]
    fn may_hold(&self, hash: WordHash) -> bool {
        let (word, bit) = hash.slot();
        self.filter.get(word).is_some_and(|word| word & bit != 0)
    }
}

/// A word for which the first and last letter and the set of the others are the same gives the same number.
pub(super) fn shape(word: &[u8]) -> u64 {
    let (Some(first), Some(last)) = (word.first(), word.last()) else {
        return 0;
    };
    let inner = word.get(1..word.len() - 1).unwrap_or_default();
    let sum = inner.iter().fold(0_u64, |sum, byte| {
        sum.wrapping_add(WordHash::EMPTY.with(*byte).0)
    });
    WordHash(sum).with(*first).with(*last).0
}

impl Dictionary {
    fn words(&self, letters: Letters) -> &Words {
        match letters {
            Letters::Plain => &self.plain,
            Letters::Leet => &self.leet,
        }
    }

    /// The entry for a whole word.
    #[inline]
    pub(super) fn whole(&self, hash: WordHash, letters: Letters) -> Entry {
        let words = self.words(letters);
        if !words.may_hold(hash) {
            return 0;
        }
        words.whole.get(&hash.0).copied().unwrap_or(0)
    }

    /// The entry for the beginning of a word.
    #[inline]
    pub(super) fn beginning(&self, hash: WordHash, letters: Letters) -> Entry {
        let words = self.words(letters);
        if !words.may_hold(hash) {
            return 0;
        }
        words.beginnings.get(&hash.0).copied().unwrap_or(0)
    }

    /// Phrases that begin with a word: the hashes of their other words.
    #[inline]
    pub(super) fn phrases(&self, hash: WordHash, letters: Letters) -> &[(Vec<Further>, Entry)] {
        let words = self.words(letters);
        if !words.may_hold(hash) {
            return &[];
        }
        words.phrases.get(&hash.0).map_or(&[], Vec::as_slice)
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
        let hash = word.bytes().fold(WordHash::EMPTY, WordHash::with);
        self.whole(hash, Letters::Plain)
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
    /// Whether it is a word of this hash and beginning.
    pub(super) fn is(self, hash: WordHash, beginning: Entry) -> bool {
        match self {
            Self::Whole(whole) => whole == hash.0,
            Self::Beginning(entry) => entry == beginning,
        }
    }
}
