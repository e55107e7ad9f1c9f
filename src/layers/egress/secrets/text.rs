//! Small readers over text: runs of characters, word boundaries, and whether a token is random or stands for one.

/// Bytes that tokens are made of.
pub(super) type Is = fn(u8) -> bool;

pub(super) fn base62(b: u8) -> bool {
    b.is_ascii_alphanumeric()
}

pub(super) fn word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

pub(super) fn url_safe(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

pub(super) fn base64(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=')
}

pub(super) fn hex(b: u8) -> bool {
    b.is_ascii_digit() || (b'a'..=b'f').contains(&b)
}

pub(super) fn upper(b: u8) -> bool {
    b.is_ascii_uppercase() || b.is_ascii_digit()
}

/// What `Authorization` and similar values are made of.
pub(super) fn token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b)
}

pub(super) fn dashed(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'-' || b == b'.'
}

/// The bytes from `from` on that `is` takes, at most `most`.
pub(super) fn run(text: &str, from: usize, is: Is, most: usize) -> &str {
    let rest = text.get(from..).unwrap_or_default();
    let length = rest.bytes().take(most).take_while(|b| is(*b)).count();
    rest.get(..length).unwrap_or_default()
}

/// The byte before `at`.
pub(super) fn before(text: &str, at: usize) -> Option<u8> {
    at.checked_sub(1)
        .and_then(|at| text.as_bytes().get(at))
        .copied()
}

/// Whether a token may begin at `at`: no letter or digit stands before it.
pub(super) fn begins(text: &str, at: usize) -> bool {
    before(text, at).is_none_or(|b| !b.is_ascii_alphanumeric())
}

/// Skips blanks, quotes and the signs of an assignment, at most `most` bytes, and says where the value begins.
pub(super) fn value_at(text: &str, from: usize, most: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let skipped = rest
        .bytes()
        .take(most)
        .take_while(|b| b" \t\r\n\"'`:=>\\".contains(b))
        .count();
    from + skipped
}

/// Words by which authors mark what is no secret.
const STANDS_FOR: [&str; 15] = [
    "example",
    "xxxx",
    "your",
    "placeholder",
    "dummy",
    "redacted",
    "changeme",
    "sample",
    "insert",
    "replace",
    "....",
    "****",
    "${",
    "{{",
    "<",
];

/// Whether a token only stands for one: it says so, or repeats itself.
pub(super) fn is_placeholder(token: &str) -> bool {
    let lower = token.to_ascii_lowercase();
    let named = STANDS_FOR.iter().any(|word| lower.contains(word));
    let longest = lower
        .as_bytes()
        .chunk_by(|a, b| a == b)
        .map(<[u8]>::len)
        .max();
    named || longest.is_some_and(|longest| longest > 5) || distinct(token) < 5.min(token.len() / 2)
}

fn distinct(token: &str) -> usize {
    let mut seen = [false; 256];
    for byte in token.bytes() {
        if let Some(seen) = seen.get_mut(usize::from(byte)) {
            *seen = true;
        }
    }
    seen.iter().filter(|seen| **seen).count()
}

/// Whether a token looks drawn by lot: letters and digits, and many different ones.
pub(super) fn is_random(token: &str) -> bool {
    let has = |is: fn(&u8) -> bool| token.as_bytes().iter().any(is);
    has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && entropy(token.as_bytes()) >= 3.0
        && !is_placeholder(token)
}

/// Bits per byte, by how often each byte stands there.
pub(super) fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let all = f64::from(u32::try_from(bytes.len()).unwrap_or(u32::MAX)).max(1.0);
    let shares = counts.iter().filter(|count| **count > 0);
    let bits: f64 = shares
        .map(|count| {
            let share = f64::from(*count) / all;
            -share * share.log2()
        })
        .sum();
    // Of one kind of byte the sum is a negative zero.
    bits.max(0.0)
}
