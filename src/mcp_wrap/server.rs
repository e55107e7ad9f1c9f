//! What the server prints: its messages are handed on, anything else is dropped, and whoever waits for an answer that cannot be
//! read is told so.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::board::Board;
use super::front;
use super::lines::{Line, Lines};
use super::message::Head;
use super::sketch::{Meant, Sketch};

/// How long the next line of a message in several lines is waited for.
const PAUSE: Duration = Duration::from_secs(1);

/// Hands the server's messages on. Whatever else it prints is dropped: clients would take it for broken messages.
pub(super) async fn read(
    stdout: impl AsyncRead + Unpin,
    board: Arc<Board>,
    cap: usize,
    out: mpsc::WeakSender<Bytes>,
) {
    let mut lines = Lines::new(stdout, cap);
    let mut broken = Broken {
        board: Arc::clone(&board),
        out,
        open: None,
    };
    loop {
        let next = if broken.open.is_none() {
            lines.next().await
        } else if let Ok(next) = timeout(PAUSE, lines.next()).await {
            next
        } else {
            broken.end().await;
            continue;
        };
        match next {
            Ok(Some(Line::Whole(line))) => match Head::read(&line) {
                Some(head)
                    if (head.id.is_some() || head.method.is_some()) && !broken.holds(&line) =>
                {
                    broken.end().await;
                    board.hand_on(&head, line).await;
                }
                _ => {
                    tracing::warn!(
                        bytes = line.len(),
                        "the server printed a line that is no message; dropped"
                    );
                    broken.line(&line).await;
                }
            },
            Ok(Some(Line::TooLong(meant))) => {
                tracing::warn!(
                    limit = cap,
                    "the server printed a line above `limits.response_body`; dropped"
                );
                broken.end().await;
                broken.tell(&meant).await;
            }
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(%error, "the server's output cannot be read");
                break;
            }
        }
    }
    broken.end().await;
    board.end();
}

fn sketch(line: &[u8]) -> Sketch {
    let mut sketch = Sketch::default();
    sketch.push(line);
    sketch
}

/// Lines that are no messages.
struct Broken {
    board: Arc<Board>,
    out: mpsc::WeakSender<Bytes>,
    /// What may be a message in several lines, which MCP does not allow.
    open: Option<Sketch>,
}

impl Broken {
    /// Whether a line is one of the message that is open, whatever it is by itself: no message of its own.
    fn holds(&self, line: &[u8]) -> bool {
        self.open.is_some() && !sketch(line).is_rpc()
    }

    async fn line(&mut self, line: &[u8]) {
        let mut own = sketch(line);
        if own.is_rpc() {
            // A message of its own: what was open was none.
            self.end().await;
        }
        if let Some(open) = &mut self.open {
            open.push(line);
            open.push(b"\n");
            if open.is_over() {
                self.end().await;
            }
        } else if own.is_open() {
            own.push(b"\n");
            self.open = Some(own);
        } else {
            self.tell(&own.finish()).await;
        }
    }

    /// No more lines of what is open.
    async fn end(&mut self) {
        if let Some(open) = self.open.take() {
            self.tell(&open.finish()).await;
        }
    }

    /// No client waits for ever: where it cannot be told which of its requests has lost its answer, it is told that one has.
    async fn tell(&self, meant: &Meant) {
        if self.board.unreadable(meant).await
            && let Some(out) = self.out.upgrade()
        {
            let error = front::error(
                front::BROKEN,
                "an answer of the server cannot be read, nor which request it is for",
            );
            let _ = out.send(front::answer("null", &error).into()).await;
        }
    }
}
