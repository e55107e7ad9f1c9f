//! What no pattern of words finds: images that carry data out, and texts in characters that nobody sees.

#![expect(
    clippy::needless_bitwise_bool,
    reason = "tests without branches take many bytes at a time"
)]

use std::ops::Range;

use super::derived::pairs;
use super::folding::tag;

/// Longest address of an image that is looked at, in bytes.
const ADDRESS: usize = 2_048;

/// Most characters of hidden text that are kept of one run.
const HIDDEN: usize = 1 << 16;

/// Images whose address has a placeholder: `![x](https://host/?d=[DATA])`, `<img src="https://host/?d={{data}}">`.
pub(super) fn images(view: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if pairs(view, |a, b| {
        ((a == b'!') & (b == b'[')) | ((a == b'<') & ((b | 0x20) == b'i'))
    }) == 0
    {
        return found;
    }
    let mut at = 0;
    while let Some(next) =
        memchr::memchr2(b'(', b'=', view.get(at..).unwrap_or_default()).map(|next| at + next)
    {
        at = next + 1;
        let before = view.get(next.saturating_sub(160)..next).unwrap_or_default();
        let image = match view.get(next) {
            Some(b'(') => before.ends_with(b"]") && before.windows(2).any(|pair| pair == b"!["),
            _ => {
                before
                    .last_chunk::<3>()
                    .is_some_and(|name| name.eq_ignore_ascii_case(b"src"))
                    && before
                        .to_ascii_lowercase()
                        .windows(4)
                        .any(|tag| tag == b"<img")
            }
        };
        if !image {
            continue;
        }
        let rest = view
            .get(next + 1..(next + 1 + ADDRESS).min(view.len()))
            .unwrap_or_default();
        let skip = rest
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'"' | b'\'' | b'<'))
            .count();
        let rest = rest.get(skip..).unwrap_or_default();
        if !rest
            .get(..4)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"http"))
        {
            continue;
        }
        let length = rest
            .iter()
            .position(|byte| matches!(byte, b')' | b'"' | b'\'' | b'\n') || *byte == b' ')
            .unwrap_or(rest.len());
        let address = rest.get(..length).unwrap_or_default();
        let query = address
            .iter()
            .position(|byte| matches!(byte, b'?' | b'=' | b'#'))
            .or_else(|| {
                address
                    .iter()
                    .skip(8)
                    .position(|byte| *byte == b'/')
                    .map(|at| at + 8)
            });
        let tail = query
            .and_then(|from| address.get(from..))
            .unwrap_or_default();
        if has_placeholder(tail) {
            found.push(next.saturating_sub(2)..next + 1 + skip + length);
        }
    }
    found
}

/// `[data]`, `{data}`, `{{data}}`, `<data>`, `%7Bdata%7D`, `$DATA`, `DATA_HERE` in a query.
fn has_placeholder(tail: &[u8]) -> bool {
    let tail = tail.to_ascii_lowercase();
    let pair = |open: &[u8], close: &[u8]| {
        let start = tail
            .windows(open.len())
            .position(|part| part == open)
            .map(|at| at + open.len());
        start
            .and_then(|start| tail.get(start..))
            .is_some_and(|rest| {
                rest.windows(close.len())
                    .position(|part| part == close)
                    .is_some_and(|length| {
                        length > 0 && rest.iter().take(length).all(|byte| !byte.is_ascii_digit())
                    })
            })
    };
    pair(b"{", b"}")
        || pair(b"[", b"]")
        || pair(b"<", b">")
        || pair(b"%7b", b"%7d")
        || pair(b"%5b", b"%5d")
}

/// Text in characters that nobody sees.
pub(super) struct Hidden {
    pub rule: &'static str,
    pub span: Range<usize>,
    pub text: String,
}

/// Hidden texts, and places where characters without width stand inside words.
pub(super) fn hidden(text: &str) -> (Vec<Hidden>, Vec<Range<usize>>) {
    let mut found = Vec::new();
    let mut inside = Vec::new();
    if !has_unseen(text.as_bytes()) {
        return (found, inside);
    }
    let mut run = Run::default();
    let mut before = ' ';
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let kind = Kind::of(c);
        if kind.is_none() || kind != run.kind {
            run.end(at, &mut found);
            run = Run {
                kind,
                start: at,
                last: before,
                ..Run::default()
            };
        }
        if kind.is_some() {
            run.push(c);
        }
        if matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{34f}' | '\u{180e}')
            && before.is_ascii_alphabetic()
            && chars
                .peek()
                .is_some_and(|(_, next)| next.is_ascii_alphabetic())
        {
            inside.push(at..at + c.len_utf8());
        }
        if kind.is_none() {
            before = c;
        }
    }
    run.end(text.len(), &mut found);
    (found, inside)
}

/// Whether a character may be one that nobody sees: tested many bytes at a time.
fn has_unseen(bytes: &[u8]) -> bool {
    let at = |from: usize| bytes.get(from..).unwrap_or_default();
    let three = at(0)
        .chunks(BLOCK)
        .zip(at(1).chunks(BLOCK))
        .zip(at(2).chunks(BLOCK));
    for ((a, b), c) in three {
        if a.is_ascii() {
            continue;
        }
        let unseen = |((a, b), c): ((&u8, &u8), &u8)| {
            let general = (*a == 0xe2)
                & (((*b == 0x80) & ((*c >= 0x8b) & (*c <= 0x8f) | (*c >= 0xaa) & (*c <= 0xae)))
                    | ((*b == 0x81) & (*c >= 0xa0)));
            let selectors =
                (*a == 0xef) & ((*b == 0xb8) & (*c < 0x90) | (*b == 0xbb) & (*c == 0xbf));
            let others = (*a == 0xf3) | (*a == 0xcd) & (*b == 0x8f) | (*a == 0xe1) & (*b == 0xa0);
            general | selectors | others
        };
        if a.iter()
            .zip(b)
            .zip(c)
            .map(unseen)
            .fold(false, |any, one| any | one)
        {
            return true;
        }
    }
    false
}

/// Bytes that are tested at once.
const BLOCK: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Tag,
    Selector,
    Width,
}

impl Kind {
    fn of(c: char) -> Option<Self> {
        match c {
            '\u{e0000}'..='\u{e007f}' => Some(Self::Tag),
            '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => Some(Self::Selector),
            '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => Some(Self::Width),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Run {
    kind: Option<Kind>,
    start: usize,
    /// What is seen before it.
    last: char,
    chars: Vec<char>,
}

impl Run {
    fn push(&mut self, c: char) {
        if self.chars.len() < HIDDEN {
            self.chars.push(c);
        }
    }

    fn end(&self, at: usize, found: &mut Vec<Hidden>) {
        let (rule, text) = match self.kind {
            // The flag of a part of a country.
            Some(Kind::Tag) if self.last == '\u{1f3f4}' && self.chars.len() <= 7 => return,
            Some(Kind::Tag) => {
                let text: String = self
                    .chars
                    .iter()
                    .filter_map(|c| tag(*c))
                    .map(char::from)
                    .collect();
                if text.chars().filter(char::is_ascii_alphanumeric).count() < 4 {
                    return;
                }
                ("invisible.tags", text)
            }
            Some(Kind::Selector) if self.chars.len() >= 4 => {
                let bytes: Vec<u8> = self.chars.iter().filter_map(|c| selected(*c)).collect();
                let Ok(text) = String::from_utf8(bytes) else {
                    return;
                };
                if text.chars().filter(char::is_ascii_graphic).count() * 2 < text.len() {
                    return;
                }
                ("invisible.selectors", text)
            }
            Some(Kind::Width) if self.chars.len() >= 16 => match bits(&self.chars) {
                Some(text) => ("invisible.bits", text),
                None => return,
            },
            _ => return,
        };
        found.push(Hidden {
            rule,
            span: self.start..at,
            text,
        });
    }
}

/// The byte of a variation selector.
fn selected(c: char) -> Option<u8> {
    match c {
        '\u{fe00}'..='\u{fe0f}' => u8::try_from(u32::from(c) - 0xfe00).ok(),
        '\u{e0100}'..='\u{e01ef}' => u8::try_from(u32::from(c) - 0xe0100 + 16).ok(),
        _ => None,
    }
}

/// The text that two kinds of characters spell as bits, most significant first; which of them is one is tried both ways.
fn bits(chars: &[char]) -> Option<String> {
    let zero = *chars.first()?;
    let one = *chars.iter().find(|c| **c != zero)?;
    let plain: Vec<char> = chars
        .iter()
        .copied()
        .filter(|c| *c == zero || *c == one)
        .collect();
    [(zero, one), (one, zero)].into_iter().find_map(|(_, one)| {
        [8, 7].into_iter().find_map(|width| {
            let bytes: Vec<u8> = plain
                .chunks_exact(width)
                .map(|byte| {
                    byte.iter()
                        .fold(0, |byte, c| byte << 1 | u8::from(*c == one))
                })
                .collect();
            let text = String::from_utf8(bytes).ok()?;
            let plausible = text
                .chars()
                .all(|c| c.is_ascii_graphic() || c == ' ' || c == '\n')
                && text.chars().any(|c| c.is_ascii_alphabetic());
            plausible.then_some(text)
        })
    })
}

/// Ranges of characters that nobody sees and that may go: tags but flags', runs of selectors, directions, controls, escapes of terminals.
pub(super) fn controls(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    if !has_controls(text.as_bytes()) && !has_unseen(text.as_bytes()) {
        return found;
    }
    let mut before = '\0';
    let mut flag = false;
    let mut selectors = 0_usize;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        flag = if c == '\u{1f3f4}' {
            true
        } else {
            flag && matches!(c, '\u{e0061}'..='\u{e007f}')
        };
        selectors = if Kind::of(c) == Some(Kind::Selector) {
            selectors + 1
        } else {
            0
        };
        let mut end = at + c.len_utf8();
        let gone = match c {
            '\u{1b}' => {
                end = at + escape(text.as_bytes().get(at..).unwrap_or_default());
                while chars.peek().is_some_and(|(next, _)| *next < end) {
                    chars.next();
                }
                true
            }
            '\n' | '\r' | '\t' => false,
            _ if c.is_control() => true,
            '\u{e0000}'..='\u{e007f}' => !flag,
            '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{200b}'
            | '\u{2060}'..='\u{2064}' => true,
            '\u{feff}' => at > 0,
            '\u{e0100}'..='\u{e01ef}' | '\u{fe00}'..='\u{fe0f}' => selectors > 1,
            // Joiners belong to Indic scripts, Persian and emoji.
            '\u{200c}' | '\u{200d}' => before.is_ascii(),
            _ => false,
        };
        if gone {
            match found.last_mut() {
                Some(last) if last.end == at => last.end = end,
                _ => found.push(at..end),
            }
        } else {
            before = c;
        }
    }
    found
}

/// Whether there may be controls, those of Latin-1 too.
fn has_controls(bytes: &[u8]) -> bool {
    let next = bytes.get(1..).unwrap_or_default();
    let blocks = bytes
        .chunks(BLOCK)
        .zip(next.chunks(BLOCK).chain([&b""[..]]));
    for (block, next) in blocks {
        let control = |byte: u8| {
            (byte < b' ') & (byte != b'\n') & (byte != b'\r') & (byte != b'\t') | (byte == 0x7f)
        };
        let any = block.iter().fold(false, |any, byte| any | control(*byte));
        let pairs = block.iter().zip(next);
        let latin = pairs.fold(false, |any, (a, b)| any | ((*a == 0xc2) & (*b < 0xa0)));
        if any | latin {
            return true;
        }
    }
    false
}

/// Length of an escape sequence of a terminal (ECMA-48), at least of its first character.
fn escape(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        Some(b'[') => {
            let parameters = bytes
                .iter()
                .skip(2)
                .take(64)
                .take_while(|byte| (0x20..0x40).contains(*byte))
                .count();
            let last = bytes
                .get(2 + parameters)
                .is_some_and(|byte| (0x40..0x7f).contains(byte));
            2 + parameters + usize::from(last)
        }
        Some(b']') => {
            let length = bytes
                .iter()
                .skip(2)
                .take(1_024)
                .take_while(|byte| !matches!(byte, 0x07 | 0x1b))
                .count();
            match bytes.get(2 + length..) {
                Some([0x07, ..]) => 3 + length,
                Some([0x1b, b'\\', ..]) => 4 + length,
                _ => 1,
            }
        }
        _ => 1,
    }
}
