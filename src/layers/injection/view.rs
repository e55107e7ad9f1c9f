//! The text as rules match it: lower case, compatibility forms and escapes undone, invisible characters gone, with a way
//! back to the bytes of the original.

use std::ops::Range;

use unicode_normalization::char::decompose_compatible;

use crate::unicode;

/// A normalised copy. Plain ASCII keeps its offsets and costs one pass.
#[derive(Debug)]
pub struct View {
    bytes: Vec<u8>,
    /// Where the offsets of view and original part: from `.0` in the view on, the original goes on at `.1`. Sorted.
    marks: Vec<(usize, usize)>,
    original: usize,
}

impl View {
    /// Normalises `text`.
    pub fn new(text: &str) -> Self {
        let original = text.len();
        let plain = text
            .bytes()
            .all(|b| b.is_ascii() && !is_escape(b) && (b >= b' ' || is_space(b)));
        if plain {
            return Self {
                bytes: text.as_bytes().to_ascii_lowercase(),
                marks: Vec::new(),
                original,
            };
        }
        let mut builder = Builder {
            view: Self {
                bytes: Vec::with_capacity(original),
                marks: Vec::new(),
                original,
            },
            shift: 0,
        };
        builder.read(text);
        builder.view
    }

    /// The bytes to match.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The original bytes that gave this piece of the view; not yet on character boundaries.
    pub fn original(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.offset(range.start);
        start..self.offset(range.end).max(start)
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
        (original + (at - view)).min(end)
    }
}

/// Begins an escape of JSON or a program, or a character reference of HTML.
fn is_escape(byte: u8) -> bool {
    matches!(byte, b'\\' | b'&')
}

/// Longest character reference, in bytes.
const ENTITY: usize = 12;

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
                _ => return None,
            });
        }
    };
    char::from_u32(code)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r')
}

struct Builder {
    view: View,
    /// Original minus view offset, as of the last mark.
    shift: usize,
}

impl Builder {
    fn read(&mut self, text: &str) {
        let mut at = 0;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let run = rest
                .bytes()
                .position(|b| !b.is_ascii() || is_escape(b) || (b < b' ' && !is_space(b)))
                .unwrap_or(rest.len());
            if run > 0 {
                self.mark(at);
                let ascii = rest.as_bytes().get(..run).unwrap_or_default();
                self.view
                    .bytes
                    .extend(ascii.iter().map(u8::to_ascii_lowercase));
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
        self.mark(text.len());
    }

    /// The next byte of the view comes from `original`.
    fn mark(&mut self, original: usize) {
        let at = self.view.bytes.len();
        if original.wrapping_sub(at) != self.shift {
            self.shift = original.wrapping_sub(at);
            self.view.marks.push((at, original));
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
                self.character(at, if c == 'n' { '\n' } else { ' ' });
                slashes + 1
            }
            // A line folded in YAML: the break and the indent are not part of the text.
            '\n' => slashes + after.len() - after.trim_start_matches(['\n', ' ']).len(),
            'u' | 'x' => {
                let digits = if c == 'u' { 4 } else { 2 };
                let decoded = after
                    .get(1..=digits)
                    .and_then(|digits| u32::from_str_radix(digits, 16).ok());
                match decoded {
                    Some(code) => {
                        // Half of a surrogate pair is no character and holds no letter that a rule asks for.
                        self.character(at, char::from_u32(code).unwrap_or(' '));
                        slashes + 1 + digits
                    }
                    None => slashes,
                }
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
        self.character(at, c);
        length
    }

    fn character(&mut self, at: usize, c: char) {
        let c = tag(c).unwrap_or(c);
        if is_ignorable(c) {
            return;
        }
        self.mark(at);
        let bytes = &mut self.view.bytes;
        let mut buffer = [0; 4];
        let mut push = |c: char| bytes.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        match c {
            '\u{2018}' | '\u{2019}' | '\u{201b}' | '\u{2032}' => push('\''),
            '\u{201c}' | '\u{201d}' | '\u{201f}' | '\u{2033}' => push('"'),
            '\u{2010}'..='\u{2015}' | '\u{2212}' => push('-'),
            _ if c.is_ascii() => push(c.to_ascii_lowercase()),
            _ if c.is_whitespace() => push(' '),
            _ => decompose_compatible(c, |part| {
                if !is_mark(part) {
                    part.to_lowercase().for_each(&mut push);
                }
            }),
        }
    }
}

/// The ASCII character that an invisible tag character (U+E0020 to U+E007E) stands for.
fn tag(c: char) -> Option<char> {
    u32::from(c)
        .checked_sub(0xe_0000)
        .filter(|code| (0x20..0x7f).contains(code))
        .and_then(char::from_u32)
}

/// Accents on Latin, Greek and Cyrillic letters, also stacked ones.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}')
}

/// Control, format and default-ignorable characters: zero width, bidirectional, variation selectors, fillers, tags.
fn is_ignorable(c: char) -> bool {
    (c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
        || is_mark(c)
        || unicode::is_ignorable(c)
        || unicode::is_annotation(c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(text: &str) -> String {
        String::from_utf8(View::new(text).bytes().to_vec()).unwrap()
    }

    #[test]
    fn disguises_fall_off() {
        for text in [
            "Ignore This",
            "\u{ff29}\u{ff47}nore\u{a0}this",
            "ig\u{200b}no\u{ad}re th\u{2060}is",
            "i\u{301}gno\u{308}re this",
            "\u{ed}gn\u{f3}r\u{e9} this",
            "ignore\u{e0020}this",
            "\u{e0069}\u{e0067}\u{e006e}ore this",
            "\u{1d456}gnore this",
            "ig\\u006eore this",
            "ignore\\nthis",
            "ignore\\\\nthis",
            "ignore\\\n    \\ this",
            "ig\u{0}nore this",
            "&#73;gn&#x6F;re&nbsp;this",
            "ign&shy;ore&#32;th&#0000105;s",
            "ignore\u{2028}this",
        ] {
            assert_eq!(seen(text).replace('\n', " "), "ignore this", "{text:?}");
        }
        assert_eq!(seen("don\u{2019}t \u{201c}x\u{201d}"), "don't \"x\"");
        assert_eq!(
            seen("a & b &unknown; &# &#x110000; &"),
            "a & b &unknown; &# &#x110000; &"
        );
        assert_eq!(seen("C:\\dir \\u12 \\"), "c:dir u12 ");
        assert_eq!(seen("\u{4f60}\u{597d}"), "\u{4f60}\u{597d}");
    }

    #[test]
    fn a_match_leads_back_to_the_original_bytes() {
        let text = "a\u{200b}b \u{fb03} \u{1f600} IG\u{200b}NORE\\nx end";
        let view = View::new(text);
        let seen = String::from_utf8(view.bytes().to_vec()).unwrap();
        let at = seen.find("ignore").unwrap();
        let range = view.original(&(at..at + 6));
        assert_eq!(text.get(range), Some("IG\u{200b}NORE"));
        let at = seen.find("end").unwrap();
        assert_eq!(text.get(view.original(&(at..at + 3))), Some("end"));
        let at = seen.find("ffi").unwrap();
        let range = view.original(&(at + 1..at + 2));
        assert!(
            text.find('\u{fb03}').unwrap() <= range.start
                && range.end <= text.find(" \u{1f600}").unwrap()
        );
    }

    proptest! {
        #[test]
        fn offsets_stay_inside_and_in_order(text in "(\\PC|\\\\|&#1?05;|&amp;|\n|\u{200b}|\u{e0041}|\u{fb03}|\u{301}){0,40}") {
            let view = View::new(&text);
            let mut last = 0;
            for at in 0..=view.bytes().len() {
                let there = view.original(&(at..at)).start;
                prop_assert!(there >= last && there <= text.len());
                last = there;
            }
        }
    }
}
