//! Read-only SQL: the look-ups of layers and the judge of eval. One SELECT, bound parameters, proved unable to write.

mod proof;
pub mod sqlite;

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

/// Rows of one query.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Rows {
    /// Column names.
    pub columns: Vec<String>,
    /// Values, row by row.
    pub rows: Vec<Vec<SqlValue>>,
}

/// A database that can only be read.
pub trait ReadOnlySql: Send + Sync {
    /// Checks that `sql` is one read-only statement and returns its parameter names without colon. Called at load.
    ///
    /// # Errors
    /// [`SqlError::Statement`] where it is not.
    fn check(&self, sql: &str) -> Result<Vec<String>, SqlError>;

    /// Runs one read-only statement with parameters bound by name (without colon).
    fn query<'a>(
        &'a self,
        sql: &'a str,
        params: Vec<(String, SqlValue)>,
    ) -> BoxFuture<'a, Result<Rows, SqlError>>;
}
