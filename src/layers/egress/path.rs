//! Prefixes of paths, by whole segments, where readers must agree about what a path names.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::code::{Code, Denied};

const DOTS: Denied = Denied::new(Code::AmbiguousPath, "an encoded dot segment in the path");
const SLASH: Denied = Denied::new(
    Code::AmbiguousPath,
    "an encoded slash or backslash in the path",
);
const CONTROL: Denied = Denied::new(
    Code::AmbiguousPath,
    "an encoded control character in the path",
);
const PARAMETER: Denied = Denied::new(Code::AmbiguousPath, "a dot segment with a parameter");
const ESCAPE: Denied = Denied::new(Code::AmbiguousPath, "a broken escape in the path");

/// Rounds of decoding that some chain of servers may do.
const ROUNDS: usize = 4;

/// A path and everything below it, by whole segments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prefix(Vec<String>);

impl Prefix {
    /// Reads a prefix such as `/v1/orders`; a slash at its end changes nothing.
    ///
    /// # Errors
    /// A path that does not begin with a slash, is ambiguous, has dot segments or empty ones, a query or a fragment.
    pub fn read(text: &str) -> Result<Self, Denied> {
        let plain = text.starts_with('/')
            && !text.contains(['?', '#', '\\', '*'])
            && !text.contains(|c: char| c.is_whitespace() || c.is_control());
        if !plain {
            return Err(Denied::new(
                Code::MalformedUrl,
                "a path begins with a slash and has no query, no blank and no `*`",
            ));
        }
        unambiguous(text)?;
        let inner = text.trim_matches('/');
        let segments: Vec<_> = inner.split('/').map(canonical).collect();
        let odd = |segment: &Cow<'_, str>| matches!(segment.as_ref(), "" | "." | "..");
        if !inner.is_empty() && segments.iter().any(odd) {
            return Err(Denied::new(
                Code::AmbiguousPath,
                "dot segments or empty segments in the path",
            ));
        }
        let segments = segments.into_iter().map(Cow::into_owned);
        Ok(Self(
            segments.filter(|segment| !segment.is_empty()).collect(),
        ))
    }

    /// Whether the path is this one or below it, however a server treats empty segments. `path` must have passed
    /// [`unambiguous`].
    pub fn covers(&self, path: &str) -> bool {
        let merged: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        let literal: Vec<_> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
        self.begins(&resolved(&merged)) && self.begins(&resolved(&literal))
    }

    fn begins(&self, segments: &[&str]) -> bool {
        segments.len() >= self.0.len()
            && self
                .0
                .iter()
                .zip(segments)
                .all(|(ours, theirs)| *ours == canonical(theirs))
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}", self.0.join("/"))
    }
}

/// What is not ASCII stands percent-encoded, escapes in upper case and only where they are needed.
fn canonical(segment: &str) -> Cow<'_, str> {
    if segment
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~'))
    {
        return Cow::Borrowed(segment);
    }
    let bytes: Vec<u8> = percent_decode_str(segment).collect();
    percent_encoding::percent_encode(&bytes, RESERVED)
        .to_string()
        .into()
}

const RESERVED: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'%')
    .add(b'<')
    .add(b'>');

/// RFC 3986 section 5.2.4, on segments.
fn resolved<'p>(segments: &[&'p str]) -> Vec<&'p str> {
    let mut out = Vec::with_capacity(segments.len());
    for segment in segments {
        match *segment {
            "." => {}
            ".." => drop(out.pop()),
            segment => out.push(segment),
        }
    }
    out
}

/// Refuses a path that servers resolve or decode each in their own way.
pub(super) fn unambiguous(path: &str) -> Result<(), Denied> {
    for segment in path.split('/') {
        segment_is_plain(segment)?;
    }
    Ok(())
}

fn segment_is_plain(segment: &str) -> Result<(), Denied> {
    if segment.contains('\\') {
        return Err(SLASH);
    }
    // `..;x` is `..` to some servers.
    if let Some((name, _)) = segment.split_once(';')
        && matches!(name, "." | "..")
    {
        return Err(PARAMETER);
    }
    let mut bytes = segment.as_bytes().to_vec();
    for round in 0..ROUNDS {
        if !bytes.contains(&b'%') {
            break;
        }
        let decoded: Vec<u8> = percent_encoding::percent_decode(&bytes).collect();
        if decoded == bytes {
            // A bare percent sign: nothing is left to decode.
            return if round == 0 { Err(ESCAPE) } else { Ok(()) };
        }
        let name = decoded.split(|b| *b == b';').next().unwrap_or_default();
        if matches!(name, b"." | b"..") {
            return Err(DOTS);
        }
        if decoded.iter().any(|b| matches!(b, b'/' | b'\\')) {
            return Err(SLASH);
        }
        if decoded.iter().any(u8::is_ascii_control) {
            return Err(CONTROL);
        }
        bytes = decoded;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_covers_whole_segments_after_dots_are_removed() {
        for (prefix, path, covered) in [
            ("/v1", "/v1", true),
            ("/v1", "/v1/", true),
            ("/v1/", "/v1", true),
            ("/v1/", "/v1/a/b", true),
            ("/v1", "/v1/./a", true),
            ("/v1", "/v1/a/../b", true),
            ("/v1", "/x/../v1/a", true),
            ("/v1", "/%76%31/a", true),
            ("/", "/anything", true),
            ("/b\u{fc}cher", "/b%C3%BCcher/1", true),
            ("/v1", "/v12", false),
            ("/v1", "/V1", false),
            ("/v1", "/v1/../admin", false),
            ("/v1", "/v1/a/../../admin", false),
            ("/v1", "/v1//../admin", false),
            ("/v1", "//v1", false),
            ("/v1", "/", false),
            ("/v1/a", "/v1", false),
        ] {
            unambiguous(path).unwrap();
            let prefix = Prefix::read(prefix).unwrap();
            assert_eq!(prefix.covers(path), covered, "{prefix} {path}");
        }
    }

    #[test]
    fn what_servers_decode_each_in_their_own_way_is_ambiguous() {
        for path in [
            "/v1/%2e%2e/admin",
            "/v1/.%2E/admin",
            "/v1/%2e/a",
            "/v1%2fadmin",
            "/v1/..%2Fadmin",
            "/v1/..%5cadmin",
            "/v1/..\\admin",
            "/v1/%252e%252e/admin",
            "/v1/%25252e%25252e/admin",
            "/v1/..;/admin",
            "/v1/..;a=b/admin",
            "/v1/%2e%2e;/admin",
            "/v1/a%00",
            "/v1/%0d%0ax",
            "/v1/%zz",
        ] {
            assert_eq!(
                unambiguous(path).map_err(|denied| denied.code),
                Err(Code::AmbiguousPath),
                "{path}"
            );
        }
        for path in [
            "/v1/100%25",
            "/v1/a%20b",
            "/v1/file%2Etxt",
            "/v1/a;b=c",
            "/v1/...",
        ] {
            assert_eq!(unambiguous(path), Ok(()), "{path}");
        }
    }
}
