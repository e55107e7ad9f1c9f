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

/// What is sent.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its name in the report.
    pub name: &'static str,
    /// The request's body.
    pub body: Bytes,
    /// Whether the answer comes as events.
    pub streamed: bool,
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

/// Sends one request and reads its answer to the end, into `whole` where there is one.
async fn one(
    sender: &mut SendRequest<Full<Bytes>>,
    host: &str,
    path: &str,
    shape: &Shape,
    mut whole: Option<&mut Vec<u8>>,
) -> Result<Duration> {
    let accept = if shape.streamed {
        "text/event-stream"
    } else {
        "application/json"
    };
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, accept)
        .body(Full::new(shape.body.clone()))?;
    sender.ready().await?;
    let started = Instant::now();
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let mut body = answer.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        bytes += data.len();
        if let Some(whole) = &mut whole {
            whole.extend_from_slice(data);
        }
    }
    let elapsed = started.elapsed();
    ensure!(
        status == StatusCode::OK && bytes > 4096,
        "answer {status} with {bytes} bytes"
    );
    Ok(elapsed)
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
    path: &'static str,
    shape: &Shape,
    connections: usize,
    requests: usize,
) -> Result<Vec<Duration>> {
    let each = requests.div_ceil(connections);
    let workers: Vec<_> = (0..connections)
        .map(|_| {
            let shape = shape.clone();
            tokio::spawn(async move {
                let mut sender = connect(to).await?;
                let host = to.to_string();
                let mut times = Vec::with_capacity(each);
                for _ in 0..each {
                    times.push(one(&mut sender, &host, path, &shape, None).await?);
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
