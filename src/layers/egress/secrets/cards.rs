//! Numbers of payment cards: issuer's range, length and check digit.

use std::ops::Range;

use super::check::luhn;

const LENGTHS: std::ops::RangeInclusive<usize> = 13..=19;

/// Ranges of issuers by prefix, with their lengths.
const ISSUERS: [(Range<u32>, &[usize]); 7] = [
    (4000..5000, &[13, 16, 19]),
    (5100..5600, &[16]),
    (2221..2721, &[16]),
    (3400..3500, &[15]),
    (3700..3800, &[15]),
    (6011..6012, &[16, 19]),
    (6440..6600, &[16, 19]),
];

/// Digits of a card that begins at `start`: its end. Groups may be divided by one space or hyphen.
fn card(text: &[u8], start: usize) -> Option<usize> {
    let mut digits = Vec::with_capacity(20);
    let mut end = start;
    let mut divided = 0;
    for (index, byte) in text.iter().enumerate().skip(start) {
        match byte {
            b'0'..=b'9' => {
                digits.push(*byte);
                end = index + 1;
                divided = 0;
            }
            b' ' | b'-' if divided == 0 => divided = 1,
            _ => break,
        }
        if digits.len() > *LENGTHS.end() {
            return None;
        }
    }
    let first = digits
        .get(..4)?
        .iter()
        .fold(0, |sum, d| sum * 10 + u32::from(d - b'0'));
    let (_, lengths) = ISSUERS.iter().find(|(range, _)| range.contains(&first))?;
    let letter = text
        .get(end)
        .is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
    let repeated = digits.iter().all(|digit| Some(digit) == digits.first());
    (lengths.contains(&digits.len()) && luhn(&digits) && !letter && !repeated).then_some(end)
}

/// Tells of every card number in a text: not of digits within a longer number, a word or a fraction.
pub(super) fn cards(text: &str, tell: &mut dyn FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(found) = bytes
        .get(at..)
        .and_then(|rest| rest.iter().position(u8::is_ascii_digit))
    {
        let start = at + found;
        let before = start.checked_sub(1).and_then(|at| bytes.get(at));
        let inside = before.is_some_and(|b| b.is_ascii_alphanumeric() || b"_.-".contains(b));
        let end = (!inside).then(|| card(bytes, start)).flatten();
        if let Some(end) = end {
            tell(start..end);
            at = end;
        } else {
            let rest = bytes.get(start..).unwrap_or_default();
            at = start + rest.iter().take_while(|b| b.is_ascii_digit()).count();
        }
    }
}
