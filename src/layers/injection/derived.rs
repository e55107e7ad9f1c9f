//! Other readings of a text: what stands behind tags, spaced letters, percent signs, rotation, reversal. Each is made only
//! where the bytes ask for it.

#![expect(
    clippy::needless_bitwise_bool,
    reason = "tests without branches take many bytes at a time"
)]

use html5gum::Tokenizer;
use html5gum::emitters::default::{DefaultEmitter, Token};

use super::view::{Builder, View};

/// Escapes from which percent signs and quoted-printable are read.
const ESCAPES: usize = 6;

/// Names of tags that do not part words.
const INLINE: [&[u8]; 24] = [
    b"a", b"abbr", b"b", b"bdi", b"bdo", b"code", b"em", b"font", b"i", b"img", b"ins", b"del",
    b"kbd", b"mark", b"q", b"s", b"samp", b"small", b"span", b"strong", b"sub", b"sup", b"u",
    b"wbr",
];

/// The text without its tags and comments; none if there are no tags.
pub(super) fn untagged(view: &[u8]) -> Option<View<'static>> {
    if pairs(view, |a, b| {
        (a == b'<') & (b.is_ascii_alphabetic() | (b == b'/') | (b == b'!'))
    }) == 0
    {
        return None;
    }
    let text = std::str::from_utf8(view).ok()?;
    let mut out = Builder::new(view.len());
    let mut at = 0;
    let emitter = DefaultEmitter::<usize>::new_with_span();
    for token in Tokenizer::new_with_emitter(text, emitter) {
        let Ok(token) = token;
        let (span, inline) = match &token {
            Token::StartTag(tag) => (tag.span, is_inline(&tag.name)),
            Token::EndTag(tag) => (tag.span, is_inline(&tag.name)),
            Token::Comment(comment) => (comment.span, true),
            Token::Doctype(doctype) => (doctype.span, false),
            Token::String(_) | Token::Error(_) => continue,
        };
        out.copy(at, view.get(at..span.start).unwrap_or_default());
        if !inline {
            out.push(span.start, b'\n');
        }
        at = span.end.max(at);
    }
    out.copy(at, view.get(at..).unwrap_or_default());
    Some(out.finish(view.len()))
}

fn is_inline(name: &[u8]) -> bool {
    INLINE
        .iter()
        .any(|inline| inline.eq_ignore_ascii_case(name))
}

/// `%41` or `=41` read, where there are many.
pub(super) fn unescaped(view: &[u8], sign: u8) -> Option<View<'static>> {
    if pairs(view, |a, b| (a == sign) & b.is_ascii_hexdigit()) < ESCAPES {
        return None;
    }
    let escapes = memchr::memchr_iter(sign, view).filter(|at| hex(view, at + 1).is_some());
    if escapes.take(ESCAPES).count() < ESCAPES {
        return None;
    }
    let mut out = Unescaped::new(view.len());
    let mut at = 0;
    let plus = if sign == b'%' { b'+' } else { sign };
    while let Some(rest) = view.get(at..).filter(|rest| !rest.is_empty()) {
        let run = memchr::memchr2(sign, plus, rest).unwrap_or(rest.len());
        out.run(at, rest.get(..run).unwrap_or_default());
        at += run;
        let Some(&byte) = view.get(at) else { break };
        let (decoded, read) = match (byte == sign, hex(view, at + 1)) {
            (true, Some(decoded)) => (Some(decoded), 3),
            // A soft line break.
            (true, None) if sign == b'=' && view.get(at + 1) == Some(&b'\n') => (None, 2),
            (true, None) if sign == b'=' && view.get(at + 1) == Some(&b'\r') => (None, 3),
            (false, _) => (Some(b' '), 1),
            _ => (Some(byte), 1),
        };
        if let Some(decoded) = decoded {
            out.run(at, &[decoded]);
        }
        at += read;
    }
    Some(out.view())
}

fn hex(view: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| char::from(*view.get(at)?).to_digit(16);
    u8::try_from(digit(at)? * 16 + digit(at + 1)?).ok()
}

/// Bytes that are valid text or not, with where they come from.
struct Unescaped {
    bytes: Vec<u8>,
    /// Where runs begin: in the bytes, and in what they come from.
    runs: Vec<(usize, usize)>,
    original: usize,
}

impl Unescaped {
    fn new(original: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(original),
            runs: Vec::new(),
            original,
        }
    }

    fn run(&mut self, from: usize, run: &[u8]) {
        if !run.is_empty() {
            self.runs.push((self.bytes.len(), from));
            self.bytes.extend_from_slice(run);
        }
    }

    /// The view; what is no text becomes spaces.
    fn view(self) -> View<'static> {
        let mut out = Builder::new(self.bytes.len());
        let mut runs = self.runs.iter().copied().peekable();
        let mut origin = (0, 0);
        let mut at = 0;
        let mut add = |out: &mut Builder, at: usize, piece: &[u8]| {
            let mut done = 0;
            while done < piece.len() {
                while let Some(next) = runs.next_if(|next| next.0 <= at + done) {
                    origin = next;
                }
                let end = runs
                    .peek()
                    .map_or(piece.len(), |next| (next.0 - at).min(piece.len()));
                let part = piece.get(done..end).unwrap_or_default();
                out.copy(origin.1 + (at + done - origin.0), part);
                done = end;
            }
        };
        for chunk in self.bytes.utf8_chunks() {
            add(&mut out, at, chunk.valid().as_bytes());
            at += chunk.valid().len();
            if !chunk.invalid().is_empty() {
                add(&mut out, at, b" ");
                at += chunk.invalid().len();
            }
        }
        out.finish(self.original)
    }
}

/// A letter-for-letter reading: ROT13 or Atbash.
pub(super) fn swapped(view: &[u8], letter: fn(u8) -> u8) -> View<'static> {
    let mut out = Builder::new(view.len());
    let swapped: Vec<u8> = view.iter().map(|byte| letter(*byte)).collect();
    out.copy(0, &swapped);
    out.finish(view.len())
}

/// ROT13 of a letter.
pub(super) fn rot13(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
        _ => byte,
    }
}

/// Atbash of a letter.
pub(super) fn atbash(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => b'z' - (byte - b'a'),
        b'A'..=b'Z' => b'Z' - (byte - b'A'),
        _ => byte,
    }
}

/// The text from its end to its start: line by line, so that offsets stay near. The map of a reversed line is the line.
pub(super) fn reversed(view: &[u8]) -> View<'static> {
    let mut out = Builder::new(view.len());
    let mut at = 0;
    for line in view.split_inclusive(|byte| *byte == b'\n') {
        let body = line.strip_suffix(b"\n").unwrap_or(line);
        for c in String::from_utf8_lossy(body).chars().rev() {
            out.push_char(at, c, 0);
        }
        if body.len() < line.len() {
            out.push(at + body.len(), b'\n');
        }
        at += line.len();
    }
    out.finish(view.len())
}

/// Each word from its end to its start.
pub(super) fn reversed_words(view: &[u8]) -> View<'static> {
    let mut out = Builder::new(view.len());
    let mut at = 0;
    while at < view.len() {
        let rest = view.get(at..).unwrap_or_default();
        let word = rest
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        if word == 0 {
            let gap = rest
                .iter()
                .take_while(|byte| !byte.is_ascii_alphanumeric())
                .count();
            out.copy(at, rest.get(..gap).unwrap_or_default());
            at += gap;
        } else {
            for byte in rest.get(..word).unwrap_or_default().iter().rev() {
                out.push(at, *byte);
            }
            at += word;
        }
    }
    out.finish(view.len())
}

/// Words written together with capitals, `LikeThisSentenceHere`, taken apart; runs of four or more.
pub(super) fn uncamelled(view: &[u8]) -> Option<View<'static>> {
    if pairs(view, |a, b| a.is_ascii_lowercase() & b.is_ascii_uppercase()) < 3 {
        return None;
    }
    let hump = |at: usize| {
        view.get(at).is_some_and(u8::is_ascii_lowercase)
            && view.get(at + 1).is_some_and(u8::is_ascii_uppercase)
    };
    let mut out: Option<Builder> = None;
    let mut copied = 0;
    let mut at = 0;
    while at < view.len() {
        let word = view
            .get(at..)
            .unwrap_or_default()
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        if word >= 12 && (at..at + word).filter(|at| hump(*at)).take(3).count() == 3 {
            let builder = out.get_or_insert_with(|| Builder::new(view.len()));
            for humped in (at..at + word).filter(|at| hump(*at)) {
                builder.copy(copied, view.get(copied..=humped).unwrap_or_default());
                builder.push(humped, b' ');
                copied = humped + 1;
            }
        }
        at += word.max(1);
    }
    let mut out = out?;
    out.copy(copied, view.get(copied..).unwrap_or_default());
    Some(out.finish(view.len()))
}

/// How many neighbours pass a test that has no branches: many bytes at a time.
pub(super) fn pairs(view: &[u8], test: impl Fn(u8, u8) -> bool) -> usize {
    let next = view.get(1..).unwrap_or_default();
    view.chunks(128)
        .zip(next.chunks(128))
        .map(|(a, b)| {
            usize::from(
                a.iter()
                    .zip(b)
                    .map(|(a, b)| u8::from(test(*a, *b)))
                    .sum::<u8>(),
            )
        })
        .sum()
}

/// Whether digits or signs stand before letters, inside words, often enough to read them as letters.
pub(super) fn is_leet(view: &[u8]) -> bool {
    let stands = |byte: u8| {
        matches!(
            byte,
            b'0' | b'1' | b'3' | b'4' | b'5' | b'7' | b'@' | b'$' | b'!' | b'|'
        )
    };
    if pairs(view, |a, b| stands(a) & b.is_ascii_alphabetic()) < 3 {
        return false;
    }
    let mut words = 0;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || stands(byte);
    for word in view.split(|byte| !is_part(*byte)) {
        let turns = word
            .windows(2)
            .filter(|pair| {
                pair.first().is_some_and(|byte| stands(*byte))
                    && pair.get(1).is_some_and(u8::is_ascii_alphabetic)
            })
            .count();
        // Hashes and numbers in hex have no letter beyond the sixth.
        let beyond = word
            .iter()
            .any(|byte| byte.is_ascii_alphabetic() && !byte.is_ascii_hexdigit());
        words += if turns == 0 || !beyond {
            0
        } else if word.len() >= 20 {
            turns.div_ceil(2)
        } else {
            1
        };
        if words >= 3 {
            return true;
        }
    }
    false
}
