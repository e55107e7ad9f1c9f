//! Read-only SQL: the look-ups of layers and the judge of eval. One SELECT, bound parameters, proved unable to write.

mod attempts;
pub mod mysql;
pub mod postgres;
mod proof;
mod remote;
pub mod sqlite;
pub(crate) mod tokens;

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// A value bound to a parameter or read from a column.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// NULL.
    Null,
    /// Integer.
    Integer(i64),
    /// Real.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// Why a read-only query gave no rows to trust.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// The database cannot be opened or is not what it should be.
    #[error("cannot open {database} read-only: {cause}")]
    Open {
        /// Its path.
        database: String,
        /// Why.
        cause: String,
    },
    /// A connection that must not write can.
    #[error(
        "the connection to {database} can write: {probe} succeeded; open it read-only with a role of its own"
    )]
    Writable {
        /// Its path.
        database: String,
        /// The statement that should have failed.
        probe: String,
    },
    /// The statement is not one SELECT, names an unknown column, or lacks a parameter.
    #[error("bad SQL: {cause}")]
    Statement {
        /// Why.
        cause: String,
    },
    /// The database failed while it ran, or was too slow.
    #[error("the query failed: {cause}")]
    Run {
        /// Why.
        cause: String,
    },
}

impl SqlError {
    /// A query that took longer than it may, whoever ended it: the client, or the server by its own limit.
    pub(crate) fn slow(limit: Duration) -> Self {
        Self::Run {
            cause: format!("no answer within {limit:?}"),
        }
    }
}

/// Rows of one query.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Rows {
    /// Column names.
    pub columns: Vec<String>,
    /// Values, row by row.
    pub rows: Vec<Vec<SqlValue>>,
}

/// What one query may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time to run, and in a file as long again to wait for a lock. The guard gives a layer five seconds.
    pub time: Duration,
    /// Rows; one more is an error, never a cut result.
    pub rows: usize,
    /// Bytes of text and blobs in all rows.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(2),
            rows: 10_000,
            bytes: 16 << 20,
        }
    }
}

/// How a connection to a database server is kept private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTls {
    /// Not at all: a socket of this machine, or a network that is private by other means.
    Off,
    /// TLS; the certificate must be of the URL's host and lead to an authority of the PEM file, or else to a public one.
    On(Option<PathBuf>),
}

/// What a statement asks for and gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Names of its parameters without colon, each once, in order of first use.
    pub parameters: Vec<String>,
    /// Names of its columns.
    pub columns: Vec<String>,
}

/// A database that can only be read.
pub trait ReadOnlySql: Send + Sync {
    /// Checks that `sql` is one read-only statement that the database can run, and describes it. Called at load; waits for a
    /// server within the limits.
    ///
    /// # Errors
    /// [`SqlError::Statement`] where it is not.
    fn check(&self, sql: &str) -> Result<Described, SqlError>;

    /// Runs one read-only statement with parameters bound by name (without colon). A value that the parameter's type cannot
    /// hold is equal to nothing: there are no rows.
    fn query<'a>(
        &'a self,
        sql: &'a str,
        params: Vec<(String, SqlValue)>,
    ) -> BoxFuture<'a, Result<Rows, SqlError>>;
}
