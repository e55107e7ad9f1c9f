//! An upstream that records what it gets and answers byte for byte what its script says.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A request as it came over the wire, chunks joined.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Request line and headers, without the empty line.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
    /// Which connection, from 0.
    pub connection: usize,
}

impl Received {
    /// `METHOD target`.
    pub fn target(&self) -> &str {
        let line = self.head.lines().next().unwrap_or_default();
        line.strip_suffix(" HTTP/1.1").unwrap_or(line)
    }

    /// Every value of a header.
    pub fn header(&self, name: &str) -> Vec<&str> {
        header(&self.head, name)
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Every value of a header in a head.
pub fn header<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    head.lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
        .collect()
}

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// These bytes, flushed.
    Send(Vec<u8>),
    /// Until the test opens the gate.
    Wait(Gate),
    /// The connection ends here.
    Close,
    /// Nothing more, and the connection stays.
    Hang,
}

/// Closed until opened, once per [`Gate::open`].
#[derive(Clone, Debug)]
pub struct Gate(Arc<Semaphore>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

impl Gate {
    pub fn open(&self) {
        self.0.add_permits(1);
    }

    pub async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

/// Bytes to send.
pub fn send(bytes: impl AsRef<[u8]>) -> Step {
    Step::Send(bytes.as_ref().to_vec())
}

/// A whole answer with a length.
pub fn answer(status: &str, content_type: &str, body: impl AsRef<[u8]>) -> Vec<Step> {
    let body = body.as_ref();
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    vec![Step::Send(bytes)]
}

/// 200 with JSON.
pub fn json(body: &str) -> Vec<Step> {
    answer("200 OK", "application/json", body)
}

/// The head of an event stream.
pub const EVENTS: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// A chunk of a chunked body; the empty one ends it.
pub fn chunk(bytes: impl AsRef<[u8]>) -> Step {
    let bytes = bytes.as_ref();
    let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    Step::Send(out)
}

type Script = dyn Fn(&Received) -> Vec<Step> + Send + Sync;

/// The running upstream.
pub struct Upstream {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    /// One permit per connection that its peer has closed.
    pub gone: Gate,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Upstream {
    /// Answers each request as `script` says.
    pub async fn start(script: impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), script).await
    }

    /// At this address.
    pub async fn at(
        address: SocketAddr,
        script: impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let gone = Gate::default();
        let script: Arc<Script> = Arc::new(script);
        let (kept, left) = (Arc::clone(&received), gone.clone());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let (kept, left, script) = (Arc::clone(&kept), left.clone(), Arc::clone(&script));
                connections.spawn(async move {
                    serve(stream, connection, &kept, script.as_ref()).await;
                    left.open();
                });
            }
        });
        Self {
            address,
            received,
            gone,
            task,
        }
    }

    /// Everything received so far.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The one request received.
    pub fn only(&self) -> Received {
        let received = self.received();
        assert_eq!(received.len(), 1, "{received:#?}");
        received[0].clone()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn serve(
    mut stream: TcpStream,
    connection: usize,
    kept: &Mutex<Vec<Received>>,
    script: &Script,
) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::new();
    while let Some(mut request) = read_message(&mut stream, &mut buffer).await {
        request.connection = connection;
        let steps = script(&request);
        kept.lock().unwrap().push(request);
        for step in steps {
            match step {
                Step::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Step::Wait(gate) => gate.pass().await,
                Step::Close => return,
                Step::Hang => {
                    let mut rest = [0; 64];
                    while matches!(stream.read(&mut rest).await, Ok(1..)) {}
                    return;
                }
            }
        }
    }
}

/// Reads one request; `None` at the end of the connection.
async fn read_message(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Received> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        fill(stream, buffer).await?;
    };
    let head = String::from_utf8(buffer.drain(..end + 4).take(end).collect()).unwrap();
    let mut body = Vec::new();
    if let Some(length) = header(&head, "content-length").first() {
        let length: usize = length.parse().unwrap();
        while buffer.len() < length {
            fill(stream, buffer).await?;
        }
        body = buffer.drain(..length).collect();
    } else if !header(&head, "transfer-encoding").is_empty() {
        loop {
            let line = read_line(stream, buffer).await?;
            let size = usize::from_str_radix(line.split(';').next().unwrap(), 16).unwrap();
            while buffer.len() < size + 2 {
                fill(stream, buffer).await?;
            }
            body.extend(buffer.drain(..size));
            buffer.drain(..2);
            if size == 0 {
                break;
            }
        }
    }
    Some(Received {
        head,
        body,
        connection: 0,
    })
}

async fn read_line(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(at) = buffer.windows(2).position(|two| two == b"\r\n") {
            let line: Vec<u8> = buffer.drain(..at + 2).take(at).collect();
            return Some(String::from_utf8(line).unwrap());
        }
        fill(stream, buffer).await?;
    }
}

async fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    match stream.read_buf(buffer).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(()),
    }
}
