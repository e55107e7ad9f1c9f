//! Drives a protocol's reader over an upstream's answer: whole, or event by event as the client takes them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http::StatusCode;
use http_body::Frame as BodyFrame;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::Instant;

use super::answer::Failure;
use super::claims::Claims;
use super::hold::Waiting;
use super::keep_alive::keep_alive;
use super::placeholders::Masking;
use super::refuse::{self, Refused};
use super::transit::{Judged, Transit};
use super::{Body, BoxError};
use crate::item::{Item, Leg, Located, RouteKind};
use crate::metrics::{Unscanned, UpstreamFault};
use crate::protocols::{Done, Event, Frame, Framing, Malformed, ResponseReader, Step};
use crate::verdict::Undecided;
use crate::wire::body::{self, BodyError, Encodings};
use crate::wire::budget::Share;
use crate::wire::offload::offload;
use crate::wire::sse;

/// How long a stream may stand still on which nothing is awaited.
const ENDLESS: Duration = Duration::from_hours(24 * 365);

/// How long the head of a stream waits for its first piece: a stream that begins with a fault is an error with a status, which
/// no SDK asks for again, and not a broken connection, which each does.
const FIRST: Duration = Duration::from_secs(2);
/// What has left before a fault gets so long to reach the client.
const FLUSH: Duration = Duration::from_millis(50);

/// A reader with what it needs to have items judged.
pub(super) struct Driver {
    transit: Arc<Transit>,
    reader: Box<dyn ResponseReader>,
    /// Bytes of the body so far.
    seen: usize,
    /// Of them, text that was judged.
    judged: usize,
    /// What the rest is.
    rest: Unscanned,
    /// Calls whose outputs the conversation has: proposed again, they are meant to be done again.
    done: Vec<Done>,
    /// When calls that wait are answered at the latest, once one has waited.
    until: Option<Instant>,
    /// The answer's status is no error.
    passed: bool,
}

impl Driver {
    pub(super) fn new(
        transit: Arc<Transit>,
        reader: Box<dyn ResponseReader>,
        status: StatusCode,
        done: Vec<Done>,
    ) -> Self {
        let rest = match transit.kind() {
            RouteKind::Model if status.is_success() => Unscanned::ModelText,
            RouteKind::Model => Unscanned::ErrorBody,
            _ => Unscanned::Structure,
        };
        Self {
            transit,
            reader,
            seen: 0,
            judged: 0,
            rest,
            done,
            until: None,
            passed: status.as_u16() < 400,
        }
    }

    pub(super) fn framing(&self) -> Framing {
        self.reader.framing()
    }

    /// Whether the answer to the request itself has come; `None` where nothing else can come with it.
    pub(super) fn is_answered(&self) -> Option<bool> {
        self.reader.is_answered()
    }

    /// A sign of life.
    pub(super) fn keep_alive(&self) -> Bytes {
        self.reader.keep_alive()
    }

    /// Takes a body that is whole.
    pub(super) async fn whole(mut self, bytes: Bytes) -> Result<Bytes, Refused> {
        let mut out = Vec::new();
        match self.framing() {
            Framing::Whole => {
                let step = self.push(Frame::Whole(bytes))?;
                if self.transit.kind() == RouteKind::Http && step.judge.is_empty() {
                    self.rest = Unscanned::NoItem;
                }
                self.settle(step, &mut out).await?;
            }
            Framing::Events => {
                let mut decoder = sse::Decoder::new(self.transit.settings.limits.response_body);
                for event in decoder
                    .push(bytes)
                    .map_err(|error| self.unreadable(&error))?
                {
                    let step = self.push(Frame::Event(event))?;
                    self.settle(step, &mut out).await?;
                }
                decoder.finish().map_err(|error| self.unreadable(&error))?;
            }
        }
        let step = self.finish()?;
        self.settle(step, &mut out).await?;
        self.done().await;
        Ok(joined(out))
    }

    /// The answer has ended: what its calls have reached is remembered where they were carried out.
    async fn done(&mut self) {
        if self.passed && self.reader.is_done() {
            self.transit.acquaint().await;
        }
    }

    async fn settle(&mut self, step: Step, out: &mut Vec<Bytes>) -> Result<(), Refused> {
        out.extend(step.send);
        if !step.judge.is_empty() {
            out.extend(self.resolve(step.judge).await?);
        }
        Ok(())
    }

    fn push(&mut self, frame: Frame) -> Result<Step, Refused> {
        let bytes = match &frame {
            Frame::Whole(bytes) => bytes.len(),
            Frame::Event(event) => event.data.as_ref().map_or(0, String::len),
        };
        self.seen += bytes;
        if let Some(taken) = &self.transit.taken {
            taken.came(&frame);
        }
        offload(bytes, || self.reader.push(frame)).map_err(|malformed| self.malformed(malformed))
    }

    fn finish(&mut self) -> Result<Step, Refused> {
        self.reader
            .finish()
            .map_err(|malformed| self.malformed(malformed))
    }

    /// Has items judged; gives the bytes that may now leave. Calls that are released here have their tickets spent first.
    async fn resolve(&mut self, items: Vec<Located>) -> Result<Vec<Bytes>, Refused> {
        let groups = self.reader.together();
        let undecided = |undecided: Undecided| refuse::undecided_response(&undecided);
        let judged = self.transit.judge(Leg::ToAgent, items, &groups).await;
        let judged = judged.map_err(undecided)?;
        self.judged += judged.bytes;
        let judged = self.meant(judged, &groups).await.map_err(undecided)?;
        let message = (Leg::ToAgent, groups);
        let mut judged = match Waiting::begin(&self.transit, message, judged, None, self.until) {
            Err(judged) => *judged,
            Ok(waiting) => {
                self.until = Some(waiting.until);
                let (transit, judged) = waiting.over().await.map_err(undecided)?;
                self.transit = transit;
                judged
            }
        };
        let written = offload(judged.bytes, || self.reader.resolve(&judged.decision));
        let claims = Claims::of(&mut judged.decision);
        match written {
            Ok(bytes) => {
                claims.released().await?;
                Ok(bytes)
            }
            Err(malformed) => {
                claims.not_sent().await;
                Err(self.malformed(malformed))
            }
        }
    }

    /// A call that was released before is asked for anew, where the conversation has its output already: the model means
    /// another act, and did not just lose an answer. A person is asked, and shown that it is one more.
    async fn meant(
        &mut self,
        mut judged: Judged,
        groups: &[Range<usize>],
    ) -> Result<Judged, Undecided> {
        let mut any = false;
        for (index, _) in &judged.decision.receipts {
            if let Some(Item::ToolCall(call)) = judged.items.get_mut(*index).map(|l| &mut l.item)
                && self.done.iter().any(|done| done.is(&call.tool, &call.args))
            {
                call.again = true;
                any = true;
            }
        }
        if !any {
            return Ok(judged);
        }
        Claims::of(&mut judged.decision).not_sent().await;
        self.transit
            .decide(Leg::ToAgent, judged.items, groups)
            .await
    }

    fn malformed(&self, malformed: Malformed) -> Refused {
        self.transit.fault(UpstreamFault::Unreadable, &malformed);
        refuse::malformed_response(malformed)
    }

    fn unreadable(&self, error: &sse::SseError) -> Refused {
        self.transit.fault(UpstreamFault::Unreadable, error);
        match error {
            sse::SseError::TooLong(_) => refuse::RESPONSE_TOO_LARGE.refusal(),
            _ => refuse::RESPONSE_UNREADABLE.refusal(),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let unjudged = self.reader.unjudged();
        self.transit
            .rest(self.rest, self.seen, self.judged, &unjudged);
    }
}

/// A body that cannot be read, as the agent is told.
pub(super) fn unread(transit: &Transit, error: &BodyError) -> Refused {
    let (fault, code) = match error {
        BodyError::NoMemory => {
            tracing::warn!("an answer was dropped: `limits.memory` is used up");
            return refuse::ANSWER_NOT_HELD.refusal();
        }
        BodyError::Expands => {
            transit.fault(UpstreamFault::TooLarge, error);
            return refuse::RESPONSE_TOO_LARGE
                .saying("The upstream's answer grows too much when decoded.");
        }
        BodyError::TooLarge(_) => (UpstreamFault::TooLarge, &refuse::RESPONSE_TOO_LARGE),
        BodyError::UnknownEncoding | BodyError::BadEncoding => {
            (UpstreamFault::Encoding, &refuse::RESPONSE_UNREADABLE)
        }
        BodyError::Idle(_) => (UpstreamFault::Idle, &refuse::UPSTREAM_TIMEOUT),
        BodyError::Cut(_) => (UpstreamFault::Cut, &refuse::RESPONSE_TRUNCATED),
    };
    transit.fault(fault, error);
    code.refusal()
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        0 | 1 => pieces.pop().unwrap_or_default(),
        _ => {
            let mut whole = BytesMut::new();
            for piece in &pieces {
                whole.extend_from_slice(piece);
            }
            whole.freeze()
        }
    }
}

/// The body for the client: polled, it reads on; dropped, it drops the upstream's. What goes wrong before anything has left is
/// an error that the client is told; what goes wrong later aborts its connection, so that no client takes a cut answer for a
/// whole one.
pub(super) async fn events(
    driver: Driver,
    body: Body,
    encodings: &Encodings,
) -> Result<Body, Refused> {
    let sign = driver.keep_alive();
    let every = driver.transit.settings.timeouts.keep_alive;
    let endless = driver.reader.is_endless();
    let events = Events::new(driver, body, encodings);
    let mut pieces = Box::pin(stream::try_unfold(events, |mut events| async move {
        let piece = events.next().await.map_err(|failure| failure.refusal)?;
        Ok(piece.map(|piece| (piece, events)))
    }));
    // A stream without end may say nothing for long; its client waits for the head.
    let patience = if endless { Duration::ZERO } else { FIRST };
    let first = match tokio::time::timeout(patience, pieces.next()).await {
        Ok(Some(Err(refusal))) => return Err(refusal),
        Ok(first) => first,
        Err(_) => None,
    };
    let frames = stream::iter(first).chain(pieces).then(|piece| async {
        match piece {
            Ok(piece) => Ok(BodyFrame::data(piece)),
            Err(refusal) => {
                // An aborted connection drops what is still in its buffers.
                tokio::time::sleep(FLUSH).await;
                Err(BoxError::from(refusal.message))
            }
        }
    });
    Ok(keep_alive(
        StreamBody::new(frames).boxed_unsync(),
        sign,
        every,
    ))
}

/// An answer that comes in events.
pub(super) struct Events {
    driver: Driver,
    body: Body,
    decoder: body::Decoder,
    masking: Option<Masking>,
    /// The body has ended.
    drained: bool,
    sse: sse::Decoder,
    waiting: VecDeque<Event>,
    /// Items of the last step, judged once its bytes have left.
    judge: Vec<Located>,
    out: VecDeque<Bytes>,
    ended: bool,
    /// Of the memory for bodies, for events that are not whole, not ruled, or wait.
    share: Share,
}

impl Events {
    pub(super) fn new(driver: Driver, body: Body, encodings: &Encodings) -> Self {
        let limit = driver.transit.settings.limits.response_body;
        Self {
            sse: sse::Decoder::new(limit),
            decoder: body::Decoder::new(encodings),
            share: driver.transit.memory.share(),
            masking: driver.transit.mask.clone().map(Masking::new),
            drained: false,
            driver,
            body,
            waiting: VecDeque::new(),
            judge: Vec::new(),
            out: VecDeque::new(),
            ended: false,
        }
    }

    /// Whether what came last is, or comes after, the answer to the request itself.
    pub(super) fn is_answered(&self) -> bool {
        self.driver.is_answered() == Some(true)
    }

    /// The next bytes that may leave; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(piece) = self.out.pop_front() {
                if piece.is_empty() {
                    continue;
                }
                return Ok(Some(piece));
            }
            if !self.judge.is_empty() {
                let items = std::mem::take(&mut self.judge);
                self.out.extend(self.driver.resolve(items).await?);
            } else if let Some(event) = self.waiting.pop_front() {
                let step = self.driver.push(Frame::Event(event))?;
                self.take(step);
                self.account()?;
            } else if self.ended {
                self.driver.done().await;
                return Ok(None);
            } else {
                self.read().await?;
            }
        }
    }

    /// Takes what is held from the memory for bodies.
    fn account(&mut self) -> Result<(), Failure> {
        let waiting = self.waiting.iter().filter_map(|event| event.data.as_ref());
        let waiting: usize = waiting.map(String::len).sum();
        let out: usize = self.out.iter().map(Bytes::len).sum();
        if self
            .share
            .hold(self.sse.held() + waiting + out + self.driver.reader.held())
        {
            return Ok(());
        }
        Err(Failure::of(&self.driver.transit, &BodyError::NoMemory))
    }

    fn take(&mut self, step: Step) {
        self.out.extend(step.send);
        self.judge = step.judge;
    }

    fn events_of(&mut self, plain: Bytes) -> Result<(), Failure> {
        let events = self
            .sse
            .push(plain)
            .map_err(|error| self.driver.unreadable(&error))?;
        self.waiting.extend(events);
        self.account()
    }

    async fn read(&mut self) -> Result<(), Failure> {
        // What has left since is given back before anybody waits.
        self.account()?;
        let idle = if self.driver.reader.is_endless() {
            ENDLESS
        } else {
            self.driver.transit.settings.timeouts.idle
        };
        let limit = self.driver.transit.settings.limits.response_body;
        let unread = |driver: &Driver, error| Failure::of(&driver.transit, &error);
        let piece = if self.drained {
            None
        } else {
            let next = body::next_piece(&mut self.body, idle).await;
            next.map_err(|error| unread(&self.driver, error))?
        };
        if let Some(piece) = piece {
            let plain = self
                .decoder
                .push(piece, limit)
                .map_err(|error| unread(&self.driver, error))?;
            let plain = match &mut self.masking {
                Some(masking) => masking.push(plain),
                None => plain,
            };
            self.events_of(plain)?;
        } else {
            self.drained = true;
            self.decoder
                .finish()
                .map_err(|error| unread(&self.driver, error))?;
            if let Some(rest) = self.masking.take().map(|mut masking| masking.finish())
                && !rest.is_empty()
            {
                // The end comes once these events are through.
                return self.events_of(rest);
            }
            self.ended = true;
            self.sse
                .finish()
                .map_err(|error| self.driver.unreadable(&error))?;
            let open = self.driver.is_answered() == Some(false);
            let step = self.driver.finish();
            let step = step.map_err(|refusal| Failure { refusal, cut: open })?;
            self.take(step);
        }
        Ok(())
    }
}
