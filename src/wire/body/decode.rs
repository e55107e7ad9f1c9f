//! Content encodings, taken off piece by piece.

use bytes::{Bytes, BytesMut};
use compression_codecs::zstd::params::DParameter;
use compression_codecs::{BrotliDecoder, DecodeV2, GzipDecoder, ZlibDecoder, ZstdDecoder};
use compression_core::util::{PartialBuffer, WriteBuffer};
use http::{HeaderMap, header};

use super::BodyError;

/// Most encodings that may be chained.
const MOST_ENCODINGS: usize = 2;
/// Largest window of a zstd frame, as a power of two: 8 MiB (RFC 9659).
const ZSTD_WINDOW_LOG: u32 = 23;
/// Decoded at once.
const SCRATCH: usize = 16 << 10;
/// How many times its encoded size a body may grow to. What people and programs write stays well below.
pub(super) const MOST_GROWTH: usize = 128;
/// Up to here growth is not looked at: a short body of spaces is no bomb.
pub(super) const GROWS_FREELY: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// What `Content-Encoding` says, in the order applied; empty for identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encodings(Vec<Encoding>);

impl Encodings {
    /// Reads the header.
    ///
    /// # Errors
    /// [`BodyError::UnknownEncoding`].
    pub fn of(headers: &HeaderMap) -> Result<Self, BodyError> {
        let mut encodings = Vec::new();
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let value = value.to_str().map_err(|_| BodyError::UnknownEncoding)?;
            for name in value.split(',').map(str::trim) {
                encodings.push(match name.to_ascii_lowercase().as_str() {
                    "identity" | "" => continue,
                    "gzip" | "x-gzip" => Encoding::Gzip,
                    "deflate" => Encoding::Deflate,
                    "br" => Encoding::Brotli,
                    "zstd" => Encoding::Zstd,
                    _ => return Err(BodyError::UnknownEncoding),
                });
            }
        }
        if encodings.len() > MOST_ENCODINGS {
            return Err(BodyError::UnknownEncoding);
        }
        Ok(Self(encodings))
    }

    /// Whether the body comes as it is.
    pub const fn is_identity(&self) -> bool {
        self.0.is_empty()
    }
}

/// Decodes piece by piece.
pub struct Decoder {
    stages: Vec<Stage>,
    /// Encoded bytes so far.
    came: usize,
    /// Decoded bytes so far, the most of any stage.
    grown: usize,
}

struct Stage {
    encoding: Encoding,
    codec: Box<dyn DecodeV2 + Send>,
    begun: bool,
    ended: bool,
}

impl Decoder {
    /// A decoder for a body in these encodings.
    pub fn new(encodings: &Encodings) -> Self {
        // The encoding applied last is taken off first.
        Self {
            stages: encodings.0.iter().rev().copied().map(Stage::new).collect(),
            came: 0,
            grown: 0,
        }
    }

    /// Takes a piece and gives everything that it holds, at most `room` bytes, and about as many between two encodings.
    ///
    /// # Errors
    /// [`BodyError::TooLarge`], [`BodyError::Expands`], [`BodyError::BadEncoding`].
    pub fn push(&mut self, piece: Bytes, room: usize) -> Result<Bytes, BodyError> {
        let mut bytes = piece;
        self.came = self.came.saturating_add(bytes.len());
        let most = self.came.saturating_mul(MOST_GROWTH).max(GROWS_FREELY);
        let growth = most.saturating_sub(self.grown);
        // The end of an inner encoding takes room that the plain bytes have no more.
        let bound = room.min(growth).saturating_add(SCRATCH);
        let mut grown = 0;
        for stage in &mut self.stages {
            bytes = stage.push(&bytes, bound).map_err(|error| match error {
                BodyError::TooLarge(_) if growth < room => BodyError::Expands,
                other => other,
            })?;
            grown = grown.max(bytes.len());
        }
        self.grown = self.grown.saturating_add(grown);
        if self.grown > most {
            return Err(BodyError::Expands);
        }
        if bytes.len() > room {
            return Err(BodyError::TooLarge(room));
        }
        Ok(bytes)
    }

    /// The body has ended.
    ///
    /// # Errors
    /// [`BodyError::BadEncoding`] where its encoding has not.
    pub fn finish(&self) -> Result<(), BodyError> {
        let whole = self.stages.iter().all(|stage| stage.ended || !stage.begun);
        whole.then_some(()).ok_or(BodyError::BadEncoding)
    }
}

impl Stage {
    fn new(encoding: Encoding) -> Self {
        let codec: Box<dyn DecodeV2 + Send> = match encoding {
            Encoding::Gzip => Box::new(GzipDecoder::new()),
            Encoding::Deflate => Box::new(ZlibDecoder::new()),
            Encoding::Brotli => Box::new(BrotliDecoder::new()),
            Encoding::Zstd => {
                Box::new(ZstdDecoder::new_with_params(&[DParameter::window_log_max(
                    ZSTD_WINDOW_LOG,
                )]))
            }
        };
        Self {
            encoding,
            codec,
            begun: false,
            ended: false,
        }
    }

    fn push(&mut self, piece: &[u8], room: usize) -> Result<Bytes, BodyError> {
        let mut input = PartialBuffer::new(piece);
        let mut out = BytesMut::new();
        let mut scratch = [0; SCRATCH];
        let mut full = false;
        while !input.unwritten().is_empty() || (full && !self.ended) {
            if self.ended {
                self.next_member()?;
            }
            let before = input.unwritten().len();
            self.begun = true;
            let mut output = WriteBuffer::new_initialized(&mut scratch);
            let result = self.codec.decode(&mut input, &mut output);
            let written = output.written().len();
            full = output.has_no_spare_space();
            out.extend_from_slice(output.written());
            if out.len() > room {
                return Err(BodyError::TooLarge(room));
            }
            match result {
                Ok(ended) => self.ended = ended,
                // Asked for the rest of a full buffer when there was none.
                Err(_) if before == 0 => break,
                Err(_) => return Err(BodyError::BadEncoding),
            }
            let stuck = written == 0 && input.unwritten().len() == before && !self.ended;
            if stuck && before > 0 {
                return Err(BodyError::BadEncoding);
            }
        }
        Ok(out.freeze())
    }

    /// Gzip members and zstd frames may follow each other (RFC 1952 section 2.2, RFC 8878 section 3); what is neither is
    /// refused by the next header's check.
    fn next_member(&mut self) -> Result<(), BodyError> {
        match self.encoding {
            Encoding::Gzip | Encoding::Zstd => {
                self.ended = false;
                self.codec.reinit().map_err(|_| BodyError::BadEncoding)
            }
            Encoding::Deflate | Encoding::Brotli => Err(BodyError::BadEncoding),
        }
    }
}
