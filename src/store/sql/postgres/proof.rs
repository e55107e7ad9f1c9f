//! The proof that a role of PostgreSQL cannot write: ask the server what it may, and try.
//!
//! That the session's default is read-only proves nothing, since the session can undo it; so the attempts run in a transaction
//! that says READ WRITE, which is rolled back. Asking covers every table, sequence and schema and every role that it could
//! become; trying shows that the answer is true of this connection.

use futures_util::future::BoxFuture;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::said;
use crate::store::sql::SqlError;
use crate::store::sql::attempts::{Outcome, Proof, Tries, on_rows};

/// What the role, or one that it may become, can write; the first few, in words.
const MAY: &str = "
WITH me AS (
  SELECT oid, rolname, rolsuper, rolcreaterole, rolcreatedb, rolreplication FROM pg_catalog.pg_roles
  WHERE pg_catalog.pg_has_role(current_user, oid, 'MEMBER') OR pg_catalog.pg_has_role(session_user, oid, 'MEMBER')
), outside AS (
  SELECT oid, nspname FROM pg_catalog.pg_namespace
  WHERE nspname NOT IN ('pg_catalog', 'information_schema') AND nspname NOT LIKE 'pg\\_toast%' AND nspname NOT LIKE 'pg\\_temp%'
)
SELECT what FROM (
  SELECT 'the role ' || quote_ident(rolname) || ' is a superuser' FROM me WHERE rolsuper
  UNION ALL
  SELECT 'the role ' || quote_ident(rolname) || ' may make roles or databases, or replicate' FROM me
  WHERE rolcreaterole OR rolcreatedb OR rolreplication
  UNION ALL
  SELECT 'the role is a member of ' || quote_ident(rolname) FROM me
  WHERE rolname IN ('pg_write_all_data', 'pg_write_server_files', 'pg_execute_server_program', 'pg_maintain',
                    'pg_create_subscription', 'pg_database_owner', 'pg_checkpoint', 'pg_signal_backend')
  UNION ALL
  SELECT 'the role may make schemas in the database' FROM me
  WHERE pg_catalog.has_database_privilege(me.oid, pg_catalog.current_database(), 'CREATE')
  UNION ALL
  SELECT 'the role may make tables in the schema ' || quote_ident(nspname) FROM me, outside
  WHERE pg_catalog.has_schema_privilege(me.oid, outside.oid, 'CREATE')
  UNION ALL
  SELECT 'the role may write to ' || c.oid::pg_catalog.regclass::text FROM me, outside
  JOIN pg_catalog.pg_class c ON c.relnamespace = outside.oid
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND (pg_catalog.has_table_privilege(me.oid, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
         OR pg_catalog.has_any_column_privilege(me.oid, c.oid, 'INSERT, UPDATE'))
  UNION ALL
  SELECT 'the role may advance the sequence ' || c.oid::pg_catalog.regclass::text FROM me, outside
  JOIN pg_catalog.pg_class c ON c.relnamespace = outside.oid
  WHERE c.relkind = 'S' AND pg_catalog.has_sequence_privilege(me.oid, c.oid, 'USAGE, UPDATE')
) AS found (what) LIMIT 1";

/// Tables that the role may read, with their first column, quoted.
const TABLES: &str = "
SELECT c.oid::pg_catalog.regclass::text, quote_ident(a.attname)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  AND a.attgenerated = '' AND a.attidentity = ''
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
ORDER BY c.oid, a.attnum LIMIT 8";

/// Schemas in which a table could be made.
const SCHEMAS: &str = "
SELECT quote_ident(nspname) FROM pg_catalog.pg_namespace
WHERE nspname NOT IN ('pg_catalog', 'information_schema') AND nspname NOT LIKE 'pg\\_%'
  AND pg_catalog.has_schema_privilege(oid, 'USAGE')
ORDER BY oid LIMIT 8";

/// Asks, then tries; nothing is left behind, whatever comes of it. `database` is its name in errors.
pub(crate) async fn prove_read_only(client: &Client, database: &str) -> Result<(), SqlError> {
    let proof = Proof {
        database,
        who: "role",
    };
    let unproved = |cause: String| proof.unproved(cause);
    let may = texts(client, MAY).await.map_err(unproved)?;
    if let Some(what) = may.into_iter().next() {
        return Err(proof.writable(what.join(" ")));
    }
    let mut attempts = Vec::new();
    for row in texts(client, SCHEMAS).await.map_err(unproved)? {
        let [schema] = row.as_slice() else { continue };
        attempts.push(format!(
            "CREATE TABLE {schema}.holdpoint_write_probe (x int)"
        ));
    }
    for row in texts(client, TABLES).await.map_err(unproved)? {
        let [table, column] = row.as_slice() else {
            continue;
        };
        attempts.extend(on_rows(table, column));
    }
    proof.by(&mut Session(client), attempts).await
}

struct Session<'c>(&'c Client);

impl Tries for Session<'_> {
    fn tried<'a>(&'a mut self, statement: &'a str) -> BoxFuture<'a, Result<Outcome, String>> {
        Box::pin(tried(self.0, statement))
    }
}

async fn tried(client: &Client, statement: &str) -> Result<Outcome, String> {
    let failed = |error: tokio_postgres::Error| said(&error);
    let begin = client.batch_execute("BEGIN READ WRITE").await;
    let outcome = match begin {
        Ok(()) => client.batch_execute(statement).await,
        // A standby that is recovering refuses every transaction that may write.
        Err(error) => Err(error),
    };
    client.batch_execute("ROLLBACK").await.map_err(failed)?;
    match outcome {
        Ok(()) => Ok(Outcome::Wrote),
        Err(error) => match error.code().map(tokio_postgres::error::SqlState::code) {
            // insufficient_privilege; read_only_sql_transaction, and "cannot set .. during recovery" of a standby.
            Some("42501" | "25006" | "0A000") => Ok(Outcome::Refused),
            Some(_) => Ok(Outcome::Unclear),
            None => Err(said(&error)),
        },
    }
}

async fn texts(client: &Client, sql: &str) -> Result<Vec<Vec<String>>, String> {
    let messages = client
        .simple_query(sql)
        .await
        .map_err(|error| said(&error))?;
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(rows
        .map(|row| {
            (0..row.len())
                .filter_map(|index| row.get(index).map(str::to_owned))
                .collect()
        })
        .collect())
}
