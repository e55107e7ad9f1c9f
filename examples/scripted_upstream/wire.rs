//! Bodies on the wire: encodings, line ends, pieces, silence and early ends.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse as _, Response};
use compression_codecs::brotli::params::EncoderParams;
use compression_codecs::{BrotliEncoder, EncodeV2, GzipEncoder, ZlibEncoder, ZstdEncoder};
use compression_core::util::{PartialBuffer, WriteBuffer};
use futures_util::stream;

use crate::script::{Asked, Manner, Piece};

/// How long a stall lasts.
const STALL: Duration = Duration::from_secs(5);

/// Sizes of pieces, in turn: some cut characters, line ends and events.
const SIZES: [usize; 10] = [1, 1, 1, 2, 3, 5, 8, 700, 1, 400];

enum Step {
    Send(Bytes),
    Stall,
    Cut,
}

/// A whole answer.
pub fn whole(asked: &Asked, json: &str) -> Response {
    let mut encoder = Encoder::of(asked);
    let mut body = encoder.flushed(json.as_bytes());
    body.extend(encoder.end());
    if !asked.is(Manner::Stall) && !asked.is(Manner::Cut) {
        return respond(&encoder, "application/json", Body::from(body));
    }
    let rest = Bytes::from(body.split_off(body.len() / 2));
    let mut steps = vec![Step::Send(body.into())];
    if asked.is(Manner::Stall) {
        steps.push(Step::Stall);
    }
    steps.push(if asked.is(Manner::Cut) {
        Step::Cut
    } else {
        Step::Send(rest)
    });
    respond(&encoder, "application/json", paced(steps))
}

/// A streamed answer.
pub fn stream(asked: &Asked, pieces: Vec<Piece>) -> Response {
    let mut encoder = Encoder::of(asked);
    let mut steps = Vec::new();
    let mut sizes = SIZES.into_iter().cycle();
    for (number, piece) in pieces.into_iter().enumerate() {
        let text = match piece {
            Piece::Event(name, data) => event(asked, number, name, &data),
            Piece::Stall => {
                steps.push(Step::Stall);
                continue;
            }
            Piece::Cut => {
                steps.push(Step::Cut);
                return respond(&encoder, "text/event-stream; charset=utf-8", paced(steps));
            }
        };
        let mut bytes = Bytes::from(encoder.flushed(text.as_bytes()));
        while !bytes.is_empty() {
            let size = if asked.is(Manner::Bytes) {
                1
            } else if asked.is(Manner::Split) {
                sizes.next().unwrap_or(1)
            } else {
                bytes.len()
            };
            steps.push(Step::Send(bytes.split_to(size.min(bytes.len()))));
        }
    }
    steps.push(Step::Send(encoder.end().into()));
    respond(&encoder, "text/event-stream; charset=utf-8", paced(steps))
}

fn event(asked: &Asked, number: usize, name: Option<&str>, data: &str) -> String {
    let mut lines = Vec::new();
    if asked.is(Manner::Comments) {
        lines.extend([
            ": data: {\"no\": \"event\"}".to_owned(),
            "unknown: field".to_owned(),
            format!("id: {number}"),
        ]);
    }
    if let Some(name) = name {
        lines.push(format!("event: {name}"));
    }
    lines.push(format!("data: {data}"));
    lines.extend([String::new(), String::new()]);
    lines.join(if asked.is(Manner::Crlf) { "\r\n" } else { "\n" })
}

fn paced(steps: Vec<Step>) -> Body {
    let steps = steps.into_iter();
    Body::from_stream(stream::unfold(steps, |mut steps| async move {
        loop {
            match steps.next()? {
                Step::Send(bytes) => return Some((Ok(bytes), steps)),
                Step::Stall => tokio::time::sleep(STALL).await,
                Step::Cut => {
                    // What was sent is on its way before the connection ends.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    return Some((Err(io::Error::other("cut by the script")), steps));
                }
            }
        }
    }))
}

fn respond(encoder: &Encoder, kind: &str, body: Body) -> Response {
    let mut headers: Vec<(HeaderName, &str)> = vec![(header::CONTENT_TYPE, kind)];
    if let Some(name) = encoder.name {
        headers.push((header::CONTENT_ENCODING, name));
    }
    let mut response = body.into_response();
    for (name, value) in headers {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// A content encoding, or none.
struct Encoder {
    name: Option<&'static str>,
    codec: Option<Box<dyn EncodeV2>>,
}

impl Encoder {
    fn of(asked: &Asked) -> Self {
        let level = || flate2::Compression::new(6).into();
        let (name, codec): (_, Box<dyn EncodeV2>) = if asked.is(Manner::Gzip) {
            ("gzip", Box::new(GzipEncoder::new(level())))
        } else if asked.is(Manner::Deflate) {
            ("deflate", Box::new(ZlibEncoder::new(level())))
        } else if asked.is(Manner::Br) {
            ("br", Box::new(BrotliEncoder::new(EncoderParams::default())))
        } else if asked.is(Manner::Zstd) {
            ("zstd", Box::new(ZstdEncoder::new(3)))
        } else {
            return Self {
                name: None,
                codec: None,
            };
        };
        Self {
            name: Some(name),
            codec: Some(codec),
        }
    }

    /// The bytes, so that a decoder gets all of them now.
    fn flushed(&mut self, plain: &[u8]) -> Vec<u8> {
        let Some(codec) = &mut self.codec else {
            return plain.to_vec();
        };
        let mut scratch = vec![0; plain.len() * 2 + (1 << 12)];
        let mut output = WriteBuffer::new_initialized(&mut scratch);
        let mut input = PartialBuffer::new(plain);
        // Encoding into memory that is large enough does not fail.
        while !input.unwritten().is_empty() && codec.encode(&mut input, &mut output).is_ok() {}
        while !codec.flush(&mut output).unwrap_or(true) {}
        output.written().to_vec()
    }

    fn end(&mut self) -> Vec<u8> {
        let Some(codec) = &mut self.codec else {
            return Vec::new();
        };
        let mut scratch = vec![0; 1 << 12];
        let mut output = WriteBuffer::new_initialized(&mut scratch);
        while !codec.finish(&mut output).unwrap_or(true) {}
        output.written().to_vec()
    }
}
