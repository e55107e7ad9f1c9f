//! Words by their bytes: a table by the first four bytes says of which lengths entries there are, so that most words of a text
//! cost one look, and a word that may be known one more for each such length.

use super::dictionary::Entry;

/// Longest word that is looked up, in bytes; of a longer one the beginning is.
pub(super) const WIDEST: usize = 31;

const CHUNKS: usize = 4;

/// Bits of the table by first bytes.
const SLOT_BITS: u32 = 14;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A word that rules speak of, or one of a phrase of theirs; 0 is none.
pub(super) type Word = u16;

/// Bytes of a word as they are looked up: letters of ASCII in lower case, zeros behind the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spelt {
    pub(super) chunks: [u64; CHUNKS],
    /// Bytes; more than fit in are only counted.
    pub(super) len: usize,
}

impl Spelt {
    pub(super) fn of(bytes: impl IntoIterator<Item = u8>) -> Self {
        let mut spelt = Self::default();
        for byte in bytes {
            spelt.push(byte);
        }
        spelt
    }

    /// At most three chunks of bytes that are spelt already.
    #[inline]
    pub(super) fn run(bytes: &[u8]) -> Self {
        let mut spelt = Self::default();
        for (chunk, bytes) in spelt.chunks.iter_mut().zip(bytes.chunks(8)) {
            *chunk = match bytes.first_chunk::<8>() {
                Some(bytes) => u64::from_le_bytes(*bytes),
                None => bytes
                    .iter()
                    .rev()
                    .fold(0, |chunk, byte| chunk << 8 | u64::from(*byte)),
            };
        }
        spelt.len = bytes.len();
        spelt
    }

    #[inline]
    pub(super) fn push(&mut self, byte: u8) {
        if let Some(chunk) = self.chunks.get_mut(self.len / 8) {
            *chunk |= u64::from(byte) << (self.len % 8 * 8);
        }
        self.len += 1;
    }

    /// The first four bytes.
    #[inline]
    fn first(&self) -> u64 {
        self.chunks.first().copied().unwrap_or(0) & 0xffff_ffff
    }

    /// The key of the first `length` bytes.
    #[inline]
    fn key(&self, length: usize) -> u64 {
        let mut key = (length as u64).wrapping_mul(FACTOR);
        let mut left = length;
        for chunk in self.chunks {
            if left == 0 {
                break;
            }
            let part = left.min(8);
            let masked = chunk & (u64::MAX >> (64 - 8 * part));
            key = (key.rotate_left(23) ^ masked).wrapping_mul(FACTOR);
            left -= part;
        }
        finish(key)
    }
}

/// Lengths of entries, as bits.
#[derive(Clone, Copy, Debug, Default)]
struct Lengths {
    whole: u32,
    beginnings: u32,
}

/// What is known of a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// The entry that it is.
    pub whole: Entry,
    /// The longest entry that it begins with.
    pub beginning: Entry,
    /// Itself.
    pub word: Word,
}

/// Every word of the rules in one way of reading letters.
#[derive(Debug)]
pub(super) struct Lexicon {
    slots: Vec<Lengths>,
    keys: Vec<u64>,
    known: Vec<Known>,
    words: Word,
    /// What was added, and whether as a beginning.
    added: Vec<(Spelt, bool)>,
}

impl Lexicon {
    /// With room for some `words`.
    pub(super) fn new(words: usize) -> Self {
        let room = (words * 4).next_power_of_two();
        Self {
            slots: vec![Lengths::default(); 1 << SLOT_BITS],
            keys: vec![0; room],
            known: vec![Known::default(); room],
            words: 0,
            added: Vec::new(),
        }
    }

    /// The same with only what `keep` leaves of each word.
    pub(super) fn filtered(&self, keep: impl Fn(Known) -> Known) -> Self {
        let mut lexicon = Self::new(self.added.len() / 4);
        for (spelt, begins) in &self.added {
            let kept = keep(self.at(spelt.key(spelt.len)));
            if *begins {
                if kept.beginning != 0 {
                    lexicon.add_beginning(spelt, kept.beginning);
                }
            } else if kept.whole != 0 || kept.word != 0 {
                lexicon.add(spelt, None);
                if let Some(known) = lexicon.place(spelt.key(spelt.len)) {
                    known.whole = kept.whole;
                    known.word = kept.word;
                }
            }
        }
        lexicon
    }

    /// Adds a word, and the entry that it is if it is one by itself.
    pub(super) fn add(&mut self, spelt: &Spelt, entry: Option<Entry>) -> Word {
        self.added.push((*spelt, false));
        let bit = 1_u32 << spelt.len.min(WIDEST);
        if let Some(slot) = self.slots.get_mut(slot(spelt.first())) {
            slot.whole |= bit;
        }
        let words = self.words + 1;
        let Some(known) = self.place(spelt.key(spelt.len)) else {
            return 0;
        };
        if let Some(entry) = entry {
            known.whole = entry;
        }
        if known.word != 0 {
            return known.word;
        }
        known.word = words;
        self.words = words;
        words
    }

    /// Adds the beginning of words.
    pub(super) fn add_beginning(&mut self, spelt: &Spelt, entry: Entry) {
        self.added.push((*spelt, true));
        let bit = 1_u32 << spelt.len.min(WIDEST);
        // Whatever follows, where the beginning does not fill a slot's key.
        let open = 4_usize.saturating_sub(spelt.len).min(1);
        for byte in 0..=(255 * open as u64) {
            let first = spelt.first() | byte << 24;
            if let Some(slot) = self.slots.get_mut(slot(first)) {
                slot.beginnings |= bit;
            }
        }
        if let Some(known) = self.place(spelt.key(spelt.len)) {
            known.beginning = entry;
        }
    }

    fn place(&mut self, key: u64) -> Option<&mut Known> {
        let mask = self.keys.len() - 1;
        let mut at = index(key) & mask;
        while self
            .keys
            .get(at)
            .is_some_and(|used| *used != 0 && *used != key)
        {
            at = (at + 1) & mask;
        }
        if let Some(free) = self.keys.get_mut(at) {
            *free = key;
        }
        self.known.get_mut(at)
    }

    #[inline]
    fn at(&self, key: u64) -> Known {
        let mask = self.keys.len() - 1;
        let mut at = index(key) & mask;
        while let Some(used) = self.keys.get(at) {
            if *used == key {
                return self.known.get(at).copied().unwrap_or_default();
            }
            if *used == 0 {
                break;
            }
            at = (at + 1) & mask;
        }
        Known::default()
    }

    /// What is known of a word of less than eight bytes.
    #[inline]
    pub(super) fn short(&self, bytes: u64, length: usize) -> Option<Known> {
        let lengths = self.lengths(bytes & 0xffff_ffff);
        let whole = lengths.whole >> length & 1 == 1;
        let mut beginnings = lengths.beginnings & (u32::MAX >> (31 - length));
        if !whole && beginnings == 0 {
            return None;
        }
        let mut known = Known::default();
        if whole {
            let found = self.at(short_key(bytes, length));
            known.whole = found.whole;
            known.word = found.word;
        }
        while beginnings != 0 {
            let part = beginnings.ilog2();
            beginnings ^= 1 << part;
            let bytes = bytes & (u64::MAX >> (64 - 8 * part));
            known.beginning = self.at(short_key(bytes, part as usize)).beginning;
            if known.beginning != 0 {
                break;
            }
        }
        Some(known)
    }

    /// What is known of a word.
    #[inline]
    pub(super) fn read(&self, spelt: &Spelt) -> Known {
        let lengths = self.lengths(spelt.first());
        let up_to = u32::MAX >> (31 - spelt.len.min(WIDEST));
        let mut known = Known::default();
        if spelt.len <= WIDEST && lengths.whole >> spelt.len & 1 == 1 {
            let found = self.at(spelt.key(spelt.len));
            known.whole = found.whole;
            known.word = found.word;
        }
        let mut beginnings = lengths.beginnings & up_to;
        while beginnings != 0 {
            let length = beginnings.ilog2();
            beginnings ^= 1 << length;
            let found = self.at(spelt.key(length as usize)).beginning;
            if found != 0 {
                known.beginning = found;
                break;
            }
        }
        known
    }

    /// Lengths from the longest to the shortest, at most `spelt.len`, of which there are entries that `spelt` may begin with,
    /// each with what is known of it.
    pub(super) fn prefixes<'a>(
        &'a self,
        spelt: &'a Spelt,
    ) -> impl Iterator<Item = (usize, Known)> + 'a {
        // Entries shorter than a slot's key have slots of their own.
        let first = spelt.first();
        let mut lengths = 0;
        for short in 1..=4_u32 {
            let of = self.lengths(first & (u64::MAX >> (64 - 8 * short)));
            let own = if short < 4 {
                1 << short
            } else {
                !0b1111 | 1 << 4
            };
            lengths |= (of.whole | of.beginnings) & own;
        }
        lengths |= self.lengths(first).beginnings;
        lengths &= u32::MAX >> (31 - spelt.len.min(WIDEST));
        std::iter::from_fn(move || {
            if lengths == 0 {
                return None;
            }
            let length = lengths.ilog2();
            lengths ^= 1 << length;
            Some((length as usize, self.at(spelt.key(length as usize))))
        })
    }

    /// Whether a run may begin with an entry of three bytes or more.
    #[inline]
    pub(super) fn may_begin(&self, spelt: &Spelt) -> bool {
        let first = spelt.first();
        let (four, three) = (self.lengths(first), self.lengths(first & 0xff_ffff));
        (four.whole | four.beginnings) >> 3 != 0 || (three.whole | three.beginnings) >> 3 & 1 != 0
    }

    #[inline]
    fn lengths(&self, first: u64) -> Lengths {
        self.slots.get(slot(first)).copied().unwrap_or_default()
    }
}

/// The key of at most eight bytes.
#[inline]
const fn short_key(bytes: u64, length: usize) -> u64 {
    let key = (length as u64).wrapping_mul(FACTOR).rotate_left(23) ^ bytes;
    let key = key.wrapping_mul(FACTOR);
    finish(key)
}

/// Never 0, which stands for nothing.
#[inline]
const fn finish(key: u64) -> u64 {
    (key ^ (key >> 32)) | 1
}

#[inline]
fn slot(first: u64) -> usize {
    (first.wrapping_mul(FACTOR) >> (64 - SLOT_BITS)) as usize
}

#[inline]
fn index(key: u64) -> usize {
    (key >> 20) as usize
}
