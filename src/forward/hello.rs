//! The first bytes of a tunnel: read until they are a whole TLS `ClientHello`, or certainly none.
//!
//! The hello is read by `rustls`, as a server would. Its bytes are kept as they came: nothing is passed on that was not seen,
//! and nothing is changed.

use std::io;

use bytes::{Bytes, BytesMut};
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::layers::egress::Opening;

/// Largest hello with what came behind it, in bytes: post-quantum keys and long tickets stay well below.
const LARGEST: usize = 64 << 10;
/// Read at once.
const PIECE: usize = 4 << 10;
/// A TLS record of the handshake (RFC 8446 section 5.1), and the major version of every TLS.
const HANDSHAKE: [u8; 2] = [22, 3];

/// Reads how the tunnel begins, and gives all bytes read: those of the hello, and what came with them. `came`: bytes that
/// were read already.
///
/// # Errors
/// The connection's own, and its end before it is certain.
pub(super) async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    came: Bytes,
) -> io::Result<(Opening, Bytes)> {
    let mut bytes = BytesMut::from(came.as_ref());
    let mut hello = Hello::default();
    loop {
        if let Some(opening) = hello.see(&bytes) {
            return Ok((opening, bytes.freeze()));
        }
        if bytes.len() >= LARGEST {
            return Ok((Opening::NotTls, bytes.freeze()));
        }
        bytes.reserve(PIECE);
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[derive(Default)]
struct Hello {
    acceptor: Acceptor,
    /// How many bytes it has taken.
    taken: usize,
}

impl Hello {
    /// All bytes so far; `None` until it is certain.
    fn see(&mut self, bytes: &[u8]) -> Option<Opening> {
        if bytes
            .iter()
            .zip(HANDSHAKE)
            .any(|(is, should)| *is != should)
        {
            return Some(Opening::NotTls);
        }
        while let Some(mut rest) = bytes.get(self.taken..).filter(|rest| !rest.is_empty()) {
            match self.acceptor.read_tls(&mut rest) {
                Ok(0) | Err(_) => return Some(Opening::NotTls),
                Ok(taken) => self.taken += taken,
            }
            match self.acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let sni = accepted.client_hello().server_name().map(str::to_owned);
                    return Some(Opening::Hello { sni });
                }
                Err(_) => return Some(Opening::NotTls),
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "../../tests/support/hello.rs"]
mod sample;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::sample::hello;
    use super::*;

    /// The same message in records of `size` bytes.
    fn in_records(hello: &[u8], size: usize) -> Vec<u8> {
        let pieces = hello[5..].chunks(size);
        pieces
            .flat_map(|piece| {
                let length = u16::try_from(piece.len()).unwrap().to_be_bytes();
                [&[22, 3, 1][..], &length, piece].concat()
            })
            .collect()
    }

    fn named(name: &str) -> Opening {
        Opening::Hello {
            sni: Some(name.to_owned()),
        }
    }

    fn seen(bytes: &[u8], cuts: &[usize]) -> Option<Opening> {
        let mut hello = Hello::default();
        let mut ends: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        ends.sort_unstable();
        ends.push(bytes.len());
        ends.into_iter().find_map(|end| hello.see(&bytes[..end]))
    }

    #[test]
    fn a_hello_gives_its_name_or_none() {
        let none = Some(Opening::Hello { sni: None });
        let found = seen(&hello("Pay.Shop.Test", true), &[]);
        assert_eq!(found, Some(named("pay.shop.test")));
        assert_eq!(seen(&hello("pay.shop.test", false), &[]), none);
        assert_eq!(seen(&hello("192.0.2.1", true), &[]), none);
    }

    #[test]
    fn what_is_no_hello_is_known_by_its_first_bytes() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"S",
            b"\x16\x02",
            b"\x15\x03\x01\x00\x02\x02\x28",
            b"\x80\x2e\x01\x03\x01",
            // A record that holds another message than a hello.
            b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
            // A length above what a record may have.
            b"\x16\x03\x01\xff\xff\x01",
        ] {
            assert_eq!(seen(bytes, &[]), Some(Opening::NotTls), "{bytes:?}");
        }
        assert_eq!(seen(b"\x16", &[]), None);
    }

    #[tokio::test]
    async fn bytes_behind_the_hello_are_kept_and_a_cut_hello_is_none() {
        let mut bytes = hello("a.example", true);
        let whole = bytes.len();
        bytes.extend_from_slice(b"early");
        let (first, rest) = bytes.split_at(7);
        let mut stream = rest;
        let (opening, read) = read(&mut stream, Bytes::copy_from_slice(first))
            .await
            .unwrap();
        assert_eq!(opening, named("a.example"));
        assert_eq!(&read[..], &bytes[..]);
        let mut cut = &bytes[..whole - 1];
        assert!(super::read(&mut cut, Bytes::new()).await.is_err());
    }

    #[tokio::test]
    async fn an_endless_hello_is_bounded() {
        // Records that promise one long message.
        let mut bytes = in_records(&[&[0; 5][..], &[1, 0xff, 0xff, 0xff]].concat(), 4);
        for _ in 0..40 {
            bytes.extend(in_records(&vec![0; 5 + 4000], 4000));
        }
        let mut stream = &bytes[..];
        let (opening, read) = read(&mut stream, Bytes::new()).await.unwrap();
        assert_eq!(opening, Opening::NotTls);
        assert!(read.len() < LARGEST + 2 * PIECE, "{}", read.len());
    }

    proptest! {
        #[test]
        fn the_same_name_for_every_cut_and_every_record(
            cuts in prop::collection::vec(any::<usize>(), 0..20),
            size in 1_usize..300,
        ) {
            let bytes = in_records(&hello("pay.shop.test", true), size);
            prop_assert_eq!(seen(&bytes, &cuts), Some(named("pay.shop.test")));
        }

        #[test]
        fn reading_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), shift in 0_usize..400) {
            let mut odd = hello("pay.shop.test", true);
            let at = shift % odd.len();
            odd.splice(at..at, bytes.iter().copied());
            seen(&odd, &[]);
            seen(&bytes, &[]);
        }
    }
}
