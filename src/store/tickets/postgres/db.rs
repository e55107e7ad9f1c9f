//! Connections, and transactions that are whole or not there.
//!
//! They live on a small runtime of their own, so that a transaction ends whatever becomes of its caller, and a claim whose caller
//! has gone is given back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, try_join};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row, Statement};

use super::audit;
use super::schema::{self, Opening};
use crate::clock::{Clock, Watermark};
use crate::names::TicketId;
use crate::store::sql::ServerTls;
use crate::store::sql::postgres::{Tls, configure, said};
use crate::store::tickets::audit::{Head, Note};
use crate::store::tickets::columns::Columns;
use crate::store::tickets::waiting::Waiting;
use crate::store::tickets::{TicketError, TicketLimits, rules};

/// Connections that one process keeps, and transactions that run at once.
const CONNECTIONS: usize = 8;

/// To connect, and to make or check the tables.
const OPENING: Duration = Duration::from_secs(10);

/// One statement, as the server counts it, its wait for another transaction included.
const STATEMENT: Duration = Duration::from_secs(8);

/// One transaction, waiting for its connection included.
const TRANSACTION: Duration = Duration::from_secs(9);

/// How often a transaction that met another one is tried.
const TRIES: u32 = 5;

/// Why a transaction did not happen.
#[derive(Debug)]
pub(in crate::store::tickets) enum Fault {
    /// The server, or the way to it.
    Server(tokio_postgres::Error),
    /// A column does not hold what the store writes there.
    Column(String),
    /// Anything else.
    Other(String),
}

/// What a step gives.
pub(in crate::store::tickets) type Pg<T> = Result<T, Fault>;

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl Fault {
    pub(super) fn missing() -> Self {
        Self::Other("a row that was just written is not there".to_owned())
    }

    fn cause(&self) -> String {
        match self {
            Self::Server(error) => said(error),
            Self::Column(column) => format!("the column {column} does not hold what belongs there"),
            Self::Other(cause) => cause.clone(),
        }
    }

    /// Whether another transaction was in the way.
    fn met(&self) -> bool {
        let Self::Server(error) = self else {
            return false;
        };
        matches!(
            error.code(),
            Some(
                &(SqlState::T_R_SERIALIZATION_FAILURE
                    | SqlState::T_R_DEADLOCK_DETECTED
                    | SqlState::UNIQUE_VIOLATION)
            )
        )
    }
}

impl From<Fault> for TicketError {
    fn from(fault: Fault) -> Self {
        Self::Unavailable {
            cause: fault.cause(),
        }
    }
}

impl Columns for Row {
    type Error = Fault;

    fn wrong(column: &str) -> Fault {
        Fault::Column(column.to_owned())
    }

    fn maybe_text(&self, column: &str) -> Pg<Option<String>> {
        Ok(self.try_get(column)?)
    }

    fn maybe_number(&self, column: &str) -> Pg<Option<i64>> {
        Ok(self.try_get(column)?)
    }

    fn maybe_bytes(&self, column: &str) -> Pg<Option<Vec<u8>>> {
        Ok(self.try_get(column)?)
    }

    fn flag(&self, column: &str) -> Pg<bool> {
        Ok(self.try_get(column)?)
    }
}

/// A connection and what is prepared on it.
pub(super) struct Connection {
    pub(super) client: Client,
    prepared: Mutex<HashMap<&'static str, Statement>>,
}

/// The database behind a store.
pub(super) struct Db {
    config: Config,
    tls: Tls,
    clock: Watermark,
    pub(super) limits: TicketLimits,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
    /// The last row of the audit that this process has seen committed.
    seen: Mutex<Head>,
    pub(super) waiting: Waiting,
    /// As which process the store is served; `None`: it is not, and nothing can be claimed.
    pub(super) boot: Mutex<Option<String>>,
    /// Taken when it ends.
    runtime: Option<Runtime>,
}

impl Drop for Db {
    fn drop(&mut self) {
        // Waits for nothing: it may be dropped inside of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What one step works on: a transaction.
pub(super) struct Tx {
    connection: Connection,
    pub(super) now: i64,
    pub(super) at: jiff::Timestamp,
    pub(super) limits: TicketLimits,
    pub(super) boot: Option<String>,
    notes: Mutex<Vec<Note>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Db {
    /// Connects once. `place` names the database in errors: its URL is a secret.
    pub(super) fn open(
        url: &str,
        tls: &ServerTls,
        place: &str,
        (clock, limits): (Arc<dyn Clock>, TicketLimits),
        make: bool,
    ) -> Result<Arc<Self>, TicketError> {
        let failed = |cause: String| TicketError::Open {
            path: place.to_owned(),
            cause,
        };
        let (config, tls) = configure(url, tls, OPENING).map_err(failed)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("holdpoint-tickets")
            .enable_all()
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let db = Arc::new(Self {
            config,
            tls,
            clock: Watermark::new(clock),
            limits,
            idle: Mutex::default(),
            permits: Semaphore::new(CONNECTIONS),
            seen: Mutex::default(),
            waiting: Waiting::default(),
            boot: Mutex::default(),
            runtime: Some(runtime),
        });
        let (opening, name) = (Arc::clone(&db), place.to_owned());
        let opened = db.wait(OPENING, async move {
            let mut connection = opening.connect().await.map_err(Opening::Database)?;
            schema::prepare(&mut connection.client, &name, make).await?;
            opening
                .settle(&connection)
                .await
                .map_err(Opening::Database)?;
            opening.give(connection);
            Ok(())
        });
        match opened {
            Some(Ok(())) => Ok(db),
            Some(Err(Opening::Ticket(error))) => Err(error),
            Some(Err(Opening::Database(fault))) => Err(failed(fault.cause())),
            None => Err(failed(format!("no answer within {OPENING:?}"))),
        }
    }

    /// Runs it on the store's own runtime while this thread waits; `None` where it takes longer.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        self.runtime.as_ref()?.spawn(async move {
            if let Ok(done) = tokio::time::timeout(limit, work).await {
                let _ = send.send(done);
            }
        });
        receive.recv().ok()
    }

    /// Runs on, whatever becomes of the caller.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(work);
        }
    }

    /// A new connection, as every transaction wants it. Every statement has its index; without statistics, that is on a young
    /// table, the server would keep plans that read all of it. None is worth compiling.
    pub(super) async fn connect(&self) -> Pg<Connection> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        // Ends with the client; the client tells why.
        tokio::spawn(async move { connection.await.is_ok() });
        let time = STATEMENT.as_millis();
        client
            .batch_execute(&format!(
                "SET statement_timeout = {time}; SET lock_timeout = {time}; \
                 SET idle_in_transaction_session_timeout = {time}; \
                 SET default_transaction_isolation = 'read committed'; SET standard_conforming_strings = on; \
                 SET enable_seqscan = off; SET jit = off"
            ))
            .await?;
        Ok(Connection {
            client,
            prepared: Mutex::default(),
        })
    }

    /// Makes a new connection fit for tickets: to a server that takes writes, keeps what it has confirmed, and has forgotten
    /// nothing that this process saw confirmed.
    async fn settle(&self, connection: &Connection) -> Pg<()> {
        let client = &connection.client;
        client.batch_execute("SET search_path = holdpoint").await?;
        let row = client
            .query_one(
                "SELECT pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')",
                &[],
            )
            .await?;
        if row.try_get::<_, bool>(0)? {
            return Err(Fault::Other(
                "the server is a standby, which takes no writes".to_owned(),
            ));
        }
        if matches!(row.try_get::<_, &str>(1)?, "off" | "local") {
            // Less would let a power cut, or a standby that takes over, turn a used ticket back into an approved one.
            client.batch_execute("SET synchronous_commit = on").await?;
        }
        if row.try_get::<_, &str>(2)? == "off" {
            tracing::warn!(
                "the ticket store's server runs with fsync off: a crash can forget used tickets"
            );
        }
        let seen = *lock(&self.seen);
        if seen.seq == 0 {
            return Ok(());
        }
        let found = client
            .query_opt(
                "SELECT hash FROM audit WHERE seq = $1",
                &[&seen.seq.cast_signed()],
            )
            .await?;
        let hash: Option<String> = found.map(|row| row.try_get(0)).transpose()?;
        if hash.as_deref() == Some(seen.hash.to_string().as_str()) {
            return Ok(());
        }
        Err(Fault::Other(
            "the server has forgotten what it had confirmed, as a standby does that took over too early; nothing is \
             redeemed until it has caught up or this process is started anew"
                .to_owned(),
        ))
    }

    async fn take(&self) -> Pg<Connection> {
        loop {
            let idle = lock(&self.idle).pop();
            match idle {
                Some(connection) if connection.client.is_closed() => {}
                Some(connection) => return Ok(connection),
                None => break,
            }
        }
        let connection = self.connect().await?;
        self.settle(&connection).await?;
        Ok(connection)
    }

    fn give(&self, connection: Connection) {
        let mut idle = lock(&self.idle);
        if idle.len() < CONNECTIONS && !connection.client.is_closed() {
            idle.push(connection);
        }
    }

    /// Runs `work` in one transaction. It runs to its end even if nobody waits for it any more, and may run again where another
    /// transaction was in its way.
    pub(super) async fn step<T, W>(self: &Arc<Self>, work: W) -> Result<T, TicketError>
    where
        T: Send + 'static,
        W: for<'t> Fn(&'t Tx) -> BoxFuture<'t, Pg<T>> + Send + Sync + 'static,
    {
        let Some(runtime) = &self.runtime else {
            return Err(Fault::Other("the store is closed".to_owned()).into());
        };
        let db = Arc::clone(self);
        let task = runtime.spawn(async move {
            let done = tokio::time::timeout(TRANSACTION, db.tried(&work)).await;
            drop(work);
            done.unwrap_or_else(|_| Err(Fault::Other(format!("no answer within {TRANSACTION:?}"))))
        });
        let done = task.await;
        let done = done.unwrap_or_else(|_| Err(Fault::Other("its task ended early".to_owned())));
        Ok(done?)
    }

    async fn tried<T, W>(&self, work: &W) -> Pg<T>
    where
        W: for<'t> Fn(&'t Tx) -> BoxFuture<'t, Pg<T>>,
    {
        let mut tries = 1;
        loop {
            match self.once(work).await {
                Err(fault) if fault.met() && tries < TRIES => tries += 1,
                done => return done,
            }
        }
    }

    async fn once<T, W>(&self, work: &W) -> Pg<T>
    where
        W: for<'t> Fn(&'t Tx) -> BoxFuture<'t, Pg<T>>,
    {
        let _permit = self.permits.acquire().await;
        let connection = self.take().await?;
        let at = self.clock.now();
        let now = at.as_microsecond();
        let tx = Tx {
            connection,
            now,
            at: jiff::Timestamp::from_microsecond(now).unwrap_or(at),
            limits: self.limits.clone(),
            boot: lock(&self.boot).clone(),
            notes: Mutex::default(),
        };
        let done = async {
            // Sent together, in this order.
            try_join(tx.begin(), super::calls::sweep(&tx)).await?;
            let done = work(&tx).await?;
            let notes = std::mem::take(&mut *lock(&tx.notes));
            let changed: Vec<TicketId> = notes.iter().filter_map(|n| n.ticket.clone()).collect();
            // Last of all: who writes the audit holds up everybody else who does.
            let head = audit::append_and_commit(&tx, notes).await?;
            Ok((done, head, changed))
        };
        match done.await {
            Ok((done, head, changed)) => {
                if let Some(head) = head {
                    let mut seen = lock(&self.seen);
                    if head.seq > seen.seq {
                        *seen = head;
                    }
                }
                self.give(tx.connection);
                self.waiting.wake(&changed);
                Ok(done)
            }
            Err(fault) => {
                if tx.connection.client.batch_execute("ROLLBACK").await.is_ok() {
                    self.give(tx.connection);
                }
                Err(fault)
            }
        }
    }
}

impl Tx {
    async fn begin(&self) -> Pg<()> {
        Ok(self.connection.client.batch_execute("BEGIN").await?)
    }

    /// Makes durable what was done.
    pub(super) async fn commit(&self) -> Pg<()> {
        Ok(self.connection.client.batch_execute("COMMIT").await?)
    }

    /// The statement, prepared once on each connection.
    pub(super) async fn prepared(&self, sql: &'static str) -> Pg<Statement> {
        let known = lock(&self.connection.prepared).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.connection.client.prepare(sql).await?;
        lock(&self.connection.prepared).insert(sql, statement.clone());
        Ok(statement)
    }

    pub(super) async fn rows(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Pg<Vec<Row>> {
        let statement = self.prepared(sql).await?;
        Ok(self.connection.client.query(&statement, params).await?)
    }

    pub(super) async fn row(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Pg<Option<Row>> {
        let statement = self.prepared(sql).await?;
        Ok(self.connection.client.query_opt(&statement, params).await?)
    }

    pub(super) async fn execute(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Pg<u64> {
        let statement = self.prepared(sql).await?;
        Ok(self.connection.client.execute(&statement, params).await?)
    }

    /// Others that lock the same name wait until this transaction ends.
    pub(super) async fn exclusively(&self, name: &str) -> Pg<()> {
        self.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
            &[&name],
        )
        .await?;
        Ok(())
    }

    /// Writes an audit row with this transaction.
    pub(super) fn note(&self, note: Note) {
        lock(&self.notes).push(note);
    }

    /// A moment so much later, as the store keeps it.
    pub(super) fn later(&self, by: Duration) -> i64 {
        rules::plus(self.at, by).as_microsecond()
    }

    /// A moment so much earlier, as the store keeps it.
    pub(super) fn earlier(&self, by: Duration) -> i64 {
        rules::minus(self.at, by).as_microsecond()
    }
}
