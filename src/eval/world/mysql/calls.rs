//! Calls in a database of MySQL or MariaDB.

use std::sync::Arc;

use mysql_async::consts::ColumnType;
use mysql_async::prelude::Queryable;
use mysql_async::{Column, Conn, Error, Params, Row, Value as Cell};
use rusqlite::types::Value as Scalar;
use serde_json::{Value, json};

use super::{Fault, Made, fault, told};
use crate::eval::judge::Judge;
use crate::eval::sql::{Allowed, Bindings, Sql};
use crate::eval::world::carry::{self, Carrier};
use crate::eval::world::server::WITHIN;
use crate::eval::world::{Answer, Tool};
use crate::source::Problem;
use crate::store::sql::tokens::{Dialect, Translated, translate, translate_any};
use crate::store::sql::{ReadOnlySql, SqlError};

/// The character set of bytes that are no text.
const BINARY: u16 = 63;

/// A database in which trials run.
pub struct Sandbox {
    made: Arc<Made>,
    name: String,
    conn: Conn,
    /// A call was carried out since the last reset.
    touched: bool,
}

impl Sandbox {
    pub(super) async fn open(made: Arc<Made>, name: String) -> Result<Self, Fault> {
        let conn = connected(&made, &name).await?;
        Ok(Self {
            made,
            name,
            conn,
            touched: false,
        })
    }

    pub(in crate::eval::world) async fn reset(&mut self) -> Result<(), Fault> {
        if self.touched {
            let filled = self.made.plan.run(&mut self.conn).await;
            if let Err(fault) = filled {
                // Tables that are not there any more: it is made anew.
                return if fault.gone { Err(fault) } else { Ok(()) };
            }
            self.touched = false;
        }
        Ok(())
    }

    pub(in crate::eval::world) async fn renew(&mut self) -> Result<(), Fault> {
        self.made.create(&self.name).await?;
        self.conn = connected(&self.made, &self.name).await?;
        self.touched = false;
        Ok(())
    }

    pub(in crate::eval::world) async fn judge(&self) -> Result<Judge, SqlError> {
        self.made.judge(&self.name).await
    }

    pub(in crate::eval::world) fn lookups(&self) -> Result<Arc<dyn ReadOnlySql>, SqlError> {
        self.made.lookups(&self.name)
    }

    pub(in crate::eval::world) async fn check(
        &mut self,
        sql: &Sql,
        allowed: Allowed,
        names: &[&str],
    ) -> Result<(), Problem> {
        check(&mut self.conn, sql, allowed, names).await
    }

    pub(in crate::eval::world) async fn call(
        &mut self,
        tool: &Tool,
        bound: &Bindings,
        recorded: Option<&str>,
    ) -> Result<Answer, Fault> {
        self.touched = true;
        carry::call(&mut self.conn, tool, bound, recorded).await
    }
}

impl Carrier for Conn {
    type Error = Error;

    async fn run(&mut self, sql: &str) -> Result<(), Error> {
        self.query_drop(sql).await
    }

    async fn write(&mut self, sql: &Sql, bound: &Bindings) -> Result<(), Failed> {
        let read = translated(&sql.text, Allowed::Write).map_err(|error| Failed::own(&error))?;
        let values = values(&read, bound);
        self.exec_drop(read.sql.as_str(), values).await?;
        Ok(())
    }

    async fn first(&mut self, sql: &Sql, bound: &Bindings) -> Result<Option<Value>, Failed> {
        let rows = rows(self, sql, bound).await?;
        let first = rows.into_iter().next();
        Ok(first.map(|row| row.into_iter().next().unwrap_or(Value::Null)))
    }

    /// Classes 22 (data), 23 (constraints) and 45 (what a trigger raises), and the server's own codes for values that a column does
    /// not take.
    fn blames_the_call(error: &Error) -> bool {
        let Error::Server(server) = error else {
            return false;
        };
        let classes = ["22", "23", "45"];
        classes.iter().any(|class| server.state.starts_with(class))
            || matches!(
                server.code,
                1264 | 1265 | 1292 | 1364 | 1366 | 1406 | 3819 | 4025
            )
    }

    fn told(error: &Error) -> String {
        told(error)
    }

    fn fault(error: &Error) -> Fault {
        fault(error)
    }
}

async fn connected(made: &Made, name: &str) -> Result<Conn, Fault> {
    let mut conn = made.connect(Some(name)).await?;
    limited(&mut conn).await;
    Ok(conn)
}

/// One is MySQL's, in milliseconds and of SELECT alone, the other MariaDB's, in seconds.
pub(super) async fn limited(conn: &mut Conn) {
    let mysql = format!("SET SESSION max_execution_time = {}", WITHIN.as_millis());
    if conn.query_drop(mysql).await.is_err() {
        let maria = format!("SET SESSION max_statement_time = {}", WITHIN.as_secs());
        let _ = conn.query_drop(maria).await;
    }
}

/// Why a statement did not run.
pub(super) type Failed = carry::Failed<Error>;

/// Every row of a SELECT.
pub(super) async fn rows(
    conn: &mut Conn,
    sql: &Sql,
    bound: &Bindings,
) -> Result<Vec<Vec<Value>>, Failed> {
    let read = translated(&sql.text, Allowed::Read).map_err(|error| Failed::own(&error))?;
    let values = values(&read, bound);
    let rows: Vec<Row> = conn.exec(read.sql.as_str(), values).await?;
    Ok(rows.into_iter().map(as_values).collect())
}

pub(super) fn translated(text: &str, allowed: Allowed) -> Result<Translated, SqlError> {
    match allowed {
        Allowed::Read => translate(text, Dialect::MySql),
        Allowed::Write => translate_any(text, Dialect::MySql),
    }
}

pub(super) fn values(read: &Translated, bound: &Bindings) -> Params {
    if read.placeholders.is_empty() {
        return Params::Empty;
    }
    let values = read
        .placeholders
        .iter()
        .map(|name| match bound.value(name) {
            Scalar::Null => Cell::NULL,
            Scalar::Integer(number) => Cell::Int(*number),
            Scalar::Real(number) => Cell::Double(*number),
            Scalar::Text(text) => Cell::Bytes(text.clone().into_bytes()),
            Scalar::Blob(bytes) => Cell::Bytes(bytes.clone()),
        });
    Params::Positional(values.collect())
}

/// A row as JSON.
pub(super) fn as_values(row: Row) -> Vec<Value> {
    let columns = row.columns();
    let cells = columns.iter().zip(row.unwrap());
    cells.map(|(column, cell)| as_value(column, cell)).collect()
}

fn as_value(column: &Column, cell: Cell) -> Value {
    match cell {
        Cell::NULL => Value::Null,
        Cell::Int(number) => number.into(),
        Cell::UInt(number) => number.into(),
        Cell::Float(number) => real(f64::from(number)),
        Cell::Double(number) => real(number),
        Cell::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) if column.column_type() == ColumnType::MYSQL_TYPE_NEWDECIMAL => decimal(text),
            Ok(text) if column.character_set() != BINARY => text.into(),
            Ok(text) => json!({"blob": data_encoding::HEXLOWER.encode(text.as_bytes())}),
            Err(error) => json!({"blob": data_encoding::HEXLOWER.encode(error.as_bytes())}),
        },
        date @ (Cell::Date(..) | Cell::Time(..)) => {
            let text = date.as_sql(true);
            text.trim_matches('\'').to_owned().into()
        }
    }
}

fn real(number: f64) -> Value {
    serde_json::Number::from_f64(number)
        .map_or_else(|| json!({"real": number.to_string()}), Value::Number)
}

/// An exact decimal: a number where it is whole, else as near as a float comes, as the others read it.
fn decimal(text: String) -> Value {
    if let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    text.parse().map_or(Value::String(text), real)
}

/// Prepares a statement and checks its parameters.
pub(super) async fn check(
    conn: &mut Conn,
    sql: &Sql,
    allowed: Allowed,
    names: &[&str],
) -> Result<(), Problem> {
    let read = carry::checked(sql, translated(&sql.text, allowed), names)?;
    let prepared = conn.prep(read.sql.as_str()).await;
    prepared
        .map(drop)
        .map_err(|error| carry::wrong(sql, &told(&error)))
}
