//! The server as an upstream: speaks like a Streamable HTTP server (MCP 2025-11-25, basic/transports) to the pipeline and
//! lines to the process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::{mpsc, oneshot, watch};

use super::board::{Board, Place, Said};
use super::message::{Head, one_line};
use crate::guard::Cleared;
use crate::names::UpstreamName;
use crate::protocols::Event;
use crate::proxy::{Body, BoxError, Upstream, UpstreamError, full};
use crate::wire::sse;

/// A process that lives may take its time: so often its streams show that it does.
const ALIVE: Duration = Duration::from_secs(10);

const UNREADABLE: &str = "the server's answer cannot be read";

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// A line for the process, and who wants to know that it is written.
pub(super) struct Outgoing {
    pub(super) line: Bytes,
    pub(super) written: oneshot::Sender<()>,
}

/// The wrapped server.
#[derive(Clone)]
pub(super) struct StdioUpstream(Arc<Server>);

struct Server {
    to: UpstreamName,
    board: Arc<Board>,
    stdin: mpsc::WeakSender<Outgoing>,
    /// Counts the lines that were written.
    sent: watch::Sender<u64>,
    session: HeaderValue,
}

impl StdioUpstream {
    /// `stdin` is closed by whoever holds its strong end.
    pub(super) fn new(
        to: UpstreamName,
        board: Arc<Board>,
        stdin: mpsc::WeakSender<Outgoing>,
    ) -> Self {
        let session = uuid::Uuid::now_v7().simple().to_string();
        Self(Arc::new(Server {
            to,
            board,
            stdin,
            sent: watch::Sender::new(0),
            session: HeaderValue::from_str(&session)
                .unwrap_or(HeaderValue::from_static("holdpoint")),
        }))
    }

    /// Changes with each line that is written.
    pub(super) fn sent(&self) -> watch::Receiver<u64> {
        self.0.sent.subscribe()
    }
}

impl Upstream for StdioUpstream {
    fn send(
        &self,
        to: &UpstreamName,
        request: Cleared<http::Request<Bytes>>,
    ) -> BoxFuture<'static, Result<Response<Body>, UpstreamError>> {
        let server = Arc::clone(&self.0);
        let known = *to == server.to;
        let request = request.into_message();
        Box::pin(async move {
            match *request.method() {
                _ if !known => Err(UpstreamError::NotSent(
                    "only the wrapped server is here".into(),
                )),
                Method::POST => server.post(request.into_body()).await,
                Method::GET => Ok(server.listen()),
                _ => Ok(bare(StatusCode::METHOD_NOT_ALLOWED)),
            }
        })
    }
}

impl Server {
    async fn post(self: Arc<Self>, body: Bytes) -> Result<Response<Body>, UpstreamError> {
        let not_sent = |cause: &str| UpstreamError::NotSent(cause.to_owned());
        let line = one_line(body);
        let head = Head::read(&line).ok_or_else(|| not_sent("the message is no JSON object"))?;
        let place = match (&head.id, &head.method) {
            (Some(id), Some(_)) => {
                let place = self.board.expect(id.clone(), head.progress.clone());
                Some(place.ok_or_else(|| not_sent("its id is in use, or the server has ended"))?)
            }
            _ => None,
        };
        let stdin = self.stdin.upgrade();
        let stdin = stdin.ok_or_else(|| not_sent("the server's input is closed"))?;
        let (written, done) = oneshot::channel();
        if stdin.send(Outgoing { line, written }).await.is_err() {
            return Err(not_sent("the server has ended"));
        }
        drop(stdin);
        done.await
            .map_err(|_| UpstreamError::Broken("the server stopped reading".to_owned()))?;
        self.sent.send_modify(|lines| *lines += 1);
        match place {
            None => Ok(bare(StatusCode::ACCEPTED)),
            Some(place) => self.answer(&head, place).await,
        }
    }

    /// One message is a JSON body; more than one are events.
    async fn answer(&self, head: &Head, mut place: Place) -> Result<Response<Body>, UpstreamError> {
        let first = place.next().await;
        let first = first.ok_or_else(|| {
            UpstreamError::Broken("the server ended without an answer".to_owned())
        })?;
        let mut response = match first {
            Said::Unreadable => return Err(UpstreamError::Broken(UNREADABLE.to_owned())),
            Said::Last(message) => with_type("application/json", full(message)),
            Said::More(message) => {
                let talk = Talk::Answer(place, Some(Said::More(message)));
                with_type("text/event-stream", events(talk))
            }
        };
        if head.method.as_deref() == Some("initialize") {
            response.headers_mut().insert(SESSION, self.session.clone());
        }
        Ok(response)
    }

    /// Everything that belongs to no request.
    fn listen(&self) -> Response<Body> {
        match self.board.listen() {
            Some(said) => with_type("text/event-stream", events(Talk::Unasked(said))),
            None => bare(StatusCode::METHOD_NOT_ALLOWED),
        }
    }
}

fn bare(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = status;
    response
}

fn with_type(kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// What a stream of events tells.
enum Talk {
    /// Up to an answer: without one it was cut.
    Answer(Place, Option<Said>),
    /// As long as the server lives.
    Unasked(mpsc::Receiver<Said>),
    /// All of it is told.
    Over,
}

impl Talk {
    async fn next(&mut self) -> Option<Said> {
        match self {
            Self::Answer(_, first @ Some(_)) => first.take(),
            Self::Answer(place, None) => place.next().await,
            Self::Unasked(said) => said.recv().await,
            Self::Over => None,
        }
    }
}

fn events(talk: Talk) -> Body {
    let pieces = stream::try_unfold(talk, |mut talk| async move {
        let Ok(said) = tokio::time::timeout(ALIVE, talk.next()).await else {
            return Ok(Some((
                Frame::data(Bytes::from_static(b": alive\n\n")),
                talk,
            )));
        };
        let message = match (said, &talk) {
            (Some(Said::More(message)), _) => message,
            (Some(Said::Last(message)), _) => {
                talk = Talk::Over;
                message
            }
            (Some(Said::Unreadable), _) => return Err(BoxError::from(UNREADABLE)),
            (None, Talk::Answer(..)) => {
                return Err(BoxError::from("the server ended without an answer"));
            }
            (None, _) => return Ok(None),
        };
        let event = Event {
            data: Some(String::from_utf8(message.into())?),
            ..Event::default()
        };
        Ok(Some((Frame::data(sse::encode(event)?), talk)))
    });
    StreamBody::new(pieces).boxed_unsync()
}
