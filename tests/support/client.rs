//! A client that sends exact bytes and tells a whole answer from a cut one.

use std::fmt::Write as _;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::upstream::header;

/// One connection.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    /// Whether the body came to its proper end.
    pub whole: bool,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name).first().copied()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of an error, in either shape.
    pub fn code(&self) -> String {
        let json = self.json();
        let code = match &json["error"] {
            Value::String(code) => code,
            object => match &object["code"] {
                Value::String(code) => code,
                _ => panic!("no code: {self:?}"),
            },
        };
        code.clone()
    }
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Whether the other side answers this at all.
    pub async fn is_answered(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok() && self.fill().await
    }

    /// No more bytes from this side.
    pub async fn end(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Status line and headers.
    pub async fn head(&mut self) -> String {
        loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..at + 4).take(at).collect();
                return String::from_utf8(head).unwrap();
            }
            assert!(self.fill().await, "no answer: {:?}", self.buffer);
        }
    }

    /// Bytes until `text` is among them: everything up to its end.
    pub async fn until(&mut self, text: &str) -> String {
        let mut searched = 0;
        loop {
            let found = self.buffer[searched..]
                .windows(text.len())
                .position(|window| window == text.as_bytes());
            if let Some(at) = found {
                let end = searched + at + text.len();
                let bytes: Vec<u8> = self.buffer.drain(..end).collect();
                return String::from_utf8(bytes).unwrap();
            }
            searched = (self.buffer.len() + 1).saturating_sub(text.len());
            assert!(self.fill().await, "{text:?} is not in {:?}", self.buffer);
        }
    }

    /// Whether the connection has ended, with nothing more on it.
    pub async fn ended(&mut self) -> bool {
        !self.fill().await && self.buffer.is_empty()
    }

    /// Everything up to the end of the connection.
    pub async fn rest(&mut self) -> String {
        while self.fill().await {}
        String::from_utf8(std::mem::take(&mut self.buffer)).unwrap()
    }

    /// A whole or cut answer.
    pub async fn answer(&mut self) -> Answer {
        let head = self.head().await;
        let status = head[9..12].parse().unwrap();
        let (body, whole) = if !header(&head, "transfer-encoding").is_empty() {
            self.chunks().await
        } else if let Some(length) = header(&head, "content-length").first() {
            self.exactly(length.parse().unwrap()).await
        } else {
            (Vec::new(), true)
        };
        Answer {
            status,
            head,
            body,
            whole,
        }
    }

    async fn exactly(&mut self, length: usize) -> (Vec<u8>, bool) {
        while self.buffer.len() < length {
            if !self.fill().await {
                return (std::mem::take(&mut self.buffer), false);
            }
        }
        (self.buffer.drain(..length).collect(), true)
    }

    async fn chunks(&mut self) -> (Vec<u8>, bool) {
        let mut body = Vec::new();
        loop {
            let Some(size) = self.chunk_size().await else {
                return (body, false);
            };
            let (mut chunk, whole) = self.exactly(size + 2).await;
            if !whole {
                return (body, false);
            }
            chunk.truncate(size);
            body.extend(chunk);
            if size == 0 {
                return (body, true);
            }
        }
    }

    async fn chunk_size(&mut self) -> Option<usize> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..at + 2).take(at).collect();
                let line = String::from_utf8(line).unwrap();
                return Some(usize::from_str_radix(&line, 16).unwrap());
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    async fn fill(&mut self) -> bool {
        matches!(self.stream.read_buf(&mut self.buffer).await, Ok(1..))
    }
}

/// A request with a `Host`, a JSON content type and a length.
pub fn request(
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: impl AsRef<[u8]>,
) -> Vec<u8> {
    let body = body.as_ref();
    let mut head = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n");
    if !body.is_empty() {
        let _ = write!(head, "content-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            head.push_str("content-type: application/json\r\n");
        }
    }
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Sends one request on a connection of its own.
pub async fn ask(address: SocketAddr, request: impl AsRef<[u8]>) -> Answer {
    let mut client = Client::connect(address).await;
    client.send(request).await;
    client.answer().await
}
