//! The judge's connection to a database of MySQL or MariaDB.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Row};
use serde_json::Value;

use super::super::server::Server;
use super::calls::{Failed, as_values, check, limited, rows, translated, values};
use super::{configure, fault, told};
use crate::eval::judge::{Change, Reads, identifier};
use crate::eval::snapshot::{Snapshot, Table};
use crate::eval::sql::{Allowed, Bindings, Dialect, STATEMENTS, Sql, is_true};
use crate::source::Problem;
use crate::store::sql::SqlError;
use crate::store::sql::mysql::proof::prove_read_only;

const TABLES: &str = "
SELECT table_name FROM information_schema.tables
WHERE table_schema = database() AND table_type = 'BASE TABLE' ORDER BY table_name";

/// Tables, columns and views themselves. Triggers and routines are not shown to an account that may only read.
const DEFINITIONS: &str = "
(SELECT 'table' AS type, table_name AS name, table_type AS said
 FROM information_schema.tables WHERE table_schema = database()
UNION ALL
SELECT 'column', concat(table_name, '.', column_name),
  concat_ws(' ', column_type, is_nullable, column_default, column_key, extra)
FROM information_schema.columns WHERE table_schema = database()
UNION ALL
SELECT 'view', table_name, view_definition FROM information_schema.views WHERE table_schema = database()
ORDER BY 1, 2, 3) AS holdpoint_all";

/// What they are called in a snapshot.
const CATALOG: &str = "information_schema";

/// A database, proved.
pub(super) struct Reader {
    conn: Conn,
    gone: bool,
}

impl Reader {
    pub(super) async fn open(url: &str, server: &Server) -> Result<Self, SqlError> {
        let failed = |cause: String| SqlError::Open {
            database: server.name().to_owned(),
            cause,
        };
        let opts = configure(url, server.tls()).map_err(failed)?;
        let opts = OptsBuilder::from_opts(opts).stmt_cache_size(STATEMENTS);
        let conn = Conn::new(opts).await;
        let mut conn = conn.map_err(|error| failed(told(&error)))?;
        limited(&mut conn).await;
        prove_read_only(&mut conn, server.name()).await?;
        Ok(Self { conn, gone: false })
    }

    async fn all(&mut self, changes: &[&Change], bound: &Bindings) -> Result<Snapshot, Failed> {
        let names: Vec<String> = self.conn.query(TABLES).await?;
        let mut tables = BTreeMap::new();
        for name in names {
            let about: Vec<_> = changes
                .iter()
                .filter(|change| change.table == name)
                .copied()
                .collect();
            let from = identifier(&name, Dialect::Mysql);
            let table = self.table(&from, &about, bound).await?;
            tables.insert(name, table);
        }
        let catalog = self.table(DEFINITIONS, &[], bound).await?;
        tables.insert(CATALOG.to_owned(), catalog);
        Ok(Snapshot { tables })
    }

    async fn table(
        &mut self,
        from: &str,
        changes: &[&Change],
        bound: &Bindings,
    ) -> Result<Table, Failed> {
        let mut select = "SELECT *".to_owned();
        for change in changes {
            select += ", ";
            select += &change.condition();
        }
        select.extend([" FROM ", from]);
        let read = translated(&select, Allowed::Read).map_err(|error| Failed::own(&error))?;
        let found: Vec<Row> = self
            .conn
            .exec(read.sql.as_str(), values(&read, bound))
            .await?;
        let columns: Vec<String> = found.first().map_or_else(Vec::new, |row| {
            let width = row.len().saturating_sub(changes.len());
            row.columns_ref()
                .iter()
                .take(width)
                .map(|column| column.name_str().into_owned())
                .collect()
        });
        let width = columns.len();
        let rows = found.into_iter().map(|row| {
            let mut values = as_values(row);
            let about = values.split_off(width.min(values.len()));
            (values, about.iter().map(is_true).collect())
        });
        Ok(Table::assembled(columns.clone(), changes, rows))
    }

    /// Ends the transaction, whatever came of it.
    async fn ended<T>(&mut self, done: Result<T, Failed>) -> Result<T, SqlError> {
        let ended = self.conn.query_drop("ROLLBACK").await;
        let done = done.and_then(|done| ended.map(|()| done).map_err(Failed::Server));
        done.map_err(|failed| self.failed(failed))
    }

    async fn begun(&mut self) -> Result<(), SqlError> {
        let begun = self.conn.query_drop("START TRANSACTION READ ONLY").await;
        begun.map_err(|error| self.failed(Failed::Server(error)))
    }

    fn failed(&mut self, failed: Failed) -> SqlError {
        let cause = match failed {
            Failed::Server(error) => {
                let fault = fault(&error);
                self.gone |= fault.gone;
                fault.cause
            }
            Failed::Own(cause) => cause,
        };
        SqlError::Run { cause }
    }
}

impl Reads for Reader {
    fn snapshot<'a>(
        &'a mut self,
        changes: &'a [&'a Change],
        bound: &'a Bindings,
        _known: Option<&'a Snapshot>,
    ) -> BoxFuture<'a, Result<Snapshot, SqlError>> {
        Box::pin(async move {
            self.begun().await?;
            let seen = self.all(changes, bound).await;
            self.ended(seen).await
        })
    }

    fn rows<'a>(
        &'a mut self,
        sql: &'a Sql,
        bound: &'a Bindings,
    ) -> BoxFuture<'a, Result<Vec<Vec<Value>>, SqlError>> {
        Box::pin(async move {
            self.begun().await?;
            let found = rows(&mut self.conn, sql, bound).await;
            self.ended(found).await
        })
    }

    fn check<'a>(
        &'a mut self,
        sql: &'a Sql,
        names: &'a [&'a str],
    ) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(check(&mut self.conn, sql, Allowed::Read, names))
    }

    fn columns<'a>(&'a mut self, table: &'a str) -> BoxFuture<'a, Result<Vec<String>, String>> {
        Box::pin(async move {
            let all = format!("SELECT * FROM {}", identifier(table, Dialect::Mysql));
            let prepared = self.conn.prep(all).await;
            let prepared = prepared.map_err(|error| told(&error))?;
            let columns = prepared.columns();
            let names = columns.iter().map(|column| column.name_str().into_owned());
            Ok(names.collect())
        })
    }

    fn is_gone(&self) -> bool {
        self.gone
    }
}
