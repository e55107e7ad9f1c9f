//! The judge's connection to a database of PostgreSQL.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_postgres::Config;

use super::super::server::{Server, WITHIN};
use super::calls::{Failed, Ready, Statements, as_row, check, refs};
use super::{COPIES, Link, configure, fault, told};
use crate::eval::judge::{Change, Reads, identifier};
use crate::eval::snapshot::{Snapshot, Table};
use crate::eval::sql::{Allowed, Bindings, Dialect, Sql};
use crate::source::Problem;
use crate::store::sql::SqlError;
use crate::store::sql::postgres::proof::prove_read_only;
use crate::store::sql::tokens::{self, translate};

/// Tables of the world, as the snapshot calls them.
const TABLES: &str = "
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%'
ORDER BY n.nspname, c.relname";

/// Tables, columns, constraints, indexes, triggers, views and functions themselves.
const DEFINITIONS: &str = "
WITH spaces AS (
  SELECT oid, nspname FROM pg_catalog.pg_namespace
  WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'holdpoint_image') AND nspname NOT LIKE 'pg\\_%'
), relations AS (
  SELECT c.oid, c.relkind, n.nspname || '.' || c.relname AS name
  FROM pg_catalog.pg_class c JOIN spaces n ON n.oid = c.relnamespace
)
SELECT 'relation' AS type, r.name AS name, r.relkind::text AS said FROM relations r
UNION ALL
SELECT 'column', r.name || '.' || a.attname,
  concat_ws(' ', pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull::text, pg_catalog.pg_get_expr(d.adbin, d.adrelid))
FROM relations r JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
UNION ALL
SELECT 'constraint', r.name || '.' || k.conname, pg_catalog.pg_get_constraintdef(k.oid)
FROM relations r JOIN pg_catalog.pg_constraint k ON k.conrelid = r.oid
UNION ALL
SELECT 'view', r.name, pg_catalog.pg_get_viewdef(r.oid) FROM relations r WHERE r.relkind IN ('v', 'm')
UNION ALL
SELECT 'trigger', r.name || '.' || t.tgname, pg_catalog.pg_get_triggerdef(t.oid)
FROM relations r JOIN pg_catalog.pg_trigger t ON t.tgrelid = r.oid AND NOT t.tgisinternal
UNION ALL
SELECT 'function', n.nspname || '.' || p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid) || ' ' || p.prosrc
FROM pg_catalog.pg_proc p JOIN spaces n ON n.oid = p.pronamespace
ORDER BY 1, 2, 3";

/// What they are called in a snapshot.
const CATALOG: &str = "pg_catalog";

/// A database, proved.
pub(super) struct Reader {
    link: Link,
    prepared: Statements,
}

impl Reader {
    pub(super) async fn open(url: &str, server: &Server) -> Result<Self, SqlError> {
        let failed = |cause: String| SqlError::Open {
            database: server.name().to_owned(),
            cause,
        };
        let (config, _): (Config, _) = configure(url, server.tls(), WITHIN).map_err(failed)?;
        let link = Link::open(&config, server).await;
        let link = link.map_err(|fault| failed(fault.cause))?;
        let time = WITHIN.as_millis();
        let set = link
            .run(&format!(
                "SET statement_timeout = {time}; SET standard_conforming_strings = on; \
                 SET default_transaction_read_only = on"
            ))
            .await;
        set.map_err(|fault| failed(fault.cause))?;
        prove_read_only(&link.client, server.name()).await?;
        Ok(Self {
            link,
            prepared: Statements::default(),
        })
    }

    async fn all(&mut self, changes: &[&Change], bound: &Bindings) -> Result<Snapshot, Failed> {
        let names = self.link.client.query(TABLES, &[]).await?;
        let mut tables = BTreeMap::new();
        for row in names {
            let (space, name): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
            if space == COPIES {
                continue;
            }
            let plain = if space == "public" {
                name.to_owned()
            } else {
                format!("{space}.{name}")
            };
            let about: Vec<_> = changes
                .iter()
                .filter(|change| change.table == plain)
                .copied()
                .collect();
            let from = [space, name]
                .map(|part| identifier(part, Dialect::Postgres))
                .join(".");
            let table = self.table(&from, &about, bound).await?;
            tables.insert(plain, table);
        }
        let definitions = format!("({DEFINITIONS})");
        let catalog = self.table(&definitions, &[], bound).await?;
        tables.insert(CATALOG.to_owned(), catalog);
        Ok(Snapshot { tables })
    }

    async fn table(
        &mut self,
        from: &str,
        changes: &[&Change],
        bound: &Bindings,
    ) -> Result<Table, Failed> {
        let mut select = "SELECT pg_catalog.row_to_json(holdpoint_row)::text".to_owned();
        for change in changes {
            select += ", ";
            select += &change.condition();
        }
        select.extend([
            " FROM (SELECT * FROM ",
            from,
            " AS holdpoint_all) AS holdpoint_row",
        ]);
        let ready = self.select(&select).await?;
        let values = ready.values(bound);
        let found = self
            .link
            .client
            .query(&ready.statement, &refs(&values))
            .await?;
        let mut columns = Vec::new();
        let mut rows = Vec::with_capacity(found.len());
        for row in &found {
            let json: &str = row.try_get(0)?;
            if columns.is_empty() {
                columns = names(json);
            }
            let about = (0..changes.len()).map(|at| row.try_get::<_, bool>(at + 1));
            let about = about.collect::<Result<Vec<_>, _>>()?;
            rows.push((as_row(json)?, about));
        }
        Ok(Table::assembled(columns, changes, rows))
    }

    async fn select(&mut self, sql: &str) -> Result<Ready, Failed> {
        let read = translate(sql, tokens::Dialect::Postgres);
        let read = read.map_err(|error| Failed::Own(error.to_string()))?;
        self.prepared.ready(&self.link.client, read).await
    }

    async fn every_row(&mut self, sql: &Sql, bound: &Bindings) -> Result<Vec<Vec<Value>>, Failed> {
        let client = &self.link.client;
        let ready = self.prepared.of(client, sql, Allowed::Read).await?;
        let values = ready.values(bound);
        let rows = client.query(&ready.statement, &refs(&values)).await?;
        rows.iter().map(|row| as_row(row.try_get(0)?)).collect()
    }

    /// Ends the transaction, whatever came of it.
    async fn ended<T>(&mut self, done: Result<T, Failed>) -> Result<T, SqlError> {
        let ended = self.link.client.batch_execute("ROLLBACK").await;
        let done = done.map_err(SqlError::from)?;
        ended.map_err(|error| SqlError::from(Failed::Server(error)))?;
        Ok(done)
    }
}

impl From<Failed> for SqlError {
    fn from(failed: Failed) -> Self {
        let cause = match failed {
            Failed::Server(error) => fault(&error).cause,
            Failed::Own(cause) => cause,
        };
        Self::Run { cause }
    }
}

fn names(json: &str) -> Vec<String> {
    match serde_json::from_str(json) {
        Ok(Value::Object(fields)) => fields.into_iter().map(|(name, _)| name).collect(),
        _ => Vec::new(),
    }
}

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

impl Reads for Reader {
    fn snapshot<'a>(
        &'a mut self,
        changes: &'a [&'a Change],
        bound: &'a Bindings,
        _known: Option<&'a Snapshot>,
    ) -> BoxFuture<'a, Result<Snapshot, SqlError>> {
        Box::pin(async move {
            let begun = self.link.client.batch_execute(BEGIN).await;
            begun.map_err(|error| SqlError::from(Failed::Server(error)))?;
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
            let begun = self.link.client.batch_execute(BEGIN).await;
            begun.map_err(|error| SqlError::from(Failed::Server(error)))?;
            let rows = self.every_row(sql, bound).await;
            self.ended(rows).await
        })
    }

    fn check<'a>(
        &'a mut self,
        sql: &'a Sql,
        names: &'a [&'a str],
    ) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(check(&self.link.client, sql, Allowed::Read, names))
    }

    fn columns<'a>(&'a mut self, table: &'a str) -> BoxFuture<'a, Result<Vec<String>, String>> {
        Box::pin(async move {
            let from: Vec<_> = table
                .splitn(2, '.')
                .map(|part| identifier(part, Dialect::Postgres))
                .collect();
            let all = format!("SELECT * FROM {}", from.join("."));
            let prepared = self.link.client.prepare(&all).await;
            let prepared = prepared.map_err(|error| told(&error))?;
            let columns = prepared.columns().iter();
            Ok(columns.map(|column| column.name().to_owned()).collect())
        })
    }

    fn is_gone(&self) -> bool {
        self.link.client.is_closed()
    }
}
