//! Letters of ASCII eight at a time, in plain arithmetic: where words begin and end costs no branch per byte.

use super::lexicon::Spelt;

/// The highest bit of each byte.
pub(super) const HIGH: u64 = 0x8080_8080_8080_8080;
const ONES: u64 = 0x0101_0101_0101_0101;

/// Eight bytes of a view, and what they are: the highest bit of a byte tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eight {
    raw: u64,
    /// Letters and digits of ASCII, and all that is not ASCII.
    pub(super) letters: u64,
    /// What is not ASCII.
    pub(super) wide: u64,
    alphabetic: u64,
}

impl Eight {
    /// The bytes from `at` on, with zeros behind the end.
    #[inline]
    pub(super) fn at(view: &[u8], at: usize) -> Self {
        let raw = match view.get(at..).and_then(<[u8]>::first_chunk::<8>) {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => rest(view, at),
        };
        let wide = raw & HIGH;
        let low = raw & !HIGH;
        let from = |value: u64, least: u64| (value + (0x80 - least) * ONES) & HIGH;
        let lower = low | (0x20 * ONES);
        let alphabetic = from(lower, 0x61) & !from(lower, 0x7b) & !wide;
        let digits = from(low, 0x30) & !from(low, 0x3a);
        Self {
            raw,
            letters: alphabetic | digits | wide,
            wide,
            alphabetic,
        }
    }

    /// The bytes with letters in lower case.
    #[inline]
    pub(super) const fn folded(self) -> u64 {
        self.raw | self.alphabetic >> 2
    }

    /// The bytes that are capitals.
    #[inline]
    const fn capitals(self) -> u64 {
        self.alphabetic & !(self.raw << 2)
    }

    /// How many letters stand at the start.
    #[inline]
    pub(super) const fn run(self) -> usize {
        let ends = !self.letters & HIGH;
        (ends.trailing_zeros() / 8) as usize
    }

    /// The first letter behind so many bytes, less than eight; 8 where there is none.
    #[inline]
    pub(super) const fn next(self, behind: usize) -> usize {
        let left = self.letters & (u64::MAX << (8 * behind));
        (left.trailing_zeros() / 8) as usize
    }

    /// The byte behind so many, of less than eight.
    #[inline]
    pub(super) fn byte(self, behind: usize) -> u8 {
        let [byte, ..] = (self.raw >> (8 * behind)).to_le_bytes();
        byte
    }

    /// The digits.
    #[inline]
    const fn digits(self) -> u64 {
        self.letters & !self.alphabetic & !self.wide
    }
}

/// The highest bit of each byte of `value`, all below 0x80, that is `byte`.
#[inline]
const fn is(value: u64, byte: u64) -> u64 {
    ((value ^ (byte * ONES)) + 0x7f * ONES) & HIGH ^ HIGH
}

/// How many bytes at the start are printable ASCII, tabs or line ends, and none of the two.
#[inline]
pub(super) fn run_without(bytes: &[u8], one: u8, other: u8) -> usize {
    let mut run = 0;
    for chunk in bytes.chunks(8) {
        let raw = match chunk.first_chunk::<8>() {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => chunk
                .iter()
                .rev()
                .fold(0, |raw, byte| raw << 8 | u64::from(*byte)),
        };
        let low = raw & !HIGH;
        let control = !(low + (0x80 - 0x20) * ONES) & HIGH;
        let space = is(low, 0x09) | is(low, 0x0a) | is(low, 0x0d);
        let asked = is(low, u64::from(one)) | is(low, u64::from(other));
        let odd = raw & HIGH | control & !space | asked;
        if odd != 0 {
            return (run + (odd.trailing_zeros() / 8) as usize).min(bytes.len());
        }
        run += chunk.len();
    }
    run
}

#[cold]
fn rest(view: &[u8], at: usize) -> u64 {
    let rest = view.get(at..).unwrap_or_default();
    rest.iter()
        .take(8)
        .rev()
        .fold(0, |raw, byte| raw << 8 | u64::from(*byte))
}

/// A word of letters and digits of ASCII, shorter than what is taken for several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plain {
    pub(super) spelt: Spelt,
    pub(super) digits: u32,
    pub(super) capitals: u32,
    /// Whether a capital stands behind the first letter.
    pub(super) humps: bool,
}

/// Chunks of the longest plain word.
const LONGEST: usize = 3;

impl Plain {
    /// The word at `at`, whose first bytes are `eight`; `None` where it is long, has other letters than those of ASCII, or may
    /// go on behind an apostrophe.
    #[inline]
    pub(super) fn at(view: &[u8], at: usize, eight: Eight) -> Option<Self> {
        let mut plain = Self::default();
        let mut eight = eight;
        for index in 0..LONGEST {
            let ends = !eight.letters & HIGH;
            let length = (ends.trailing_zeros() / 8) as usize;
            let within = if ends == 0 {
                u64::MAX
            } else {
                (1 << (8 * length)) - 1
            };
            if eight.wide & within != 0 {
                return None;
            }
            if let Some(chunk) = plain.spelt.chunks.get_mut(index) {
                *chunk = eight.folded() & within;
            }
            let capitals = eight.capitals() & within;
            plain.humps |= capitals & !(0xff * u64::from(index == 0)) != 0;
            plain.capitals += capitals.count_ones();
            plain.digits += (eight.digits() & within).count_ones();
            plain.spelt.len += length;
            if ends != 0 {
                return (eight.byte(length) != b'\'').then_some(plain);
            }
            eight = Eight::at(view, at + 8 * (index + 1));
        }
        None
    }
}
