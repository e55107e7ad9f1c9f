//! The words of a piece of a view, with what dictionary and punctuation say of each.

use std::ops::Range;

use super::dictionary::{Dictionary, Entry, Letters};
use super::letters::{Eight, Plain};
use super::lexicon::Word;
use super::marks::{is_border, is_wide_punctuation, mark, marks_after, marks_before, wide};
use super::profile::ToolNames;

/// Letters in a row from which a word is taken for several without spaces.
pub(super) const JOINED: usize = 20;

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

/// A host name is read with its first dot.
const WWW: u64 = u64::from_le_bytes(*b"www\0\0\0\0\0");

/// Words that were read, and room for more: one is used for many texts.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub tokens: Vec<Token>,
    /// Which word of the dictionary each is.
    pub words: Vec<Word>,
}

impl Read {
    #[inline]
    pub(super) fn push(&mut self, token: Token, word: Word) {
        self.tokens.push(token);
        self.words.push(word);
    }

    pub(super) fn clear(&mut self) {
        self.tokens.clear();
        self.words.clear();
    }
}

impl Token {
    /// One that stands for what is no word of the rules.
    pub(super) fn gap(range: Range<usize>) -> Self {
        Self {
            start: range.start,
            end: range.end,
            ..Self::default()
        }
    }
}

fn is_part(view: &[u8], at: usize) -> bool {
    view.get(at)
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())
}

/// A word, spelt, and what its bytes are.
struct Written {
    plain: Plain,
    /// Bytes of the view.
    end: usize,
    letters: usize,
    ascii: bool,
}

impl Tokenizer<'_> {
    /// The words of `view[range]`, in place of those that were read before.
    pub(super) fn read(&self, view: &[u8], range: &Range<usize>, read: &mut Read) {
        read.clear();
        let mut at = range.start;
        let mut before = range.start;
        while at < range.end {
            if let Some(length) = self.no_letter(view, at) {
                at += length;
                continue;
            }
            let gap = view.get(before..at).unwrap_or_default();
            let mut marks = marks_before(gap);
            if read.tokens.is_empty() {
                if at < 2 {
                    marks |= mark::HEAD | mark::START;
                }
            } else if is_border(gap) {
                read.push(Token::gap(before..before), 0);
            }
            // A range that begins inside a run holds the rest of it.
            let inside = at == range.start && at > 0 && is_part(view, at - 1);
            at = if inside && !wide(view, at).is_some_and(|(_, spaceless)| spaceless) {
                let end = self.spell(view, at, range.end.min(view.len())).end;
                self.segment(view, at..end, marks, read);
                end
            } else {
                self.one(view, at, range.end, marks, read)
            };
            before = at;
            let next = view.get(at..(at + 4).min(view.len())).unwrap_or_default();
            if let Some(last) = read.tokens.last_mut() {
                last.marks |= marks_after(next);
            }
        }
        self.phrases(read);
    }

    /// The word at `at`, or several of a run without spaces; where it ends.
    pub(super) fn one(
        &self,
        view: &[u8],
        at: usize,
        limit: usize,
        marks: u16,
        read: &mut Read,
    ) -> usize {
        match wide(view, at) {
            Some((_, true)) => self.spaceless(view, at, limit, marks, read),
            _ => self.word(view, at, limit, marks, read),
        }
    }

    /// Whether a word with these first bytes may be read with what stands behind it.
    #[inline]
    pub(super) fn may_be_special(&self, first: u64) -> bool {
        first == WWW
            || self
                .tools
                .is_some_and(|tools| tools.may_begin((first & 0xff) as u8))
    }

    /// Whether a plain word is read with what stands behind it: the rest of a host name or the name of a tool.
    #[inline]
    pub(super) fn is_special(&self, view: &[u8], at: usize, plain: &Plain) -> bool {
        let [first, ..] = plain.spelt.chunks;
        if !self.may_be_special(first) {
            return false;
        }
        first == WWW || self.tools.is_some_and(|tools| tools.stands_at(view, at))
    }

    /// Length of what stands at `at`, if it is no part of a word.
    #[inline]
    pub(super) fn no_letter(&self, view: &[u8], at: usize) -> Option<usize> {
        let byte = *view.get(at)?;
        if byte.is_ascii() {
            return (!self.is_letter(view, at, byte)).then_some(1);
        }
        match wide(view, at) {
            None => Some(1),
            Some((length, _)) => is_wide_punctuation(view, at).then_some(length),
        }
    }

    /// Whether a byte of ASCII is part of a word.
    #[inline]
    fn is_letter(&self, view: &[u8], at: usize, byte: u8) -> bool {
        if byte.is_ascii_alphanumeric() {
            return true;
        }
        if self.letters == Letters::Plain || !matches!(byte, b'@' | b'$' | b'!' | b'|' | b'+') {
            return false;
        }
        let next = view
            .get(at + 1)
            .is_some_and(|next| next.is_ascii_alphanumeric() || matches!(next, b'@' | b'$'));
        let last = byte == b'$' && at > 0 && view.get(at - 1).is_some_and(u8::is_ascii_alphabetic);
        next || last
    }

    /// One word from `at` on; where it ends.
    fn word(&self, view: &[u8], at: usize, limit: usize, marks: u16, read: &mut Read) -> usize {
        let limit = limit.min(view.len());
        let plain = (self.letters == Letters::Plain)
            .then(|| Plain::at(view, at, Eight::at(view, at)))
            .flatten()
            .filter(|plain| plain.spelt.len < JOINED && at + plain.spelt.len <= limit);
        let written = match plain {
            Some(plain) => Written {
                end: at + plain.spelt.len,
                letters: plain.spelt.len,
                ascii: true,
                plain,
            },
            None => self.spell(view, at, limit),
        };
        let end = written.end;
        // A range that ends inside a run cuts it.
        let cut = end == limit && is_part(view, end);
        if written.letters >= JOINED || cut {
            self.segment(view, at..end, marks, read);
            return end;
        }
        let known = self
            .dictionary
            .words(self.letters)
            .read(&written.plain.spelt);
        let mut entries = [known.whole, known.beginning, 0];
        let bytes = view.get(at..end).unwrap_or_default();
        let mut marks = marks;
        if bytes.len() >= 3 && written.plain.capitals as usize == bytes.len() {
            marks |= mark::UPPER;
        }
        if self.typos && entries == [0; 3] && bytes.len() >= 5 && written.ascii {
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
        let end = self.name(view, at..end, limit, &written.plain, &mut entries);
        let token = Token {
            start: at,
            end,
            entries,
            marks,
            ..Token::default()
        };
        read.push(token, known.word);
        end
    }

    /// A word of any letters, byte by byte.
    fn spell(&self, view: &[u8], at: usize, limit: usize) -> Written {
        let mut plain = Plain::default();
        let mut letters = 0;
        let mut ascii = true;
        let mut end = at;
        while end < limit {
            let Some(&byte) = view.get(end) else { break };
            if byte.is_ascii() {
                if byte == b'\'' && view.get(end + 1).is_some_and(u8::is_ascii_alphabetic) {
                    end += 1;
                    continue;
                }
                if !self.is_letter(view, end, byte) {
                    break;
                }
                plain.spelt.push(self.letters.letter(byte));
                plain.digits += u32::from(byte.is_ascii_digit());
                plain.capitals += u32::from(byte.is_ascii_uppercase());
                plain.humps |= byte.is_ascii_uppercase() && end > at;
                letters += 1;
                end += 1;
                continue;
            }
            let Some((length, false)) = wide(view, end) else {
                break;
            };
            if is_wide_punctuation(view, end) {
                break;
            }
            ascii = false;
            for byte in view.get(end..end + length).unwrap_or_default() {
                plain.spelt.push(*byte);
            }
            letters += 1;
            end += length;
        }
        Written {
            plain,
            end: end.max(at + 1),
            letters,
            ascii,
        }
    }

    /// What the bytes say of a word beyond the dictionary: URLs, addresses, names, numbers. Where the token ends.
    fn name(
        &self,
        view: &[u8],
        range: Range<usize>,
        limit: usize,
        plain: &Plain,
        entries: &mut [Entry; 3],
    ) -> usize {
        let (at, end) = (range.start, range.end);
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
        if plain.digits >= 6
            || (plain.digits > 0 && at > 0 && view.get(at - 1).is_some_and(|byte| *byte == b'$'))
        {
            entries[2] = self.special.number;
            return end;
        }
        if plain.humps
            && word.len() >= 6
            && word.windows(2).any(
                |pair| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()),
            )
        {
            entries[2] = self.special.name;
        }
        end
    }

    /// Notes phrases at their first words.
    fn phrases(&self, read: &mut Read) {
        let known = self.dictionary.words(self.letters);
        for (index, word) in read.words.iter().enumerate() {
            for phrase in known.phrases(*word) {
                let words = read
                    .words
                    .get(index + 1..index + 1 + phrase.rest.len())
                    .unwrap_or_default();
                let tokens = read.tokens.get(index + 1..).unwrap_or_default();
                let same = words
                    .iter()
                    .zip(tokens)
                    .zip(&phrase.rest)
                    .all(|((word, token), further)| further.is(*word, token.entries[1]));
                if words.len() < phrase.rest.len() || !same {
                    continue;
                }
                let further = u8::try_from(phrase.rest.len()).unwrap_or(u8::MAX);
                if let Some(token) = read.tokens.get_mut(index)
                    && let Some(free) = token.phrases.iter_mut().find(|phrase| phrase.0 == 0)
                {
                    *free = (phrase.entry, further);
                }
            }
        }
    }
}
