//! The client's side: each of its lines is a request to the pipeline, each message of the answers a line.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::lines::{Line, Lines};
use super::message::{Head, Id, one_line};
use super::upstream::StdioUpstream;
use crate::proxy::{Body, ProxyService, full};
use crate::wire::sse;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The wrapper's own errors, outside what JSON-RPC and MCP keep for themselves: as the adapter's, ten times an HTTP status.
const REFUSED: u16 = 4030;
const TOO_LONG: u16 = 4130;
pub(super) const BROKEN: u16 = 5020;

/// What the client and the server have agreed on.
#[derive(Default)]
struct Agreed {
    /// Of the eras with a handshake.
    version: Option<HeaderValue>,
    session: Option<HeaderValue>,
    /// The last version that a request carried itself.
    stated: Option<HeaderValue>,
}

/// What all tasks share.
struct Shared {
    service: ProxyService<StdioUpstream>,
    out: mpsc::Sender<Bytes>,
    path: String,
    /// Bytes of one message.
    cap: usize,
    agreed: Mutex<Agreed>,
}

/// The client.
pub(super) struct Front {
    shared: Arc<Shared>,
    upstream: StdioUpstream,
    tasks: JoinSet<()>,
    open: HashMap<Id, AbortHandle>,
}

impl Front {
    pub(super) fn new(
        service: ProxyService<StdioUpstream>,
        upstream: StdioUpstream,
        out: mpsc::Sender<Bytes>,
        path: String,
        cap: usize,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                service,
                out,
                path,
                cap,
                agreed: Mutex::default(),
            }),
            upstream,
            tasks: JoinSet::new(),
            open: HashMap::new(),
        }
    }

    /// Takes the client's lines until they end. In order: a line is on its way to the server, or refused, before the next one
    /// is looked at; answers are not waited for.
    pub(super) async fn run(
        &mut self,
        input: impl AsyncRead + Unpin,
        stop: CancellationToken,
    ) -> std::io::Result<()> {
        let mut lines = Lines::new(input, self.shared.cap);
        loop {
            let next = tokio::select! {
                next = lines.next() => next?,
                () = stop.cancelled() => return Ok(()),
            };
            let Some(line) = next else {
                return Ok(());
            };
            while self.tasks.try_join_next().is_some() {}
            self.open.retain(|_, task| !task.is_finished());
            match line {
                Line::Whole(message) => self.take(message).await,
                Line::TooLong(_) => {
                    tracing::warn!(
                        limit = self.shared.cap,
                        "a line of the client is too long; dropped"
                    );
                    let error = error(TOO_LONG, "the message is longer than `limits.request_body`");
                    self.shared.write(answer("null", &error)).await;
                }
            }
        }
    }

    /// Lets the answers under way end.
    pub(super) async fn settle(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    async fn take(&mut self, message: Bytes) {
        // What cannot be read goes to the pipeline all the same: it tells the client what is wrong.
        let head = Head::read(&message).unwrap_or_default();
        let id = head.id.clone().filter(|_| head.is_request());
        let cancels = head
            .cancels
            .clone()
            .filter(|_| head.method.as_deref() == Some("notifications/cancelled"));
        let initializes = head.method.as_deref() == Some("initialize");
        let request = self.shared.request(&head, message);
        let shared = Arc::clone(&self.shared);
        let mut sent = self.upstream.sent();
        let (told, accepted) = tokio::sync::oneshot::channel();
        let task = self.tasks.spawn(async move {
            let fine = shared.exchange(request, &head).await;
            if initializes && shared.agreed().version.is_some() {
                // The stream of what the server says unasked: the client has it for nothing.
                tokio::spawn(Arc::clone(&shared).listen());
            }
            let _ = told.send(fine);
        });
        let Some(id) = id else {
            // Nothing but a word of acceptance comes back.
            let fine = accepted.await.unwrap_or(false);
            if let (true, Some(cancelled)) = (fine, cancels)
                && let Some(task) = self.open.remove(&cancelled)
            {
                task.abort();
            }
            return;
        };
        tokio::select! {
            _ = sent.changed() => drop(self.open.insert(id, task)),
            _ = accepted => {}
        }
    }
}

impl Shared {
    fn agreed(&self) -> MutexGuard<'_, Agreed> {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The message as a client of Streamable HTTP would send it.
    fn request(&self, head: &Head, message: Bytes) -> Request<Body> {
        let mut request = self.plain(Method::POST, full(message));
        let headers = request.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        let own = head.version.as_deref().filter(|_| head.method.is_some());
        let mut agreed = self.agreed();
        if let Some(version) = own.and_then(|text| HeaderValue::from_str(text).ok()) {
            agreed.stated = Some(version);
        }
        let has_handshake = agreed.version.is_some();
        if own.is_some() || (!has_handshake && agreed.stated.is_some()) {
            mirror(headers, head, agreed.stated.as_ref());
        } else {
            let handshake = [(VERSION, &agreed.version), (SESSION, &agreed.session)];
            for (name, value) in handshake {
                if let Some(value) = value {
                    headers.insert(name, value.clone());
                }
            }
        }
        request
    }

    fn plain(&self, method: Method, body: Body) -> Request<Body> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        if let Ok(uri) = self.path.parse() {
            *request.uri_mut() = uri;
        }
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1"));
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        request
    }

    async fn call(&self, request: Request<Body>) -> Response<Body> {
        match self.service.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Sends one message and hands on what comes back. False where it was refused.
    async fn exchange(&self, request: Request<Body>, head: &Head) -> bool {
        let response = self.call(request).await;
        let status = response.status();
        if let Some(session) = response.headers().get(SESSION) {
            self.agreed().session = Some(session.clone());
        }
        let mut answered = false;
        let mut refusal = None;
        let ended = self
            .messages(response, |message| {
                let said = Head::read(&message).unwrap_or_default();
                if said.method.is_none() && said.id.is_none() {
                    // An error that could not name its request, or no message at all.
                    refusal = said.error;
                    return None;
                }
                if said.is_response() {
                    if said.id != head.id {
                        tracing::warn!("an answer to another request; dropped");
                        return None;
                    }
                    answered = true;
                    if head.method.as_deref() == Some("initialize") {
                        self.agreed().version = version(&said);
                    }
                }
                Some(message)
            })
            .await;
        if let Some(id) = head.id.as_ref().filter(|_| head.is_request()) {
            if !answered {
                self.refuse(id, refusal.map(|error| error.get().to_owned()), status)
                    .await;
            }
            return answered;
        }
        if !status.is_success() {
            tracing::warn!(
                status = status.as_u16(),
                "a message of the client that asks for nothing was refused"
            );
            self.no_answer(head, refusal.map(|error| error.get().to_owned()))
                .await;
        }
        ended && status.is_success()
    }

    /// What the client has said to a question of the server was refused: the server must not wait for ever. The error that
    /// it gets in its place goes the same way, judged.
    async fn no_answer(&self, head: &Head, refusal: Option<String>) {
        if head.method.is_some() {
            // Nobody waits.
            return;
        }
        let Some(id) = &head.id else {
            let error = refusal.unwrap_or_else(|| error(REFUSED, "the message cannot be read"));
            self.write(answer("null", &error)).await;
            return;
        };
        let error = error(REFUSED, "the client's answer was refused");
        let request = self.request(head, Bytes::from(answer(&id.json(), &error)));
        let status = self.call(request).await.status();
        if !status.is_success() {
            tracing::error!(status = status.as_u16(), "the server could not be told so");
        }
    }

    /// Gives every message of an answer to `pick`, and writes what it picks. False where the answer was cut.
    async fn messages(
        &self,
        response: Response<Body>,
        mut pick: impl FnMut(Bytes) -> Option<Bytes>,
    ) -> bool {
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_events = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let mut body = response.into_body();
        if !is_events {
            let Ok(whole) = body.collect().await else {
                return false;
            };
            let whole = whole.to_bytes();
            if let Some(message) = Some(whole).filter(|w| !w.is_empty()).and_then(pick) {
                self.write(message).await;
            }
            return true;
        }
        let mut decoder = sse::Decoder::new(self.cap.max(1 << 20) * 2);
        while let Some(frame) = body.frame().await {
            let piece = frame.ok().and_then(|frame| frame.into_data().ok());
            let Some(events) = piece.and_then(|piece| decoder.push(piece).ok()) else {
                return false;
            };
            for data in events.into_iter().filter_map(|event| event.data) {
                if let Some(message) = Some(data)
                    .filter(|d| !d.is_empty())
                    .and_then(|d| pick(d.into()))
                {
                    self.write(message).await;
                }
            }
        }
        true
    }

    /// Hands on what the server says unasked, as long as it lives.
    async fn listen(self: Arc<Self>) {
        let mut request = self.plain(Method::GET, full(Bytes::new()));
        {
            let agreed = self.agreed();
            let known = [(VERSION, &agreed.version), (SESSION, &agreed.session)];
            for (name, value) in known {
                if let Some(value) = value {
                    request.headers_mut().insert(name, value.clone());
                }
            }
        }
        let response = self.call(request).await;
        let status = response.status();
        if status.is_success() {
            self.messages(response, |message| {
                Head::read(&message).filter(|head| head.method.is_some())?;
                Some(message)
            })
            .await;
        } else {
            tracing::error!(
                status = status.as_u16(),
                "what the server says unasked cannot be heard"
            );
        }
    }

    /// The answer to a request that has none.
    async fn refuse(&self, id: &Id, refusal: Option<String>, status: StatusCode) {
        let error = refusal.unwrap_or_else(|| {
            let why = if status.is_success() {
                "the server's answer ended early, so it was not passed on"
            } else {
                "the proxy could not carry this out; its log says why"
            };
            error(BROKEN, why)
        });
        self.write(answer(&id.json(), &error)).await;
    }

    async fn write(&self, message: impl Into<Bytes>) {
        // A client that has left does not read it.
        let _ = self.out.send(one_line(message.into())).await;
    }
}

pub(super) fn error(code: u16, message: &str) -> String {
    serde_json::json!({"code": code, "message": message}).to_string()
}

pub(super) fn answer(id: &str, error: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

fn version(answer: &Head) -> Option<HeaderValue> {
    HeaderValue::from_str(answer.version.as_deref()?).ok()
}

/// The headers that the 2026 revision mirrors from the body.
fn mirror(headers: &mut http::HeaderMap, head: &Head, version: Option<&HeaderValue>) {
    if let Some(version) = version {
        headers.insert(VERSION, version.clone());
    }
    let Some(method) = &head.method else {
        return;
    };
    if let Ok(method) = HeaderValue::from_str(method) {
        headers.insert(METHOD, method);
    }
    let named = matches!(
        method.as_str(),
        "tools/call" | "prompts/get" | "resources/read"
    );
    if let Some(name) = head.name.as_deref().filter(|_| named)
        && let Ok(value) = HeaderValue::from_str(&field(name))
    {
        headers.insert(NAME, value);
    }
}

/// A text as a header's value: plain, or in Base64 between `=?base64?` and `?=`.
fn field(text: &str) -> String {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    if plain {
        text.to_owned()
    } else {
        let encoded = data_encoding::BASE64.encode(text.as_bytes());
        format!("=?base64?{encoded}?=")
    }
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn names_survive_a_header() {
        for plain in ["read_file", "a b", "test://x/{id}", ""] {
            assert_eq!(field(plain), plain);
        }
        for (odd, encoded) in [
            ("é", "=?base64?w6k=?="),
            (" a", "=?base64?IGE=?="),
            ("a\nb", "=?base64?YQpi?="),
            ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ] {
            assert_eq!(field(odd), encoded);
        }
    }
}
