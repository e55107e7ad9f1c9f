//! The proof that a connection cannot write: try to, and demand the right refusal.
//!
//! A statement that fails proves nothing by itself (a locked database refuses too), so only `SQLITE_READONLY` and
//! `SQLITE_AUTH` count. Every probe runs inside a transaction that is rolled back, and rows are never touched, so that a
//! connection that can write is found out without a change to the file.

use rusqlite::{Connection, ErrorCode};

use super::SqlError;

/// How many tables are tried before the proof gives up on one kind of statement.
const TABLES: i64 = 64;

/// What a probe came to.
enum Outcome {
    /// Refused for the right reason.
    Refused,
    /// It ran, or got as far as a constraint.
    Wrote,
    /// It failed for another reason, which proves nothing.
    Unclear(String),
}

/// Tries to write through `connection` in every way that SQL offers: create, insert, update, delete, set a pragma, attach.
/// Nothing is left behind, whatever comes of it. `database` is its name in errors.
///
/// # Errors
/// [`SqlError::Writable`] where a probe was not refused; [`SqlError::Open`] where a refusal had another cause than being
/// read-only (a lock, say), or a transaction is already open, so that nothing is proved.
pub fn prove_read_only(connection: &Connection, database: &str) -> Result<(), SqlError> {
    if !connection.is_autocommit() {
        return Err(unproved(database, "a transaction is open on it"));
    }
    let tables = tables(connection).map_err(|error| unproved(database, error))?;
    let create = "CREATE TABLE holdpoint_write_probe (x)";
    demand(connection, database, create)?;
    demand(connection, database, "PRAGMA user_version = 1")?;
    for (kind, statement) in DML {
        demand_any(connection, database, kind, &tables, statement)?;
    }
    attach(connection, database)
}

/// Statements that begin to write and touch no row, from a table and its first column.
type Dml = (&'static str, fn(&str, &str) -> String);
const DML: [Dml; 3] = [
    ("INSERT", |table, _| {
        format!("INSERT INTO {table} SELECT * FROM {table} WHERE 0")
    }),
    ("UPDATE", |table, column| {
        format!("UPDATE {table} SET {column} = {column} WHERE 0")
    }),
    ("DELETE", |table, _| format!("DELETE FROM {table} WHERE 0")),
];

fn unproved(database: &str, cause: impl std::fmt::Display) -> SqlError {
    SqlError::Open {
        database: database.to_owned(),
        cause: format!("cannot prove that it is read-only: {cause}"),
    }
}

fn writable(database: &str, probe: &str) -> SqlError {
    SqlError::Writable {
        database: database.to_owned(),
        probe: probe.to_owned(),
    }
}

fn demand(connection: &Connection, database: &str, statement: &str) -> Result<(), SqlError> {
    match probe(connection, statement) {
        Outcome::Refused => Ok(()),
        Outcome::Wrote => Err(writable(database, statement)),
        Outcome::Unclear(cause) => Err(unproved(database, cause)),
    }
}

/// One table that gives a clear answer is enough: a trigger or a generated column can spoil another.
fn demand_any(
    connection: &Connection,
    database: &str,
    kind: &str,
    tables: &[(String, String)],
    statement: fn(&str, &str) -> String,
) -> Result<(), SqlError> {
    let mut unclear = None;
    for (table, column) in tables {
        let sql = statement(table, column);
        match probe(connection, &sql) {
            Outcome::Refused => return Ok(()),
            Outcome::Wrote => return Err(writable(database, kind)),
            Outcome::Unclear(cause) => unclear = Some(cause),
        }
    }
    // Without a table there is nothing to insert into, and CREATE is refused.
    unclear.map_or(Ok(()), |cause| Err(unproved(database, cause)))
}

fn probe(connection: &Connection, statement: &str) -> Outcome {
    let began = connection.execute_batch("BEGIN").is_ok();
    let outcome = match connection.prepare(statement) {
        Err(error) => classify(&error),
        // Not to be undone, so not to be done: that it was prepared is bad enough.
        Ok(_) if !began => Outcome::Wrote,
        Ok(mut prepared) => match prepared.raw_execute() {
            Ok(_) => Outcome::Wrote,
            Err(error) => classify(&error),
        },
    };
    if began && !connection.is_autocommit() {
        // A failed rollback leaves the transaction open, and the next probe finds that.
        let _ = connection.execute_batch("ROLLBACK");
    }
    outcome
}

/// A second database would be a place to write to; it cannot be attached inside a transaction's rollback, so it is detached.
fn attach(connection: &Connection, database: &str) -> Result<(), SqlError> {
    let statement = "ATTACH ':memory:' AS holdpoint_write_probe";
    match connection.execute_batch(statement) {
        Ok(()) => {
            let _ = connection.execute_batch("DETACH holdpoint_write_probe");
            Err(writable(database, statement))
        }
        Err(error) => match classify(&error) {
            Outcome::Refused => Ok(()),
            Outcome::Wrote => Err(writable(database, statement)),
            Outcome::Unclear(cause) => Err(unproved(database, cause)),
        },
    }
}

fn classify(error: &rusqlite::Error) -> Outcome {
    match error.sqlite_error_code() {
        Some(ErrorCode::ReadOnly | ErrorCode::AuthorizationForStatementDenied) => Outcome::Refused,
        Some(ErrorCode::ConstraintViolation | ErrorCode::DiskFull) => Outcome::Wrote,
        _ => Outcome::Unclear(error.to_string()),
    }
}

/// Ordinary tables, each with its first column, both quoted.
fn tables(connection: &Connection) -> Result<Vec<(String, String)>, rusqlite::Error> {
    let mut statement = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' \
         AND substr(upper(sql), 1, 14) <> 'CREATE VIRTUAL' ORDER BY name LIMIT ?1",
    )?;
    let names = statement
        .query_map([TABLES], |row| row.get::<_, String>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let table = quoted(&name);
        let select = connection.prepare(&format!("SELECT * FROM {table} LIMIT 0"))?;
        let column = select.column_names().next().map(quoted);
        found.extend(column.map(|column| (table, column)));
    }
    Ok(found)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
