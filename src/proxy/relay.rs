//! What leaves for the client of a call that is carried out in a task of its own: its answer when that is stored, and before
//! it what the server says or asks on the way.

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::{mpsc, oneshot};

use super::keep_alive::keep_alive;
use super::refuse::Refused;
use super::transit::Transit;
use super::{Body, full};
use crate::protocols::Event;
use crate::wire::sse::encode;

/// Pieces that wait for a slow client; the server waits with it.
const ROOM: usize = 8;

/// The client. It may leave at any time: nothing here fails.
pub(super) struct Relay {
    head: Option<oneshot::Sender<Result<Response<Body>, Refused>>>,
    /// Once something has left.
    pieces: Option<mpsc::Sender<Bytes>>,
}

impl Relay {
    /// A client and what it waits for.
    pub(super) fn new() -> (Self, oneshot::Receiver<Result<Response<Body>, Refused>>) {
        let (head, answer) = oneshot::channel();
        let relay = Self {
            head: Some(head),
            pieces: None,
        };
        (relay, answer)
    }

    /// Sends a piece that is not the answer. The first one starts a stream with this head; in silence it shows `sign`.
    pub(super) async fn ahead(
        &mut self,
        transit: &Transit,
        (status, headers): (StatusCode, &HeaderMap),
        sign: &Bytes,
        piece: Bytes,
    ) {
        if let Some(head) = self.head.take() {
            let (sender, receiver) = mpsc::channel(ROOM);
            self.pieces = Some(sender);
            let frames = stream::unfold(receiver, |mut pieces| async {
                let piece = pieces.recv().await?;
                Some((Ok(Frame::data(piece)), pieces))
            });
            let body = StreamBody::new(frames).boxed_unsync();
            let every = transit.settings.timeouts.keep_alive;
            let mut response = Response::new(keep_alive(body, sign.clone(), every));
            *response.status_mut() = status;
            *response.headers_mut() = headers.clone();
            let _ = head.send(Ok(response));
        }
        self.send(piece).await;
    }

    async fn send(&self, piece: Bytes) {
        if let Some(pieces) = self.pieces.as_ref().filter(|_| !piece.is_empty()) {
            let _ = pieces.send(piece).await;
        }
    }

    /// Sends the answer, or the rest of it. A refusal is an event where a stream has begun: `shaped` says it in the protocol's
    /// words.
    pub(super) async fn end(
        mut self,
        answer: Result<Response<Bytes>, Refused>,
        shaped: impl FnOnce(&Refused) -> Bytes,
    ) {
        if let Some(head) = self.head.take() {
            let _ = head.send(answer.map(|answer| answer.map(full)));
            return;
        }
        let last = match answer {
            Ok(answer) => answer.into_body(),
            Err(refusal) => {
                let data = String::from_utf8_lossy(&shaped(&refusal)).into_owned();
                let event = Event {
                    data: Some(data),
                    ..Event::default()
                };
                encode(event).unwrap_or_default()
            }
        };
        self.send(last).await;
    }
}
