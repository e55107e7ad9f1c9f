//! `multipart/form-data` (RFC 7578) read so that every backend reads the same parts: each part is an argument.
//!
//! Readers of this format differ in what they make of a preamble, of a boundary with other line ends, of headers that are
//! folded or doubled, of escapes in names, of `filename*` and of nested bodies. All that is refused; what clients really
//! write is left. Libraries are written to accept, so this is a reader of its own, over the bytes that are forwarded.

use std::collections::HashMap;

use aho_corasick::AhoCorasick;
use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Map, Value};

use super::names::{check_flat, unreadable};
use crate::protocols::Malformed;
use crate::wire::json::{BODY_DEPTH, Document};
use crate::wire::media::{Media, media};
use crate::wire::splice::quote;

/// Most parts of one body.
pub(super) const MOST_PARTS: usize = 256;
/// Longest boundary (RFC 2046 section 5.1.1).
const LONGEST_BOUNDARY: usize = 70;
/// Most bytes of one part's headers.
const MOST_HEADER_BYTES: usize = 4 << 10;

/// One part as it stands in the body.
#[derive(Debug)]
struct Part {
    name: String,
    filename: Option<String>,
    content_type: Option<String>,
    json: bool,
    content: Bytes,
}

/// All parts of one name.
#[derive(Debug)]
pub(super) struct Argument {
    pub(super) name: String,
    /// UTF-8 JSON.
    pub(super) raw: Vec<u8>,
    pub(super) value: Value,
    pub(super) exact: bool,
    /// Whether a JSON value has the form that a file's argument has.
    pub(super) imitates: bool,
}

/// What a part's argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Text,
    Json,
    File,
}

/// The arguments of a body: a text is a string, an `application/json` part its value, a file an object `{filename,
/// content_type, size, sha256, text}` with `text` where it is UTF-8 without NUL. Several texts, or several files, of one name
/// are a list.
pub(super) fn arguments(content_type: &str, body: &Bytes) -> Result<Vec<Argument>, Malformed> {
    let mut arguments: Vec<(Argument, Shape)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for part in parts(content_type, body)? {
        let shape = part.shape();
        let (raw, value, exact) = part.argument()?;
        let before = places.get(&part.name).copied();
        match before.and_then(|place| arguments.get_mut(place)) {
            None => {
                places.insert(part.name.clone(), arguments.len());
                let name = part.name;
                let argument = Argument {
                    imitates: shape == Shape::Json && describes_a_file(&value),
                    name,
                    raw,
                    value,
                    exact,
                };
                arguments.push((argument, shape));
            }
            Some((argument, first)) if *first == shape && shape != Shape::Json => {
                let Argument { value: values, .. } = argument;
                match values {
                    Value::Array(values) => values.push(value),
                    one => *one = Value::Array(vec![one.take(), value]),
                }
            }
            Some(_) => {
                return Err(Malformed {
                    code: "argument_ambiguous",
                    message: "Parts of one name are of different kinds, or JSON. Send one part."
                        .to_owned(),
                });
            }
        }
    }
    let lists = arguments.into_iter().map(|(mut argument, shape)| {
        if shape != Shape::Json && argument.value.is_array() {
            argument.raw = argument.value.to_string().into_bytes();
        }
        argument
    });
    Ok(lists.collect())
}

fn describes_a_file(value: &Value) -> bool {
    match value {
        Value::Object(members) => ["filename", "size", "sha256"]
            .iter()
            .all(|key| members.contains_key(*key)),
        Value::Array(values) => values.iter().any(describes_a_file),
        _ => false,
    }
}

/// Bytes of files that no text can be made of; nothing for a body that cannot be read.
pub(super) fn opaque(content_type: &str, body: &Bytes) -> usize {
    let parts = parts(content_type, body).unwrap_or_default();
    let opaque = parts
        .iter()
        .filter(|part| part.shape() == Shape::File && part.text().is_none());
    opaque.map(|part| part.content.len()).sum()
}

impl Part {
    const fn shape(&self) -> Shape {
        match (&self.filename, self.json) {
            (Some(_), _) => Shape::File,
            (None, true) => Shape::Json,
            (None, false) => Shape::Text,
        }
    }

    fn text(&self) -> Option<&str> {
        let text = std::str::from_utf8(&self.content).ok();
        text.filter(|text| !text.contains('\0'))
    }

    /// UTF-8 JSON, the value, and whether its numbers are exact.
    fn argument(&self) -> Result<(Vec<u8>, Value, bool), Malformed> {
        match self.shape() {
            Shape::Text => {
                let text = std::str::from_utf8(&self.content).map_err(|_| {
                    unreadable("A part without a filename is not UTF-8 text. Send it as a file.")
                })?;
                Ok((quote(text), text.into(), true))
            }
            Shape::Json => {
                let bad = |error| unreadable(&format!("A part is not strict JSON: {error}."));
                let document = Document::read(self.content.clone(), BODY_DEPTH).map_err(bad)?;
                let (value, exact) = document.value(document.root()).map_err(bad)?;
                Ok((self.content.to_vec(), value, exact))
            }
            Shape::File => {
                let value = Value::Object(self.file());
                Ok((value.to_string().into_bytes(), value, true))
            }
        }
    }

    fn file(&self) -> Map<String, Value> {
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &self.content);
        let mut file = Map::new();
        file.insert("filename".to_owned(), self.filename.clone().into());
        if let Some(content_type) = &self.content_type {
            file.insert("content_type".to_owned(), content_type.as_str().into());
        }
        file.insert("size".to_owned(), self.content.len().into());
        file.insert("sha256".to_owned(), HEXLOWER.encode(hash.as_ref()).into());
        if let Some(text) = self.text() {
            file.insert("text".to_owned(), text.into());
        }
        file
    }
}

fn parts(content_type: &str, body: &Bytes) -> Result<Vec<Part>, Malformed> {
    let frame = || unreadable("The multipart body is not framed by its boundary and CRLF alone.");
    let delimiter = format!("--{}", boundary(content_type)?);
    let finder = AhoCorasick::new([&delimiter]).map_err(|_| frame())?;
    let mut parts = Vec::new();
    let mut begins = None;
    let mut ended = false;
    for found in finder.find_iter(&body[..]) {
        // Also where a lenient reader would take it for a boundary: the delimiter stands nowhere but between parts.
        if ended {
            return Err(frame());
        }
        match begins {
            None if found.start() == 0 => {}
            None => return Err(frame()),
            Some(begin) => {
                let end = found.start().checked_sub(2).filter(|end| *end >= begin);
                let end = end.ok_or_else(frame)?;
                if body.get(end..found.start()) != Some(b"\r\n") {
                    return Err(frame());
                }
                parts.push(part(&body.slice(begin..end))?);
            }
        }
        if parts.len() > MOST_PARTS {
            return Err(unreadable(&format!(
                "The multipart body has more than {MOST_PARTS} parts."
            )));
        }
        let rest = body.get(found.end()..).unwrap_or_default();
        ended = matches!(rest, b"--" | b"--\r\n");
        if !ended && !rest.starts_with(b"\r\n") {
            return Err(frame());
        }
        begins = Some(found.end() + 2);
    }
    if ended { Ok(parts) } else { Err(frame()) }
}

/// The boundary of `multipart/form-data; boundary=…`, of characters that need no quotes to most readers.
fn boundary(content_type: &str) -> Result<&str, Malformed> {
    let odd = || {
        unreadable(
            "Send `multipart/form-data` with one plain boundary of at most 70 letters, digits and `'+_.=-`.",
        )
    };
    let mut boundary = None;
    for parameter in content_type.split(';').skip(1) {
        let (name, value) = parameter.trim().split_once('=').ok_or_else(odd)?;
        match name.to_ascii_lowercase().as_str() {
            "boundary" if boundary.is_none() => boundary = Some(value),
            // UTF-8, or the request would have been refused before.
            "charset" => {}
            _ => return Err(odd()),
        }
    }
    let value = boundary.ok_or_else(odd)?;
    let quoted = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    let bare = quoted.unwrap_or(value);
    let plain = |b: u8| {
        b.is_ascii_alphanumeric() || b"'+_.-".contains(&b) || (b == b'=' && quoted.is_some())
    };
    // A dash at the end would look like the end of the body.
    let fine = (1..=LONGEST_BOUNDARY).contains(&bare.len())
        && bare.bytes().all(plain)
        && !bare.ends_with('-');
    if fine { Ok(bare) } else { Err(odd()) }
}

fn part(bytes: &Bytes) -> Result<Part, Malformed> {
    let odd = || unreadable("A part's headers cannot be read in one way.");
    let head = bytes
        .get(..bytes.len().min(MOST_HEADER_BYTES))
        .unwrap_or_default();
    let length = head.windows(4).position(|four| four == b"\r\n\r\n");
    let length = length.ok_or_else(odd)?;
    let head = head.get(..length).unwrap_or_default();
    let head = std::str::from_utf8(head).map_err(|_| odd())?;
    let content = bytes.slice(length + 4..);
    let (mut disposition_line, mut content_type) = (None, None);
    let (mut encoding, mut stated) = (None, None);
    for line in head.split("\r\n") {
        let (name, value) = line.split_once(':').ok_or_else(odd)?;
        if line.contains(char::is_control) {
            return Err(odd());
        }
        let slot = match name.to_ascii_lowercase().as_str() {
            "content-disposition" => &mut disposition_line,
            "content-type" => &mut content_type,
            "content-transfer-encoding" => &mut encoding,
            "content-length" => &mut stated,
            _ => return Err(odd()),
        };
        if slot.replace(value.trim_matches(' ')).is_some() {
            return Err(odd());
        }
    }
    let plain = |encoding: &str| {
        ["7bit", "8bit", "binary"]
            .iter()
            .any(|plain| plain.eq_ignore_ascii_case(encoding))
    };
    let length = content.len().to_string();
    if !encoding.is_none_or(plain) || stated.is_some_and(|stated| stated != length) {
        return Err(odd());
    }
    let (name, filename) = disposition(disposition_line.ok_or_else(odd)?)?;
    Ok(Part {
        name,
        filename,
        json: content_type.map_or(Ok(false), is_json)?,
        content_type: content_type.map(str::to_owned),
        content,
    })
}

/// Whether the part is JSON.
fn is_json(content_type: &str) -> Result<bool, Malformed> {
    let odd = || unreadable("A part's content type is not one whose content can be judged.");
    // Parts in a part, which some readers would unpack.
    let kind = content_type.split('/').next().unwrap_or_default();
    let nested = ["multipart", "message"]
        .iter()
        .any(|nested| nested.eq_ignore_ascii_case(kind.trim()));
    if nested || content_type.is_empty() {
        return Err(odd());
    }
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_str(content_type).map_err(|_| odd())?;
    headers.insert(header::CONTENT_TYPE, value);
    Ok(media(&headers).map_err(|_| odd())? == Media::Json)
}

/// Name and filename of `form-data; name="…"` with or without `; filename="…"`, in this order and nothing else.
fn disposition(value: &str) -> Result<(String, Option<String>), Malformed> {
    let odd = || {
        unreadable(
            "A part needs `Content-Disposition: form-data; name=\"…\"`, and `filename=\"…\"` after it if it is a file.",
        )
    };
    let (kind, mut rest) = value.split_at_checked(9).ok_or_else(odd)?;
    if !kind.eq_ignore_ascii_case("form-data") {
        return Err(odd());
    }
    let mut found = Vec::new();
    while !rest.is_empty() {
        let parameter = rest.strip_prefix(';').ok_or_else(odd)?;
        let (key, after) = parameter
            .trim_start_matches(' ')
            .split_once("=\"")
            .ok_or_else(odd)?;
        let (value, after) = after.split_once('"').ok_or_else(odd)?;
        found.push((key, value));
        rest = after;
    }
    match found.as_slice() {
        [("name", name)] => Ok((part_name(name)?, None)),
        [("name", name), ("filename", filename)] => {
            Ok((part_name(name)?, Some(file_name(filename)?)))
        }
        _ => Err(odd()),
    }
}

/// `%22` is a quote to some readers and `%22` to others; a backslash escapes or does not.
fn has_escapes(text: &str) -> bool {
    let hex = |rest: &str| {
        let digits = rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count();
        digits == 2
    };
    text.contains(['\\', ';']) || text.split('%').skip(1).any(hex)
}

fn part_name(name: &str) -> Result<String, Malformed> {
    if name.is_empty() || has_escapes(name) {
        return Err(unreadable(
            "A part's name is empty, or has escapes or a semicolon.",
        ));
    }
    check_flat(name)?;
    Ok(name.to_owned())
}

fn file_name(name: &str) -> Result<String, Malformed> {
    let plain = !name.is_empty()
        && !has_escapes(name)
        && !name.contains('/')
        && !matches!(name, "." | "..")
        && name.trim() == name;
    if !plain {
        return Err(unreadable(
            "A part's filename must be a plain name: no folders, escapes, semicolon or white space at its ends.",
        ));
    }
    Ok(name.to_owned())
}
