//! The judge's connection to a file.

use std::path::Path;

use futures_util::future::{BoxFuture, ready};
use rusqlite::Connection;
use serde_json::Value;

use super::{Change, Connect, Reads, identifier};
use crate::eval::snapshot::Snapshot;
use crate::eval::sql::{Allowed, Bindings, Dialect, STATEMENTS, Sql, Steps, plain, to_json};
use crate::source::Problem;
use crate::store::sql::SqlError;
use crate::store::sql::sqlite::prove_read_only;

/// A file, proved.
pub(super) struct File {
    connection: Connection,
    steps: Steps,
}

impl File {
    pub(super) fn open(connect: &Connect, path: &Path) -> Result<Self, SqlError> {
        let mut connection = connect(path)?;
        let shown = path.display().to_string();
        prove_read_only(&connection, &shown)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let steps = Steps::bound(&mut connection).map_err(|error| SqlError::Open {
            database: shown,
            cause: plain(&error),
        })?;
        Ok(Self { connection, steps })
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> BoxFuture<'static, Result<T, SqlError>> {
        self.steps.renew();
        let done = read(&self.connection).map_err(|error| SqlError::Run {
            cause: plain(&error),
        });
        Box::pin(ready(done))
    }
}

impl Reads for File {
    fn snapshot<'a>(
        &'a mut self,
        changes: &'a [&'a Change],
        bound: &'a Bindings,
        known: Option<&'a Snapshot>,
    ) -> BoxFuture<'a, Result<Snapshot, SqlError>> {
        self.read(|connection| Snapshot::read(connection, (changes, bound), known))
    }

    fn rows<'a>(
        &'a mut self,
        sql: &'a Sql,
        bound: &'a Bindings,
    ) -> BoxFuture<'a, Result<Vec<Vec<Value>>, SqlError>> {
        self.read(|connection| rows(connection, &sql.text, bound))
    }

    fn check<'a>(
        &'a mut self,
        sql: &'a Sql,
        names: &'a [&'a str],
    ) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(ready(sql.check(&self.connection, Allowed::Read, names)))
    }

    fn columns<'a>(&'a mut self, table: &'a str) -> BoxFuture<'a, Result<Vec<String>, String>> {
        let all = format!("SELECT * FROM {}", identifier(table, Dialect::Sqlite));
        let columns = self.connection.prepare(&all).map(|statement| {
            let names = statement.column_names();
            names.map(str::to_owned).collect()
        });
        Box::pin(ready(columns.map_err(|error| plain(&error))))
    }

    fn is_gone(&self) -> bool {
        false
    }
}

fn rows(connection: &Connection, sql: &str, bound: &Bindings) -> rusqlite::Result<Vec<Vec<Value>>> {
    let mut statement = connection.prepare_cached(sql)?;
    let width = statement.column_count();
    let mut rows = bound.query(&mut statement)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..width).map(|column| row.get_ref(column).map(to_json));
        found.push(values.collect::<rusqlite::Result<Vec<_>>>()?);
    }
    Ok(found)
}
