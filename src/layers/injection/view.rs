//! The text as rules read it: compatibility forms, escapes and accents undone, invisible characters gone, letters that look like
//! others in mixed words replaced, with a way back to the bytes of the original.
//!
//! Letters of ASCII keep their case: whoever reads the view folds them, so that plain text is not even copied.

#![expect(
    clippy::needless_bitwise_bool,
    reason = "tests without branches take many bytes at a time"
)]

use std::borrow::Cow;
use std::ops::Range;

use super::folding::{alike, fold, is_alike_script, is_latin, is_mark, tag};
use super::letters::run_without;
use crate::unicode;

/// A normalised copy, or the text itself.
#[derive(Debug, Clone)]
pub(super) struct View<'t> {
    bytes: Cow<'t, [u8]>,
    /// Where the offsets of view and original part: from `.0` in the view on, the original goes on at `.1`. Sorted.
    marks: Vec<(usize, usize)>,
    original: usize,
}

impl<'t> View<'t> {
    /// Normalises `text`.
    pub(super) fn new(text: &'t str) -> Self {
        if is_plain(text.as_bytes()) {
            return Self {
                bytes: Cow::Borrowed(text.as_bytes()),
                marks: Vec::new(),
                original: text.len(),
            };
        }
        let mut reader = Reader {
            out: Builder::new(text.len()),
            text,
            word: (0, false),
            latin: None,
        };
        reader.read();
        reader.out.finish(text.len())
    }

    /// The bytes to match.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// This view as one of itself.
    pub(super) fn whole(&self) -> View<'_> {
        View {
            bytes: Cow::Borrowed(&self.bytes),
            marks: Vec::new(),
            original: self.bytes.len(),
        }
    }

    /// The original bytes that gave this piece of the view; not yet on character boundaries.
    pub(super) fn original(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.offset(range.start);
        let end = match range.end.checked_sub(1) {
            // Behind the last byte's own origin, not where the next one begins.
            Some(last) if range.end > range.start => {
                (self.offset(last) + 1).max(self.offset_before(range.end))
            }
            _ => start,
        };
        start..end.max(start)
    }

    fn offset(&self, at: usize) -> usize {
        let next = self.marks.partition_point(|(view, _)| *view <= at);
        let (view, original) = next
            .checked_sub(1)
            .and_then(|mark| self.marks.get(mark))
            .copied()
            .unwrap_or((0, 0));
        let end = self
            .marks
            .get(next)
            .map_or(self.original, |(_, original)| *original);
        (original + (at - view)).min(end.max(original))
    }

    /// Where the original of the piece that ends at `at` ends: what was left out behind it belongs to it.
    fn offset_before(&self, at: usize) -> usize {
        if at >= self.bytes.len() {
            self.original
        } else {
            self.offset(at)
        }
    }
}

/// Builds a view piece by piece.
#[derive(Debug)]
pub(super) struct Builder {
    bytes: Vec<u8>,
    marks: Vec<(usize, usize)>,
    /// Original minus view offset, as of the last mark.
    shift: usize,
}

impl Builder {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(capacity),
            marks: Vec::new(),
            shift: 0,
        }
    }

    /// The next byte of the view comes from `original`.
    #[inline]
    pub(super) fn mark(&mut self, original: usize) {
        let at = self.bytes.len();
        if original.wrapping_sub(at) != self.shift {
            self.shift = original.wrapping_sub(at);
            self.marks.push((at, original));
        }
    }

    /// A run that stays as it is.
    pub(super) fn copy(&mut self, original: usize, run: &[u8]) {
        if !run.is_empty() {
            self.mark(original);
            self.bytes.extend_from_slice(run);
        }
    }

    /// A byte that comes from `original`.
    #[inline]
    pub(super) fn push(&mut self, original: usize, byte: u8) {
        self.mark(original);
        self.bytes.push(byte);
    }

    /// A character that comes from one of so many bytes at `original`.
    #[inline]
    pub(super) fn push_char(&mut self, original: usize, c: char, length: usize) {
        let mut buffer = [0; 4];
        let bytes = c.encode_utf8(&mut buffer).as_bytes();
        if bytes.len() == length {
            self.mark(original);
            self.bytes.extend_from_slice(bytes);
            return;
        }
        for byte in bytes {
            // All of it from one place.
            self.mark(original);
            self.bytes.push(*byte);
        }
    }

    pub(super) fn finish<'t>(mut self, original: usize) -> View<'t> {
        self.mark(original);
        View {
            bytes: Cow::Owned(self.bytes),
            marks: self.marks,
            original,
        }
    }
}

/// Whether nothing of it would change.
fn is_plain(bytes: &[u8]) -> bool {
    bytes.chunks(64).all(|chunk| {
        chunk.iter().fold(true, |plain, byte| {
            plain
                & (byte.is_ascii()
                    & (*byte != b'\\')
                    & (*byte != b'&')
                    & ((*byte >= b' ') | (*byte == b'\n') | (*byte == b'\t') | (*byte == b'\r')))
        })
    })
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Longest character reference, in bytes.
const ENTITY: usize = 12;

/// Furthest that a word is followed to see of which scripts it is, in bytes.
const WORD: usize = 96;

/// What a reference stands for: numbers, and the names that stand for ASCII or for nothing that is seen.
fn referred(name: &str) -> Option<char> {
    let code = match name.strip_prefix('#') {
        Some(number) => match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        },
        None => {
            return Some(match name {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                "nbsp" => ' ',
                "shy" => '\u{ad}',
                "zwnj" => '\u{200c}',
                "zwj" => '\u{200d}',
                "colon" => ':',
                "comma" => ',',
                "period" => '.',
                "excl" => '!',
                "lowbar" => '_',
                "sol" => '/',
                "Tab" => '\t',
                "NewLine" => '\n',
                _ => return None,
            });
        }
    };
    char::from_u32(code)
}

struct Reader<'t> {
    out: Builder,
    text: &'t str,
    /// Up to where the scripts of the present word are known, and whether it mixes Latin with others.
    word: (usize, bool),
    /// Whether most letters of the text are of ASCII.
    latin: Option<bool>,
}

impl Reader<'_> {
    fn read(&mut self) {
        let mut at = 0;
        while let Some(rest) = self.text.get(at..).filter(|rest| !rest.is_empty()) {
            if !rest.starts_with(|c: char| c.is_ascii())
                && let Some(c) = rest.chars().next()
            {
                self.character(at, c);
                at += c.len_utf8();
                continue;
            }
            let run = run_without(rest.as_bytes(), b'\\', b'&');
            if run > 0 {
                self.out
                    .copy(at, rest.as_bytes().get(..run).unwrap_or_default());
                at += run;
                continue;
            }
            at += if rest.starts_with('\\') {
                self.escape(at, rest)
            } else if rest.starts_with('&') {
                self.entity(at, rest)
            } else {
                let Some(c) = rest.chars().next() else { break };
                self.character(at, c);
                c.len_utf8()
            };
        }
    }

    /// Escapes of JSON, YAML and program text; any number of backslashes, since text is often escaped twice. Returns the
    /// bytes read.
    fn escape(&mut self, at: usize, rest: &str) -> usize {
        let after = rest.trim_start_matches('\\');
        let slashes = rest.len() - after.len();
        let Some(c) = after.chars().next() else {
            return slashes;
        };
        match c {
            'n' | 'r' | 't' | 'f' | 'v' => {
                self.out.push(at, if c == 'n' { b'\n' } else { b' ' });
                slashes + 1
            }
            // A line folded in YAML: the break and the indent are not part of the text.
            '\n' => slashes + after.len() - after.trim_start_matches(['\n', ' ']).len(),
            'u' | 'x' | 'U' => {
                let (from, to) = match after.as_bytes().get(1) {
                    Some(b'{') => (2, after.find('}').filter(|end| *end <= 9).unwrap_or(0)),
                    _ => (
                        1,
                        match c {
                            'u' => 5,
                            'U' => 9,
                            _ => 3,
                        },
                    ),
                };
                let decoded = after
                    .get(from..to)
                    .and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let Some(code) = decoded else { return slashes };
                let read = slashes + to + usize::from(from == 2);
                // Half of a surrogate pair: the other half follows.
                if let (0xd800..0xdc00, Some(low)) =
                    (code, low_surrogate(rest.get(read..).unwrap_or_default()))
                {
                    let full = 0x1_0000 + ((code - 0xd800) << 10) + (low.0 - 0xdc00);
                    if let Some(c) = char::from_u32(full) {
                        self.character(at, c);
                    }
                    return read + low.1;
                }
                self.character(at, char::from_u32(code).unwrap_or(' '));
                read
            }
            _ => {
                self.character(at, c);
                slashes + c.len_utf8()
            }
        }
    }

    /// A character reference of HTML, or the ampersand alone. Returns the bytes read.
    fn entity(&mut self, at: usize, rest: &str) -> usize {
        let near = rest
            .get(..rest.floor_char_boundary(ENTITY))
            .unwrap_or_default();
        let found = near
            .split_once(';')
            .and_then(|(name, _)| Some((name.len() + 1, referred(name.strip_prefix('&')?)?)));
        let (length, c) = found.unwrap_or((1, '&'));
        // `&amp;#105;` is read twice by whoever decodes twice.
        let again = rest.get(length..).unwrap_or_default();
        if c == '&' && length > 1 && again.starts_with('#') {
            let again = again
                .get(..again.floor_char_boundary(ENTITY))
                .unwrap_or_default();
            if let Some((name, _)) = again.split_once(';')
                && let Some(c) = referred(name)
            {
                self.character(at, c);
                return length + name.len() + 1;
            }
        }
        self.character(at, c);
        length
    }

    /// One character as it is read.
    fn character(&mut self, at: usize, c: char) {
        if c.is_ascii() {
            if c >= ' ' || is_space(c as u8) {
                self.out.push(at, c as u8);
            } else if c == '\u{c}' || c == '\u{b}' {
                self.out.push(at, b' ');
            }
            return;
        }
        if is_as_written(c) {
            self.out.push_char(at, c, c.len_utf8());
            return;
        }
        if !is_cyrillic(c) && self.is_no_letter(at, c) {
            return;
        }
        if is_alike_script(c)
            && self.is_mixed(at, c)
            && let Some(letter) = alike(c)
        {
            self.out.push(at, letter);
            return;
        }
        let out = &mut self.out;
        fold(c, &mut |folded| out.push_char(at, folded, c.len_utf8()));
    }

    /// Reads a character that is seen by nobody, or that parts words; whether it is one.
    fn is_no_letter(&mut self, at: usize, c: char) -> bool {
        if let Some(ascii) = tag(c) {
            self.out.push(at, ascii);
            return true;
        }
        if unicode::is_ignorable(c) || unicode::is_annotation(c) || is_mark(c) {
            return true;
        }
        if unicode::is_blank(c) {
            self.out.push(at, b' ');
            return true;
        }
        if unicode::is_separator(c) {
            self.out.push(at, b'\n');
            return true;
        }
        c.is_control()
    }

    /// Whether the word around `at` mixes these letters with Latin ones, or consists of look-alikes in a text of Latin letters.
    fn is_mixed(&mut self, at: usize, c: char) -> bool {
        if at < self.word.0 {
            return self.word.1;
        }
        if !self.is_latin_text() && !near_latin(self.text.as_bytes(), at) {
            // What is true of one letter of a word is true of the others, where its end is near.
            let ahead = self.text.as_bytes().get(at..).unwrap_or_default();
            let length = ahead
                .iter()
                .take(WORD)
                .take_while(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())
                .count();
            let known = if length < WORD { length } else { 0 };
            self.word = (at + known.max(c.len_utf8()), false);
            return false;
        }
        let from = self.text.floor_char_boundary(at.saturating_sub(WORD));
        let to = self
            .text
            .floor_char_boundary((at + WORD).min(self.text.len()));
        let before = self.text.get(from..at).unwrap_or_default().chars().rev();
        let in_word = |c: &char| {
            c.is_alphabetic() || c.is_ascii_digit() || is_mark(*c) || unicode::is_ignorable(*c)
        };
        let after = self.text.get(at..to).unwrap_or_default();
        let length = after
            .char_indices()
            .find(|(_, c)| !in_word(c))
            .map_or(after.len(), |(end, _)| end);
        let word = before
            .take_while(in_word)
            .chain(after.get(..length).unwrap_or_default().chars());
        let (mut latin, mut alikes, mut others) = (0, 0, 0);
        for c in word {
            if is_latin(c) {
                latin += 1;
            } else if alike(c).is_some() {
                alikes += 1;
            } else if c.is_alphabetic() {
                others += 1;
            }
        }
        let mixed = latin > 0 && alikes + others > 0
            || latin == 0 && alikes > 0 && others == 0 && self.is_latin_text();
        self.word = (at + length.max(c.len_utf8()), mixed);
        mixed
    }

    fn is_latin_text(&mut self) -> bool {
        let text = self.text;
        *self.latin.get_or_insert_with(|| {
            let ascii = text.bytes().filter(u8::is_ascii_alphabetic).count();
            let mut others = text.chars().filter(|c| !c.is_ascii() && c.is_alphabetic());
            // Fewer than half as many.
            others.nth(ascii.div_ceil(2).saturating_sub(1)).is_none() && ascii > 0
        })
    }
}

/// Whether a letter of ASCII, or one of Latin with an accent, stands in the word around `at`.
fn near_latin(bytes: &[u8], at: usize) -> bool {
    let latin = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, 0xc3..=0xc9);
    let word = |byte: &&u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
    let before = bytes
        .get(at.saturating_sub(WORD)..at)
        .unwrap_or_default()
        .iter()
        .rev()
        .take_while(word);
    let after = bytes
        .get(at..(at + WORD).min(bytes.len()))
        .unwrap_or_default()
        .iter()
        .take_while(word);
    before.chain(after).any(latin)
}

fn low_surrogate(rest: &str) -> Option<(u32, usize)> {
    let after = rest.trim_start_matches('\\');
    let slashes = rest.len() - after.len();
    let digits = after.strip_prefix('u').filter(|_| slashes > 0)?.get(..4)?;
    let code = u32::from_str_radix(digits, 16).ok()?;
    (0xdc00..0xe000)
        .contains(&code)
        .then_some((code, slashes + 5))
}

/// Letters that are read as they stand: Han, kana, Hangul.
const fn is_as_written(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

/// Cyrillic letters, without the marks among them.
const fn is_cyrillic(c: char) -> bool {
    matches!(c, '\u{400}'..='\u{481}' | '\u{48a}'..='\u{52f}')
}
