//! What stands around words: punctuation as marks, borders, and which bytes words are made of.

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

/// Length of the character at `at`, and whether its script has no spaces between words.
#[inline]
pub(super) fn wide(view: &[u8], at: usize) -> Option<(usize, bool)> {
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
pub(super) fn is_wide_punctuation(view: &[u8], at: usize) -> bool {
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
pub(super) fn marks_before(gap: &[u8]) -> u16 {
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
pub(super) fn marks_after(next: &[u8]) -> u16 {
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
pub(super) fn is_border(gap: &[u8]) -> bool {
    if gap.len() < 2 {
        return false;
    }
    let two_lines = gap.iter().filter(|byte| **byte == b'\n').nth(1).is_some();
    two_lines || (gap.contains(&b'"') && gap.iter().any(|byte| matches!(byte, b',' | b'}' | b']')))
}
