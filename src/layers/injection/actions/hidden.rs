//! Characters that a reader does not see and a model does: which of a text go.
//!
//! What writing needs stays: joiners of scripts and emoji, one variation selector after a character, flags, directional isolates,
//! soft hyphens, a byte order mark at the start.

use std::ops::Range;

use crate::unicode::is_annotation;

const ESCAPE: char = '\u{1b}';
const TAG_END: char = '\u{e007f}';
const FLAG: char = '\u{1f3f4}';

/// Longest escape sequence, in characters: what is longer is none, and only its first character goes.
const SEQUENCE: usize = 4_096;

/// Byte ranges of what goes, sorted and apart.
pub(super) fn hidden(text: &str) -> Vec<Range<usize>> {
    if !text.bytes().any(is_suspect) {
        return Vec::new();
    }
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut chars = text.char_indices().peekable();
    let mut before: Option<char> = None;
    while let Some((at, c)) = chars.next() {
        let rest = text.get(at..).unwrap_or_default();
        let end = match c {
            ESCAPE => at + sequence(rest),
            FLAG => {
                let flag = flag(rest);
                while chars.next_if(|(next, _)| *next < at + flag).is_some() {}
                before = Some(c);
                continue;
            }
            c if goes(c) || is_odd(before, c, rest) => at + c.len_utf8(),
            c => {
                before = Some(c);
                continue;
            }
        };
        while chars.next_if(|(next, _)| *next < end).is_some() {}
        if is_joint(c) {
            // What comes in a row goes as one.
            before = Some(c);
        }
        match found.last_mut() {
            Some(last) if last.end == at => last.end = end,
            _ => found.push(at..end),
        }
    }
    found
}

/// First bytes of the characters that are looked at: controls of ASCII, and what of UTF-8 leads to the others.
const fn is_suspect(byte: u8) -> bool {
    matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1f | 0x7f | 0xc2 | 0xe1 | 0xe2 | 0xef | 0xf3)
}

/// Characters that have no place in what a model reads.
const fn goes(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' | '\u{c}' | '\u{85}' => false,
        // Controls; embeddings and overrides of direction; deprecated controls; tags.
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{206a}'..='\u{206f}'
        | '\u{e0000}'..='\u{e007f}' => true,
        c => is_annotation(c),
    }
}

/// Characters that belong somewhere, and not here.
fn is_odd(before: Option<char>, c: char, rest: &str) -> bool {
    let after = rest.chars().nth(1);
    match c {
        // A selector after a character is its own; one more has nothing to select.
        '\u{fe00}'..='\u{fe0f}' => before.is_none_or(is_selector),
        '\u{e0100}'..='\u{e01ef}' => !before.is_some_and(is_ideograph),
        _ if is_joint(c) => {
            let letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
            (letter(before) && letter(after))
                || before.is_some_and(is_joint)
                || after.is_some_and(|after| is_joint(after) && after != '\u{200d}')
        }
        _ => false,
    }
}

const fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

const fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Joins or parts letters without being seen.
const fn is_joint(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{180e}')
}

/// Bytes of an emoji flag that is spelled in tags (UTS 51, section 3.1), its first character alone where it is none.
fn flag(text: &str) -> usize {
    let mut length = FLAG.len_utf8();
    let mut tags = 0;
    for c in text.chars().skip(1) {
        length += c.len_utf8();
        match c {
            TAG_END if (2..=6).contains(&tags) => return length,
            '\u{e0030}'..='\u{e0039}' | '\u{e0061}'..='\u{e007a}' => tags += 1,
            _ => break,
        }
    }
    FLAG.len_utf8()
}

/// Bytes of a terminal's escape sequence (ECMA-48), at least those of the escape itself.
fn sequence(text: &str) -> usize {
    let alone = ESCAPE.len_utf8();
    let mut chars = text.char_indices().skip(1).take(SEQUENCE).peekable();
    match chars.next() {
        Some((_, '[')) => {
            for (at, c) in chars {
                match c {
                    '\u{40}'..='\u{7e}' => return at + 1,
                    '\u{20}'..='\u{3f}' => {}
                    _ => break,
                }
            }
            alone
        }
        // Strings of the system, such as a link's target: up to BEL or ST.
        Some((_, ']' | 'P' | '^' | '_' | 'X')) => {
            while let Some((at, c)) = chars.next() {
                match c {
                    '\u{7}' | '\u{9c}' => return at + c.len_utf8(),
                    ESCAPE if chars.peek().is_some_and(|(_, next)| *next == '\\') => return at + 2,
                    '\n' => break,
                    _ => {}
                }
            }
            alone
        }
        _ => alone,
    }
}

#[cfg(test)]
#[expect(clippy::string_slice, reason = "ranges of the code under test")]
mod tests {
    use super::*;

    fn left(text: &str) -> String {
        let mut left = String::new();
        let mut done = 0;
        for range in hidden(text) {
            left.push_str(&text[done..range.start]);
            done = range.end;
        }
        left.push_str(&text[done..]);
        left
    }

    #[test]
    fn what_nobody_sees_goes() {
        for (text, expected) in [
            ("a\u{e0069}\u{e0067}b", "ab"),
            ("i\u{200b}gnore", "ignore"),
            ("x\u{202e}cba\u{202c}", "xcba"),
            ("a\u{fe01}\u{fe02}\u{fe03}", "a\u{fe01}"),
            ("\u{1f600}\u{e0141}\u{e0142}", "\u{1f600}"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            (
                "\u{1b}]8;;https://evil.example/?a\u{1b}\\link\u{1b}]8;;\u{7}",
                "link",
            ),
            ("\u{1b}(", "("),
            ("a\0b\u{9b}c\u{7f}", "abc"),
            ("one\u{2060}\u{2062}\u{2060} two", "one two"),
            ("\u{1f3f4}\u{e0069}\u{e0067}", "\u{1f3f4}"),
        ] {
            assert_eq!(left(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_writing_needs_stays() {
        for text in [
            "tabs\tand\r\nlines\u{c}",
            "\u{feff}begins with a mark",
            "co\u{ad}operate",
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{2764}\u{fe0f}\u{200d}\u{1f525}",
            "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            "\u{915}\u{94d}\u{200d}\u{937}",
            "\u{0e20}\u{200b}\u{0e20}",
            "\u{845b}\u{e0100}",
            "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
            "\u{2066}\u{5d0}\u{2069} caf\u{e9} \u{4e2d}",
        ] {
            assert!(hidden(text).is_empty(), "{text:?}");
        }
    }
}
