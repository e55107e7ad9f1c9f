//! Every encoding, every cut, and bombs.

use std::convert::Infallible;

use bytes::Bytes;
use compression_codecs::brotli::params::EncoderParams;
use compression_codecs::{BrotliEncoder, EncodeV2, GzipEncoder, ZlibEncoder, ZstdEncoder};
use compression_core::util::{PartialBuffer, WriteBuffer};
use http::{HeaderMap, HeaderValue, header};
use http_body_util::StreamBody;
use proptest::prelude::*;

use super::decode::GROWS_FREELY;
use super::*;
use crate::wire::budget::Budget;

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
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(6));
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
fn many_small_values_take_what_is_read_from_them() {
    assert!(size_of::<crate::wire::json::Node>() <= super::read::VALUE);
    let budget = Budget::new(1 << 20);
    let run = |body: String| {
        let body = http_body_util::Full::new(Bytes::from(body));
        let plain = Encodings::default();
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(read(body, &plain, 1 << 20, PACE, &budget))
    };
    let prose = format!(
        "[\"{}\"]",
        "It was late, and nobody had asked for anything but a little rest. ".repeat(9_000)
    );
    for one in ["0,", "[],", "{},"] {
        let many = format!("[{}0]", one.repeat(20_000));
        assert!(many.len() < 100_000 && prose.len() > 500_000);
        assert_eq!(run(many), Err(BodyError::NoMemory), "{one}");
        assert!(run(format!("[{}0]", one.repeat(5_000))).is_ok(), "{one}");
    }
    assert!(run(prose).is_ok());
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
