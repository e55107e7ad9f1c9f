//! Lines of a byte stream, bounded. Only a line feed ends a line: U+2028, U+2029 and U+0085 are text.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::sketch::{Meant, Sketch};

const ROOM: usize = 16 << 10;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Without its line end.
    Whole(Bytes),
    /// Longer than allowed: dropped up to its end, but for whom it would have answered.
    TooLong(Meant),
}

/// Reads lines.
pub(super) struct Lines<R> {
    source: R,
    cap: usize,
    buffer: BytesMut,
    /// Bytes of the buffer in which no line feed is.
    seen: usize,
    /// Of the line that is being dropped.
    skipped: Option<Sketch>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most `cap` bytes.
    pub(super) fn new(source: R, cap: usize) -> Self {
        Self {
            source,
            cap,
            buffer: BytesMut::with_capacity(ROOM),
            seen: 0,
            skipped: None,
        }
    }

    /// The next line that is not blank; `None` at the end. A last line without line feed is cut, and no message.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            if self.buffer.len() > self.cap {
                self.skipped.get_or_insert_default().push(&self.buffer);
                self.buffer.clear();
                self.seen = 0;
            }
            self.buffer.reserve(ROOM);
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// A line that is there already.
    fn take(&mut self) -> Option<Line> {
        loop {
            let new = self.buffer.get(self.seen..).unwrap_or_default();
            let Some(at) = new.iter().position(|byte| *byte == b'\n') else {
                self.seen = self.buffer.len();
                return None;
            };
            let mut line = self.buffer.split_to(self.seen + at + 1);
            self.seen = 0;
            line.truncate(line.len() - 1);
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            if self.skipped.is_some() || line.len() > self.cap {
                let mut sketch = self.skipped.take().unwrap_or_default();
                sketch.push(&line);
                return Some(Line::TooLong(sketch.finish()));
            }
            if !line.trim_ascii().is_empty() {
                return Some(Line::Whole(line.freeze()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives its pieces one by one.
    async fn lines(pieces: Vec<Vec<u8>>, cap: usize) -> Vec<Line> {
        let (mut write, read) = tokio::io::duplex(64);
        let feed = tokio::spawn(async move {
            for piece in pieces {
                tokio::io::AsyncWriteExt::write_all(&mut write, &piece)
                    .await
                    .unwrap();
            }
        });
        let mut lines = Lines::new(read, cap);
        let mut out = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            out.push(line);
        }
        feed.await.unwrap();
        out
    }

    fn whole(text: &'static str) -> Line {
        Line::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn only_a_line_feed_ends_a_line() {
        let text = "{\"a\":\"\u{2028}\u{2029}\u{85}\"}\r\n\n \r\n{}\n{\"cut";
        let got = lines(vec![text.as_bytes().to_vec()], 64).await;
        assert_eq!(
            got,
            [whole("{\"a\":\"\u{2028}\u{2029}\u{85}\"}"), whole("{}")]
        );
    }

    #[tokio::test]
    async fn a_line_at_the_cap_passes_and_one_above_is_dropped_whole() {
        let text = format!(
            "{}\n{}\n{}\nok\n",
            "a".repeat(8),
            "b".repeat(9),
            "c".repeat(99)
        );
        let got = lines(vec![text.into_bytes()], 8).await;
        assert_eq!(
            got,
            [
                whole("aaaaaaaa"),
                Line::TooLong(Meant::default()),
                Line::TooLong(Meant::default()),
                whole("ok")
            ]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_cutting_gives_the_same_lines(
            text in r#"([ab\r\n\u{e9}]|\{"id":[0-9]\}|\[\{"jsonrpc":0){0,30}"#,
            cuts in prop::collection::vec(1usize..9, 0..40),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut rest = text.as_bytes();
            let mut pieces = Vec::new();
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece.to_vec());
                rest = after;
            }
            pieces.push(rest.to_vec());
            let whole = runtime.block_on(lines(vec![text.as_bytes().to_vec()], 12));
            prop_assert_eq!(runtime.block_on(lines(pieces, 12)), whole);
        }
    }
}
