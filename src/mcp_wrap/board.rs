//! Who waits for what: finds for each line of the server the answer it belongs to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::message::{Head, Id};
use super::sketch::Meant;

/// Lines that may wait for one reader: then the server's output stands still.
const ROOM: usize = 64;

/// Messages of the server that nobody has asked for, until somebody listens.
const UNASKED: usize = 1024;

/// One message of the server.
#[derive(Debug)]
pub(super) enum Said {
    /// The answer.
    Last(Bytes),
    /// Something on the way to it.
    More(Bytes),
    /// The answer was there and cannot be read.
    Unreadable,
}

struct Waiting {
    id: Id,
    /// Which of two with one id.
    serial: u64,
    progress: Option<Id>,
    tell: mpsc::Sender<Said>,
}

struct Requests {
    /// In the order in which they were sent.
    waiting: Vec<Waiting>,
    serial: u64,
    /// `None` once the server has ended.
    unasked: Option<mpsc::Sender<Said>>,
}

/// Requests that the server has not answered yet, and the stream for everything else.
pub(super) struct Board {
    requests: Mutex<Requests>,
    listener: Mutex<Option<mpsc::Receiver<Said>>>,
}

/// A place at the board. Dropped, it is free again.
pub(super) struct Place {
    board: Arc<Board>,
    serial: u64,
    said: mpsc::Receiver<Said>,
}

impl Board {
    pub(super) fn new() -> Arc<Self> {
        let (unasked, listener) = mpsc::channel(UNASKED);
        Arc::new(Self {
            requests: Mutex::new(Requests {
                waiting: Vec::new(),
                serial: 0,
                unasked: Some(unasked),
            }),
            listener: Mutex::new(Some(listener)),
        })
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the answer to this request. `None`: one of that id is not answered yet, or the server has ended.
    pub(super) fn expect(self: &Arc<Self>, id: Id, progress: Option<Id>) -> Option<Place> {
        let mut requests = self.requests();
        if requests.unasked.is_none() || requests.waiting.iter().any(|waiting| waiting.id == id) {
            return None;
        }
        let (tell, said) = mpsc::channel(ROOM);
        requests.serial += 1;
        let serial = requests.serial;
        requests.waiting.push(Waiting {
            id,
            serial,
            progress,
            tell,
        });
        Some(Place {
            board: Arc::clone(self),
            serial,
            said,
        })
    }

    /// The stream of what nobody has asked for; there is one.
    pub(super) fn listen(&self) -> Option<mpsc::Receiver<Said>> {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        listener.take()
    }

    /// Where what nobody has asked for goes.
    fn unasked(&self) -> Option<mpsc::Sender<Said>> {
        self.requests().unasked.clone()
    }

    fn is_heard(&self) -> bool {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = listener.is_none();
        drop(listener);
        taken && self.unasked().is_some_and(|unasked| !unasked.is_closed())
    }

    /// Hands a message of the server on; waits while its reader is behind.
    pub(super) async fn hand_on(&self, head: &Head, message: Bytes) {
        let (tell, said) = if head.is_response() {
            if let Some(tell) = self.asked(head) {
                (tell, Said::Last(message))
            } else if let Some(tell) = self.misnamed(head) {
                tracing::warn!("the server answered under an id of another type; dropped");
                (tell, Said::Unreadable)
            } else {
                tracing::warn!("the server answered what nobody waits for; dropped");
                return;
            }
        } else if let Some(tell) = self.related(head) {
            (tell, Said::More(message))
        } else {
            let unasked = self.unasked();
            if unasked.is_none_or(|unasked| unasked.try_send(Said::More(message)).is_err()) {
                tracing::warn!("nobody listens to what the server says unasked; dropped");
            }
            return;
        };
        // A reader that has left does not want it any more.
        let _ = tell.send(said).await;
    }

    /// Tells whoever waits for an answer that it cannot be read: the requests that it names, or the only one that waits. True
    /// where it may have been for any of several.
    pub(super) async fn unreadable(&self, meant: &Meant) -> bool {
        let (tells, is_anyones) = self.meant(meant);
        for tell in tells {
            // A reader that has left does not want it any more.
            let _ = tell.send(Said::Unreadable).await;
        }
        is_anyones
    }

    /// Who is meant; they wait no longer.
    fn meant(&self, meant: &Meant) -> (Vec<mpsc::Sender<Said>>, bool) {
        let mut requests = self.requests();
        let is_nameless = meant.ids.is_empty() && meant.has_nameless;
        let is_only = is_nameless && requests.waiting.len() == 1;
        let gone = requests
            .waiting
            .extract_if(.., |waiting| is_only || meant.ids.contains(&waiting.id))
            .map(|waiting| waiting.tell)
            .collect();
        (gone, is_nameless && !requests.waiting.is_empty())
    }

    /// Who waits for this answer; it waits no longer.
    fn asked(&self, head: &Head) -> Option<mpsc::Sender<Said>> {
        let mut requests = self.requests();
        let at = requests
            .waiting
            .iter()
            .position(|waiting| Some(&waiting.id) == head.id.as_ref())?;
        Some(requests.waiting.remove(at).tell)
    }

    /// Who waits for an answer under an id that another spelling of this one is; it waits no longer.
    fn misnamed(&self, head: &Head) -> Option<mpsc::Sender<Said>> {
        let id = head.id.as_ref()?;
        let mut requests = self.requests();
        let mut waiting = requests.waiting.iter();
        let at = waiting.position(|waiting| waiting.id.resembles(id))?;
        Some(requests.waiting.remove(at).tell)
    }

    /// The request in whose course the server says this. Only progress and subscriptions tell which one; the youngest is as
    /// good as any for the rest, since all go to one client, and keeps it before that request's answer. Requests of the
    /// server go where somebody listens for them.
    fn related(&self, head: &Head) -> Option<mpsc::Sender<Said>> {
        if head.is_request() && self.is_heard() {
            return None;
        }
        let requests = self.requests();
        let of = |wanted: &dyn Fn(&&Waiting) -> bool| {
            let mut waiting = requests.waiting.iter().rev();
            waiting.find(wanted).map(|found| found.tell.clone())
        };
        let named = of(&|waiting| head.progress.is_some() && waiting.progress == head.progress)
            .or_else(|| of(&|waiting| head.subscription.as_ref() == Some(&waiting.id)));
        named.or_else(|| of(&|_| true))
    }

    /// The server has ended: whoever waits is told so.
    pub(super) fn end(&self) {
        let mut requests = self.requests();
        requests.unasked = None;
        requests.waiting.clear();
    }
}

impl Place {
    /// The next message; `None` after the answer, or where the server has ended without one.
    pub(super) async fn next(&mut self) -> Option<Said> {
        self.said.recv().await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let serial = self.serial;
        let mut requests = self.board.requests();
        requests.waiting.retain(|waiting| waiting.serial != serial);
    }
}
