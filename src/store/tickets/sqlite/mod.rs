//! Tickets in an SQLite file: one writer connection, each step one `BEGIN IMMEDIATE` transaction that is on disk before it
//! counts.

mod claim;
mod rows;
mod schema;
mod steps;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rusqlite::{Connection, TransactionBehavior};
use uuid::Uuid;

use self::claim::SqliteClaim;
use self::rows::At;
use self::steps::{Attempt, Found};
use super::{
    Answer, AnswerError, Filter, Presented, Standing, Ticket, TicketError, TicketState, TicketStore,
};
use crate::clock::Clock;
use crate::guard::Outcome;
use crate::names::TicketId;

/// Opens a ticket store, made if missing; `:memory:` is a private one that ends with the value. Claims that another process
/// left behind are not touched. `replay_window`: how long a receipt is given back.
///
/// # Errors
/// The file cannot be made or is something else.
pub fn open(
    path: &Path,
    clock: Arc<dyn Clock>,
    replay_window: Duration,
) -> Result<Arc<dyn TicketStore>, TicketError> {
    let connection = if path == Path::new(":memory:") {
        schema::in_memory()?
    } else {
        schema::open(path, true)?
    };
    Ok(Arc::new(Sqlite::new(
        connection,
        clock,
        replay_window,
        None,
    )))
}

/// As [`open`], and never makes a file: for the command line, where a mistyped path must not become a store.
///
/// # Errors
/// The file is missing, cannot be opened, or is something else.
pub fn open_existing(
    path: &Path,
    clock: Arc<dyn Clock>,
    replay_window: Duration,
) -> Result<Arc<dyn TicketStore>, TicketError> {
    let connection = schema::open(path, false)?;
    Ok(Arc::new(Sqlite::new(
        connection,
        clock,
        replay_window,
        None,
    )))
}

/// As [`open`], for the one process that serves the store: what an earlier one was redeeming becomes `unknown`.
///
/// # Errors
/// As [`open`], and where another process serves the store already.
pub fn open_serving(
    path: &Path,
    clock: Arc<dyn Clock>,
    replay_window: Duration,
) -> Result<Arc<dyn TicketStore>, TicketError> {
    if path == Path::new(":memory:") {
        return open(path, clock, replay_window);
    }
    let lock = schema::serving_lock(path)?;
    let connection = schema::open(path, true)?;
    let store = Sqlite::new(connection, clock, replay_window, Some(lock));
    let lost = store.shared.recover()?;
    if lost > 0 {
        tracing::error!(
            tickets = lost,
            "calls were on their way when the process ended: their outcome is unknown"
        );
    }
    Ok(Arc::new(store))
}

/// The store.
struct Sqlite {
    shared: Arc<Shared>,
    replay_window: Duration,
}

/// What claims need of the store.
struct Shared {
    connection: Arc<tokio::sync::Mutex<Connection>>,
    clock: Arc<dyn Clock>,
    boot: String,
    /// Claims that were dropped: written before anything else is done.
    abandoned: Mutex<Vec<(Attempt, Outcome)>>,
    /// Held as long as the store is served, its last claim included.
    _serving: Option<File>,
}

impl Sqlite {
    fn new(
        connection: Connection,
        clock: Arc<dyn Clock>,
        replay_window: Duration,
        serving: Option<File>,
    ) -> Self {
        let shared = Shared {
            connection: Arc::new(tokio::sync::Mutex::new(connection)),
            clock,
            boot: Uuid::now_v7().simple().to_string(),
            abandoned: Mutex::default(),
            _serving: serving,
        };
        Self {
            shared: Arc::new(shared),
            replay_window,
        }
    }
}

impl Shared {
    /// Runs one transaction off the async threads. A future that is dropped meanwhile does not undo it.
    async fn run<T, F>(self: &Arc<Self>, work: F) -> Result<T, TicketError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, At) -> rusqlite::Result<T> + Send + 'static,
    {
        self.run_then(work, |_, done| done).await
    }

    /// As [`Self::run`]; `then` gets the result as soon as it is on disk, even if nobody waits for it any more.
    async fn run_then<T, U, F>(
        self: &Arc<Self>,
        work: F,
        then: impl FnOnce(Arc<Self>, T) -> U + Send + 'static,
    ) -> Result<U, TicketError>
    where
        T: Send + 'static,
        U: Send + 'static,
        F: FnOnce(&Connection, At) -> rusqlite::Result<T> + Send + 'static,
    {
        let mut connection = Arc::clone(&self.connection).lock_owned().await;
        let shared = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let result = shared.transact(&mut connection, work);
            drop(connection);
            result.map(|done| then(shared, done))
        });
        done.await
            .map_err(|_| unavailable("its thread ended early"))?
    }

    fn transact<T>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&Connection, At) -> rusqlite::Result<T>,
    ) -> Result<T, TicketError> {
        let abandoned = self.abandoned().clone();
        let now = At::new(self.clock.now());
        let done = transaction(connection, |db| {
            for (attempt, outcome) in &abandoned {
                steps::finish(db, attempt, outcome)?;
            }
            steps::sweep(db, now)?;
            work(db, now)
        })?;
        self.abandoned()
            .retain(|(attempt, _)| !abandoned.iter().any(|(written, _)| written == attempt));
        Ok(done)
    }

    /// Before the store is shared: no other thread can hold the connection.
    fn recover(&self) -> Result<usize, TicketError> {
        let mut connection = self
            .connection
            .try_lock()
            .map_err(|_| unavailable("its connection is in use"))?;
        transaction(&mut connection, |db| steps::recover(db, &self.boot))
    }

    /// Notes how a claim ended that nobody finished, and writes it as soon as the store is free.
    fn abandon(self: &Arc<Self>, attempt: Attempt, outcome: Outcome) {
        self.abandoned().push((attempt, outcome));
        // Without a runtime the next transaction writes it, or the next start.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let shared = Arc::clone(self);
            runtime.spawn(async move {
                if let Err(error) = shared.run(|_, _| Ok(())).await {
                    tracing::error!(%error, "a lost claim is not written yet");
                }
            });
        }
    }

    fn abandoned(&self) -> std::sync::MutexGuard<'_, Vec<(Attempt, Outcome)>> {
        self.abandoned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<T, TicketError> {
    let run = || {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    };
    run().map_err(|error: rusqlite::Error| unavailable(&error.to_string()))
}

fn unavailable(cause: &str) -> TicketError {
    TicketError::Unavailable {
        cause: cause.to_owned(),
    }
}

impl TicketStore for Sqlite {
    fn present(&self, call: Presented) -> BoxFuture<'_, Result<Standing, TicketError>> {
        let window = self.replay_window;
        let boot = self.shared.boot.clone();
        Box::pin(async move {
            let found = self
                .shared
                .run_then(
                    move |db, now| steps::present(db, &call, now, window, &boot),
                    // Made here, so that a claim whose caller has gone is given back.
                    |shared, found| match found {
                        Found::Claimed(attempt, arguments) => {
                            Ok(SqliteClaim::new(shared, attempt, arguments))
                        }
                        Found::Said(standing) => Err(standing),
                    },
                )
                .await?;
            Ok(found.map_or_else(
                |standing| standing,
                |claim| Standing::Claimed(claim.hand_over()),
            ))
        })
    }

    fn answer(&self, answer: Answer) -> BoxFuture<'_, Result<Ticket, AnswerError>> {
        Box::pin(async move {
            self.shared
                .run(move |db, now| steps::answer(db, &answer, now))
                .await?
        })
    }

    fn get(&self, ticket: TicketId) -> BoxFuture<'_, Result<Option<Ticket>, TicketError>> {
        Box::pin(self.shared.run(move |db, _| steps::find(db, &ticket)))
    }

    fn list(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Ticket>, TicketError>> {
        Box::pin(self.shared.run(move |db, _| steps::list(db, filter)))
    }

    fn counts(&self) -> BoxFuture<'_, Result<BTreeMap<TicketState, u64>, TicketError>> {
        Box::pin(self.shared.run(|db, _| steps::counts(db)))
    }
}
