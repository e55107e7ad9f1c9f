//! Texts inside encodings: base64, base32, hex, numbers of characters, and characters that nobody sees.

#![expect(
    clippy::needless_bitwise_bool,
    reason = "tests without branches take many bytes at a time"
)]

use std::ops::Range;

use data_encoding::{BASE32_NOPAD, BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER_PERMISSIVE};

/// Shortest run that is decoded, in bytes.
const SHORTEST: usize = 20;

/// Encoded pieces of one text that are decoded.
pub(super) const MOST: usize = 32;

/// Longest line of encoded text after which the next line may go on.
const LINE: usize = 40;

/// A decoded piece: where it stood in the view, and what it says.
pub(super) struct Piece {
    pub span: Range<usize>,
    pub text: String,
}

/// Decoded pieces of a view, at most [`MOST`]; the second is how many were left over.
pub(super) fn pieces(view: &[u8]) -> (Vec<Piece>, usize) {
    let mut found = Vec::new();
    let mut left = 0;
    let mut at = 0;
    while let Some(start) = next_run(view, at) {
        let end = run_end(view, start);
        let run = view.get(start..end).unwrap_or_default();
        if let Some(text) = decode(run) {
            if found.len() < MOST {
                found.push(Piece {
                    span: start..end,
                    text,
                });
            } else {
                left += end - start;
            }
        }
        at = end;
    }
    if let Some(piece) = numbers(view) {
        found.push(piece);
    }
    (found, left)
}

const fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() | matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// Where the next run of the shortest length or more begins. Any such run fills one of the groups of eight, which are tested
/// many bytes at a time.
fn next_run(view: &[u8], from: usize) -> Option<usize> {
    const GROUP: usize = 8;
    let mut at = from;
    while let Some(group) = view.get(at..at + GROUP) {
        // Most groups of prose have a space.
        let spaced = group.first_chunk().is_none_or(|group| {
            let raw = u64::from_le_bytes(*group);
            raw.wrapping_sub(0x2121_2121_2121_2121) & !raw & 0x8080_8080_8080_8080 != 0
        });
        if spaced || !group.iter().all(|byte| is_base64(*byte)) {
            at += GROUP;
            continue;
        }
        let back = view
            .get(from..at)
            .unwrap_or_default()
            .iter()
            .rev()
            .take_while(|byte| is_base64(**byte))
            .count();
        let run = view
            .get(at..)
            .unwrap_or_default()
            .iter()
            .take(SHORTEST)
            .take_while(|byte| is_base64(**byte))
            .count();
        if back + run >= SHORTEST {
            return Some(at - back);
        }
        at += run.max(GROUP);
    }
    None
}

/// Where the run that begins at `at` ends, over line ends between long lines, and with its padding.
fn run_end(view: &[u8], at: usize) -> usize {
    let mut end = at;
    loop {
        let line = view
            .get(end..)
            .unwrap_or_default()
            .iter()
            .take_while(|byte| is_base64(**byte))
            .count();
        end += line;
        let rest = view.get(end..).unwrap_or_default();
        let gap = if rest.starts_with(b"\r\n") {
            2
        } else {
            usize::from(rest.starts_with(b"\n"))
        };
        if line < LINE || gap == 0 || !rest.get(gap).is_some_and(|byte| is_base64(*byte)) {
            break;
        }
        end += gap;
    }
    end + view
        .get(end..)
        .unwrap_or_default()
        .iter()
        .take(2)
        .take_while(|byte| **byte == b'=')
        .count()
}

/// The text behind a run, if it is one.
fn decode(run: &[u8]) -> Option<String> {
    let run: Vec<u8> = run
        .iter()
        .copied()
        .filter(|byte| is_base64(*byte))
        .collect();
    if run.len() >= 2 * SHORTEST - 8 && run.iter().all(u8::is_ascii_hexdigit) {
        let even = run.get(..run.len() & !1)?;
        if let Some(text) = HEXLOWER_PERMISSIVE.decode(even).ok().and_then(readable) {
            return Some(text);
        }
    }
    if run
        .iter()
        .all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'2'..=b'7'))
    {
        let base32 = |cut: usize| {
            run.get(..run.len().checked_sub(cut)?)
                .and_then(|run| BASE32_NOPAD.decode(run).ok())
                .and_then(readable)
        };
        if let Some(text) = base32(0) {
            return Some(text);
        }
    }
    // Few words are this long; text without a digit or capital inside is one.
    if run.iter().all(u8::is_ascii_lowercase) {
        return None;
    }
    // The first or last letters may belong to the text around.
    (0..4).find_map(|cut| {
        let length = run.len() - cut.min(run.len());
        let part = run.get(..length).filter(|part| part.len() % 4 != 1)?;
        let mut part = part.to_vec();
        // Padding bits of a cut run may be anything.
        let decoded = BASE64_NOPAD
            .decode(&part)
            .or_else(|_| BASE64URL_NOPAD.decode(&part));
        let decoded = decoded.or_else(|_| {
            part.truncate(part.len() & !3);
            BASE64_NOPAD.decode(&part)
        });
        decoded.ok().and_then(readable)
    })
}

/// Text that a person could read: hardly any control characters, and words.
fn readable(bytes: Vec<u8>) -> Option<String> {
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            // UTF-16 of ASCII letters.
            let bytes = error.into_bytes();
            let pairs: Vec<u16> = bytes
                .chunks_exact(2)
                .map(|pair| {
                    u16::from_le_bytes([
                        pair.first().copied().unwrap_or(0),
                        pair.get(1).copied().unwrap_or(0),
                    ])
                })
                .collect();
            String::from_utf16(&pairs).ok()?
        }
    };
    let text = if text.contains('\0') {
        text.replace('\0', "")
    } else {
        text
    };
    let odd = text
        .chars()
        .filter(|c| c.is_control() && !c.is_whitespace())
        .count();
    let letters = text
        .chars()
        .filter(|c| c.is_alphanumeric() || *c == ' ')
        .count();
    let count = text.chars().count();
    // Another layer of encoding has no spaces.
    (odd * 20 <= count && letters * 4 >= count * 3 && count >= 8).then_some(text)
}

/// Characters as numbers in a row: binary, octal, decimal or hexadecimal, parted by spaces or commas.
fn numbers(view: &[u8]) -> Option<Piece> {
    const FEWEST: usize = 16;
    // Somewhere hardly anything but digits and what parts them.
    let dense = |chunk: &[u8]| {
        let count =
            |test: fn(u8) -> bool| chunk.iter().map(|byte| u8::from(test(*byte))).sum::<u8>();
        let gaps = count(|byte| (byte == b' ') | (byte == b',') | (byte == b'\n') | (byte == b':'));
        gaps >= 2
            && usize::from(count(|byte| byte.is_ascii_hexdigit() | (byte == b'x')) + gaps)
                == chunk.len()
    };
    if !view.chunks(24).any(dense) {
        return None;
    }
    let mut at = 0;
    while at < view.len() {
        let rest = view.get(at..)?;
        let first = rest
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'x')
            .count();
        if !(2..=10).contains(&first) {
            at += first.max(1);
            at += view
                .get(at..)?
                .iter()
                .take_while(|byte| !byte.is_ascii_hexdigit())
                .count();
            continue;
        }
        let mut end = at;
        let mut items: Vec<&[u8]> = Vec::new();
        loop {
            let rest = view.get(end..)?;
            let item = rest
                .iter()
                .take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'x')
                .count();
            if !(2..=10).contains(&item) {
                break;
            }
            items.push(rest.get(..item)?);
            end += item;
            let gap = view
                .get(end..)?
                .iter()
                .take(2)
                .take_while(|byte| matches!(byte, b' ' | b',' | b'\n' | b':'))
                .count();
            if gap == 0 {
                break;
            }
            end += gap;
        }
        if items.len() >= FEWEST
            && let Some(text) = [2, 16, 10, 8]
                .into_iter()
                .find_map(|radix| spelt(&items, radix))
        {
            return Some(Piece {
                span: at..end,
                text,
            });
        }
        at = end.max(at + first);
    }
    None
}

fn spelt(items: &[&[u8]], radix: u32) -> Option<String> {
    let mut text = String::with_capacity(items.len());
    for item in items {
        let item = std::str::from_utf8(item).ok()?;
        let item = item.strip_prefix("0x").unwrap_or(item);
        if radix == 2 && item.len() != 8 && item.len() != 7 {
            return None;
        }
        let code = u32::from_str_radix(item, radix).ok()?;
        text.push(char::from_u32(code).filter(|c| {
            c.is_ascii_graphic() || matches!(c, ' ' | '\n') || (*c >= '\u{a0}' && code < 0x3000)
        })?);
    }
    text.contains(' ').then_some(text)
}
