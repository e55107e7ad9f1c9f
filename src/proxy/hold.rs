//! Requests whose calls wait before they are answered: for a person, or for the identical call that is under way.
//!
//! Whoever waits holds a place, of which a session has few. When a ticket has changed the whole message is judged anew, with
//! today's policy and fresh facts, and only that judgement claims anything. Who leaves meanwhile has asked, and nothing else.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::claims::Claims;
use super::transit::{Judged, Transit};
use super::{Body, BoxError, full};
use crate::item::Leg;
use crate::names::SessionKey;
use crate::principal::{Principal, Session};
use crate::protocols::{Event, Signs};
use crate::verdict::Undecided;
use crate::wire::media::{Media, media};
use crate::wire::sse::encode;

/// Requests of one session that may wait at once. More are answered at once.
pub(super) const PER_SESSION: u32 = 16;

type Who = (Arc<Principal>, Option<SessionKey>);

/// The places of those who wait.
pub(super) struct Holds {
    /// Of all sessions: others get their answers meanwhile.
    places: Arc<Semaphore>,
    sessions: Mutex<HashMap<Who, u32>>,
    stop: CancellationToken,
}

impl Holds {
    /// Places for half of the requests that may be in flight.
    pub(super) fn new(concurrency: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new((concurrency / 2).max(1))),
            sessions: Mutex::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Whoever waits is answered now, and nobody waits from here on.
    pub(super) fn release(&self) {
        self.stop.cancel();
    }

    /// A place; `None` where there is none left.
    fn seat(self: &Arc<Self>, session: &Session) -> Option<Seat> {
        if self.stop.is_cancelled() {
            return None;
        }
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let who = (Arc::clone(&session.principal), session.key.clone());
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = sessions.entry(who.clone()).or_default();
        if *taken >= PER_SESSION {
            return None;
        }
        *taken += 1;
        drop(sessions);
        Some(Seat {
            holds: Arc::clone(self),
            who,
            _place: place,
        })
    }
}

/// A place, given back when it is dropped.
struct Seat {
    holds: Arc<Holds>,
    who: Who,
    _place: OwnedSemaphorePermit,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let sessions = self.holds.sessions.lock();
        let mut sessions = sessions.unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = sessions.get_mut(&self.who) {
            *taken = taken.saturating_sub(1);
            if *taken == 0 {
                sessions.remove(&self.who);
            }
        }
    }
}

/// A message whose calls wait.
pub(super) struct Waiting {
    transit: Arc<Transit>,
    leg: Leg,
    groups: Vec<Range<usize>>,
    judged: Judged,
    least: Option<Duration>,
    /// When its agent is answered at the latest.
    pub(super) until: Instant,
    _seat: Seat,
}

impl Waiting {
    /// The judged message, waiting for at most what its rules say, and no longer than `until`; given back where nothing of it
    /// waits, or there is no place. `least`: as long it waits also where no rule says so.
    pub(super) fn begin(
        transit: &Arc<Transit>,
        (leg, groups): (Leg, Vec<Range<usize>>),
        judged: Judged,
        least: Option<Duration>,
        until: Option<Instant>,
    ) -> Result<Self, Box<Judged>> {
        let Some(within) = judged.decision.waits(least) else {
            return Err(Box::new(judged));
        };
        let latest = Instant::now() + within;
        let until = until.map_or(latest, |until| until.min(latest));
        if until <= Instant::now() {
            return Err(Box::new(judged));
        }
        match transit.holds.seat(&transit.session) {
            Some(seat) => Ok(Self {
                transit: Arc::clone(transit),
                leg,
                groups,
                judged,
                least,
                until,
                _seat: seat,
            }),
            None => Err(Box::new(judged)),
        }
    }

    /// What is said of the message when its tickets have changed, or nobody may wait any longer.
    pub(super) async fn over(mut self) -> Result<(Arc<Transit>, Judged), Undecided> {
        self.transit.metrics.held(&self.transit.entry.route.name);
        loop {
            // Calls beside it that were allowed: nothing is claimed for longer than it takes to send it.
            let claims = Claims::of(&mut self.judged.decision);
            let given_back = claims.holds_any();
            claims.not_sent().await;
            let left = self.until.saturating_duration_since(Instant::now());
            let changed = tokio::select! {
                changed = self.transit.guard.changed(&self.judged.decision, left) => {
                    // Whatever is wrong with the tickets, the next judgement says it.
                    changed.unwrap_or(true)
                }
                () = self.transit.holds.stop.cancelled() => false,
            };
            if !changed && !given_back {
                return Ok((self.transit, self.judged));
            }
            self.transit = Arc::new(self.transit.renewed());
            let items = std::mem::take(&mut self.judged.items);
            self.judged = self.transit.decide(self.leg, items, &self.groups).await?;
            let waits = self.judged.decision.waits(self.least).is_some();
            if !changed || !waits || Instant::now() >= self.until {
                return Ok((self.transit, self.judged));
            }
        }
    }
}

/// A stream of events that shows signs of life, and then the answer, as an event where it is not a stream itself. Polled, it
/// goes on with the request; dropped, it leaves it.
pub(super) fn streamed(
    signs: Box<dyn Signs>,
    every: Duration,
    rest: BoxFuture<'static, Response<Body>>,
    unreadable: Bytes,
) -> Response<Body> {
    let held = Held {
        signs,
        every,
        begun: false,
        rest: Some(rest),
        body: None,
        unreadable,
    };
    let frames = stream::unfold(held, |mut held| async move {
        let frame = held.next().await?;
        Some((frame, held))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    let events = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, events);
    super::headers::unbuffered(headers);
    response
}

struct Held {
    signs: Box<dyn Signs>,
    every: Duration,
    begun: bool,
    rest: Option<BoxFuture<'static, Response<Body>>>,
    body: Option<Body>,
    /// What is said of an answer that no event can hold.
    unreadable: Bytes,
}

impl Held {
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, BoxError>> {
        loop {
            if let Some(body) = &mut self.body {
                return body.frame().await;
            }
            let rest = self.rest.as_mut()?;
            if !self.begun {
                // At once: the head leaves with it.
                self.begun = true;
                return Some(Ok(Frame::data(self.signs.next())));
            }
            match timeout(self.every, rest).await {
                Err(_) => return Some(Ok(Frame::data(self.signs.next()))),
                Ok(response) => {
                    self.rest = None;
                    match events_of(response, &self.unreadable).await {
                        Ok(body) => self.body = Some(body),
                        Err(error) => return Some(Err(error)),
                    }
                }
            }
        }
    }
}

/// The answer as events. `unreadable`: what is said of one that no event can hold.
async fn events_of(response: Response<Body>, unreadable: &Bytes) -> Result<Body, BoxError> {
    let (head, body) = response.into_parts();
    let kind = kind(&head.headers);
    if kind == Media::Events {
        return Ok(body);
    }
    let whole = body.collect().await?.to_bytes();
    let fits = kind == Media::Json && !whole.is_empty();
    let data = if fits { &whole } else { unreadable };
    let event = Event {
        data: Some(String::from_utf8_lossy(data).into_owned()),
        ..Event::default()
    };
    Ok(full(encode(event).unwrap_or_default()))
}

fn kind(headers: &HeaderMap) -> Media {
    media(headers).unwrap_or(Media::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str) -> Session {
        let principal = Principal {
            tenant: "t".into(),
            issuer: "config".into(),
            subject: "ann".into(),
            agent: "bot".into(),
            scopes: std::collections::BTreeSet::new(),
            actors: Vec::new(),
        };
        Session::new(Some(SessionKey::from(name)), Arc::new(principal))
    }

    #[test]
    fn a_session_takes_only_its_own_places_and_gives_them_back() {
        let holds = Arc::new(Holds::new(1000));
        let mut taken: Vec<_> = (0..PER_SESSION)
            .map(|_| holds.seat(&session("one")).unwrap())
            .collect();
        assert!(holds.seat(&session("one")).is_none());
        assert!(holds.seat(&session("two")).is_some());
        taken.pop();
        let again = holds.seat(&session("one"));
        assert!(again.is_some());
        drop((taken, again));
        assert!(holds.sessions.lock().unwrap().is_empty());
        assert_eq!(holds.places.available_permits(), 500);
    }

    #[test]
    fn all_sessions_together_leave_half_of_the_requests_to_others() {
        let holds = Arc::new(Holds::new(4));
        let one = holds.seat(&session("one"));
        let two = holds.seat(&session("two"));
        assert!(one.is_some() && two.is_some());
        assert!(holds.seat(&session("three")).is_none());
        drop(one);
        assert!(holds.seat(&session("three")).is_some());
    }

    #[test]
    fn nobody_waits_once_they_are_released() {
        let holds = Arc::new(Holds::new(4));
        holds.release();
        assert!(holds.seat(&session("one")).is_none());
    }
}
