//! Which HTTP a plain connection begins with, where both are allowed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::passes::passes_writes;

/// What a client of HTTP/2 sends first (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection some bytes of which have been read: they come first.
#[derive(Debug)]
pub(super) struct Sniffed<S> {
    read: Bytes,
    stream: S,
}

/// Reads until it is certain; whether it is HTTP/2.
///
/// # Errors
/// The connection's own.
pub(super) async fn is_http2<S: AsyncRead + Unpin>(
    mut stream: S,
) -> io::Result<(bool, Sniffed<S>)> {
    let mut read = BytesMut::with_capacity(PREFACE.len());
    while read.len() < PREFACE.len() && PREFACE.starts_with(&read) {
        let left = PREFACE.len() - read.len();
        if (&mut stream)
            .take(u64::try_from(left).unwrap_or(u64::MAX))
            .read_buf(&mut read)
            .await?
            == 0
        {
            break;
        }
    }
    let http2 = read == PREFACE;
    let read = read.freeze();
    Ok((http2, Sniffed { read, stream }))
}

impl<S: AsyncRead + Unpin> AsyncRead for Sniffed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.read.len().min(buffer.remaining());
        if length == 0 {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        buffer.put_slice(self.read.get(..length).unwrap_or_default());
        self.read.advance(length);
        Poll::Ready(Ok(()))
    }
}

passes_writes!(Sniffed);
