//! Watches the bytes that a client sends for request heads with two framings.
//!
//! hyper settles `Content-Length` beside `Transfer-Encoding` as RFC 9112 section 6.3 allows, and two equal lengths as RFC 9110
//! section 8.6 does, and hides that there were two. A
//! request that two readers may cut differently has no good use here, so it is refused: for that its head is read once more
//! on the way in. Where the watcher loses track it says so, and the request is refused as well.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::passes::passes_writes;

/// Longest line that is followed.
const LONGEST_LINE: usize = 64 << 10;

/// What the watcher found, head by head, for the service that hyper calls in the same order.
#[derive(Clone, Debug, Default)]
pub(super) struct Heads(Arc<Mutex<VecDeque<bool>>>);

impl Heads {
    /// Whether the next request's head has one framing. Asked once per request.
    pub(super) fn next_is_plain(&self) -> bool {
        let mut heads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heads.pop_front().unwrap_or(false)
    }

    fn add(&self, plain: bool) {
        let mut heads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heads.push_back(plain);
    }
}

/// A connection that is watched.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    watcher: Watcher,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S) -> (Self, Heads) {
        let heads = Heads::default();
        let watcher = Watcher::new(heads.clone());
        (Self { stream, watcher }, heads)
    }

    /// The connection, watched no more.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(new) = buffer.filled().get(before..) {
            self.watcher.see(new);
        }
        polled
    }
}

passes_writes!(Watched);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before the request line; empty lines are skipped.
    Start,
    Headers,
    /// So many bytes of body.
    Body(u64),
    ChunkSize,
    /// So many bytes of chunk, then a line end.
    Chunk(u64),
    ChunkEnd,
    Trailers,
    /// No longer in step.
    Lost,
}

#[derive(Debug)]
struct Watcher {
    heads: Heads,
    at: At,
    line: Vec<u8>,
    length: Option<u64>,
    chunked: bool,
    /// A `CONNECT`: what follows its head is no HTTP, or nobody's.
    tunnel: bool,
    /// A second length.
    doubled: bool,
}

impl Watcher {
    const fn new(heads: Heads) -> Self {
        Self {
            heads,
            at: At::Start,
            line: Vec::new(),
            length: None,
            chunked: false,
            tunnel: false,
            doubled: false,
        }
    }

    fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.at != At::Lost {
            bytes = match self.at {
                At::Body(left) => self.skip(bytes, left, At::Start, At::Body),
                At::Chunk(left) => self.skip(bytes, left, At::ChunkEnd, At::Chunk),
                _ => self.line(bytes),
            };
        }
    }

    fn skip<'b>(
        &mut self,
        bytes: &'b [u8],
        left: u64,
        then: At,
        still: impl Fn(u64) -> At,
    ) -> &'b [u8] {
        let here = u64::try_from(bytes.len()).unwrap_or(u64::MAX).min(left);
        self.at = if here == left {
            then
        } else {
            still(left - here)
        };
        let taken = usize::try_from(here).unwrap_or(bytes.len());
        bytes.get(taken..).unwrap_or_default()
    }

    fn line<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (part, rest) = match end {
            Some(end) => (bytes.get(..end), bytes.get(end + 1..)),
            None => (Some(bytes), None),
        };
        self.line.extend_from_slice(part.unwrap_or_default());
        if self.line.len() > LONGEST_LINE {
            self.at = At::Lost;
        } else if end.is_some() {
            let line = std::mem::take(&mut self.line);
            self.whole_line(line.strip_suffix(b"\r").unwrap_or(&line));
            self.line = line;
            self.line.clear();
        }
        rest.unwrap_or_default()
    }

    fn whole_line(&mut self, line: &[u8]) {
        self.at = match self.at {
            At::Start | At::Trailers if line.is_empty() => At::Start,
            At::Start => {
                (self.length, self.chunked, self.doubled) = (None, false, false);
                self.tunnel = line.starts_with(b"CONNECT ");
                At::Headers
            }
            At::Headers if line.is_empty() => self.head(),
            At::Headers => {
                self.header(line);
                At::Headers
            }
            At::ChunkSize => chunk_size(line).map_or(At::Lost, |size| match size {
                0 => At::Trailers,
                size => At::Chunk(size),
            }),
            At::ChunkEnd if line.is_empty() => At::ChunkSize,
            At::Trailers => At::Trailers,
            _ => At::Lost,
        };
    }

    fn header(&mut self, line: &[u8]) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = parts.next().unwrap_or_default().trim_ascii();
        let value = parts.next().unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            self.doubled |= self.length.is_some();
            // hyper refuses what is no number, and numbers that differ.
            self.length = number(value, 10).or(Some(0));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked = true;
        }
    }

    fn head(&mut self) -> At {
        let plain = !(self.doubled || self.chunked && self.length.is_some());
        self.heads.add(plain);
        match self.length {
            // Nothing after such a request is followed, so it is refused too.
            _ if !plain || self.tunnel => At::Lost,
            _ if self.chunked => At::ChunkSize,
            None | Some(0) => At::Start,
            Some(length) => At::Body(length),
        }
    }
}

/// The size before a chunk's extensions.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = line.split(|byte| *byte == b';').next()?;
    number(size.trim_ascii(), 16)
}

fn number(text: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heads(bytes: &[u8], cuts: &[usize]) -> Vec<bool> {
        let heads = Heads::default();
        let mut watcher = Watcher::new(heads.clone());
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let mut from = 0;
        for to in cuts.into_iter().chain([bytes.len()]) {
            watcher.see(&bytes[from..to]);
            from = to;
        }
        heads.0.lock().unwrap().drain(..).collect()
    }

    const PLAIN: &str = "\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n\
        POST / HTTP/1.1\nContent-Length: 33\n\nGET / HTTP/1.1\r\nhost: inside\r\n\r\n\r\
        POST / HTTP/1.1\r\nTRANSFER-ENCODING : chunked\r\n\r\n\
        20;x=y\r\nGET / HTTP/1.1\r\nhost: inside\r\n\r\n\r\n0\r\ncontent-length: 1\r\n\r\n\
        GET / HTTP/1.1\r\n\r\n";

    #[test]
    fn bodies_are_no_heads() {
        assert_eq!(heads(PLAIN.as_bytes(), &[]), [true; 4]);
    }

    #[test]
    fn two_framings_are_seen_in_either_order() {
        for both in [
            "POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding:chunked\nCONTENT-LENGTH: 3\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 3\r\nx: y\r\nContent-Length:3\r\n\r\n",
        ] {
            let after = format!("{both}0\r\n\r\nGET / HTTP/1.1\r\n\r\n");
            assert_eq!(heads(after.as_bytes(), &[]), [false], "{both}");
        }
    }

    #[test]
    fn what_follows_a_connect_is_not_read_as_heads() {
        let tunnel = "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n".to_owned() + PLAIN;
        assert_eq!(heads(tunnel.as_bytes(), &[]), [true]);
    }

    #[test]
    fn out_of_step_is_no_plain_head() {
        let heads = Heads::default();
        Watcher::new(heads.clone())
            .see(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n");
        assert!(heads.next_is_plain());
        assert!(!heads.next_is_plain());
    }

    proptest! {
        #[test]
        fn the_same_heads_for_every_cut(cuts in prop::collection::vec(any::<usize>(), 0..60)) {
            prop_assert_eq!(heads(PLAIN.as_bytes(), &cuts), [true; 4]);
        }
    }
}
