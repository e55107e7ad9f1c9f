//! One raw request in front of another that must never be seen.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::rig::Rig;
use crate::support::upstream::{Received, Upstream, json};

/// Follows every raw request on its connection.
const SMUGGLED: &[u8] = b"GET /shop/orders/smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// What must come of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing reaches the upstream.
    Refused,
    /// One request with this body.
    Clean(&'static str),
}

/// A server and its upstream.
pub struct Field {
    upstream: Upstream,
    rig: Rig,
}

impl Field {
    pub async fn new() -> Self {
        let upstream = Upstream::start(|_| json("{\"from\":\"upstream\"}")).await;
        // Whoever waits for more of a cut body is answered soon.
        let rig = Rig::before(&upstream.url(), "timeouts: {request_idle: 300ms}").await;
        Self { upstream, rig }
    }

    /// Sends the bytes, then a request that is to be smuggled; checks what came of both.
    pub async fn check(&self, raw: impl AsRef<[u8]>, outcome: Outcome) {
        let raw = raw.as_ref();
        let shown = String::from_utf8_lossy(raw).into_owned();
        let before = self.upstream.received().len();
        let mut stream = TcpStream::connect(self.rig.agents()).await.unwrap();
        // The server may have closed already.
        let _ = stream.write_all(raw).await;
        let _ = stream.write_all(SMUGGLED).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let received = self.upstream.received().split_off(before);
        match outcome {
            Outcome::Refused => {
                assert!(received.is_empty(), "{shown:?}: {received:#?}");
                let status = answer.get(9..12).unwrap_or("400");
                assert!(
                    status.starts_with('4') || status.starts_with('5'),
                    "{shown:?}: {answer}"
                );
                assert!(!answer.contains("\"upstream\""), "{shown:?}: {answer}");
            }
            Outcome::Clean(body) => {
                assert_eq!(received.len(), 1, "{shown:?}: {received:#?} {answer}");
                self.is_clean(&received[0], body);
                assert_eq!(answer.get(9..12), Some("200"), "{shown:?}: {answer}");
                assert_eq!(answer.matches("\"upstream\"").count(), 1, "{answer}");
            }
        }
    }

    fn is_clean(&self, got: &Received, body: &str) {
        let host = self.upstream.address.to_string();
        assert_eq!(got.header("host"), [host.as_str()], "{got:?}");
        assert_eq!(got.text(), body, "{got:?}");
        let length = body.len().to_string();
        let expected: &[&str] = if body.is_empty() { &[] } else { &[&length] };
        assert_eq!(got.header("content-length"), expected, "{got:?}");
        for gone in [
            "transfer-encoding",
            "transfer_encoding",
            "connection",
            "trailer",
            "te",
            "upgrade",
            "http2-settings",
            "expect",
            "keep-alive",
            "proxy-connection",
        ] {
            assert!(got.header(gone).is_empty(), "{gone}: {got:?}");
        }
        assert!(!got.head.contains("smuggled"), "{got:?}");
        assert!(
            got.head
                .split("\r\n")
                .all(|line| !line.contains(['\r', '\n', '\0']))
        );
    }
}
