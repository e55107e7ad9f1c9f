//! The words of a piece of a view, with what dictionary and punctuation say of each.

use std::ops::Range;

use super::dictionary::{Dictionary, Entry, Letters, WordHash};
use super::profile::ToolNames;

/// Letters in a row from which a word is taken for several without spaces.
const JOINED: usize = 20;

/// Longest word inside such a run, in bytes.
const INSIDE: usize = 24;

/// Punctuation around a word.
pub(super) mod mark {
    /// At the start of a line, or behind `#`, `*`, `[`, `(`, `>`, `|`, a quote or an opening tag.
    pub const HEAD: u16 = 1;
    /// Followed by `:`, `=`, `>`, `]`, `*`, `!`, `#`, `-` or the end of the line.
    pub const TAIL: u16 = 2;
    /// Behind `<`, `</`, `[`, `[/`, `{{` or `<|`.
    pub const OPEN: u16 = 4;
    /// Followed by `>`, `]`, `}}` or `|>`.
    pub const CLOSE: u16 = 8;
    /// Joined with the word before by `_`.
    pub const UNDER: u16 = 16;
    /// At the start of a sentence.
    pub const START: u16 = 32;
    /// Followed by `:`.
    pub const COLON: u16 = 64;
    /// Behind `</` or `[/`.
    pub const SLASH: u16 = 128;
    /// Behind `<`, `</` or `<|`.
    pub const ANGLE: u16 = 256;
    /// Behind `<|`.
    pub const PIPE: u16 = 512;
    /// In capitals.
    pub const UPPER: u16 = 1024;
    /// Read as the word that it is only because letters were replaced or put in order.
    pub const ODD: u16 = 2048;
    /// Followed by a comma, a colon, a full stop, a mark of exclamation, a dash or the end of the line.
    pub const PAUSE: u16 = 4096;
}

/// One word, or a gap that stands for a border between fields.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Token {
    /// Bytes of the view.
    pub start: usize,
    pub end: usize,
    /// As a word, by its beginning, as something that is seen in the bytes (address, tool name).
    pub entries: [Entry; 3],
    /// Phrases that begin with it, and how many words follow.
    pub phrases: [(Entry, u8); 2],
    pub marks: u16,
}

/// Entries that no dictionary has, for what is seen in the bytes alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Special {
    /// A URL.
    pub url: Entry,
    /// A mail address.
    pub mail: Entry,
    /// A word with `_` inside, or a CamelCase one: how tools are named.
    pub name: Entry,
    /// Account numbers and amounts.
    pub number: Entry,
    /// Exact name of a tool of the session.
    pub tool: Entry,
}

/// Reads words.
pub(super) struct Tokenizer<'a> {
    pub dictionary: &'a Dictionary,
    pub special: Special,
    pub letters: Letters,
    /// Also words with their inner letters in another order.
    pub typos: bool,
    /// Names of the session's tools.
    pub tools: Option<&'a ToolNames>,
}

/// A piece of a word, as it is read.
#[derive(Clone, Copy)]
struct Word {
    hash: WordHash,
    beginning: Entry,
    letters: usize,
}

impl Tokenizer<'_> {
    /// The words of `view[range]`, appended to `tokens`.
    pub(super) fn read(&self, view: &[u8], range: &Range<usize>, tokens: &mut Vec<Token>) {
        let mut at = range.start;
        let mut before = range.start;
        let mut hashes: Vec<WordHash> = Vec::new();
        let first = tokens.len();
        while at < range.end {
            let Some(&byte) = view.get(at) else { break };
            let wide = if byte.is_ascii() {
                None
            } else {
                wide(view, at)
            };
            if !self.is_letter(view, at, byte, wide) {
                at += wide.map_or(1, |(length, _)| length);
                continue;
            }
            let gap = view.get(before..at).unwrap_or_default();
            let marks = if tokens.len() == first && at < 2 {
                marks_before(gap) | mark::HEAD | mark::START
            } else {
                marks_before(gap)
            };
            if is_border(gap) && tokens.len() > first {
                tokens.push(Token {
                    start: before,
                    end: before,
                    ..Token::default()
                });
                hashes.push(WordHash::EMPTY);
            }
            if wide.is_some_and(|(_, spaceless)| spaceless) {
                at = self.spaceless(view, at, range.end, marks, tokens, &mut hashes);
            } else {
                at = self.word(view, at, range.end, marks, tokens, &mut hashes);
            }
            before = at;
            let next = view.get(at..(at + 4).min(view.len())).unwrap_or_default();
            if let Some(last) = tokens.last_mut() {
                last.marks |= marks_after(next);
            }
        }
        self.phrases(tokens, &hashes, first);
    }

    #[inline]
    fn is_letter(&self, view: &[u8], at: usize, byte: u8, wide: Option<(usize, bool)>) -> bool {
        if byte.is_ascii_alphanumeric() || wide.is_some() {
            return wide.is_none_or(|_| !is_wide_punctuation(view, at));
        }
        let next = view
            .get(at + 1)
            .is_some_and(|next| next.is_ascii_alphanumeric() || matches!(next, b'@' | b'$'));
        let last = byte == b'$' && at > 0 && view.get(at - 1).is_some_and(u8::is_ascii_alphabetic);
        self.letters == Letters::Leet
            && matches!(byte, b'@' | b'$' | b'!' | b'|' | b'+')
            && (next || last)
    }

    /// One word from `at` on; where it ends.
    fn word(
        &self,
        view: &[u8],
        at: usize,
        limit: usize,
        marks: u16,
        tokens: &mut Vec<Token>,
        hashes: &mut Vec<WordHash>,
    ) -> usize {
        let mut word = Word {
            hash: WordHash::EMPTY,
            beginning: 0,
            letters: 0,
        };
        let mut end = at;
        let limit = limit.min(view.len());
        while end < limit {
            let Some(&byte) = view.get(end) else { break };
            if byte.is_ascii_alphanumeric() {
                word.hash = word.hash.with(self.letters.letter(byte));
                word.letters += 1;
                end += 1;
            } else if byte.is_ascii() {
                if byte == b'\'' && view.get(end + 1).is_some_and(u8::is_ascii_alphabetic) {
                    end += 1;
                    continue;
                }
                if self.is_letter(view, end, byte, None) {
                    word.hash = word.hash.with(self.letters.letter(byte));
                    word.letters += 1;
                    end += 1;
                    continue;
                }
                break;
            } else {
                let Some((length, spaceless)) = wide(view, end) else {
                    break;
                };
                if spaceless || is_wide_punctuation(view, end) {
                    break;
                }
                for byte in view.get(end..end + length).unwrap_or_default() {
                    word.hash = word.hash.with(*byte);
                }
                word.letters += 1;
                end += length;
            }
            if word.letters >= 3 || (word.letters >= 2 && !byte.is_ascii()) {
                let found = self.dictionary.beginning(word.hash, self.letters);
                if found != 0 {
                    word.beginning = found;
                }
            }
        }
        let end = end.max(at + 1);
        if word.letters >= JOINED {
            self.segment(view, at..end, marks, tokens, hashes);
            return end;
        }
        let whole = self.dictionary.whole(word.hash, self.letters);
        let mut entries = [whole, word.beginning, 0];
        let bytes = view.get(at..end).unwrap_or_default();
        let mut marks = marks;
        if bytes.len() >= 3 && bytes.iter().all(u8::is_ascii_uppercase) {
            marks |= mark::UPPER;
        }
        if self.typos && whole == 0 && word.beginning == 0 && bytes.len() >= 5 && bytes.is_ascii() {
            entries[0] = self.dictionary.misspelt(&bytes.to_ascii_lowercase());
            marks |= if entries[0] == 0 { 0 } else { mark::ODD };
        }
        if self.letters == Letters::Leet && bytes.iter().any(|byte| !byte.is_ascii_alphabetic()) {
            // A short number is one.
            if bytes.len() < 3 && bytes.iter().all(u8::is_ascii_digit) {
                entries = [0; 3];
            }
            marks |= mark::ODD;
        }
        let end = self.name(view, at, end, limit, &mut entries);
        tokens.push(Token {
            start: at,
            end,
            entries,
            marks,
            ..Token::default()
        });
        hashes.push(word.hash);
        end
    }

    /// What the bytes say of a word beyond the dictionary: URLs, addresses, names, numbers. Where the token ends.
    fn name(
        &self,
        view: &[u8],
        at: usize,
        end: usize,
        limit: usize,
        entries: &mut [Entry; 3],
    ) -> usize {
        let rest = view.get(end..limit).unwrap_or_default();
        let word = view.get(at..end).unwrap_or_default();
        if rest.starts_with(b"://") || (word.eq_ignore_ascii_case(b"www") && rest.starts_with(b"."))
        {
            entries[2] = self.special.url;
            let length = rest
                .iter()
                .position(|byte| {
                    byte.is_ascii_whitespace()
                        || matches!(byte, b'"' | b'\'' | b'<' | b'>' | b')' | b'`')
                })
                .unwrap_or(rest.len());
            // Words inside are read too: a long one holds sentences.
            return end + length.min(3);
        }
        if rest.first() == Some(&b'@') && rest.get(1).is_some_and(u8::is_ascii_alphanumeric) {
            entries[2] = self.special.mail;
            return end;
        }
        if let Some(tools) = self.tools
            && word.first().is_some_and(u8::is_ascii_alphabetic)
        {
            let tail = rest
                .iter()
                .position(|byte| {
                    !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
                })
                .unwrap_or(rest.len());
            let full = view.get(at..end + tail.min(64)).unwrap_or_default();
            let full = full.strip_suffix(b".").unwrap_or(full);
            if tools.has(full) {
                entries[2] = self.special.tool;
                return at + full.len();
            }
        }
        if rest.first() == Some(&b'_') && rest.get(1).is_some_and(u8::is_ascii_alphanumeric) {
            entries[2] = self.special.name;
            return end;
        }
        let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
        if digits >= 6
            || (digits > 0 && at > 0 && view.get(at - 1).is_some_and(|byte| *byte == b'$'))
        {
            entries[2] = self.special.number;
            return end;
        }
        let humps = word
            .windows(2)
            .filter(|pair| {
                pair.first().is_some_and(u8::is_ascii_lowercase)
                    && pair.get(1).is_some_and(u8::is_ascii_uppercase)
            })
            .count();
        if humps >= 1 && word.len() >= 6 {
            entries[2] = self.special.name;
        }
        end
    }

    /// Words of a run of letters without spaces: the longest that the dictionary has at each place.
    fn segment(
        &self,
        view: &[u8],
        range: Range<usize>,
        marks: u16,
        tokens: &mut Vec<Token>,
        hashes: &mut Vec<WordHash>,
    ) {
        let mut at = range.start;
        let mut unknown = at;
        let mut first = true;
        while at < range.end {
            let mut hash = WordHash::EMPTY;
            let mut best = (0, [0; 2], WordHash::EMPTY);
            for (index, byte) in view
                .get(at..range.end.min(at + INSIDE))
                .unwrap_or_default()
                .iter()
                .enumerate()
            {
                hash = hash.with(self.letters.letter(*byte));
                // A word may be an entry and the beginning of others too, each with classes of its own.
                let entries = [
                    self.dictionary.whole(hash, self.letters),
                    self.dictionary.beginning(hash, self.letters),
                ];
                let known = entries.iter().any(|entry| *entry != 0);
                let word = view.get(at..=at + index).unwrap_or_default();
                let starts_phrase =
                    !known && !self.dictionary.phrases(hash, self.letters).is_empty();
                if (known || starts_phrase) && Dictionary::stands_inside(word) {
                    best = (index + 1, entries, hash);
                }
            }
            let (length, [whole, beginning], hash) = best;
            if length == 0 {
                at += 1;
                continue;
            }
            if unknown < at {
                tokens.push(Token {
                    start: unknown,
                    end: at,
                    ..Token::default()
                });
                hashes.push(WordHash::EMPTY);
            }
            tokens.push(Token {
                start: at,
                end: at + length,
                entries: [whole, beginning, 0],
                marks: mark::ODD | if first { marks } else { 0 },
                ..Token::default()
            });
            hashes.push(hash);
            first = false;
            at += length;
            unknown = at;
        }
        if unknown < range.end {
            tokens.push(Token {
                start: unknown,
                end: range.end,
                ..Token::default()
            });
            hashes.push(WordHash::EMPTY);
        }
    }

    /// Words of a script without spaces: the longest that the dictionary has at each place, up to eight letters.
    fn spaceless(
        &self,
        view: &[u8],
        at: usize,
        limit: usize,
        marks: u16,
        tokens: &mut Vec<Token>,
        hashes: &mut Vec<WordHash>,
    ) -> usize {
        let mut hash = WordHash::EMPTY;
        let mut best = (0, 0, WordHash::EMPTY);
        let mut end = at;
        for _ in 0..8 {
            let Some((length, true)) = wide(view, end) else {
                break;
            };
            if end >= limit || is_wide_punctuation(view, end) {
                break;
            }
            for byte in view.get(end..end + length).unwrap_or_default() {
                hash = hash.with(*byte);
            }
            end += length;
            let entry = self.dictionary.whole(hash, self.letters);
            let starts_phrase =
                entry == 0 && !self.dictionary.phrases(hash, self.letters).is_empty();
            if entry != 0 || (starts_phrase && best.0 == 0) {
                best = (end, entry, hash);
            }
        }
        let first = at + wide(view, at).map_or(1, |(length, _)| length);
        let (end, entry, hash) = if best.0 == 0 { (first, 0, hash) } else { best };
        tokens.push(Token {
            start: at,
            end,
            entries: [entry, 0, 0],
            marks,
            ..Token::default()
        });
        hashes.push(hash);
        end
    }

    /// Notes phrases at their first words.
    fn phrases(&self, tokens: &mut [Token], hashes: &[WordHash], first: usize) {
        for index in 0..hashes.len() {
            let Some(hash) = hashes.get(index) else { break };
            for (rest, entry) in self.dictionary.phrases(*hash, self.letters) {
                let following = hashes
                    .get(index + 1..index + 1 + rest.len())
                    .unwrap_or_default();
                let words = tokens.get(first + index + 1..).unwrap_or_default();
                let same = following
                    .iter()
                    .zip(words)
                    .zip(rest)
                    .all(|((hash, word), further)| further.is(*hash, word.entries[1]));
                if following.len() < rest.len() || !same {
                    continue;
                }
                let words = u8::try_from(rest.len()).unwrap_or(u8::MAX);
                if let Some(token) = tokens.get_mut(first + index)
                    && let Some(free) = token.phrases.iter_mut().find(|phrase| phrase.0 == 0)
                {
                    *free = (*entry, words);
                }
            }
        }
    }
}

/// Length of the character at `at`, and whether its script has no spaces between words.
#[inline]
fn wide(view: &[u8], at: usize) -> Option<(usize, bool)> {
    let lead = *view.get(at)?;
    match lead {
        0xc2..=0xdf => Some((2, false)),
        0xe0..=0xef => {
            let second = view.get(at + 1).copied().unwrap_or(0);
            // Thai and Lao, kana, Han.
            let spaceless = matches!(lead, 0xe4..=0xe9)
                || (lead == 0xe0 && matches!(second, 0xb8..=0xbb))
                || (lead == 0xe3 && second >= 0x81);
            Some((3, spaceless))
        }
        0xf0..=0xf4 => Some((
            4,
            lead == 0xf0 && matches!(view.get(at + 1), Some(0xa0..=0xb0)),
        )),
        _ => None,
    }
}

/// Punctuation beyond ASCII: Latin-1 signs, general and CJK punctuation, symbols, emoji; characters of private use, and the one
/// that stands for bytes that are no text: no word has them.
#[inline]
fn is_wide_punctuation(view: &[u8], at: usize) -> bool {
    matches!(
        (view.get(at), view.get(at + 1)),
        (Some(0xc2 | 0xee | 0xf4), _)
            | (Some(0xe2), Some(0x80..=0xaf))
            | (Some(0xe3), Some(0x80))
            | (Some(0xc3), Some(0x97 | 0xb7))
            | (Some(0xef), Some(0x80..=0xa3 | 0xb8..=0xbc | 0xbf))
            | (Some(0xf3), Some(0xb0..))
            | (Some(0xf0), Some(0x9f))
    )
}

/// What the gap before a word says of it.
fn marks_before(gap: &[u8]) -> u16 {
    let mut marks = 0;
    let trimmed = gap
        .iter()
        .rposition(|byte| !matches!(byte, b' ' | b'\t'))
        .and_then(|last| gap.get(..=last))
        .unwrap_or_default();
    match trimmed.last() {
        Some(
            b'\n' | b'\r' | b'#' | b'*' | b'[' | b'(' | b'>' | b'|' | b'"' | b'\'' | b'=' | b'-'
            | b'{' | b'`' | b'~',
        ) => marks |= mark::HEAD | mark::START,
        Some(b'<') => marks |= mark::HEAD | mark::OPEN | mark::ANGLE,
        Some(b'/') => {
            if trimmed.ends_with(b"</") {
                marks |= mark::HEAD | mark::OPEN | mark::SLASH | mark::ANGLE;
            } else if trimmed.ends_with(b"[/") {
                marks |= mark::HEAD | mark::OPEN | mark::SLASH;
            }
        }
        // Behind ASCII: punctuation of other scripts.
        Some(b'.' | b'!' | b'?' | b';' | b':' | b',' | 0x80..) => marks |= mark::START,
        Some(_) | None => {}
    }
    match trimmed.last() {
        Some(b'[') => marks |= mark::OPEN,
        Some(b'|') if trimmed.iter().rev().take(4).any(|byte| *byte == b'<') => {
            marks |= mark::OPEN | mark::ANGLE | mark::PIPE;
        }
        Some(_) | None => {}
    }
    if trimmed.ends_with(b"{{") {
        marks |= mark::OPEN;
    }
    if matches!(trimmed.last(), Some(b'[' | b'(' | b'"')) {
        marks |= mark::START;
    }
    if gap == b"_" {
        marks |= mark::UNDER;
    }
    marks
}

/// What follows a word.
fn marks_after(next: &[u8]) -> u16 {
    let mut rest = next;
    while let Some((b' ' | b'\t' | b'"' | b'\'', after)) = rest.split_first() {
        rest = after;
    }
    match rest.first() {
        Some(b':') => mark::TAIL | mark::COLON | mark::PAUSE,
        Some(b'>' | b']') => mark::TAIL | mark::CLOSE,
        Some(b'}' | b'|') => mark::CLOSE,
        Some(b'!' | b'-' | b'\n' | b'\r') | None => mark::TAIL | mark::PAUSE,
        Some(b'=' | b'*' | b'#') => mark::TAIL,
        Some(b',' | b'.') => mark::PAUSE,
        Some(0xef) if rest.starts_with("\u{ff1a}".as_bytes()) => {
            mark::TAIL | mark::COLON | mark::PAUSE
        }
        Some(_) => 0,
    }
}

/// Whether a gap stands between two fields of a structure, or two paragraphs.
fn is_border(gap: &[u8]) -> bool {
    if gap.len() < 2 {
        return false;
    }
    let two_lines = gap.iter().filter(|byte| **byte == b'\n').nth(1).is_some();
    two_lines || (gap.contains(&b'"') && gap.iter().any(|byte| matches!(byte, b',' | b'}' | b']')))
}
