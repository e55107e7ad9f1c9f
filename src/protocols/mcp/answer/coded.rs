//! Base64 in a server's message: where the protocol has it, and what is written so.

use std::borrow::Cow;

use data_encoding::{BASE64, Specification};

use crate::wire::json::Node;

/// Shortest base64 that is taken for binary: anything shorter costs nothing to judge as it is written.
const LEAST: usize = 64;

/// Shortest line of base64 in lines.
const LINE: usize = 60;

/// Where a node stands. Clients decode only what stands where the protocol has it: anywhere else a model reads what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// A result, or what a sample is asked for with.
    Root,
    /// `messages` of it.
    Messages,
    /// One of them.
    Message,
    /// `content` of a result or a message: parts, or the only one.
    Content,
    /// One of several parts.
    Part,
    /// `contents` of a result.
    Resources,
    /// One of them, or what is embedded in a part.
    Resource,
    /// Anywhere else.
    Other,
}

impl Spot {
    /// Where a member of the object at this place stands.
    pub(super) fn member(self, object: &Node, key: &str) -> Self {
        match (self, key) {
            (Self::Root, "messages") => Self::Messages,
            (Self::Root, "contents") => Self::Resources,
            (Self::Root | Self::Message, "content") => Self::Content,
            (Self::Content | Self::Part, "content") if kind(object) == Some("tool_result") => {
                Self::Content
            }
            (Self::Content | Self::Part, "resource") if kind(object) == Some("resource") => {
                Self::Resource
            }
            _ => Self::Other,
        }
    }

    /// Where an element of the array at this place stands.
    pub(super) const fn element(self) -> Self {
        match self {
            Self::Messages => Self::Message,
            Self::Content => Self::Part,
            Self::Resources => Self::Resource,
            _ => Self::Other,
        }
    }

    /// Whether this member may be binary.
    fn holds_binary(self, key: &str) -> bool {
        match key {
            "blob" => self == Self::Resource,
            _ => matches!(self, Self::Content | Self::Part),
        }
    }
}

/// What a string is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// What is written is what is meant.
    Plain,
    /// It may be read as this text as well.
    Text(String),
    /// Nothing else than binary.
    Binary,
}

/// Reads member `key` of an object that stands at `spot`.
pub(super) fn read(spot: Spot, object: &Node, key: &str, value: &Node) -> Read {
    let written = value.as_str().filter(|_| is_coded(object, key));
    let Some((bytes, canonical)) = written.and_then(decoded) else {
        return Read::Plain;
    };
    match String::from_utf8(bytes) {
        Ok(text) if text.is_empty() => Read::Plain,
        Ok(text) => Read::Text(text),
        Err(_) if canonical && spot.holds_binary(key) && is_binary(object) => Read::Binary,
        Err(binary) if is_text(object) => {
            Read::Text(String::from_utf8_lossy(binary.as_bytes()).into_owned())
        }
        Err(_) => Read::Plain,
    }
}

fn kind(object: &Node) -> Option<&str> {
    object.get("type").and_then(Node::as_str)
}

/// Whether a member looks like base64 of the protocol: `data` of an image or sound, `blob` of a resource.
fn is_coded(object: &Node, key: &str) -> bool {
    match key {
        "blob" => object.get("uri").is_some(),
        "data" => matches!(kind(object), Some("image" | "audio")),
        _ => false,
    }
}

/// The media type that a part says to have, without parameters.
fn media(part: &Node) -> Option<String> {
    let media = part.get("mimeType").and_then(Node::as_str)?;
    let essence = media.split(';').next().unwrap_or_default();
    Some(essence.trim().to_ascii_lowercase())
}

/// Whether a part says of itself that it is text.
fn is_text(part: &Node) -> bool {
    media(part).is_some_and(|media| {
        media.starts_with("text/") || media.contains("json") || media.contains("xml")
    })
}

/// Whether a part says of itself that no text can be made of it. Of a type that nobody here knows, and without one, what is
/// written is judged.
fn is_binary(part: &Node) -> bool {
    media(part).is_some_and(|media| {
        let (family, kind) = media.split_once('/').unwrap_or_default();
        !is_text(part)
            && (matches!(family, "image" | "audio" | "video" | "font" | "model")
                || family == "application" && is_binary_kind(kind))
    })
}

/// Files of applications.
fn is_binary_kind(kind: &str) -> bool {
    const KINDS: [&str; 14] = [
        "octet-stream",
        "pdf",
        "zip",
        "gzip",
        "x-gzip",
        "x-tar",
        "x-bzip2",
        "x-7z-compressed",
        "zstd",
        "wasm",
        "msword",
        "vnd.ms-excel",
        "vnd.ms-powerpoint",
        "vnd.sqlite3",
    ];
    KINDS.contains(&kind) || kind.starts_with("vnd.openxmlformats-officedocument.")
}

/// What base64 says, and whether it is written as encoders write it, and long enough to be binary. Lenient readers take more for
/// base64: either alphabet, with or without padding, with spaces, which words of a language are as well.
fn decoded(text: &str) -> Option<(Vec<u8>, bool)> {
    let canonical = unbroken(text).and_then(|text| BASE64.decode(text.as_bytes()).ok());
    if let Some(bytes) = canonical {
        // Letters alone are words without spaces: of 64 random characters all are letters once in a million.
        let words = text.bytes().all(|byte| byte.is_ascii_alphabetic());
        return Some((bytes, text.len() >= LEAST && !words));
    }
    let mut lenient = Specification::new();
    lenient
        .symbols
        .push_str("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    lenient.translate.from.push_str("-_");
    lenient.translate.to.push_str("+/");
    lenient.ignore.push_str("\r\n\t =");
    lenient.check_trailing_bits = false;
    let bytes = lenient.encoding().ok()?.decode(text.as_bytes()).ok()?;
    Some((bytes, false))
}

/// The text without the breaks between lines of one width, as encoders write them; `None` for other lines.
fn unbroken(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('\n') {
        return Some(Cow::Borrowed(text));
    }
    let lines = text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line));
    let lines: Vec<&str> = lines.collect();
    let (last, full) = lines.split_last()?;
    let width = full.first()?.len();
    let even = full.iter().all(|line| line.len() == width) && last.len() <= width;
    // One line with a break at its end is as wide as it is.
    let wide = width >= LINE || (full.len() == 1 && last.is_empty());
    (even && wide).then(|| Cow::Owned(lines.concat()))
}
