//! One exchange while it is under way, and the way from there to the writer: nothing here waits.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};

use super::Judged;
use super::redact::Redactor;
use super::writer::{Files, Raw, write};
use crate::item::{Leg, Located};
use crate::layers::egress::Register;
use crate::metrics::{Metrics, Unrecorded};
use crate::principal::Session;
use crate::protocols::{Event, Frame};
use crate::settings::{RecordSettings, Settings};
use crate::source::{Problem, Problems};
use crate::verdict::Ruling;

/// Exchanges that may wait to be written.
const WAITING: usize = 1024;
/// Bytes of bodies that may wait to be written, all exchanges together.
const WAITING_BYTES: usize = 64 << 20;
/// What is kept of one answer, in bytes.
const LONGEST: usize = 32 << 20;

/// Takes exchanges and has them written.
pub struct Recorder {
    queue: Mutex<Option<SyncSender<Box<Raw>>>>,
    waiting: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
    /// Somebody was told that the queue is full.
    told: AtomicBool,
    writing: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// What a recorder needs.
#[derive(Debug)]
pub struct RecorderParts<'s> {
    /// Where to, and how much in one file.
    pub record: &'s RecordSettings,
    /// The secrets that the proxy holds.
    pub settings: &'s Settings,
    /// Those that are registered.
    pub register: Arc<Register>,
    /// Where it counts.
    pub metrics: Arc<Metrics>,
}

impl Recorder {
    /// Makes the folder and its first file, and starts the thread that writes.
    ///
    /// # Errors
    /// The folder or the file cannot be made, or the secrets of the settings cannot be looked for.
    pub fn start(parts: RecorderParts<'_>) -> Result<Arc<Self>, Problems> {
        let cannot = |what: String| {
            Problem::new(what).help("give `record.directory` a folder that this process may write to, or leave `record` out")
        };
        let redactor = Redactor::new(parts.settings, parts.register).map_err(|error| {
            cannot(format!(
                "the secrets of the config cannot be looked for in recordings: {error}"
            ))
        })?;
        let files = Files::open(parts.record).map_err(|error| {
            cannot(format!(
                "cannot record to {}: {error}",
                parts.record.directory.display()
            ))
        })?;
        let (queue, taken) = sync_channel::<Box<Raw>>(WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let (metrics, left) = (Arc::clone(&parts.metrics), Arc::clone(&waiting));
        let thread = std::thread::Builder::new().name("record".to_owned());
        let writer = thread
            .spawn(move || write(&taken, files, &redactor, &metrics, &left))
            .map_err(|error| cannot(format!("no thread to record with: {error}")))?;
        parts.metrics.recording(true);
        Ok(Arc::new(Self {
            queue: Mutex::new(Some(queue)),
            waiting,
            metrics: parts.metrics,
            told: AtomicBool::new(false),
            writing: Mutex::new(Some(writer)),
        }))
    }

    /// Takes no more, and waits until what waits is written, but not for long.
    pub async fn finish(&self) {
        drop(locked(&self.queue).take());
        let Some(writing) = locked(&self.writing).take() else {
            return;
        };
        let ended = tokio::task::spawn_blocking(move || writing.join().is_ok());
        if tokio::time::timeout(Duration::from_secs(10), ended)
            .await
            .is_err()
        {
            tracing::error!("recordings that still waited at the end were not written");
        }
    }

    fn submit(&self, raw: Box<Raw>) {
        let size = raw.size();
        if self.waiting.fetch_add(size, Ordering::Relaxed) + size > WAITING_BYTES {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            self.full();
            return;
        }
        let sent = match &*locked(&self.queue) {
            Some(queue) => queue.try_send(raw),
            None => Err(TrySendError::Disconnected(raw)),
        };
        if let Err(error) = sent {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            match error {
                TrySendError::Full(_) => self.full(),
                TrySendError::Disconnected(_) => self.metrics.unrecorded(Unrecorded::Stopped),
            }
        }
    }

    /// Counted each time, and logged once.
    fn full(&self) {
        self.metrics.unrecorded(Unrecorded::QueueFull);
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!("exchanges come faster than they can be recorded: some are left out");
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An exchange whose request is read.
pub(crate) struct Begun {
    /// The route's name and protocol.
    pub(crate) route: (String, &'static str),
    /// SHA-256 of the policy.
    pub(crate) policy: String,
    /// For whom.
    pub(crate) session: Arc<Session>,
    /// Method and path below the prefix.
    pub(crate) target: (String, String),
    /// Header fields that may be written.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// `Content-Type` of the request.
    pub(crate) media: Option<HeaderValue>,
    /// The body, decoded.
    pub(crate) body: Bytes,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Came {
    pub(super) status: Option<(StatusCode, Option<HeaderValue>)>,
    pub(super) answer: Vec<Piece>,
    pub(super) size: usize,
    pub(super) too_long: bool,
    pub(super) refused: Option<&'static str>,
    pub(super) judged: Vec<Judged>,
}

/// A piece of an answer.
pub(super) enum Piece {
    Whole(Bytes),
    Event(Event),
}

/// An exchange under way. It is handed to the writer when the last who knows it is done: at the end of its answer.
pub(crate) struct Taken {
    recorder: Arc<Recorder>,
    begun: Mutex<Option<Begun>>,
    came: Mutex<Came>,
}

impl Taken {
    pub(crate) const fn new(recorder: Arc<Recorder>, begun: Begun) -> Self {
        Self {
            recorder,
            begun: Mutex::new(Some(begun)),
            came: Mutex::new(Came {
                status: None,
                answer: Vec::new(),
                size: 0,
                too_long: false,
                refused: None,
                judged: Vec::new(),
            }),
        }
    }

    /// What the guard said of items.
    pub(crate) fn judged(&self, leg: Leg, items: &[Located], rulings: &[Ruling]) {
        let said = items
            .iter()
            .zip(rulings)
            .map(|(item, ruling)| Judged::of(leg, item, ruling));
        locked(&self.came).judged.extend(said);
    }

    /// The head of the upstream's answer.
    pub(crate) fn answered(&self, status: StatusCode, media: Option<&HeaderValue>) {
        locked(&self.came).status = Some((status, media.cloned()));
    }

    /// A piece of the upstream's answer, with the proxy's own secrets taken out.
    pub(crate) fn came(&self, frame: &Frame) {
        let mut came = locked(&self.came);
        let (piece, size) = match frame {
            Frame::Whole(bytes) => (Piece::Whole(bytes.clone()), bytes.len()),
            Frame::Event(event) => {
                let size = event.data.as_ref().map_or(0, String::len);
                (Piece::Event(event.clone()), size)
            }
        };
        if came.too_long || came.size + size > LONGEST {
            came.too_long = true;
            came.answer.clear();
            return;
        }
        came.size += size;
        came.answer.push(piece);
    }

    /// Holdpoint answered itself.
    pub(crate) fn refused(&self, code: &'static str) {
        locked(&self.came).refused = Some(code);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let came = std::mem::take(&mut *locked(&self.came));
        if let Some(begun) = locked(&self.begun).take() {
            self.recorder.submit(Box::new(Raw { begun, came }));
        }
    }
}
