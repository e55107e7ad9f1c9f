//! Server-sent events (WHATWG HTML section 9.2): a decoder that is pushed, with a cap, and an encoder.
//!
//! What leaves is always encoded anew from the decoded event: raw bytes of an upstream may split differently in the
//! client's parser (CR, LF, a byte order mark, several `data:` lines). Comments are swallowed.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use futures_util::Stream;
use sse_stream::{Sse, SseByteStream};

use crate::protocols::Event;

/// Why bytes are not a stream of events, or an event cannot be written as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A field is not UTF-8.
    #[error("an event is not valid UTF-8")]
    NotUtf8,
    /// More bytes than allowed since the last event.
    #[error("an event is longer than {0} bytes")]
    TooLong(usize),
    /// An event's type or id has a line end or a NUL.
    #[error("an event's type or id cannot be written")]
    Unwritable,
}

/// Turns bytes into events: the same events for every way the bytes are cut. An event that is not ended by a blank line is
/// dropped when the bytes end.
pub struct Decoder {
    feed: mpsc::Sender<Piece>,
    events: SseByteStream<Pieces>,
    consumed: Arc<AtomicUsize>,
    last_event: usize,
    cap: usize,
    /// Met behind events that were whole: told next.
    error: Option<SseError>,
}

impl Decoder {
    /// A decoder that takes at most `cap` bytes from one event's end to the next, give or take a line feed.
    pub fn new(cap: usize) -> Self {
        let (feed, pieces) = mpsc::channel();
        Self {
            feed,
            events: SseByteStream::new(Pieces(pieces)),
            consumed: Arc::default(),
            last_event: 0,
            cap,
            error: None,
        }
    }

    /// Takes the next bytes, gives the events that are whole now: also those before an error, which is then told by the next
    /// call. After an error the decoder gives nothing any more.
    ///
    /// # Errors
    /// Bytes that are not UTF-8, or an event over the cap.
    pub fn push(&mut self, bytes: Bytes) -> Result<Vec<Event>, SseError> {
        self.finish()?;
        let mut events = Vec::new();
        match self.decode(bytes, &mut events) {
            Err(error) if events.is_empty() => Err(error),
            decoded => {
                self.error = decoded.err();
                Ok(events)
            }
        }
    }

    /// Bytes that have come of an event that is not whole.
    pub fn held(&self) -> usize {
        self.consumed.load(Ordering::Relaxed) - self.last_event
    }

    /// The bytes have ended.
    ///
    /// # Errors
    /// One that was met behind the last events.
    pub fn finish(&mut self) -> Result<(), SseError> {
        self.error.take().map_or(Ok(()), Err)
    }

    fn decode(&mut self, bytes: Bytes, events: &mut Vec<Event>) -> Result<(), SseError> {
        let piece = Piece {
            bytes,
            consumed: Arc::clone(&self.consumed),
        };
        // The receiver lives as long as `self`.
        let _ = self.feed.send(piece);
        // The source never waits, it only has or has not: no waker is needed.
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(next)) = Pin::new(&mut self.events).poll_next(&mut context) {
            let event = next.map_err(|_| SseError::NotUtf8)?;
            self.check_length()?;
            self.last_event = self.consumed.load(Ordering::Relaxed);
            events.push(Event {
                event: event.event,
                data: event.data,
                id: event.id,
                retry: event.retry,
            });
        }
        self.check_length()
    }

    fn check_length(&self) -> Result<(), SseError> {
        if self.held() > self.cap {
            return Err(SseError::TooLong(self.cap));
        }
        Ok(())
    }
}

/// The event as bytes, its blank line included.
///
/// # Errors
/// A line end or NUL in the type or id: nothing that was decoded has one.
pub fn encode(event: Event) -> Result<Bytes, SseError> {
    let event = Sse {
        event: event.event,
        data: event.data,
        id: event.id,
        retry: event.retry,
    };
    event.encode().map_err(|_| SseError::Unwritable)
}

/// Bytes that count what the decoder has taken of them: only so is the end of an event known.
struct Piece {
    bytes: Bytes,
    consumed: Arc<AtomicUsize>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.consumed.fetch_add(count, Ordering::Relaxed);
    }
}

struct Pieces(mpsc::Receiver<Piece>);

impl Stream for Pieces {
    type Item = Result<Piece, Infallible>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.0.try_recv() {
            Ok(piece) => Poll::Ready(Some(Ok(piece))),
            Err(mpsc::TryRecvError::Empty) => Poll::Pending,
            Err(mpsc::TryRecvError::Disconnected) => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn data(text: &str) -> Event {
        Event {
            data: Some(text.to_owned()),
            ..Event::default()
        }
    }

    fn decode(bytes: &[u8], cuts: &[usize], cap: usize) -> Result<Vec<Event>, SseError> {
        let mut decoder = Decoder::new(cap);
        let mut events = Vec::new();
        let mut from = 0;
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.sort_unstable();
        for to in cuts.into_iter().chain([bytes.len()]) {
            events.extend(decoder.push(Bytes::copy_from_slice(&bytes[from..to]))?);
            from = to;
        }
        decoder.finish()?;
        Ok(events)
    }

    #[test]
    fn every_line_end_comments_and_a_cut_last_event() {
        let bytes = "\u{feff}: hi\r\ndata: a\r\ndata:b\r\n\r\nevent: e\rid: 7\rretry: 10\rdata:  c\r\rdata\n\n:\n\ndata: cut\n";
        let events = decode(bytes.as_bytes(), &[], 100).unwrap();
        let second = Event {
            event: Some("e".to_owned()),
            id: Some("7".to_owned()),
            retry: Some(10),
            ..data(" c")
        };
        assert_eq!(events, [data("a\nb"), second, data("")]);
    }

    #[test]
    fn bytes_that_are_not_utf8_end_it() {
        assert_eq!(decode(b"data: \xff\n\n", &[], 100), Err(SseError::NotUtf8));
        let mut decoder = Decoder::new(100);
        decoder
            .push(Bytes::from_static(b"data: \xff\n\n"))
            .unwrap_err();
        let after = decoder.push(Bytes::from_static(b"data: a\n\n")).unwrap();
        assert_eq!(after, []);
    }

    #[test]
    fn what_is_whole_before_an_error_is_given() {
        let mut decoder = Decoder::new(100);
        let bytes = Bytes::from_static(b"data: a\n\ndata: \xff\n\ndata: b\n\n");
        assert_eq!(decoder.push(bytes), Ok(vec![data("a")]));
        assert_eq!(decoder.finish(), Err(SseError::NotUtf8));
    }

    #[test]
    fn a_line_end_in_a_type_is_not_written() {
        let event = Event {
            event: Some("a\ndata: b".to_owned()),
            ..Event::default()
        };
        assert_eq!(encode(event), Err(SseError::Unwritable));
    }

    proptest! {
        #[test]
        fn the_same_events_for_every_cut(
            lines in prop::collection::vec(("(data: ?|event:|id:|: |x:|\u{feff}data:)?[aé☃ :]{0,4}", "\n|\r\n|\r|\n\n|\r\n\r\n|\r\r"), 0..12),
            cuts in prop::collection::vec(any::<usize>(), 0..40),
        ) {
            let text: String = lines.iter().flat_map(|(line, end)| [line.as_str(), end]).collect();
            let whole = decode(text.as_bytes(), &[], 1000).unwrap();
            prop_assert_eq!(&decode(text.as_bytes(), &cuts, 1000).unwrap(), &whole);
            let single: Vec<_> = (0..text.len()).collect();
            prop_assert_eq!(&decode(text.as_bytes(), &single, 1000).unwrap(), &whole);
        }

        #[test]
        fn the_cap_holds_for_every_cut(size in 0_usize..40, before in 0_usize..3, cuts in prop::collection::vec(any::<usize>(), 0..20)) {
            let text = format!("{}data: {}\n\n", "data: x\n\n".repeat(before), "y".repeat(size));
            let fits = size + "data: \n\n".len() <= 20;
            prop_assert_eq!(decode(text.as_bytes(), &cuts, 20).is_ok(), fits);
        }

        #[test]
        fn what_is_written_reads_the_same(event in prop::option::of("[a-z ]{0,5}"), data in prop::option::of("[a-z\n: ]{0,9}"), id in prop::option::of("[0-9]{0,3}"), retry in prop::option::of(any::<u64>())) {
            let event = Event { event, data, id, retry };
            prop_assume!(event != Event::default());
            let bytes = encode(event.clone()).unwrap();
            prop_assert_eq!(decode(&bytes, &[3, 7], 1000).unwrap(), [event]);
        }
    }
}
