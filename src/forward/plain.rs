//! Plain `http` in absolute form: one request to a peer of its own, its answer streamed back.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Response, Uri, header, response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep, timeout};

use super::judge::Asking;
use super::{Shared, head};
use crate::guard::{Cleared, Decision};
use crate::item::{EgressTarget, Leg};
use crate::layers::egress::{self, Target};
use crate::metrics::{Unscanned, UpstreamFault};
use crate::proxy::gate::asks_for_websocket;
use crate::proxy::redirect::{Redirect, redirect};
use crate::proxy::refuse::{self, ErrorCode, Refused};
use crate::proxy::{Body, BoxError, full};

/// What is sent where: as the matcher read it.
struct Asked {
    to: Target,
    path: PathAndQuery,
}

/// Judges the request, sends it to an address that was checked, and answers with what comes back.
pub(super) async fn pass(
    shared: &Arc<Shared>,
    asking: Asking,
    target: EgressTarget,
    parts: &Parts,
    body: &mut Body,
) -> Result<Response<Body>, Refused> {
    if asks_for_websocket(&parts.headers) {
        return Err(refuse::UPGRADE_UNSUPPORTED.refusal());
    }
    let settings = &shared.setup.settings;
    let limit = u64::try_from(settings.limits.request_body).unwrap_or(u64::MAX);
    if body.size_hint().lower() > limit {
        return Err(refuse::BODY_TOO_LARGE.refusal());
    }
    // The client here would leave such a body out without a word.
    let unsized_body = !body.is_end_stream() && body.size_hint().exact().is_none();
    if unsized_body && matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(refuse::BODY_UNEXPECTED.refusal());
    }
    let headers = Arc::new(parts.headers.clone());
    let decision = asking
        .judge_with(Leg::ToUpstream, target.clone(), Some(headers))
        .await?;
    let read = egress::http_forward(&asking.rule, &head::matcher(parts, &target));
    let read = read.map(|url| {
        let uri = Uri::try_from(url.to_string()).ok();
        (url.target.clone(), uri)
    });
    let plain = || {
        let (host, port) = head::place(&target)?;
        let port = (port != 80).then_some(port);
        let scheme = "http";
        Some((Target { scheme, host, port }, Some(parts.uri.clone())))
    };
    let (to, uri) = shared.agreed(&asking, &target, read, plain).await?;
    let path = uri.and_then(|uri| uri.path_and_query().cloned());
    let asked = Asked {
        path: path.ok_or(&refuse::PROXY_FORM_INVALID)?,
        to,
    };
    let port = asked.to.port.unwrap_or(80);
    let checked = shared
        .checked(&asking, &target, &asked.to.host, port)
        .await?;
    let stream = shared.dialler.dial(&checked).await.map_err(|error| {
        shared.fault(UpstreamFault::Connect, &error);
        refuse::UPSTREAM_UNREACHABLE.saying("The host cannot be reached; nothing was sent.")
    })?;
    let sending = Sending {
        shared,
        decision: &decision,
    };
    let body = std::mem::replace(body, full(""));
    let (head, body) = sending.send(stream, &asked, parts, body).await?;
    allowed(shared, &asking, &target, &head).await?;
    let (status, headers) = (head.status, head::returning(&head.headers));
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// A redirect is judged before the agent hears of it.
async fn allowed(
    shared: &Shared,
    asking: &Asking,
    target: &EgressTarget,
    head: &response::Parts,
) -> Result<(), Refused> {
    if head.status.is_informational() {
        let what = "an informational status as the answer";
        shared.fault(UpstreamFault::Unreadable, &what);
        return Err(refuse::RESPONSE_UNREADABLE.refusal());
    }
    let base = target.url.as_deref().unwrap_or_default();
    match redirect(head.status, &head.headers, base, &target.method) {
        Redirect::None => Ok(()),
        Redirect::Here(to) | Redirect::Elsewhere(to) => {
            asking.judge(Leg::ToAgent, to).await.map(drop)
        }
        Redirect::Ambiguous => {
            shared.fault(UpstreamFault::Unreadable, &"a redirect to two places");
            Err(refuse::RESPONSE_UNREADABLE.refusal())
        }
    }
}

struct Sending<'s> {
    shared: &'s Arc<Shared>,
    decision: &'s Decision,
}

impl Sending<'_> {
    /// Sends the request, once, on a connection of its own.
    async fn send(
        &self,
        stream: TcpStream,
        asked: &Asked,
        parts: &Parts,
        body: Body,
    ) -> Result<(response::Parts, Body), Refused> {
        let timeouts = &self.shared.setup.settings.timeouts;
        let fault = Arc::new(OnceLock::new());
        let body = Metered {
            body,
            left: self.shared.setup.settings.limits.request_body,
            shared: Arc::clone(self.shared),
            idle: Idle::new(timeouts.request_idle),
            side: Side::Agent(Arc::clone(&fault)),
        };
        let outgoing = Cleared::seal(self.outgoing(asked, parts, body), self.decision);
        let begun = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = begun.map_err(|error| self.broken(&error))?;
        let driver = Driver(tokio::spawn(async move {
            // The sender and the answer's body tell of its errors.
            let _ = connection.await;
        }));
        let sent = sender.send_request(outgoing.into_message());
        let answered = timeout(timeouts.first_byte, sent).await;
        let (head, body) = match (answered, fault.get()) {
            (Ok(Ok(response)), _) => response.into_parts(),
            // What was wrong with the request's body is the agent's.
            (_, Some(code)) => return Err(ErrorCode::refusal(code)),
            (Ok(Err(error)), None) => return Err(self.broken(&error)),
            (Err(_), None) => {
                let cause = "no answer within the time limit";
                self.shared.fault(UpstreamFault::FirstByte, &cause);
                return Err(refuse::UPSTREAM_TIMEOUT.refusal());
            }
        };
        let body = Metered {
            body: body.map_err(BoxError::from).boxed_unsync(),
            left: usize::MAX,
            shared: Arc::clone(self.shared),
            idle: Idle::new(timeouts.idle),
            side: Side::Peer(Some(driver)),
        };
        Ok((head, body.boxed_unsync()))
    }

    fn broken(&self, error: &hyper::Error) -> Refused {
        self.shared.fault(UpstreamFault::Broken, error);
        refuse::UPSTREAM_BROKEN.refusal()
    }

    fn outgoing(&self, asked: &Asked, parts: &Parts, body: Metered) -> http::Request<Body> {
        let settings = &self.shared.setup.settings;
        let empty = body.is_end_stream();
        let mut outgoing = http::Request::new(body.boxed_unsync());
        *outgoing.method_mut() = parts.method.clone();
        *outgoing.uri_mut() = Uri::from(asked.path.clone());
        let mut headers = head::outgoing(parts, &asked.to, settings, &self.shared.pseudonym);
        if empty && matches!(parts.method, Method::GET | Method::HEAD) {
            headers.remove(header::CONTENT_LENGTH);
        }
        *outgoing.headers_mut() = headers;
        outgoing
    }
}

/// The task that drives a connection. It ends with what holds this.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How long a body may stand still while it is waited for: a slow reader does not count.
struct Idle {
    limit: Duration,
    until: Option<Pin<Box<Sleep>>>,
}

impl Idle {
    const fn new(limit: Duration) -> Self {
        Self { limit, until: None }
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let limit = self.limit;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(limit)));
        until.as_mut().poll(context).is_ready()
    }
}

/// Whose body it is.
enum Side {
    /// The request's; what is wrong with it is told here.
    Agent(Arc<OnceLock<&'static ErrorCode>>),
    /// The answer's, with its connection until it ends.
    Peer(Option<Driver>),
}

/// A body on its way through: bounded, timed, counted as unscanned. Trailers are dropped.
struct Metered {
    body: Body,
    left: usize,
    shared: Arc<Shared>,
    idle: Idle,
    side: Side,
}

impl Metered {
    /// The body ends here: the agent's for a reason that it is told, the peer's for one that is counted.
    fn fails(
        &self,
        code: &'static ErrorCode,
        fault: UpstreamFault,
        error: BoxError,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &self.side {
            Side::Agent(told) => drop(told.set(code)),
            Side::Peer(_) => self.shared.fault(fault, &error),
        }
        Poll::Ready(Some(Err(error)))
    }
}

impl HttpBody for Metered {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            let frame = match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(frame) => frame,
                Poll::Pending if self.idle.is_over(context) => {
                    let error = "the body stood still for too long".into();
                    return self.fails(&refuse::BODY_STALLED, UpstreamFault::Idle, error);
                }
                Poll::Pending => return Poll::Pending,
            };
            self.idle.until = None;
            let data = match frame {
                None => {
                    if let Side::Peer(driver) = &mut self.side {
                        *driver = None;
                    }
                    return Poll::Ready(None);
                }
                Some(Err(error)) => {
                    return self.fails(&refuse::BODY_INCOMPLETE, UpstreamFault::Cut, error);
                }
                Some(Ok(frame)) => frame.into_data(),
            };
            let Ok(data) = data else { continue };
            let Some(left) = self.left.checked_sub(data.len()) else {
                let error = "the body is larger than the limit".into();
                return self.fails(&refuse::BODY_TOO_LARGE, UpstreamFault::TooLarge, error);
            };
            self.left = left;
            self.shared.unscanned(Unscanned::Forward, data.len());
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
