//! One transaction for all steps that wait: each in a savepoint of its own, and all on disk with one write.

use std::cell::RefCell;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use super::calls::{self, Attempt};
use super::rows::At;
use super::{audit, unavailable};
use crate::clock::{Clock, Watermark};
use crate::guard::Outcome;
use crate::names::TicketId;
use crate::store::tickets::waiting::Waiting;
use crate::store::tickets::{TicketError, TicketLimits};

/// What a step works on.
pub(super) struct Tx<'a> {
    pub(super) db: &'a Connection,
    pub(super) now: At,
    pub(super) limits: &'a TicketLimits,
    pub(super) boot: &'a str,
    /// Tickets that changed: whoever waits for them is woken when it is on disk.
    pub(super) changed: RefCell<Vec<TicketId>>,
}

type Sql<T> = rusqlite::Result<T>;

/// A step that waits for its transaction.
trait Job: Send {
    /// Does the work, inside a savepoint.
    fn run(&mut self, tx: &Tx<'_>) -> Sql<()>;

    /// Says how it ended; called once, after the transaction is on disk or undone.
    fn reply(self: Box<Self>, failure: Option<TicketError>);
}

struct Step<T, U, W, M> {
    work: Option<W>,
    done: Option<T>,
    then: M,
    to: oneshot::Sender<Result<U, TicketError>>,
}

impl<T, U, W, M> Job for Step<T, U, W, M>
where
    T: Send,
    U: Send,
    W: FnOnce(&Tx<'_>) -> Sql<T> + Send,
    M: FnOnce(T) -> U + Send,
{
    fn run(&mut self, tx: &Tx<'_>) -> Sql<()> {
        if let Some(work) = self.work.take() {
            self.done = Some(work(tx)?);
        }
        Ok(())
    }

    fn reply(self: Box<Self>, failure: Option<TicketError>) {
        let result = match (failure, self.done) {
            (None, Some(done)) => Ok((self.then)(done)),
            (Some(failure), _) => Err(failure),
            (None, None) => Err(unavailable("a step did not run")),
        };
        // Nobody may wait any more: what was made for them is dropped, and a claim so dropped is given back.
        let _ = self.to.send(result);
    }
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Box<dyn Job>>,
    /// A thread is at work, and takes what is added.
    draining: bool,
}

/// The connection, and what waits for it.
pub(super) struct Writer {
    connection: Mutex<Connection>,
    clock: Watermark,
    pub(super) limits: TicketLimits,
    boot: String,
    queue: Mutex<Queue>,
    /// Claims that were dropped: written before anything else is done.
    abandoned: Mutex<Vec<(Attempt, Outcome)>>,
    pub(super) waiting: Waiting,
    /// Held as long as the store is served, its last claim included.
    _serving: Option<File>,
}

impl Writer {
    pub(super) fn new(
        connection: Connection,
        clock: Arc<dyn Clock>,
        limits: TicketLimits,
        serving: Option<File>,
    ) -> Self {
        Self {
            connection: Mutex::new(connection),
            clock: Watermark::new(clock),
            limits,
            boot: uuid::Uuid::now_v7().simple().to_string(),
            queue: Mutex::default(),
            abandoned: Mutex::default(),
            waiting: Waiting::default(),
            _serving: serving,
        }
    }

    /// Runs one step off the async threads, together with all that wait. A future that is dropped meanwhile does not undo it.
    pub(super) async fn run<T, W>(self: &Arc<Self>, work: W) -> Result<T, TicketError>
    where
        T: Send + 'static,
        W: FnOnce(&Tx<'_>) -> Sql<T> + Send + 'static,
    {
        self.run_then(work, |done| done).await
    }

    /// As [`Self::run`]; `then` gets the result as soon as it is on disk, even if nobody waits for it any more.
    pub(super) async fn run_then<T, U, W, M>(
        self: &Arc<Self>,
        work: W,
        then: M,
    ) -> Result<U, TicketError>
    where
        T: Send + 'static,
        U: Send + 'static,
        W: FnOnce(&Tx<'_>) -> Sql<T> + Send + 'static,
        M: FnOnce(T) -> U + Send + 'static,
    {
        let (to, said) = oneshot::channel();
        self.submit(Box::new(Step {
            work: Some(work),
            done: None,
            then,
            to,
        }));
        said.await
            .unwrap_or_else(|_| Err(unavailable("its thread ended early")))
    }

    fn submit(self: &Arc<Self>, job: Box<dyn Job>) {
        let mut queue = lock(&self.queue);
        queue.jobs.push(job);
        if queue.draining {
            return;
        }
        queue.draining = true;
        drop(queue);
        let shift = Shift(Some(Arc::clone(self)));
        tokio::task::spawn_blocking(move || shift.work());
    }

    /// Notes how a claim ended that nobody finished, and writes it as soon as the store is free.
    pub(super) fn abandon(self: &Arc<Self>, attempt: Attempt, outcome: Outcome) {
        lock(&self.abandoned).push((attempt, outcome));
        // Without a runtime the next transaction writes it, or the next start.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let writer = Arc::clone(self);
            runtime.spawn(async move {
                if let Err(error) = writer.run(|_| Ok(())).await {
                    tracing::error!(%error, "a lost claim is not written yet");
                }
            });
        }
    }

    /// Before the store is shared: what an earlier process was redeeming is unknown.
    pub(super) fn recover(&self) -> Result<usize, TicketError> {
        let mut connection = lock(&self.connection);
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| failed(&error))?;
        let tx = self.tx(&transaction);
        let lost = calls::recover(&tx).map_err(|error| failed(&error))?;
        transaction.commit().map_err(|error| failed(&error))?;
        Ok(lost)
    }

    fn tx<'a>(&'a self, db: &'a Connection) -> Tx<'a> {
        Tx {
            db,
            now: At::new(self.clock.now()),
            limits: &self.limits,
            boot: &self.boot,
            changed: RefCell::default(),
        }
    }

    /// Runs all jobs in one transaction; gives back for each why it failed.
    fn transact(&self, jobs: &mut [Box<dyn Job>]) -> Vec<Option<TicketError>> {
        let mut connection = lock(&self.connection);
        let abandoned = lock(&self.abandoned).clone();
        let mut failures: Vec<Option<TicketError>> = jobs.iter().map(|_| None).collect();
        let mut run = || -> Sql<Vec<TicketId>> {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let tx = self.tx(&transaction);
            for (attempt, outcome) in &abandoned {
                calls::finish(&tx, attempt, outcome)?;
            }
            calls::sweep(&tx)?;
            for (job, failure) in jobs.iter_mut().zip(&mut failures) {
                *failure = in_savepoint(&tx, job.as_mut())?;
            }
            let changed = tx.changed.take();
            drop(tx);
            transaction.commit()?;
            Ok(changed)
        };
        match run() {
            Ok(changed) => {
                lock(&self.abandoned).retain(|(attempt, _)| {
                    !abandoned.iter().any(|(written, _)| written == attempt)
                });
                self.waiting.wake(&changed);
                failures
            }
            Err(error) => {
                tracing::error!(%error, steps = jobs.len(), "a transaction of the ticket store failed");
                failures.iter().map(|_| Some(failed(&error))).collect()
            }
        }
    }
}

/// A step that fails is undone alone; an error means that the whole transaction is lost.
fn in_savepoint(tx: &Tx<'_>, job: &mut dyn Job) -> Sql<Option<TicketError>> {
    tx.db.execute_batch("SAVEPOINT step")?;
    let changed = tx.changed.borrow().len();
    match job.run(tx) {
        Ok(()) => {
            tx.db.execute_batch("RELEASE step")?;
            Ok(None)
        }
        // A full disk or an i/o error ends the whole transaction by itself.
        Err(error) if tx.db.is_autocommit() => Err(error),
        Err(error) => {
            tx.db.execute_batch("ROLLBACK TO step; RELEASE step")?;
            tx.changed.borrow_mut().truncate(changed);
            Ok(Some(failed(&error)))
        }
    }
}

/// One thread's turn at the queue.
struct Shift(Option<Arc<Writer>>);

impl Shift {
    fn work(mut self) {
        while let Some(writer) = self.0.clone() {
            let mut jobs = std::mem::take(&mut lock(&writer.queue).jobs);
            let failures = writer.transact(&mut jobs);
            let mut queue = lock(&writer.queue);
            if queue.jobs.is_empty() {
                queue.draining = false;
                self.0 = None;
            }
            drop(queue);
            // Whoever hears of the last step may let go of the store, and open its file again at once.
            drop(writer);
            for (job, failure) in jobs.into_iter().zip(failures) {
                job.reply(failure);
            }
        }
    }
}

impl Drop for Shift {
    /// The runtime ended before the turn came, or the turn ended early: the next step has another.
    fn drop(&mut self) {
        if let Some(writer) = self.0.take() {
            lock(&writer.queue).draining = false;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(error: &rusqlite::Error) -> TicketError {
    unavailable(&error.to_string())
}

impl Tx<'_> {
    /// Writes an audit row in this transaction.
    pub(super) fn note(&self, note: crate::store::tickets::audit::Note) -> Sql<()> {
        if let Some(ticket) = &note.ticket {
            self.changed.borrow_mut().push(ticket.clone());
        }
        audit::append(self.db, self.now, note)
    }
}
