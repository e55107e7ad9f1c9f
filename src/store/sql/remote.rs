//! What databases behind a network have in common: connections that are proved, counted and timed.
//!
//! They live on a small runtime of their own, so that a store works from any thread: a policy is checked outside of any
//! runtime, and a check inside of one may wait without stopping what it waits for.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use super::tokens::{Dialect, Translated, translate};
use super::{Described, Limits, ReadOnlySql, Rows, SqlError, SqlValue};

/// Connections that one store keeps, and queries that run at once.
const CONNECTIONS: usize = 4;

/// Opening: connecting, and the proof.
const OPENING: Duration = Duration::from_secs(10);

/// A kind of server.
pub(super) trait Driver: Send + Sync + 'static {
    /// An open connection, proved unable to write.
    type Connection: Send + 'static;

    /// How it writes placeholders.
    const DIALECT: Dialect;

    /// Opens a connection and proves that nobody can write through it.
    fn connect(&self) -> BoxFuture<'_, Result<Self::Connection, SqlError>>;

    /// Runs it. The values stand in the order of the placeholders.
    fn run<'c>(
        &'c self,
        connection: &'c mut Self::Connection,
        statement: &'c Translated,
        values: &'c [SqlValue],
    ) -> BoxFuture<'c, Result<Rows, SqlError>>;

    /// Whether the server still answers on it, as far as is known.
    fn is_open(connection: &Self::Connection) -> bool;
}

/// A database behind a network.
pub(super) struct Remote<D: Driver> {
    shared: Arc<Shared<D>>,
    /// Taken when it ends.
    runtime: Option<Runtime>,
}

struct Shared<D: Driver> {
    driver: D,
    limits: Limits,
    idle: Mutex<Vec<D::Connection>>,
    permits: Semaphore,
}

impl<D: Driver> Drop for Remote<D> {
    fn drop(&mut self) {
        // Waits for nothing: it may be dropped inside of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl<D: Driver> Remote<D> {
    /// Connects once. `name` is the store's in errors.
    pub(super) fn open(driver: D, name: &str, limits: Limits) -> Result<Arc<Self>, SqlError> {
        let failed = |cause: String| SqlError::Open {
            database: name.to_owned(),
            cause,
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("holdpoint-sql")
            .enable_all()
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let remote = Arc::new(Self {
            shared: Arc::new(Shared {
                driver,
                limits,
                idle: Mutex::default(),
                permits: Semaphore::new(CONNECTIONS),
            }),
            runtime: Some(runtime),
        });
        let shared = Arc::clone(&remote.shared);
        let opened = remote.wait(OPENING, async move { shared.driver.connect().await });
        match opened {
            Some(connection) => remote.shared.give(connection?),
            None => return Err(failed(format!("no answer within {OPENING:?}"))),
        }
        Ok(remote)
    }

    /// Runs it on the store's own runtime while this thread waits; `None` where it takes longer.
    fn wait<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (send, receive) = mpsc::sync_channel(1);
        self.runtime.as_ref()?.spawn(async move {
            if let Ok(done) = tokio::time::timeout(limit, work).await {
                let _ = send.send(done);
            }
        });
        receive.recv().ok()
    }
}

impl<D: Driver> Shared<D> {
    fn take(&self) -> Option<D::Connection> {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
    }

    fn give(&self, connection: D::Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < CONNECTIONS {
            idle.push(connection);
        }
    }

    /// What the server has closed meanwhile is given up, and a new connection has the last word: a query changes nothing, so
    /// it can be asked again.
    async fn ask(&self, statement: &Translated, values: &[SqlValue]) -> Result<Rows, SqlError> {
        let _permit = self.permits.acquire().await;
        while let Some(mut connection) = self.take() {
            if !D::is_open(&connection) {
                continue;
            }
            let rows = self.driver.run(&mut connection, statement, values).await;
            if !D::is_open(&connection) {
                continue;
            }
            self.give_back(connection, &rows);
            return rows;
        }
        let mut connection = self.driver.connect().await?;
        let rows = self.driver.run(&mut connection, statement, values).await;
        self.give_back(connection, &rows);
        rows
    }

    /// A connection that failed while it ran is not used again.
    fn give_back(&self, connection: D::Connection, rows: &Result<Rows, SqlError>) {
        if !matches!(rows, Err(SqlError::Run { .. })) {
            self.give(connection);
        }
    }
}

fn values(
    statement: &Translated,
    params: &[(String, SqlValue)],
) -> Result<Vec<SqlValue>, SqlError> {
    let value = |name: &String| {
        let given = params.iter().find(|(given, _)| given == name);
        given
            .map(|(_, value)| value.clone())
            .ok_or_else(|| SqlError::Statement {
                cause: format!("the parameter :{name} has no value"),
            })
    };
    statement.placeholders.iter().map(value).collect()
}

impl<D: Driver> ReadOnlySql for Remote<D> {
    fn check(&self, sql: &str) -> Result<Described, SqlError> {
        let statement = translate(sql, D::DIALECT)?;
        let parameters = statement.names();
        // Whether the tables may be read is asked when it runs, so it runs once; nothing is equal to NULL.
        let nulls = vec![SqlValue::Null; statement.placeholders.len()];
        let shared = Arc::clone(&self.shared);
        let rows = self.wait(OPENING, async move { shared.ask(&statement, &nulls).await });
        Ok(Described {
            parameters,
            columns: rows.ok_or_else(|| SqlError::slow(OPENING))??.columns,
        })
    }

    fn query<'a>(
        &'a self,
        sql: &'a str,
        params: Vec<(String, SqlValue)>,
    ) -> BoxFuture<'a, Result<Rows, SqlError>> {
        Box::pin(async move {
            let statement = translate(sql, D::DIALECT)?;
            let values = values(&statement, &params)?;
            let shared = Arc::clone(&self.shared);
            let limit = shared.limits.time;
            let asked =
                async move { tokio::time::timeout(limit, shared.ask(&statement, &values)).await };
            let failed = |cause: String| SqlError::Run { cause };
            let Some(runtime) = &self.runtime else {
                return Err(failed("the store is closed".to_owned()));
            };
            // What nobody waits for any more ends with its handle.
            let task = tokio_util::task::AbortOnDropHandle::new(runtime.spawn(asked));
            match task.await {
                Ok(Ok(rows)) => rows,
                Ok(Err(_)) => Err(SqlError::slow(limit)),
                Err(error) => Err(failed(error.to_string())),
            }
        })
    }
}

/// Counts what a query gives against its limits.
pub(super) struct Meter {
    limits: Limits,
    bytes: usize,
}

impl Meter {
    pub(super) const fn new(limits: Limits) -> Self {
        Self { limits, bytes: 0 }
    }

    /// One more row, before it is kept.
    pub(super) fn row(&mut self, kept: &Rows, row: &[SqlValue]) -> Result<(), SqlError> {
        let over = |what: String| SqlError::Run {
            cause: format!("more than {what}"),
        };
        if kept.rows.len() >= self.limits.rows {
            return Err(over(format!("{} rows", self.limits.rows)));
        }
        let sizes = row.iter().map(|value| match value {
            SqlValue::Text(text) => text.len(),
            SqlValue::Blob(bytes) => bytes.len(),
            SqlValue::Null | SqlValue::Integer(_) | SqlValue::Real(_) => 0,
        });
        self.bytes = self.bytes.saturating_add(sizes.sum());
        if self.bytes > self.limits.bytes {
            return Err(over(format!("{} bytes", self.limits.bytes)));
        }
        Ok(())
    }
}
