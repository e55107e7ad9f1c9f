//! Other forms in which a text may carry the same: escaped, percent-encoded, in base64 or hexadecimal, with hidden characters.
//!
//! Each form is read once, and what it gives is read once more, so the work is some small multiple of the text.

use percent_encoding::percent_decode_str;

use super::check::decoded;
use crate::unicode::is_ignorable;

/// Shortest run of base64 and hexadecimal digits that is decoded: a shorter one holds no secret.
const SHORTEST: usize = 20;
/// Lines of this length and more may be one encoded text.
const LINE: usize = 60;

/// Shows every other form of the text.
pub(super) fn forms(text: &str, show: &mut dyn FnMut(&str)) {
    if !text.is_ascii() {
        let seen: String = text.chars().filter(|c| !is_ignorable(*c)).collect();
        if seen.len() < text.len() {
            show(&seen);
        }
    }
    if text.contains('\\') {
        show(&unescaped(text));
    }
    if text.contains('%') {
        let plain = percent_decode_str(text).decode_utf8_lossy();
        if plain != text {
            show(&plain);
        }
    }
    encoded(text, show);
}

/// JSON's escapes undone; what is none stays.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let next = after.chars().next();
        let (c, length) = match next {
            Some('n') => ('\n', 1),
            Some('t') => ('\t', 1),
            Some('r') => ('\r', 1),
            Some(c @ ('"' | '/' | '\\' | '\'')) => (c, 1),
            Some('u') => match code(after) {
                Some(c) => (c, 5),
                None => ('\\', 0),
            },
            _ => ('\\', 0),
        };
        plain.push(c);
        rest = after.get(length..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

fn code(after: &str) -> Option<char> {
    let digits = after.get(1..5)?;
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

fn is_base64(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"+/-_".contains(&b)
}

/// Runs of base64 or hexadecimal digits that decode to text.
fn encoded(text: &str, show: &mut dyn FnMut(&str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        let length = rest.iter().take_while(|b| is_base64(**b)).count();
        if length == 0 {
            at += rest.iter().take_while(|b| !is_base64(**b)).count();
            continue;
        }
        let mut joined = Vec::new();
        let mut end = at + length;
        if length >= LINE {
            end = lines(bytes, at, &mut joined);
        }
        if length >= SHORTEST {
            let run = text.get(at..at + length).unwrap_or_default();
            let run = if joined.is_empty() {
                run
            } else {
                std::str::from_utf8(&joined).unwrap_or(run)
            };
            let plain = hexadecimal(run).or_else(|| decoded(run).and_then(readable));
            if let Some(plain) = plain {
                show(&plain);
            }
        }
        at = end.max(at + 1);
    }
}

/// Joins the lines of one encoded text and says where the last ends.
fn lines(bytes: &[u8], start: usize, joined: &mut Vec<u8>) -> usize {
    let mut at = start;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let line = rest.iter().take_while(|b| is_base64(**b)).count();
        joined.extend_from_slice(rest.get(..line).unwrap_or_default());
        at += line;
        let after = bytes.get(at..).unwrap_or_default();
        let gap = match after {
            [b'\r', b'\n', next, ..] if is_base64(*next) => 2,
            [b'\n', next, ..] if is_base64(*next) => 1,
            _ => return at,
        };
        if line < LINE {
            return at;
        }
        at += gap;
    }
}

fn hexadecimal(run: &str) -> Option<String> {
    let digits = run.bytes().all(|b| b.is_ascii_hexdigit());
    if !digits || run.len() % 2 == 1 {
        return None;
    }
    readable(
        data_encoding::HEXLOWER_PERMISSIVE
            .decode(run.as_bytes())
            .ok()?,
    )
}

/// Text, as opposed to other bytes that happen to decode.
fn readable(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let odd = text
        .bytes()
        .filter(|b| b.is_ascii_control() && !b.is_ascii_whitespace())
        .count();
    (text.len() >= 8 && odd * 16 <= text.len()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let mut shown = Vec::new();
        forms(text, &mut |form| shown.push(form.to_owned()));
        shown
    }

    #[test]
    fn encoded_texts_are_read_and_ids_are_not() {
        let plain = "the quick brown fox jumps over it";
        for text in [
            data_encoding::BASE64.encode(plain.as_bytes()),
            format!(
                "x={}&y",
                data_encoding::BASE64URL_NOPAD.encode(plain.as_bytes())
            ),
            data_encoding::HEXUPPER.encode(plain.as_bytes()),
            plain.replace(' ', "%20"),
            plain.replace('q', "\\u0071"),
            plain.replace("ck", "c\u{200b}k"),
        ] {
            assert!(
                shown(&text).iter().any(|form| form.contains(plain)),
                "{text}"
            );
        }
        let long = plain.repeat(8);
        let wrapped = data_encoding::BASE64_MIME.encode(long.as_bytes());
        assert!(shown(&wrapped).contains(&long), "{wrapped}");
        for id in [
            "123e4567-e89b-12d3-a456-426614174000",
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        ] {
            assert_eq!(shown(id), Vec::<String>::new());
        }
    }
}
