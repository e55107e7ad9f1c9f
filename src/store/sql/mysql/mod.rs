//! MySQL and MariaDB with an account that can only read, and proved so.
//!
//! Two locks, each enough alone: the account has no privilege but to read (`proof`), and every query runs in a transaction that
//! is read-only, which also stops what a stored function would write with the rights of its definer.

pub(crate) mod proof;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mysql_async::consts::ColumnType;
use mysql_async::prelude::Queryable;
use mysql_async::{Column, Conn, Error, Opts, OptsBuilder, Params, SslOpts, Value};

use super::attempts::is_this_machine;
use super::remote::{Driver, Meter, Remote};
use super::tokens::{Dialect, Translated};
use super::{Limits, ReadOnlySql, Rows, ServerTls, SqlError, SqlValue};

/// Between two packets that ask a silent server whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// The character set of bytes that are no text.
const BINARY: u16 = 63;

/// How the connection reads SQL: strings in either quotes, with backslashes, as `tokens` does.
const SQL_MODE: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'";

/// Connects to the database of `url` (`mysql://USER:PASSWORD@HOST/DATABASE`) and proves that the account cannot write. `name` is
/// the store's name in errors: the URL is a secret.
///
/// # Errors
/// [`SqlError::Open`] where the URL is none, or the server cannot be reached, [`SqlError::Writable`] where the proof fails.
pub fn open(
    url: &str,
    tls: &ServerTls,
    name: &str,
    limits: Limits,
) -> Result<Arc<dyn ReadOnlySql>, SqlError> {
    let opts = configure(url, tls).map_err(|cause| SqlError::Open {
        database: name.to_owned(),
        cause,
    })?;
    let driver = MySql {
        opts,
        name: name.to_owned(),
        limits,
    };
    Ok(Remote::open(driver, name, limits)?)
}

/// How to connect to the database of `url`.
///
/// # Errors
/// It is no URL of MySQL.
pub(crate) fn configure(url: &str, tls: &ServerTls) -> Result<Opts, String> {
    let opts = Opts::from_url(url).map_err(|_| "the URL is not one of MySQL".to_owned())?;
    // What the URL says of TLS, of sockets and of commands does not count: the config does.
    let ssl = match tls {
        ServerTls::Off => None,
        ServerTls::On(None) => Some(SslOpts::default()),
        ServerTls::On(Some(file)) => Some(
            SslOpts::default()
                .with_disable_built_in_roots(true)
                .with_root_certs(vec![file.clone().into()]),
        ),
    };
    let opts = OptsBuilder::from_opts(opts)
        .ssl_opts(ssl)
        .prefer_socket(false)
        .tcp_keepalive(Some(KEEP_ALIVE))
        .enable_cleartext_plugin(false)
        .init(vec![SQL_MODE])
        .setup(Vec::<String>::new());
    Ok(opts.into())
}

/// Whether the URL's host is this machine; `None` where it is no URL of MySQL.
pub fn is_local(url: &str) -> Option<bool> {
    let opts = Opts::from_url(url).ok()?;
    Some(opts.socket().is_some() || is_this_machine(opts.ip_or_hostname()))
}

struct MySql {
    opts: Opts,
    name: String,
    limits: Limits,
}

pub(super) struct Connection {
    conn: Conn,
    open: bool,
    time: Duration,
}

impl MySql {
    async fn opened(&self) -> Result<Connection, SqlError> {
        let failed = |error: Error| SqlError::Open {
            database: self.name.clone(),
            cause: said(&error),
        };
        let mut conn = Conn::new(self.opts.clone()).await.map_err(failed)?;
        // One is MySQL's, in milliseconds, the other MariaDB's, in seconds; the client's own limit holds without either.
        let time = self.limits.time;
        let mysql = format!("SET SESSION max_execution_time = {}", time.as_millis());
        if conn.query_drop(mysql).await.is_err() {
            let maria = format!("SET SESSION max_statement_time = {}", time.as_secs_f64());
            let _ = conn.query_drop(maria).await;
        }
        proof::prove_read_only(&mut conn, &self.name).await?;
        Ok(Connection {
            conn,
            open: true,
            time,
        })
    }
}

impl Driver for MySql {
    type Connection = Connection;

    const DIALECT: Dialect = Dialect::MySql;

    fn connect(&self) -> BoxFuture<'_, Result<Connection, SqlError>> {
        Box::pin(self.opened())
    }

    fn run<'c>(
        &'c self,
        connection: &'c mut Connection,
        statement: &'c Translated,
        values: &'c [SqlValue],
    ) -> BoxFuture<'c, Result<Rows, SqlError>> {
        Box::pin(async move {
            let begun = connection
                .conn
                .query_drop("START TRANSACTION READ ONLY")
                .await;
            begun.map_err(|error| connection.fault(&error))?;
            let rows = connection.rows(statement, values, self.limits).await;
            let ended = connection.conn.query_drop("ROLLBACK").await;
            let rows = rows?;
            ended.map_err(|error| connection.fault(&error))?;
            Ok(rows)
        })
    }

    fn is_open(connection: &Connection) -> bool {
        connection.open
    }
}

impl Connection {
    async fn rows(
        &mut self,
        translated: &Translated,
        values: &[SqlValue],
        limits: Limits,
    ) -> Result<Rows, SqlError> {
        let prepared = self.conn.prep(translated.sql.as_str()).await;
        let statement = prepared.map_err(|error| self.fault(&error))?;
        let bad = |cause: String| SqlError::Statement { cause };
        if usize::from(statement.num_params()) != values.len() {
            return Err(bad(
                "the server counts other parameters than Holdpoint: write its strings and comments plainly".to_owned(),
            ));
        }
        let mut rows = Rows::default();
        for column in statement.columns().iter() {
            let name = column.name_str().into_owned();
            if !is_read(column) {
                return Err(bad(format!(
                    "the column `{name}` has a type that is not read here ({:?}); cast it, such as `CAST(id AS CHAR)`",
                    column.column_type()
                )));
            }
            rows.columns.push(name);
        }
        if rows.columns.is_empty() {
            return Err(bad("it is not a SELECT".to_owned()));
        }
        let Some(bound) = values.iter().map(bound).collect() else {
            return Ok(rows);
        };
        let mut meter = Meter::new(limits);
        let read = async {
            let asked = self.conn.exec_iter(statement, Params::Positional(bound));
            let mut result = asked.await.map_err(Fault::Server)?;
            while let Some(row) = result.next().await.map_err(Fault::Server)? {
                let columns = row.columns();
                let cells = columns.iter().zip(row.unwrap());
                let found = cells.map(|(column, cell)| read(column, cell));
                let found: Vec<_> = found.collect::<Result<_, _>>().map_err(Fault::Own)?;
                meter.row(&rows, &found).map_err(Fault::Own)?;
                rows.rows.push(found);
            }
            result.drop_result().await.map_err(Fault::Server)
        };
        match read.await {
            Ok(()) => Ok(rows),
            Err(Fault::Own(error)) => Err(error),
            Err(Fault::Server(error)) => Err(self.fault(&error)),
        }
    }

    /// A fault of the statement is told from one of the server or the connection.
    fn fault(&mut self, error: &Error) -> SqlError {
        let cause = said(error);
        let Error::Server(server) = error else {
            self.open = false;
            return SqlError::Run { cause };
        };
        // SQLSTATE classes 42 (syntax or access rule) and 0A (not supported): the statement's own. Class 08 and the codes of a
        // server that stops or has killed the connection: it is gone.
        if server.state.starts_with("08")
            || matches!(server.code, 1053 | 1077 | 1079 | 1927 | 3168 | 4031)
        {
            self.open = false;
        }
        // The server's own limit of time: MariaDB's and MySQL's.
        if matches!(server.code, 1969 | 3024) {
            return SqlError::slow(self.time);
        }
        if server.state.starts_with("42") || server.state.starts_with("0A") {
            SqlError::Statement { cause }
        } else {
            SqlError::Run { cause }
        }
    }
}

enum Fault {
    Server(Error),
    Own(SqlError),
}

/// Everything is bound as text: a number would make the server compare a column of text as a number, where `5` is `5abc`. `None`:
/// equal to nothing.
fn bound(value: &SqlValue) -> Option<Value> {
    match value {
        SqlValue::Null => Some(Value::NULL),
        SqlValue::Text(text) => Some(Value::Bytes(text.clone().into_bytes())),
        SqlValue::Integer(number) => Some(Value::Bytes(number.to_string().into_bytes())),
        SqlValue::Real(_) | SqlValue::Blob(_) => None,
    }
}

/// Integers, decimals and text.
fn is_read(column: &Column) -> bool {
    use ColumnType::{
        MYSQL_TYPE_BLOB, MYSQL_TYPE_INT24, MYSQL_TYPE_LONG, MYSQL_TYPE_LONG_BLOB,
        MYSQL_TYPE_LONGLONG, MYSQL_TYPE_MEDIUM_BLOB, MYSQL_TYPE_NEWDECIMAL, MYSQL_TYPE_SHORT,
        MYSQL_TYPE_STRING, MYSQL_TYPE_TINY, MYSQL_TYPE_TINY_BLOB, MYSQL_TYPE_VAR_STRING,
        MYSQL_TYPE_VARCHAR,
    };
    match column.column_type() {
        MYSQL_TYPE_TINY
        | MYSQL_TYPE_SHORT
        | MYSQL_TYPE_INT24
        | MYSQL_TYPE_LONG
        | MYSQL_TYPE_LONGLONG
        | MYSQL_TYPE_NEWDECIMAL => true,
        MYSQL_TYPE_STRING
        | MYSQL_TYPE_VAR_STRING
        | MYSQL_TYPE_VARCHAR
        | MYSQL_TYPE_TINY_BLOB
        | MYSQL_TYPE_BLOB
        | MYSQL_TYPE_MEDIUM_BLOB
        | MYSQL_TYPE_LONG_BLOB => column.character_set() != BINARY,
        _ => false,
    }
}

fn read(column: &Column, cell: Value) -> Result<SqlValue, SqlError> {
    let odd = |what: &str| SqlError::Run {
        cause: format!("a value of `{}` is {what}", column.name_str()),
    };
    Ok(match cell {
        Value::NULL => SqlValue::Null,
        Value::Int(number) => SqlValue::Integer(number),
        // Above the signed range: its digits.
        Value::UInt(number) => match i64::try_from(number) {
            Ok(number) => SqlValue::Integer(number),
            Err(_) => SqlValue::Text(number.to_string()),
        },
        Value::Bytes(bytes) => {
            SqlValue::Text(String::from_utf8(bytes).map_err(|_| odd("not UTF-8"))?)
        }
        Value::Float(_) | Value::Double(_) | Value::Date(..) | Value::Time(..) => {
            return Err(odd("of a type that is not read here"));
        }
    })
}

/// The server's own words where they are about the statement or the account and hold no value (classes of SQLSTATE: connection,
/// not supported, authorisation, syntax and access rule).
pub(crate) fn said(error: &Error) -> String {
    match error {
        Error::Server(server) => {
            let told = ["08", "0A", "28", "42"];
            if told.iter().any(|class| server.state.starts_with(class)) {
                format!("{} ({})", server.message, server.code)
            } else {
                format!(
                    "the server refuses it with {} ({})",
                    server.code, server.state
                )
            }
        }
        other => other.to_string(),
    }
}
