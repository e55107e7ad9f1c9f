//! Every URL in a text, found so that what is judged is what any reader of the text would open.
//!
//! Found are absolute URLs of every scheme, with any number and kind of slashes, scheme-relative `//host`, and `www.` names
//! without a scheme; also those that stand there percent-encoded.

use std::borrow::Cow;
use std::collections::HashSet;

use percent_encoding::percent_decode_str;

use super::code::{Code, Denied};
use super::run::{self, Found, MAX_AUTHORITY, MAX_TAIL};
use super::target::{BACKSLASH, SCHEME, SLASHES, network};
use crate::unicode::is_ignorable;

const HIDDEN: Denied = Denied::new(Code::ControlChar, "a control character in the scheme");

/// Rounds of percent-decoding behind which URLs are looked for.
const ROUNDS: usize = 3;

/// Schemes that open no connection to a host of their own; mail and telephone are the recipients' concern.
const HARMLESS: [&str; 11] = [
    "mailto", "tel", "sms", "urn", "cid", "mid", "about", "geo", "magnet", "xmpp", "sip",
];

/// Whether the scheme opens no connection of its own.
pub(super) fn is_harmless(scheme: &str) -> bool {
    HARMLESS
        .iter()
        .any(|name| name.eq_ignore_ascii_case(scheme))
}

/// Every URL in `text`, in order; then those that stand there percent-encoded, or between characters that nobody sees.
pub fn find(text: &str) -> Vec<Found> {
    let mut found = plain(text);
    let encoded = hides_url(text);
    let invisible = !text.is_ascii() && text.contains(is_ignorable);
    if !encoded && !invisible {
        return found;
    }
    let mut known: HashSet<_> = found.iter().map(decoded).collect();
    let mut add = |more: Vec<Found>| {
        for more in more.into_iter().filter(|more| known.insert(decoded(more))) {
            let span = 0..text.len();
            found.push(Found { span, ..more });
        }
    };
    let visible = invisible.then(|| text.replace(is_ignorable, ""));
    if let Some(visible) = &visible {
        add(plain(visible));
    }
    let mut now = Cow::Borrowed(visible.as_deref().unwrap_or(text));
    for _ in 0..ROUNDS {
        if !hides_url(&now) {
            break;
        }
        let Ok(next) = percent_decode_str(&now).decode_utf8() else {
            break;
        };
        let next = next.into_owned();
        // Only with a scheme: two slashes alone are more often a part of some path.
        let mut more = plain(&next);
        more.retain(|more| !more.bare);
        add(more);
        now = Cow::Owned(next);
    }
    found
}

/// What was found, without regard to escapes: the same URL once more is not news.
fn decoded(found: &Found) -> String {
    match &found.url {
        Ok(url) => {
            let shown = url.to_string();
            percent_decode_str(&shown).decode_utf8_lossy().into_owned()
        }
        Err(denied) => denied.code.to_string(),
    }
}

/// Whether a colon or a slash stands percent-encoded.
fn hides_url(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.windows(3).any(|window| {
        matches!(
            window,
            [b'%', b'3', b'a' | b'A']
                | [b'%', b'2', b'f' | b'F' | b'5']
                | [b'%', b'5', b'c' | b'C']
        )
    })
}

/// What was found, and how many bytes of paths and queries may still be read: URLs that are glued to each other share theirs.
struct Search {
    found: Vec<Found>,
    left: usize,
}

impl Search {
    fn push(&mut self, found: Found) {
        self.found.push(found);
    }

    fn url(&mut self, text: &str, scheme: &'static str, places: (usize, usize, usize), bare: bool) {
        let found = run::url(text, scheme, places, self.left.min(MAX_TAIL));
        self.left = self.left.saturating_sub(found.span.len());
        self.found.push(Found { bare, ..found });
    }
}

fn plain(text: &str) -> Vec<Found> {
    let mut found = Search {
        found: Vec::new(),
        left: text.len().saturating_mul(4).saturating_add(MAX_TAIL),
    };
    let start = text.len() - text.trim_start_matches(is_trimmed).len();
    if hides_scheme(text.get(start..).unwrap_or_default()) {
        let colon = text.find(':').unwrap_or(text.len());
        found.push(Found::refused(start..colon, HIDDEN));
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let next = match byte {
            b':' => after_scheme(text, start, at, &mut found),
            b'/' | b'\\' => relative(text, start, at, &mut found),
            b'w' | b'W' => without_scheme(text, start, at, &mut found),
            _ => None,
        };
        at = next.unwrap_or(at + 1).max(at + 1);
    }
    found.found
}

/// What URL readers drop at the start of a string.
fn is_trimmed(c: char) -> bool {
    c <= ' ' || c.is_whitespace()
}

/// Readers drop tabs and line ends wherever they stand: `java<TAB>script:` is a scheme.
fn hides_scheme(text: &str) -> bool {
    let Some((head, _)) = text.split_once(':') else {
        return false;
    };
    if !head.contains(['\t', '\r', '\n']) || head.len() > 64 {
        return false;
    }
    let scheme = head.replace(['\t', '\r', '\n'], "");
    network(&scheme).is_some() || is_active(&scheme) || scheme.eq_ignore_ascii_case("file")
}

/// Whether the scheme holds code or data instead of a place.
pub(super) fn is_active(scheme: &str) -> bool {
    ["javascript", "vbscript", "data"]
        .iter()
        .any(|name| name.eq_ignore_ascii_case(scheme))
}

/// The letters before the colon, if they make a scheme.
fn scheme_before(text: &str, colon: usize) -> Option<(usize, &str)> {
    let head = text.get(..colon)?;
    let run = head.len()
        - head
            .trim_end_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
            .len();
    let run = head.get(head.len() - run..)?;
    let scheme = run.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    // One letter is a drive or a label, not a scheme.
    (scheme.len() > 1).then_some((colon - scheme.len(), scheme))
}

fn after_scheme(text: &str, start: usize, colon: usize, found: &mut Search) -> Option<usize> {
    let (begin, scheme) = scheme_before(text, colon)?;
    let rest = text.get(colon + 1..)?;
    let after = rest.trim_start_matches(['/', '\\', '\t', '\r', '\n']);
    let slashes = rest.get(..rest.len() - after.len())?;
    let at = text.len() - after.len();
    let follows = after.chars().next().filter(|c| starts_host(*c));
    if is_active(scheme) {
        let opaque = rest.chars().next().is_some_and(|c| !c.is_whitespace());
        if opaque && (!scheme.eq_ignore_ascii_case("data") || is_data(rest)) {
            found.push(Found::refused(begin..colon + 1, SCHEME));
        }
        return None;
    }
    let count = slashes.chars().filter(|c| matches!(c, '/' | '\\')).count();
    let Some(known) = network(scheme) else {
        let local = scheme.eq_ignore_ascii_case("file");
        let opens = slashes.starts_with(['/', '\\'])
            && if local {
                !after.is_empty() || count > 1
            } else {
                count > 1 && follows.is_some()
            };
        if opens
            && !HARMLESS
                .iter()
                .any(|name| name.eq_ignore_ascii_case(scheme))
        {
            found.push(Found::refused(begin..word(text, at), SCHEME));
        }
        return None;
    };
    let follows = follows?;
    let refusal = match slashes {
        "//" => None,
        "" if follows.is_ascii_digit() => return None,
        // A colon at the end of a line, and a new line that is no URL's rest.
        _ if count == 0 && slashes.contains(['\t', '\r', '\n']) => return None,
        _ if slashes.contains('\\') => Some(BACKSLASH),
        _ => Some(SLASHES),
    };
    if let Some(refusal) = refusal {
        found.push(Found::refused(begin..word(text, at), refusal));
        return Some(at);
    }
    found.url(text, known, (start, begin, at), false);
    // Not past the authority: another URL may be glued to this one.
    Some(at)
}

/// The end of the word that goes on at `from`.
fn word(text: &str, from: usize) -> usize {
    let ends = |c: char| c.is_whitespace() || c.is_control() || "\"<>`".contains(c);
    let rest = text.get(from..).unwrap_or_default();
    from + rest.find(ends).unwrap_or(rest.len())
}

/// RFC 2397: a media type or nothing, then a comma.
fn is_data(rest: &str) -> bool {
    let near = rest
        .get(..rest.floor_char_boundary(MAX_AUTHORITY))
        .unwrap_or_default();
    let token = near.split(char::is_whitespace).next().unwrap_or_default();
    token
        .split_once(',')
        .is_some_and(|(kind, _)| kind.is_empty() || kind.contains(['/', ';']))
}

fn starts_host(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '[' | '.' | '-' | '_' | '@' | '%' | ':' | '~')
}

/// `//host`, `\\host` and mixtures, where a link could stand.
fn relative(text: &str, start: usize, at: usize, found: &mut Search) -> Option<usize> {
    let rest = text.get(at..)?;
    let after = rest.trim_start_matches(['/', '\\']);
    let slashes = rest.get(..rest.len() - after.len())?;
    let host = text.len() - after.len();
    let before = text.get(..at).and_then(|head| head.chars().next_back());
    let skip = Some(host);
    if slashes.len() < 2 || before.is_some_and(|c| c.is_alphanumeric() || ":.-_~%".contains(c)) {
        return skip;
    }
    if !after.starts_with(|c: char| c.is_alphanumeric() || c == '[') {
        return skip;
    }
    let first = at == start;
    let (_, end) = run::authority(text, "https", host);
    let name = text.get(host..end).unwrap_or_default();
    let slash_follows = text
        .get(end..)
        .is_some_and(|tail| tail.starts_with(['/', '\\']));
    // `//comment` and `\\command` are not links; a name with a dot, or a path behind it, is.
    let link = first || before.is_some_and(|c| "(\"'=<".contains(c));
    let looks = is_dotted(name) || name.starts_with('[');
    let bare = slashes == "//" && link && slash_follows || first && slash_follows;
    if !looks && !bare {
        return skip;
    }
    if slashes.contains('\\') {
        found.push(Found::refused(at..end, BACKSLASH));
    } else if slashes.len() > 2 {
        if link {
            found.push(Found::refused(at..end, SLASHES));
        }
    } else {
        // The scheme is that of the page it stands on.
        found.url(text, "https", (text.len(), at, host), true);
    }
    skip
}

fn is_dotted(name: &str) -> bool {
    let name = name.trim_end_matches(|c: char| !c.is_alphanumeric());
    name.split_once('.')
        .is_some_and(|(first, _)| !first.is_empty())
}

/// `www.name`, which every client turns into a link.
fn without_scheme(text: &str, start: usize, at: usize, found: &mut Search) -> Option<usize> {
    let rest = text.get(at..)?;
    let www = rest.get(..4)?;
    if !www.eq_ignore_ascii_case("www.") {
        return None;
    }
    let before = text.get(..at).and_then(|head| head.chars().next_back());
    if before.is_some_and(|c| c.is_alphanumeric() || ".-_@/\\".contains(c)) {
        return None;
    }
    if !rest.get(4..)?.starts_with(char::is_alphanumeric) {
        return None;
    }
    found.url(text, "http", (start, at, at), true);
    Some(at + 4)
}

#[cfg(test)]
mod tests;
