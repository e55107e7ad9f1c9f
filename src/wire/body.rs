//! Bodies: bounded, decoded, never half-read.
//!
//! One push-driven decoder serves whole bodies and event streams: all that a piece holds comes out with that piece. A body
//! that ends before its encoding does, or that goes on after it, is refused.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use compression_codecs::zstd::params::DParameter;
use compression_codecs::{BrotliDecoder, DecodeV2, GzipDecoder, ZlibDecoder, ZstdDecoder};
use compression_core::util::{PartialBuffer, WriteBuffer};
use http::{HeaderMap, header};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::budget::Budget;

/// Most encodings that may be chained.
const MOST_ENCODINGS: usize = 2;
/// Largest window of a zstd frame, as a power of two: 8 MiB (RFC 9659).
const ZSTD_WINDOW_LOG: u32 = 23;
/// Decoded at once.
const SCRATCH: usize = 16 << 10;
/// How many times its encoded size a body may grow to. What people and programs write stays well below.
const MOST_GROWTH: usize = 128;
/// Up to here growth is not looked at: a short body of spaces is no bomb.
const GROWS_FREELY: usize = 1 << 20;

/// Why a body cannot be read. Never holds text of the body.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Above the limit, encoded or decoded.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// A bomb: it grows beyond what text does.
    #[error("the body grows more than {MOST_GROWTH}-fold when decoded")]
    Expands,
    /// The bodies of all requests together fill their budget.
    #[error("no memory is left for the body")]
    NoMemory,
    /// An encoding that is not read here, or too many.
    #[error("the content encoding is not one of gzip, deflate, br, zstd, at most two of them")]
    UnknownEncoding,
    /// The bytes are not in the encoding that the header names, end early or go on after its end.
    #[error("the body is not valid in its content encoding")]
    BadEncoding,
    /// No piece came in time.
    #[error("the body stood still for {0:?}")]
    Idle(Duration),
    /// The connection ended before the body did.
    #[error("the body ended early: {0}")]
    Cut(String),
}

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

/// The next piece; `None` at the end. Trailers are dropped.
///
/// # Errors
/// [`BodyError::Idle`], [`BodyError::Cut`].
pub async fn next_piece<B>(body: &mut B, idle: Duration) -> Result<Option<Bytes>, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    loop {
        let frame = tokio::time::timeout(idle, body.frame())
            .await
            .map_err(|_| BodyError::Idle(idle))?;
        match frame {
            None => return Ok(None),
            Some(Err(error)) => return Err(BodyError::Cut(error.to_string())),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Reads on and forgets, at most `limit` bytes and `wait` long: a sender that is cut off in the middle never reads the answer.
pub async fn discard<B>(body: &mut B, limit: usize, wait: Duration)
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut left = limit;
    let drain = async {
        while let Ok(Some(piece)) = next_piece(body, wait).await {
            match left.checked_sub(piece.len()) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    let _ = tokio::time::timeout(wait, drain).await;
}

/// How fast a body must come: in each `within`, so many bytes at least, or its end.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The time.
    pub within: Duration,
    /// The bytes; 1 for a body that may come as slowly as it likes, but not stand still.
    pub least: usize,
}

/// The whole body, decoded: at most `limit` bytes as sent and as decoded. Its bytes hold their share of `budget`.
///
/// # Errors
/// Every [`BodyError`] but [`BodyError::UnknownEncoding`].
pub async fn read<B>(
    mut body: B,
    encodings: &Encodings,
    limit: usize,
    pace: Pace,
    budget: &Budget,
) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let announced = body.size_hint().lower();
    if announced > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(BodyError::TooLarge(limit));
    }
    let mut decoder = Decoder::new(encodings);
    let mut share = budget.share();
    let mut encoded = 0;
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let (mut since, mut lately) = (Instant::now(), 0);
    loop {
        let left = pace.within.saturating_sub(since.elapsed());
        let next = next_piece(&mut body, left).await;
        let Some(piece) = next.map_err(|error| match error {
            BodyError::Idle(_) => BodyError::Idle(pace.within),
            other => other,
        })?
        else {
            break;
        };
        lately += piece.len();
        if lately >= pace.least {
            (since, lately) = (Instant::now(), 0);
        }
        encoded += piece.len();
        if encoded > limit {
            return Err(BodyError::TooLarge(limit));
        }
        let room = limit - whole.len() - first.len();
        let plain = decoder.push(piece, room).map_err(|error| match error {
            BodyError::TooLarge(_) => BodyError::TooLarge(limit),
            other => other,
        })?;
        if !share.grow(plain.len()) {
            return Err(BodyError::NoMemory);
        }
        // A body in one piece is not copied.
        if first.is_empty() && whole.is_empty() {
            first = plain;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(usize::try_from(announced).unwrap_or(0).max(2 * first.len()));
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&plain);
    }
    decoder.finish()?;
    Ok(share.over(if whole.is_empty() {
        first
    } else {
        whole.freeze()
    }))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use compression_codecs::brotli::params::EncoderParams;
    use compression_codecs::{BrotliEncoder, EncodeV2, GzipEncoder, ZlibEncoder, ZstdEncoder};
    use http::HeaderValue;
    use http_body_util::StreamBody;
    use proptest::prelude::*;

    use super::*;

    const PACE: Pace = Pace {
        within: Duration::from_secs(5),
        least: 1,
    };

    fn encodings(value: &str) -> Result<Encodings, BodyError> {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_ENCODING,
            HeaderValue::from_str(value).unwrap(),
        );
        Encodings::of(&headers)
    }

    fn run(mut codec: impl EncodeV2, plain: &[u8]) -> Vec<u8> {
        let mut scratch = vec![0; plain.len() * 2 + (1 << 16)];
        let mut output = WriteBuffer::new_initialized(&mut scratch);
        let mut input = PartialBuffer::new(plain);
        codec.encode(&mut input, &mut output).unwrap();
        assert!(input.unwritten().is_empty());
        assert!(codec.finish(&mut output).unwrap());
        output.written().to_vec()
    }

    fn quick() -> EncoderParams {
        EncoderParams::default().quality(compression_core::Level::Precise(3))
    }

    fn encode(encoding: &str, plain: &[u8]) -> Vec<u8> {
        match encoding {
            "gzip" => run(GzipEncoder::new(flate2::Compression::new(6).into()), plain),
            "deflate" => run(ZlibEncoder::new(flate2::Compression::new(6).into()), plain),
            "br" => run(BrotliEncoder::new(quick()), plain),
            "zstd" => run(ZstdEncoder::new(3), plain),
            _ => plain.to_vec(),
        }
    }

    fn decode(
        encodings: &Encodings,
        pieces: impl Iterator<Item = Vec<u8>>,
        limit: usize,
    ) -> Result<Bytes, BodyError> {
        let frames: Vec<_> = pieces
            .map(|piece| Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(piece))))
            .collect();
        let body = StreamBody::new(futures_util::stream::iter(frames));
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(read(body, encodings, limit, PACE, &Budget::new(64 << 20)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn every_encoding_and_chunking_gives_the_plain_bytes(
            plain in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..3000),
                (0usize..200_000).prop_map(|n| b"all work and no play ".iter().copied().cycle().take(n).collect()),
            ],
            chain in prop_oneof![
                Just("identity"), Just("gzip"), Just("deflate"), Just("br"), Just("zstd"),
                Just("gzip, zstd"), Just("br, gzip"), Just("GZIP"), Just("x-gzip"),
            ],
            size in prop_oneof![Just(1usize), 1usize..40, Just(usize::MAX)],
        ) {
            let mut sent = plain.clone();
            for name in chain.to_ascii_lowercase().replace("x-", "").split(", ") {
                sent = encode(name, &sent);
            }
            let encodings = encodings(chain).unwrap();
            let pieces = sent.chunks(size.min(sent.len().max(1))).map(<[u8]>::to_vec);
            let limit = plain.len().max(sent.len());
            let got = decode(&encodings, pieces, limit).unwrap();
            prop_assert_eq!(&got[..], &plain[..]);
        }

        #[test]
        fn a_body_cut_anywhere_is_refused(
            name in prop_oneof![Just("gzip"), Just("deflate"), Just("br"), Just("zstd")],
            cut in 0.0f64..1.0,
        ) {
            let sent = encode(name, b"some text that is long enough to be cut somewhere in it");
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "small")]
            let cut = ((sent.len() as f64 * cut) as usize).max(1);
            let got = decode(&encodings(name).unwrap(), std::iter::once(sent[..cut].to_vec()), 4096);
            prop_assert_eq!(got, Err(BodyError::BadEncoding));
        }
    }

    #[test]
    fn a_body_as_long_as_the_limit_fits_in_two_encodings() {
        let plain = b"all work and no play ".repeat(3);
        let sent = encode("zstd", &encode("gzip", &plain));
        let limit = plain.len().max(sent.len());
        for (limit, fits) in [(limit, true), (plain.len() - 1, false)] {
            let pieces = sent.chunks(1).map(<[u8]>::to_vec);
            let got = decode(&encodings("gzip, zstd").unwrap(), pieces, limit);
            assert_eq!(got.is_ok_and(|got| got == plain), fits);
        }
    }

    fn flushed(mut codec: impl EncodeV2, events: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        for event in events {
            let mut scratch = vec![0; 4096];
            let mut output = WriteBuffer::new_initialized(&mut scratch);
            codec
                .encode(&mut PartialBuffer::new(event), &mut output)
                .unwrap();
            while !codec.flush(&mut output).unwrap() {}
            sent.push(output.written().to_vec());
        }
        sent
    }

    #[test]
    fn a_flushed_event_comes_out_with_its_piece() {
        let events: [&[u8]; 2] = [b"data: 1\n\n", b"data: 2\n\n"];
        let level = || flate2::Compression::new(6).into();
        for (name, pieces) in [
            ("gzip", flushed(GzipEncoder::new(level()), &events)),
            ("deflate", flushed(ZlibEncoder::new(level()), &events)),
            (
                "br",
                flushed(BrotliEncoder::new(EncoderParams::default()), &events),
            ),
            ("zstd", flushed(ZstdEncoder::new(3), &events)),
        ] {
            let mut decoder = Decoder::new(&encodings(name).unwrap());
            for (piece, event) in pieces.into_iter().zip(events) {
                let got = decoder.push(Bytes::from(piece), 100).unwrap();
                assert_eq!(&got[..], event, "{name}");
            }
            assert_eq!(decoder.finish(), Err(BodyError::BadEncoding), "{name}");
        }
    }

    #[test]
    fn what_goes_on_after_the_end_is_refused() {
        for name in ["gzip", "deflate", "br", "zstd"] {
            let mut sent = encode(name, b"text");
            sent.extend_from_slice(b"garbage that no reader may see");
            let got = decode(&encodings(name).unwrap(), std::iter::once(sent), 4096);
            assert_eq!(got, Err(BodyError::BadEncoding), "{name}");
        }
        let mut two = encode("gzip", b"one ");
        two.extend(encode("gzip", b"two"));
        let got = decode(&encodings("gzip").unwrap(), std::iter::once(two), 4096).unwrap();
        assert_eq!(&got[..], b"one two");
    }

    #[test]
    fn a_bomb_stops_long_before_the_limit() {
        let zeros = vec![0; 3 << 20];
        for chain in ["gzip", "deflate", "br", "zstd", "gzip, gzip", "br, zstd"] {
            let mut sent = zeros.clone();
            for name in chain.split(", ") {
                sent = encode(name, &sent);
            }
            for size in [100, usize::MAX] {
                let pieces = sent.chunks(size.min(sent.len())).map(<[u8]>::to_vec);
                let got = decode(&encodings(chain).unwrap(), pieces, 64 << 20);
                assert_eq!(got, Err(BodyError::Expands), "{chain}");
            }
        }
        let spaces = vec![b' '; GROWS_FREELY];
        let sent = encode("br", &spaces);
        let got = decode(&encodings("br").unwrap(), std::iter::once(sent), 64 << 20);
        assert!(got.is_ok_and(|got| got == spaces));
    }

    #[test]
    fn text_that_packs_well_is_no_bomb() {
        let row = |row| format!("{{\"row\":{row},\"state\":\"open\",\"note\":null}},");
        let rows = (0..30_000).map(row).collect::<Vec<_>>().concat();
        for name in ["gzip", "deflate", "br", "zstd"] {
            let sent = encode(name, rows.as_bytes());
            let got = decode(&encodings(name).unwrap(), std::iter::once(sent), 64 << 20);
            assert!(got.is_ok_and(|got| got == rows), "{name}");
        }
    }

    #[test]
    fn deflate_without_its_wrapper_is_refused() {
        // RFC 9110 section 8.4.1.2: `deflate` is zlib. Readers that guess disagree.
        let mut encoder =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(6));
        std::io::Write::write_all(&mut encoder, b"{\"a\": 1}").unwrap();
        let sent = encoder.finish().unwrap();
        let got = decode(&encodings("deflate").unwrap(), std::iter::once(sent), 4096);
        assert_eq!(got, Err(BodyError::BadEncoding));
    }

    #[tokio::test]
    async fn a_body_that_only_drips_is_cut() {
        let drips = || {
            let pieces = futures_util::stream::unfold(0, |count| async move {
                tokio::time::sleep(Duration::from_millis(2)).await;
                let piece = http_body::Frame::data(Bytes::from_static(b"12"));
                (count < 50).then_some((Ok::<_, Infallible>(piece), count + 1))
            });
            StreamBody::new(Box::pin(pieces))
        };
        let budget = Budget::new(1 << 20);
        let plain = Encodings::default();
        let got = read(drips(), &plain, 4096, PACE, &budget).await;
        assert_eq!(got.map(|got| got.len()), Ok(100));
        let within = Duration::from_millis(20);
        let pace = Pace { within, least: 101 };
        let got = read(drips(), &plain, 4096, pace, &budget).await;
        assert_eq!(got, Err(BodyError::Idle(within)));
    }

    #[test]
    fn bodies_share_one_budget() {
        let budget = Budget::new(3 << 10);
        let run = |length: usize| {
            let body = http_body_util::Full::new(Bytes::from(vec![b' '; length]));
            let plain = Encodings::default();
            tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap()
                .block_on(read(body, &plain, 1 << 20, PACE, &budget))
        };
        let first = run(2 << 10).unwrap();
        assert_eq!(run(2 << 10), Err(BodyError::NoMemory));
        drop(first);
        assert_eq!(run(2 << 10).unwrap().len(), 2 << 10);
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = encode("gzip", &vec![0; 8 << 20]);
        assert!(bomb.len() < 10_000);
        for chain in ["gzip", "gzip, gzip"] {
            let sent = if chain == "gzip" {
                bomb.clone()
            } else {
                encode("gzip", &bomb)
            };
            let got = decode(&encodings(chain).unwrap(), std::iter::once(sent), 100_000);
            assert_eq!(got, Err(BodyError::TooLarge(100_000)), "{chain}");
        }
        let plain = decode(&Encodings::default(), std::iter::once(vec![0; 11]), 10);
        assert_eq!(plain, Err(BodyError::TooLarge(10)));
    }

    #[test]
    fn a_zstd_window_beyond_eight_mebibytes_is_refused() {
        // Magic, frame header with a window of 128 MiB, one empty last block.
        let sent = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 0x01, 0x00, 0x00];
        let got = decode(
            &encodings("zstd").unwrap(),
            std::iter::once(sent.to_vec()),
            4096,
        );
        assert_eq!(got, Err(BodyError::BadEncoding));
    }

    #[test]
    fn unknown_or_too_many_encodings_are_refused() {
        for bad in ["compress", "gzip, gzip, gzip", "aws-chunked", "gzip;q=1"] {
            assert_eq!(encodings(bad), Err(BodyError::UnknownEncoding), "{bad}");
        }
        assert!(encodings("identity").unwrap().is_identity());
    }
}
