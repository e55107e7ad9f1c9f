//! Plain `http` in absolute form: one request, judged whole, to a peer of its own; its answer is streamed back.

use std::pin::Pin;
use std::sync::Arc;
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

use super::dial::Checked;
use super::judge::Asking;
use super::{Shared, head};
use crate::guard::Cleared;
use crate::item::{Content, EgressTarget, Leg};
use crate::layers::egress::{self, Amount, Spending, Target};
use crate::metrics::{Unscanned, UpstreamFault};
use crate::proxy::receive::{SLOWEST, asks_for_websocket};
use crate::proxy::redirect::{Redirect, redirect};
use crate::proxy::refuse::{self, Refused};
use crate::proxy::{Body, BoxError, full};
use crate::wire::body::{self, Encodings, Pace};
use crate::wire::media::media;

/// What is sent where: as the matcher read it.
struct Asked {
    to: Target,
    path: PathAndQuery,
    /// As it came.
    body: Bytes,
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
    let body = judged(shared, &asking, &target, parts, body).await?;
    let asked = Asked {
        path: path.ok_or(&refuse::PROXY_FORM_INVALID)?,
        body,
        to,
    };
    let port = asked.to.port.unwrap_or(80);
    let checked = shared
        .checked(&asking, &target, &asked.to.host, port)
        .await?;
    let outgoing = outgoing(shared, &asked, parts);
    let amount = amount(&outgoing, &asked);
    let spending = asking.spending(&asked.to.host);
    let stream = dialled(
        shared,
        (&asking, &target),
        &checked,
        spending.zip(Some(amount)),
    )
    .await?;
    let outgoing = Cleared::seal(outgoing, &decision);
    let (head, body) = Sending { shared }.send(stream, outgoing).await?;
    allowed(shared, &asking, &target, &head).await?;
    let (status, headers) = (head.status, head::returning(&head.headers));
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// A connection to an address that was checked, once what is to be sent on it has been charged.
async fn dialled(
    shared: &Shared,
    (asking, target): (&Asking, &EgressTarget),
    checked: &Checked,
    spending: Option<(Spending, Amount)>,
) -> Result<TcpStream, Refused> {
    let charged = match &spending {
        None => None,
        Some((spending, amount)) => match spending.spend(*amount).await {
            Ok(charged) => Some(charged),
            Err(why) => return Err(asking.spent(target, why).await),
        },
    };
    let error = match shared.dialler.dial(checked).await {
        Ok(stream) => return Ok(stream),
        Err(error) => error,
    };
    if let (Some((spending, _)), Some(charged)) = (&spending, charged) {
        spending.give_back(charged).await;
    }
    shared.fault(UpstreamFault::Connect, &error);
    Err(refuse::UPSTREAM_UNREACHABLE.saying("The host cannot be reached; nothing was sent."))
}

/// The whole body as it came, once it has been judged without its encodings.
async fn judged(
    shared: &Shared,
    asking: &Asking,
    target: &EgressTarget,
    parts: &Parts,
    body: &mut Body,
) -> Result<Bytes, Refused> {
    let encodings = Encodings::of(&parts.headers).map_err(|error| refuse::request_body(&error))?;
    media(&parts.headers).map_err(|_| {
        refuse::MEDIA_TYPE_UNSUPPORTED
            .saying("Send the body in UTF-8: in another charset it cannot be read here.")
    })?;
    let settings = &shared.setup.settings;
    let limit = settings.limits.request_body;
    let pace = Pace {
        within: settings.timeouts.request_idle,
        least: SLOWEST,
    };
    let memory = &shared.common.memory;
    let as_it_is = Encodings::default();
    let came = body::read(body, &as_it_is, limit, pace, memory);
    let came = came.await.map_err(|error| refuse::request_body(&error))?;
    if came.is_empty() {
        return Ok(came);
    }
    let plain = if encodings.is_identity() {
        came.clone()
    } else {
        let plain = body::read(full(came.clone()), &encodings, limit, pace, memory);
        plain.await.map_err(|error| refuse::request_body(&error))?
    };
    let media = parts.headers.get(header::CONTENT_TYPE);
    let item = EgressTarget {
        body: Some(Content {
            media: media.map(|media| String::from_utf8_lossy(media.as_bytes()).into()),
            bytes: plain,
        }),
        ..target.clone()
    };
    asking.judge(Leg::ToUpstream, item).await?;
    Ok(came)
}

/// What of a request counts for a budget: all of it.
fn amount(outgoing: &http::Request<Body>, asked: &Asked) -> Amount {
    Amount::of(asked.path.as_str().as_bytes())
        .and(Amount::of_headers(outgoing.headers()))
        .and(Amount::of(&asked.body))
}

fn outgoing(shared: &Shared, asked: &Asked, parts: &Parts) -> http::Request<Body> {
    let mut outgoing = http::Request::new(full(asked.body.clone()));
    *outgoing.method_mut() = parts.method.clone();
    *outgoing.uri_mut() = Uri::from(asked.path.clone());
    let settings = &shared.setup.settings;
    let mut headers = head::outgoing(parts, &asked.to, settings, &shared.pseudonym);
    if asked.body.is_empty() && matches!(parts.method, Method::GET | Method::HEAD) {
        headers.remove(header::CONTENT_LENGTH);
    }
    *outgoing.headers_mut() = headers;
    outgoing
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
}

impl Sending<'_> {
    /// Sends the request, once, on a connection of its own.
    async fn send(
        &self,
        stream: TcpStream,
        outgoing: Cleared<http::Request<Body>>,
    ) -> Result<(response::Parts, Body), Refused> {
        let timeouts = &self.shared.setup.settings.timeouts;
        let begun = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = begun.map_err(|error| self.broken(&error))?;
        let driver = Driver(tokio::spawn(async move {
            // The sender and the answer's body tell of its errors.
            let _ = connection.await;
        }));
        let sent = sender.send_request(outgoing.into_message());
        let (head, body) = match timeout(timeouts.first_byte, sent).await {
            Ok(Ok(response)) => response.into_parts(),
            Ok(Err(error)) => return Err(self.broken(&error)),
            Err(_) => {
                let cause = "no answer within the time limit";
                self.shared.fault(UpstreamFault::FirstByte, &cause);
                return Err(refuse::UPSTREAM_TIMEOUT.refusal());
            }
        };
        let body = Metered {
            body: body.map_err(BoxError::from).boxed_unsync(),
            shared: Arc::clone(self.shared),
            idle: Idle::new(timeouts.idle),
            driver: Some(driver),
        };
        Ok((head, body.boxed_unsync()))
    }

    fn broken(&self, error: &hyper::Error) -> Refused {
        self.shared.fault(UpstreamFault::Broken, error);
        refuse::UPSTREAM_BROKEN.refusal()
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

/// The answer's body on its way through: timed, counted as unscanned. Trailers are dropped.
struct Metered {
    body: Body,
    shared: Arc<Shared>,
    idle: Idle,
    /// Of its connection, until it ends.
    driver: Option<Driver>,
}

impl Metered {
    /// The body ends here.
    fn fails(
        &self,
        fault: UpstreamFault,
        error: BoxError,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.shared.fault(fault, &error);
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
                    return self.fails(UpstreamFault::Idle, error);
                }
                Poll::Pending => return Poll::Pending,
            };
            self.idle.until = None;
            let data = match frame {
                None => {
                    self.driver = None;
                    return Poll::Ready(None);
                }
                Some(Err(error)) => return self.fails(UpstreamFault::Cut, error),
                Some(Ok(frame)) => frame.into_data(),
            };
            let Ok(data) = data else { continue };
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
