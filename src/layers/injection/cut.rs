//! Words that were cut up: single letters with a sign between each, and pieces of one length.

#![expect(
    clippy::needless_bitwise_bool,
    reason = "tests without branches take many bytes at a time"
)]

use std::ops::Range;

use super::view::{Builder, View};

/// Single letters in a row from which they are taken for spaced words.
const SPACED: usize = 8;

/// Pieces of equal length in a row from which they are taken for cut-up words.
const CHUNKS: usize = 8;

/// Single letters with one sign between each, and words cut up into pieces of equal length, put together.
pub(super) fn joined(view: &[u8]) -> Option<View<'static>> {
    let ascii = view.is_ascii();
    let mut out: Option<Builder> = None;
    let mut copied = 0;
    let mut at = 0;
    while let Some(cut) = next_cut(view, at, ascii) {
        at = word_from(view, cut.start.saturating_sub(BLOCK).max(at));
        while at < cut.end {
            let run = spaced_run(view, at).or_else(|| chunked_run(view, at));
            let Some(end) = run else {
                at = word_from(view, at + 1);
                continue;
            };
            let builder = out.get_or_insert_with(|| Builder::new(view.len()));
            builder.copy(copied, view.get(copied..at).unwrap_or_default());
            let mut gap = 0;
            for (offset, byte) in view.get(at..end).unwrap_or_default().iter().enumerate() {
                if is_part(*byte) {
                    if gap >= 2 {
                        builder.push(at + offset - 1, b' ');
                    }
                    gap = 0;
                    builder.push(at + offset, *byte);
                } else {
                    gap += 1;
                }
            }
            at = end;
            copied = end;
        }
        at = at.max(cut.end);
    }
    let mut out = out?;
    out.copy(copied, view.get(copied..).unwrap_or_default());
    Some(out.finish(view.len()))
}

/// The start of a word at `at` or behind it; the start of the view counts as one.
fn word_from(view: &[u8], at: usize) -> usize {
    let mut at = at;
    if at > 0 {
        while view.get(at - 1).is_some_and(|byte| is_part(*byte))
            && view.get(at).is_some_and(|byte| is_part(*byte))
        {
            at += 1;
        }
        while view.get(at).is_some_and(|byte| !is_part(*byte)) {
            at += 1;
        }
    }
    at
}

fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

/// Where a run of single letters that begins at `at` ends.
fn spaced_run(view: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    let mut letters = 0;
    while let Some(&byte) = view.get(end) {
        let length = match byte {
            _ if byte.is_ascii_alphanumeric() || matches!(byte, b'@' | b'$' | b'!' | b'|') => 1,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            _ => break,
        };
        let next = end + length;
        let gap = view
            .get(next..)
            .unwrap_or_default()
            .iter()
            .take(4)
            .take_while(|byte| is_filler(**byte))
            .count();
        if gap == 0 {
            // The last letter of the run, if no word goes on.
            if view.get(next).is_none_or(|byte| !is_part(*byte)) {
                letters += 1;
                end = next;
            }
            break;
        }
        letters += 1;
        end = next + gap;
    }
    (letters >= SPACED).then(|| end.min(view.len()))
}

fn is_filler(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'.' | b'-' | b'_' | b'*' | b'|' | b'/' | b'+' | b'~' | b',' | b'\n' | b'\t'
    )
}

/// Where a run of pieces of one length (3 to 6) with one space between ends.
fn chunked_run(view: &[u8], at: usize) -> Option<usize> {
    let length = |from: usize| {
        view.get(from..)
            .unwrap_or_default()
            .iter()
            .take(8)
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count()
    };
    let first = length(at);
    if !(3..=6).contains(&first) {
        return None;
    }
    let mut end = at;
    let mut pieces = 0;
    while length(end) == first && view.get(end + first) == Some(&b' ') {
        pieces += 1;
        end += first + 1;
    }
    if pieces < CHUNKS {
        return None;
    }
    Some((end + length(end).min(first)).min(view.len()))
}

/// Bytes that are tested at once.
const BLOCK: usize = 64;

/// Longest piece of a word that is cut up, with the space behind it.
const PIECE: usize = 7;

/// The next block from `from` on in which single letters or pieces of one length may stand in a row, tested many bytes at a
/// time. Eight single letters stand in two blocks at most, so that one of them has four.
fn next_cut(view: &[u8], from: usize, ascii: bool) -> Option<Range<usize>> {
    let mut at = from;
    while at < view.len() {
        let end = (at + BLOCK).min(view.len());
        let before = at.saturating_sub(1);
        let mut padded = [0; AROUND];
        let around = view
            .get(before..)
            .and_then(<[u8]>::first_chunk)
            .unwrap_or_else(|| {
                for (to, from) in padded.iter_mut().zip(view.iter().skip(before)) {
                    *to = *from;
                }
                &padded
            });
        // A letter at the very start is not seen.
        let least = 4 - u8::from(at == 0);
        if singles(around, ascii) >= least || (4..=PIECE).any(|step| has_row(around, step)) {
            return Some(at..end);
        }
        at = end;
    }
    None
}

/// Bytes that are looked at for a block: one before it, and some behind.
const AROUND: usize = 2 * BLOCK;

/// How many letters stand alone, of two or three bytes too; signs that may be letters count.
fn singles(around: &[u8; AROUND], ascii: bool) -> u8 {
    let mut flat = [0_u8; AROUND];
    for (flat, byte) in flat.iter_mut().zip(around) {
        let letter = ((*byte | 0x20).wrapping_sub(b'a') < 26) & byte.is_ascii();
        let digit = byte.wrapping_sub(b'0') < 10;
        *flat = u8::from(letter | digit | !byte.is_ascii());
    }
    let at = |from: usize| flat.get(from..from + BLOCK).unwrap_or_default().iter();
    let mut count: u8 = at(0)
        .zip(at(1))
        .zip(at(2))
        .map(|((a, b), c)| !a & b & !c & 1)
        .sum();
    let block = around.get(1..=BLOCK).unwrap_or_default().iter();
    count += block
        .clone()
        .map(|byte| u8::from((*byte == b'@') | (*byte == b'$') | (*byte == b'!') | (*byte == b'|')))
        .sum::<u8>();
    if !ascii {
        count += at(0)
            .zip(block)
            .zip(at(3))
            .zip(at(4))
            .map(|(((a, b), c), d)| !a & u8::from(*b >= 0xc2) & (!c | !d) & 1)
            .sum::<u8>();
    }
    count
}

/// Whether eight spaces follow each other at equal distances; four of them are looked for first.
fn has_row(around: &[u8; AROUND], step: usize) -> bool {
    let at = |times: usize| {
        let from = times * step;
        around.get(from..from + BLOCK).unwrap_or_default().iter()
    };
    let four = at(0).zip(at(1)).zip(at(2)).zip(at(3));
    let any = four
        .map(|(((a, b), c), d)| u8::from((*a == b' ') & (*b == b' ') & (*c == b' ') & (*d == b' ')))
        .fold(0, |any, row| any | row);
    any != 0
        && (0..=BLOCK).any(|from| {
            let space = |times: usize| around.get(from + times * step) == Some(&b' ');
            (0..CHUNKS).all(space)
        })
}
