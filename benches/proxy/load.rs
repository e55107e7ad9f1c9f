//! The load: a fixed number of requests over a fixed number of connections, one after another on each.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A protocol of the routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// `OpenAI` Chat Completions.
    Chat,
    /// Anthropic Messages.
    Messages,
}

/// How an answer comes, and which time of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Whole.
    Whole,
    /// As events, as fast as they can be read.
    Events,
    /// As events with a pause behind the first text: the time until that is read.
    FirstText,
}

/// Asks the backend for the pause.
pub const PAUSE: &str = "bench-pause";

/// What is sent.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its name in the report.
    pub name: &'static str,
    /// Where it goes.
    pub api: Api,
    /// The request's body.
    pub body: Bytes,
    /// How the answer comes.
    pub manner: Manner,
}

/// Opens a connection.
async fn connect(to: SocketAddr) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(to)
        .await
        .with_context(|| format!("cannot connect to {to}"))?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Whether a GET answers 200.
pub async fn answers(to: SocketAddr, path: &str) -> Result<bool> {
    let mut sender = connect(to).await?;
    let request = Request::get(path)
        .header(header::HOST, to.to_string())
        .body(Full::default())?;
    Ok(sender.send_request(request).await?.status() == StatusCode::OK)
}

/// Sends one request and reads its answer to the end, into `whole` where there is one. Tells how long that took, or how
/// long it took to the first text where the shape asks for this.
async fn one(
    sender: &mut SendRequest<Full<Bytes>>,
    host: &str,
    path: &str,
    shape: &Shape,
    mut whole: Option<&mut Vec<u8>>,
) -> Result<Duration> {
    let accept = if shape.manner == Manner::Whole {
        "application/json"
    } else {
        "text/event-stream"
    };
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, accept)
        .body(Full::new(shape.body.clone()))?;
    if shape.manner == Manner::FirstText {
        request
            .headers_mut()
            .insert(PAUSE, http::HeaderValue::from_static("1"));
    }
    sender.ready().await?;
    let started = Instant::now();
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let mut body = answer.into_body();
    let mut bytes = 0;
    let mut first_text = None;
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        bytes += data.len();
        if first_text.is_none() && holds_text(data) {
            first_text = Some(started.elapsed());
        }
        if let Some(whole) = &mut whole {
            whole.extend_from_slice(data);
        }
    }
    let elapsed = started.elapsed();
    ensure!(
        status == StatusCode::OK && bytes > 4096,
        "answer {status} with {bytes} bytes"
    );
    if shape.manner == Manner::FirstText {
        return first_text.context("no text came");
    }
    Ok(elapsed)
}

/// Whether these bytes hold an event with text of the model: the openings of both APIs hold empty texts only.
fn holds_text(data: &[u8]) -> bool {
    let marks: [&[u8]; 2] = [br#""content":""#, br#""text":""#];
    marks.iter().any(|mark| {
        data.windows(mark.len() + 1)
            .any(|seen| seen.starts_with(mark) && !seen.ends_with(b"\""))
    })
}

/// The whole answer to one request.
pub async fn answer(to: SocketAddr, path: &str, shape: &Shape) -> Result<String> {
    let mut body = Vec::new();
    let mut sender = connect(to).await?;
    one(&mut sender, &to.to_string(), path, shape, Some(&mut body)).await?;
    Ok(String::from_utf8(body)?)
}

/// Sends `requests` in all over `connections`; returns how long each took, unsorted.
pub async fn run(
    to: SocketAddr,
    path: &str,
    shape: &Shape,
    connections: usize,
    requests: usize,
) -> Result<Vec<Duration>> {
    let each = requests.div_ceil(connections);
    let workers: Vec<_> = (0..connections)
        .map(|_| {
            let (path, shape) = (path.to_owned(), shape.clone());
            tokio::spawn(async move {
                let mut sender = connect(to).await?;
                let host = to.to_string();
                let mut times = Vec::with_capacity(each);
                for _ in 0..each {
                    times.push(one(&mut sender, &host, &path, &shape, None).await?);
                }
                anyhow::Ok(times)
            })
        })
        .collect();
    let mut all = Vec::with_capacity(each * connections);
    for worker in workers {
        all.extend(worker.await??);
    }
    Ok(all)
}
