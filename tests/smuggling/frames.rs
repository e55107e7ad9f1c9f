//! Frames of HTTP/2 that no library would send.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::client::request;
use crate::support::rig::Rig;
use crate::support::upstream::{Upstream, json};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:status: 200` in HPACK's static table (RFC 7541 appendix A).
const OK: u8 = 0x88;
/// RFC 9113 section 7.
const ENHANCE_YOUR_CALM: u32 = 0xb;

#[derive(Debug)]
struct Frame {
    kind: u8,
    payload: Vec<u8>,
}

struct Peer(TcpStream);

impl Peer {
    async fn connect(rig: &Rig) -> Self {
        let mut stream = TcpStream::connect(rig.agents()).await.unwrap();
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await
            .unwrap();
        let mut peer = Self(stream);
        assert!(peer.send(SETTINGS, 0, 0, &[]).await);
        peer
    }

    /// Whether the connection still took it.
    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.0.write_all(&frame).await.is_ok()
    }

    async fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.ok()?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).await.ok()?;
        Some(Frame {
            kind: head[3],
            payload,
        })
    }

    /// The first frame that says what becomes of requests.
    async fn verdict(&mut self) -> Option<Frame> {
        loop {
            let frame = self.frame().await?;
            if matches!(frame.kind, HEADERS | RST_STREAM | GOAWAY) {
                return Some(frame);
            }
        }
    }
}

/// Literal fields without indexing (RFC 7541 section 6.2.2).
fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            // Seven bits of the length, the rest in groups of seven.
            match text.len().checked_sub(127) {
                None => block.push(u8::try_from(text.len()).unwrap()),
                Some(mut rest) => {
                    block.push(127);
                    while rest >= 128 {
                        block.push(u8::try_from(rest % 128 + 128).unwrap());
                        rest /= 128;
                    }
                    block.push(u8::try_from(rest).unwrap());
                }
            }
            block.extend(text.as_bytes());
        }
    }
    block
}

const POST: [(&str, &str); 5] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "localhost"),
    (":path", "/shop/send"),
    ("content-type", "application/json"),
];

fn with<'f>(more: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    [&POST[..], more].concat()
}

fn without(name: &str, more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let kept = POST.into_iter().filter(|(key, _)| *key != name);
    // Pseudo-header fields come first.
    let (first, last): (Vec<_>, Vec<_>) = kept
        .chain(more.iter().copied())
        .partition(|(key, _)| key.starts_with(':'));
    [first, last].concat()
}

async fn pair() -> (Upstream, Rig) {
    let upstream = Upstream::start(|_| json("{}")).await;
    let more = "listen: {h2c: true}\ntimeouts: {request_idle: 300ms}";
    let rig = Rig::before(&upstream.url(), more).await;
    (upstream, rig)
}

#[tokio::test]
async fn heads_that_http_1_would_read_otherwise_are_refused() {
    let (upstream, rig) = pair().await;
    let mut peer = Peer::connect(&rig).await;
    assert!(
        peer.send(
            HEADERS,
            END_HEADERS,
            1,
            &fields(&with(&[("te", "trailers")]))
        )
        .await
    );
    assert!(peer.send(DATA, END_STREAM, 1, b"{}").await);
    let fine = peer.verdict().await.unwrap();
    assert_eq!((fine.kind, fine.payload[0]), (HEADERS, OK));
    assert_eq!(upstream.received().len(), 1);

    for block in [
        with(&[("connection", "close")]),
        with(&[("connection", "authorization")]),
        with(&[("keep-alive", "timeout=5")]),
        with(&[("proxy-connection", "keep-alive")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("upgrade", "websocket")]),
        with(&[("te", "gzip")]),
        with(&[("host", "evil.example")]),
        with(&[("host", "localhost"), ("host", "localhost")]),
        with(&[("Content-Length", "2")]),
        with(&[("content-length", "1")]),
        with(&[("content-length", "60")]),
        with(&[("content-length", "+2")]),
        with(&[("content-length", "2"), ("content-length", "60")]),
        with(&[("x\r\ny", "z")]),
        with(&[("x: y\r\nz", "z")]),
        with(&[("x", "y\r\ntransfer-encoding: chunked")]),
        with(&[("x", "y\0z")]),
        with(&[("x", "y\nz")]),
        with(&[("", "x")]),
        with(&[(":path", "/shop/orders/1")]),
        with(&[(":unknown", "x")]),
        [&POST[4..], &POST[..4]].concat(),
        without(":method", &[]),
        without(":path", &[]),
        without(":authority", &[]),
        without(":path", &[(":path", "")]),
        without(":path", &[(":path", "shop/send")]),
        without(":path", &[(":path", "/shop/send HTTP/1.1\r\nx: y")]),
        without(":path", &[(":path", "/shop/send\r\n\r\n")]),
        without(":path", &[(":path", "/shop/../shop/send")]),
        without(":authority", &[(":authority", "user@localhost")]),
        without(":authority", &[(":authority", "localhost evil.example")]),
        without(":authority", &[(":authority", "evil.example")]),
        without(
            ":authority",
            &[(":authority", "evil.example"), ("host", "localhost")],
        ),
        without(":method", &[(":method", "PO ST")]),
        without(":method", &[(":method", "CONNECT")]),
    ] {
        let mut peer = Peer::connect(&rig).await;
        assert!(peer.send(HEADERS, END_HEADERS, 1, &fields(&block)).await);
        let _ = peer.send(DATA, END_STREAM, 1, b"{}").await;
        let verdict = peer.verdict().await;
        let passed = verdict
            .is_some_and(|frame| frame.kind == HEADERS && frame.payload.first() == Some(&OK));
        assert!(!passed, "{block:?}");
        assert_eq!(upstream.received().len(), 1, "{block:?}");
    }
}

#[tokio::test]
async fn the_bounds_are_told_at_the_start() {
    let (_upstream, rig) = pair().await;
    let mut peer = Peer::connect(&rig).await;
    let settings = loop {
        let frame = peer.frame().await.unwrap();
        if frame.kind == SETTINGS && !frame.payload.is_empty() {
            break frame;
        }
    };
    let told = |id: u16| {
        let values = settings
            .payload
            .chunks(6)
            .filter(|one| one[..2] == id.to_be_bytes());
        let values = values.map(|one| u32::from_be_bytes([one[2], one[3], one[4], one[5]]));
        values.fold(None, |_, value| Some(value))
    };
    assert_eq!(told(3), Some(128), "SETTINGS_MAX_CONCURRENT_STREAMS");
    assert_eq!(told(6), Some(64 << 10), "SETTINGS_MAX_HEADER_LIST_SIZE");
}

/// Reads on until the connection ends; the error code of its end.
async fn end(mut peer: Peer) -> Option<u32> {
    let mut code = None;
    while let Some(frame) = peer.frame().await {
        if frame.kind == GOAWAY {
            let bytes = frame.payload.get(4..8).unwrap();
            code = Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        }
    }
    code
}

#[tokio::test]
async fn requests_that_are_taken_back_at_once_end_the_connection() {
    let (upstream, rig) = pair().await;
    let mut peer = Peer::connect(&rig).await;
    let block = fields(&with(&[]));
    let mut bytes = Vec::new();
    for stream in 0..2_000u32 {
        let id = (2 * stream + 1).to_be_bytes();
        let length = u32::try_from(block.len()).unwrap().to_be_bytes();
        bytes.extend(&length[1..]);
        bytes.extend([HEADERS, END_HEADERS]);
        bytes.extend(id);
        bytes.extend(&block);
        bytes.extend([0, 0, 4, RST_STREAM, 0]);
        bytes.extend(id);
        bytes.extend([0, 0, 0, 8]);
    }
    let _ = peer.0.write_all(&bytes).await;
    let code = end(peer).await;
    assert!(
        code.is_none_or(|code| code == ENHANCE_YOUR_CALM),
        "{code:?}"
    );
    assert!(upstream.received().is_empty());
    assert_eq!(
        rig.ask(request("GET", "/shop/orders/1", &[], ""))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_head_without_end_ends_the_connection() {
    let (upstream, rig) = pair().await;
    let mut peer = Peer::connect(&rig).await;
    assert!(peer.send(HEADERS, 0, 1, &fields(&with(&[]))).await);
    let more = fields(&[("x", &"v".repeat(1000))]);
    let mut taken = 0;
    while taken < 100_000 && peer.send(CONTINUATION, 0, 1, &more).await {
        taken += 1;
    }
    // What was sent is more than any socket buffer: the connection has ended.
    assert!(taken < 100_000);
    assert!(upstream.received().is_empty());
    assert_eq!(
        rig.ask(request("GET", "/shop/orders/1", &[], ""))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_head_that_is_large_once_decoded_is_refused() {
    let (upstream, rig) = pair().await;
    let mut peer = Peer::connect(&rig).await;
    // A field of 4000 bytes goes into the table, and is then named by one byte each time.
    let mut block = fields(&with(&[]));
    let mut field = fields(&[("x", &"v".repeat(3900))]);
    field[0] = 0x40;
    block.extend(&field);
    block.extend(vec![0xbe; 1000]);
    assert!(
        peer.send(HEADERS, END_HEADERS | END_STREAM, 1, &block)
            .await
    );
    let verdict = peer.verdict().await;
    let passed =
        verdict.is_some_and(|frame| frame.kind == HEADERS && frame.payload.first() == Some(&OK));
    assert!(!passed);
    assert!(upstream.received().is_empty());
}
