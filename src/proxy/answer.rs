//! From an upstream's answer, or a stored receipt, to the agent's.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header, response};

use super::redirect::{self, Redirect, redirect};
use super::refuse::{self, Refused};
use super::relay::Relay;
use super::stream::{self, Driver, Events};
use super::transit::Transit;
use super::{Body, full, headers};
use crate::guard::Receipt;
use crate::item::{EgressTarget, Item, Leg, Located, Place, RouteKind};
use crate::metrics::UpstreamFault;
use crate::names::ToolName;
use crate::protocols::{Framing, Request};
use crate::wire::body::{self, BodyError, Encodings, Pace};

const REPLAYED: HeaderName = HeaderName::from_static("holdpoint-replayed");

/// An answer whose head has been read.
pub(super) struct Incoming {
    transit: Arc<Transit>,
    head: response::Parts,
    body: Body,
    encodings: Encodings,
    driver: Driver,
    bodiless: bool,
    /// Where it sends the agent, past the proxy.
    elsewhere: Option<EgressTarget>,
}

/// Why no answer can be given.
pub(super) struct Failure {
    /// For the agent.
    pub(super) refusal: Refused,
    /// The upstream's answer did not come whole.
    pub(super) cut: bool,
}

impl Failure {
    /// Of a body that cannot be read.
    pub(super) fn of(transit: &Transit, error: &BodyError) -> Self {
        Self {
            refusal: stream::unread(transit, error),
            cut: matches!(error, BodyError::Cut(_) | BodyError::Idle(_)),
        }
    }
}

impl From<Refused> for Failure {
    fn from(refusal: Refused) -> Self {
        Self {
            refusal,
            cut: false,
        }
    }
}

impl Incoming {
    /// Chooses the reader for the answer to this request.
    pub(super) fn open(
        transit: &Arc<Transit>,
        request: &Request,
        response: Response<Body>,
    ) -> Result<Self, Refused> {
        let (head, body) = response.into_parts();
        let encodings =
            Encodings::of(&head.headers).map_err(|error| stream::unread(transit, &error))?;
        let driver = driver(transit, request, &head)?;
        let elsewhere = elsewhere(transit, request, &head)?;
        // RFC 9112 section 6.3.
        let bodiless = request.parts.method == Method::HEAD
            || matches!(
                head.status,
                StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
            );
        Ok(Self {
            transit: Arc::clone(transit),
            head,
            body,
            encodings,
            driver,
            bodiless,
            elsewhere,
        })
    }

    /// Has the place judged that the agent is sent to.
    async fn allowed(&mut self) -> Result<(), Refused> {
        let Some(target) = self.elsewhere.take() else {
            return Ok(());
        };
        let located = Located {
            place: Place {
                pointer: "location".to_owned(),
                span: None,
            },
            item: Item::Egress(target),
        };
        let judged = self.transit.judge(Leg::ToAgent, vec![located], &[]).await;
        let judged = judged.map_err(|undecided| refuse::undecided_response(&undecided))?;
        let ruling = judged.decision.rulings.first().ok_or(&refuse::INTERNAL)?;
        match ruling.verdict.finding() {
            None => Ok(()),
            Some(finding) => Err(redirect::refusal(finding)),
        }
    }

    /// The answer: at once where it comes in events, else when it is whole and judged.
    pub(super) async fn answer(mut self) -> Result<Response<Body>, Refused> {
        self.allowed().await?;
        if self.driver.framing() == Framing::Events && !self.bodiless {
            let mut headers = headers::returning(&self.head.headers, false);
            masked(&self.transit, &mut headers);
            headers::unbuffered(&mut headers);
            let body = stream::events(self.driver, self.body, &self.encodings).await?;
            return Ok(with_head(self.head.status, headers, body));
        }
        let whole = self.whole().await.map_err(|failure| failure.refusal)?;
        Ok(whole.map(full))
    }

    /// The answer, whole and judged. Where a protocol has messages on the way to it these go to `relay` as they come: a server
    /// may wait for what its client says to them.
    pub(super) async fn relayed(mut self, relay: &mut Relay) -> Result<Response<Bytes>, Failure> {
        self.allowed().await?;
        if self.bodiless || self.driver.is_answered().is_none() {
            return self.whole().await;
        }
        let mut headers = headers::returning(&self.head.headers, false);
        masked(&self.transit, &mut headers);
        headers::unbuffered(&mut headers);
        let sign = self.driver.keep_alive();
        let limit = self.transit.settings.limits.response_body;
        let mut events = Events::new(self.driver, self.body, &self.encodings);
        let mut last = BytesMut::new();
        while let Some(piece) = events.next().await? {
            if events.is_answered() {
                if last.len() + piece.len() > limit {
                    let error = BodyError::TooLarge(limit);
                    return Err(stream::unread(&self.transit, &error).into());
                }
                last.extend_from_slice(&piece);
            } else {
                let head = (self.head.status, &headers);
                relay.ahead(&self.transit, head, &sign, piece).await;
            }
        }
        if !events.is_answered() {
            // It may come on another stream, where nobody stores it.
            return Err(Failure {
                refusal: refuse::outcome_unknown(None),
                cut: true,
            });
        }
        Ok(with_head(self.head.status, headers, last.freeze()))
    }

    /// The answer, whole and judged.
    async fn whole(mut self) -> Result<Response<Bytes>, Failure> {
        self.allowed().await?;
        let Self {
            transit,
            head,
            body,
            encodings,
            driver,
            bodiless,
            elsewhere: _,
        } = self;
        if bodiless {
            let mut headers = headers::returning(&head.headers, true);
            masked(&transit, &mut headers);
            return Ok(with_head(head.status, headers, Bytes::new()));
        }
        let limit = transit.settings.limits.response_body;
        let pace = Pace {
            within: transit.settings.timeouts.idle,
            least: 1,
        };
        let came = body::read(body, &encodings, limit, pace, &transit.memory)
            .await
            .map_err(|error| Failure::of(&transit, &error))?;
        let read = match &transit.mask {
            Some(mask) => mask.whole(came.clone()),
            None => came.clone(),
        };
        let out = driver.whole(read).await?;
        let exact = encodings.is_identity() && came == out;
        let mut headers = headers::returning(&head.headers, exact);
        masked(&transit, &mut headers);
        Ok(with_head(head.status, headers, out))
    }
}

fn masked(transit: &Transit, headers: &mut http::HeaderMap) {
    if let Some(mask) = &transit.mask {
        mask.headers(headers);
    }
}

fn driver(
    transit: &Arc<Transit>,
    request: &Request,
    head: &response::Parts,
) -> Result<Driver, Refused> {
    if head.status.is_informational() {
        let what = "an informational status as the answer";
        transit.fault(UpstreamFault::Unreadable, &what);
        return Err(refuse::RESPONSE_UNREADABLE.refusal());
    }
    // SDKs follow it with the whole conversation, past the proxy.
    let leads_past = head.status.is_redirection() && head.status != StatusCode::NOT_MODIFIED;
    if leads_past && transit.kind() == RouteKind::Model {
        let what = "a redirect, which would lead past the proxy";
        transit.fault(UpstreamFault::Unreadable, &what);
        return Err(refuse::RESPONSE_UNREADABLE.refusal());
    }
    if let Some(taken) = &transit.taken {
        taken.answered(head.status, head.headers.get(header::CONTENT_TYPE));
    }
    let protocol = &transit.entry.protocol;
    let reader = if transit.guard.renders() {
        protocol.rendered_response(request, head)
    } else {
        protocol.response(request, head)
    };
    let reader = reader.map_err(|malformed| {
        transit.fault(UpstreamFault::Unreadable, &malformed);
        refuse::malformed_response(malformed)
    })?;
    let done = if transit.kind() == RouteKind::Model {
        let may_hold = |tool: &ToolName| transit.guard.may_hold(tool);
        protocol.done(request, &may_hold)
    } else {
        Vec::new()
    };
    Ok(Driver::new(Arc::clone(transit), reader, head.status, done))
}

/// A redirect of a tool's backend with a host of its own: agents follow it by themselves.
fn elsewhere(
    transit: &Transit,
    request: &Request,
    head: &response::Parts,
) -> Result<Option<EgressTarget>, Refused> {
    if transit.kind() != RouteKind::Http {
        return Ok(None);
    }
    let upstream = &transit.entry.route.upstream;
    let base = transit.settings.upstreams.get(upstream);
    let base = base.map(|upstream| upstream.url.to_string());
    let method = request.parts.method.as_str();
    match redirect(
        head.status,
        &head.headers,
        &base.unwrap_or_default(),
        method,
    ) {
        // A path leads the agent back to the proxy.
        Redirect::None | Redirect::Here(_) => Ok(None),
        Redirect::Elsewhere(target) => Ok(Some(target)),
        Redirect::Ambiguous => {
            transit.fault(UpstreamFault::Unreadable, &"a redirect to two places");
            Err(refuse::RESPONSE_UNREADABLE.refusal())
        }
    }
}

fn with_head<B>(status: StatusCode, headers: http::HeaderMap, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The receipt of a call that was done before, judged again under today's rules.
pub(super) async fn replay(
    transit: &Arc<Transit>,
    request: &Request,
    receipt: Receipt,
) -> Result<Response<Body>, Refused> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(receipt.status).unwrap_or(StatusCode::OK);
    if let Some(value) = receipt
        .content_type
        .and_then(|text| HeaderValue::from_str(&text).ok())
    {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    let (head, ()) = response.into_parts();
    let out = driver(transit, request, &head)?.whole(receipt.body).await?;
    let mut response = Response::from_parts(head, full(out));
    response
        .headers_mut()
        .insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}
