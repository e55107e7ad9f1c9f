//! `holdpoint mcp-wrap`: an MCP server on standard input and output, wrapped. Its client talks lines to the wrapper, the
//! wrapper talks lines to the server, and in between is the pipeline that `serve` binds to a socket: [`crate::proxy`], with
//! the server's process as its upstream. Nothing here judges, and nothing reaches either side past the pipeline.

mod board;
mod child;
mod front;
mod lines;
mod message;
mod server;
mod sketch;
mod upstream;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use board::Board;
use bytes::Bytes;
pub use child::Program;
use child::{Ask, Process, STUBBORN};
use front::Front;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use upstream::{Outgoing, StdioUpstream};

use crate::policy::Policy;
use crate::serve;
use crate::settings::{Route, Settings};
use crate::source::Problems;
use crate::store::Stores;

/// Messages on their way to either side.
const ROOM: usize = 64;

/// How long the server's last words are waited for once it has ended: something it has started may keep its output open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Why nothing was wrapped, or the wrapping ended early.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// A guard that cannot run.
    #[error("{0}")]
    Problems(#[from] Problems),
    /// The server cannot be started.
    #[error("the server cannot be started: {0}")]
    Start(io::Error),
    /// The server's end cannot be waited for.
    #[error("the server's end cannot be told: {0}")]
    Lost(io::Error),
}

/// Everything that is wrapped together.
pub struct Wrapping {
    /// Limits, stores, and the route.
    pub settings: Arc<Settings>,
    /// The rules.
    pub policy: Arc<Policy>,
    /// What the settings name, opened.
    pub stores: Stores,
    /// The route of the settings under which messages are judged. Its upstream's URL is not used.
    pub route: Route,
    /// The server.
    pub program: Program,
}

/// The signals that ask the wrapper to end.
pub use signals::Signals;

/// Wraps the server until it ends, and gives its exit code. `input` and `output` are the client's.
///
/// # Errors
/// A guard or a server that cannot start.
pub async fn run<I, O>(
    wrapping: Wrapping,
    input: I,
    output: O,
    signals: Signals,
) -> Result<u8, WrapError>
where
    I: AsyncRead + Send + Unpin + 'static,
    O: AsyncWrite + Send + Unpin + 'static,
{
    let Wrapping {
        settings,
        policy,
        stores,
        route,
        program,
    } = wrapping;
    let board = Board::new();
    let (stdin, lines) = mpsc::channel(ROOM);
    let upstream = StdioUpstream::new(
        route.upstream.clone(),
        Arc::clone(&board),
        stdin.downgrade(),
    );
    let housekeeping = serve::Housekeeping::new(&policy, &stores)?;
    let (service, _) = serve::proxy(&settings, &policy, stores, Vec::new(), upstream.clone())?;

    let (process, child_in, child_out) = Process::start(&program).map_err(WrapError::Start)?;
    let _kept = housekeeping.begin();
    tokio::spawn(write_child(child_in, lines));
    let (out, messages) = mpsc::channel(ROOM);
    let reader = tokio::spawn(server::read(
        child_out,
        Arc::clone(&board),
        settings.limits.response_body,
        out.downgrade(),
    ));
    // Nobody takes the client's messages any more: it has left, or the server has ended.
    let stop = CancellationToken::new();
    let writer = tokio::spawn(write_client(output, messages, stop.clone()));
    let limit = settings.limits.request_body;
    let mut front = Front::new(service.clone(), upstream, out, route.prefix, limit);
    let stopped = stop.clone();
    let mut client = tokio::spawn(async move {
        if let Err(error) = front.run(input, stopped).await {
            tracing::warn!(%error, "the client's messages cannot be read");
        }
        front
    });

    let mut ending = Ending {
        process,
        signals,
        stdin: Some(stdin),
        drain: settings.timeouts.drain,
    };
    let (code, front) = ending.watch(&mut client).await?;
    stop.cancel();
    // Whatever the server has said is told, what it has not answered is refused.
    let _ = timeout(LAST_WORDS, reader).await;
    board.end();
    let front = match front {
        Some(front) => Some(front),
        None => timeout(LAST_WORDS, client).await.ok().and_then(Result::ok),
    };
    if let Some(front) = front {
        let _ = timeout(LAST_WORDS, front.settle()).await;
    }
    let _ = timeout(LAST_WORDS, service.settled()).await;
    let _ = timeout(LAST_WORDS, writer).await;
    Ok(code)
}

/// Sees the server to its end.
struct Ending {
    process: Process,
    signals: Signals,
    /// Dropped, the server's input ends.
    stdin: Option<mpsc::Sender<Outgoing>>,
    drain: Duration,
}

impl Ending {
    /// Until the server has ended: the client's end is passed on as the end of input, then SIGTERM follows, then SIGKILL; a
    /// signal is passed on at once.
    async fn watch(
        &mut self,
        client: &mut JoinHandle<Front>,
    ) -> Result<(u8, Option<Front>), WrapError> {
        let mut front = None;
        let mut next: Option<(Instant, Ask)> = None;
        loop {
            let has_client = self.stdin.is_some();
            tokio::select! {
                status = self.process.wait() => {
                    let status = status.map_err(WrapError::Lost)?;
                    return Ok((child::code(status), front));
                }
                ended = &mut *client, if has_client => {
                    front = ended.ok();
                    self.stdin = None;
                    next.get_or_insert((Instant::now() + self.drain, Ask::Terminate));
                }
                ask = self.signals.next() => {
                    self.process.ask(ask);
                    next = Some((Instant::now() + STUBBORN, Ask::Kill));
                }
                ask = due(next) => {
                    tracing::warn!(?ask, "the server has not ended by itself");
                    self.process.ask(ask);
                    next = Some((Instant::now() + STUBBORN, Ask::Kill));
                }
            }
        }
    }
}

/// What is next to be asked, when it is time.
async fn due(next: Option<(Instant, Ask)>) -> Ask {
    match next {
        Some((at, ask)) => {
            tokio::time::sleep_until(at).await;
            ask
        }
        None => std::future::pending().await,
    }
}

async fn write_child(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Outgoing>) {
    while let Some(Outgoing { line, written }) = lines.recv().await {
        let sent = async {
            stdin.write_all(&line).await?;
            stdin.write_all(b"\n").await?;
            stdin.flush().await
        };
        if let Err(error) = sent.await {
            tracing::warn!(%error, "the server's input is closed");
            return;
        }
        let _ = written.send(());
    }
}

async fn write_client(
    mut output: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<Bytes>,
    stop: CancellationToken,
) {
    while let Some(message) = messages.recv().await {
        let sent = async {
            output.write_all(&message).await?;
            output.write_all(b"\n").await?;
            output.flush().await
        };
        if let Err(error) = sent.await {
            tracing::warn!(%error, "the client does not read any more");
            stop.cancel();
            return;
        }
    }
}

#[cfg(unix)]
mod signals {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    use super::Ask;

    /// SIGTERM, SIGINT and SIGHUP.
    pub struct Signals {
        terminate: Signal,
        interrupt: Signal,
        hang_up: Signal,
    }

    impl Signals {
        /// Listens from now on.
        ///
        /// # Errors
        /// The system refuses a handler.
        pub fn new() -> std::io::Result<Self> {
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                hang_up: signal(SignalKind::hangup())?,
            })
        }

        pub(super) async fn next(&mut self) -> Ask {
            tokio::select! {
                _ = self.terminate.recv() => Ask::Terminate,
                _ = self.interrupt.recv() => Ask::Interrupt,
                _ = self.hang_up.recv() => Ask::HangUp,
            }
        }
    }
}

#[cfg(not(unix))]
mod signals {
    use super::Ask;

    /// Ctrl-C.
    pub struct Signals;

    impl Signals {
        /// Listens from now on.
        ///
        /// # Errors
        /// The system refuses a handler.
        pub fn new() -> std::io::Result<Self> {
            Ok(Self)
        }

        pub(super) async fn next(&mut self) -> Ask {
            let _ = tokio::signal::ctrl_c().await;
            Ask::Interrupt
        }
    }
}
