//! Words to rows and back.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql};
use serde::Serialize;

use crate::store::tickets::columns::Columns;
use crate::store::tickets::{TicketState, rules};

/// A moment as the store keeps it: microseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At(pub(super) Timestamp);

impl At {
    /// Cut to what the store keeps, so that a moment reads back as it was written.
    pub(super) fn new(at: Timestamp) -> Self {
        Self(Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at))
    }

    /// So much later; the end of time where there is no such moment.
    pub(super) fn plus(self, by: Duration) -> Self {
        Self::new(rules::plus(self.0, by))
    }

    /// So much earlier.
    pub(super) fn minus(self, by: Duration) -> Self {
        Self::new(rules::minus(self.0, by))
    }
}

impl ToSql for At {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_microsecond().into())
    }
}

impl FromSql for At {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let micros = i64::column_result(value)?;
        let at =
            Timestamp::from_microsecond(micros).map_err(|_| FromSqlError::OutOfRange(micros))?;
        Ok(Self(at))
    }
}

impl ToSql for TicketState {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl FromSql for TicketState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Self::from_name(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}

/// A column that holds JSON.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        serde_json::to_string(&self.0)
            .map(Into::into)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
    }
}

impl Columns for Row<'_> {
    type Error = rusqlite::Error;

    fn wrong(column: &str) -> rusqlite::Error {
        rusqlite::Error::InvalidColumnName(column.to_owned())
    }

    fn maybe_text(&self, column: &str) -> rusqlite::Result<Option<String>> {
        self.get(column)
    }

    fn maybe_number(&self, column: &str) -> rusqlite::Result<Option<i64>> {
        self.get(column)
    }

    fn maybe_bytes(&self, column: &str) -> rusqlite::Result<Option<Vec<u8>>> {
        self.get(column)
    }

    fn flag(&self, column: &str) -> rusqlite::Result<bool> {
        self.get(column)
    }
}
