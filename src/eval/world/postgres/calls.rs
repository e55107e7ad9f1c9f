//! Calls in a database of PostgreSQL.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use bytes::BytesMut;
use rusqlite::types::Value as Scalar;
use serde_json::Value;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Statement};

use super::{Fault, Link, Made, fault, told};
use crate::eval::judge::Judge;
use crate::eval::sql::{Allowed, Bindings, Sql};
use crate::eval::world::carry::{self, Carrier};
use crate::eval::world::{Answer, Tool};
use crate::source::Problem;
use crate::store::sql::tokens::{Dialect, Translated, translate, translate_any};
use crate::store::sql::{ReadOnlySql, SqlError};

/// A database in which trials run.
pub struct Sandbox {
    made: Arc<Made>,
    name: String,
    link: Link,
    prepared: Statements,
    /// A call was carried out since the last reset.
    touched: bool,
}

impl Sandbox {
    pub(super) async fn open(made: Arc<Made>, name: String) -> Result<Self, Fault> {
        let link = connected(&made, &name).await?;
        Ok(Self {
            made,
            name,
            link,
            prepared: Statements::default(),
            touched: false,
        })
    }

    pub(in crate::eval::world) async fn reset(&mut self) -> Result<(), Fault> {
        if self.touched {
            let filled = self.link.run(&self.made.refill).await;
            if let Err(fault) = filled {
                let _ = self.link.run("ROLLBACK").await;
                // Tables that are not there any more: it is made anew.
                return if fault.gone { Err(fault) } else { Ok(()) };
            }
            self.touched = false;
        }
        Ok(())
    }

    pub(in crate::eval::world) async fn renew(&mut self) -> Result<(), Fault> {
        self.made.create(&self.name).await?;
        self.link = connected(&self.made, &self.name).await?;
        self.prepared = Statements::default();
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
        check(&self.link.client, sql, allowed, names).await
    }

    pub(in crate::eval::world) async fn call(
        &mut self,
        tool: &Tool,
        bound: &Bindings,
        recorded: Option<&str>,
    ) -> Result<Answer, Fault> {
        self.touched = true;
        let mut on = On {
            client: &self.link.client,
            prepared: &mut self.prepared,
        };
        carry::call(&mut on, tool, bound, recorded).await
    }
}

/// The connection, with what it has prepared.
struct On<'a> {
    client: &'a Client,
    prepared: &'a mut Statements,
}

impl Carrier for On<'_> {
    type Error = tokio_postgres::Error;

    async fn run(&mut self, sql: &str) -> Result<(), Self::Error> {
        self.client.batch_execute(sql).await
    }

    async fn write(&mut self, sql: &Sql, bound: &Bindings) -> Result<(), Failed> {
        let ready = self.prepared.of(self.client, sql, Allowed::Write).await?;
        let values = ready.values(bound);
        self.client.execute_raw(&ready.statement, &values).await?;
        Ok(())
    }

    async fn first(&mut self, sql: &Sql, bound: &Bindings) -> Result<Option<Value>, Failed> {
        let ready = self.prepared.of(self.client, sql, Allowed::Read).await?;
        let values = ready.values(bound);
        let rows = self.client.query(&ready.statement, &refs(&values)).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let row = as_row(row.try_get(0)?)?;
        Ok(Some(row.into_iter().next().unwrap_or(Value::Null)))
    }

    /// Classes 22 (data), 23 (constraints), 44 (check option), and what a trigger raises.
    fn blames_the_call(error: &Self::Error) -> bool {
        error.code().is_some_and(|code| {
            let code = code.code();
            ["22", "23", "44"]
                .iter()
                .any(|class| code.starts_with(class))
                || code == "P0001"
        })
    }

    fn told(error: &Self::Error) -> String {
        told(error)
    }

    fn fault(error: &Self::Error) -> Fault {
        fault(error)
    }
}

async fn connected(made: &Made, name: &str) -> Result<Link, Fault> {
    let link = Link::open(&made.of(name)?, &made.estate.server).await?;
    let time = super::WITHIN.as_millis();
    link.run(&format!(
        "SET statement_timeout = {time}; SET standard_conforming_strings = on; SET synchronous_commit = off"
    ))
    .await?;
    Ok(link)
}

/// Why a statement did not run.
pub(super) type Failed = carry::Failed<tokio_postgres::Error>;

/// A statement with the names of its parameters.
#[derive(Clone)]
pub(super) struct Ready {
    pub statement: Statement,
    names: Vec<String>,
}

impl Ready {
    pub(super) fn values(&self, bound: &Bindings) -> Vec<Text> {
        let values = self.names.iter().map(|name| Text::of(bound.value(name)));
        values.collect()
    }
}

/// What a connection has prepared.
#[derive(Default)]
pub(super) struct Statements(HashMap<String, Ready>);

impl Statements {
    /// As it stands, or for a SELECT each row as JSON.
    pub(super) async fn of(
        &mut self,
        client: &Client,
        sql: &Sql,
        allowed: Allowed,
    ) -> Result<Ready, Failed> {
        let read = translated(&sql.text, allowed).map_err(|error| Failed::own(&error))?;
        self.ready(client, read).await
    }

    pub(super) async fn ready(
        &mut self,
        client: &Client,
        read: Translated,
    ) -> Result<Ready, Failed> {
        if let Some(known) = self.0.get(&read.sql) {
            return Ok(known.clone());
        }
        let ready = Ready {
            statement: client.prepare(&read.sql).await?,
            names: read.placeholders,
        };
        self.0.insert(read.sql, ready.clone());
        Ok(ready)
    }
}

pub(super) fn refs(values: &[Text]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as _).collect()
}

/// A row that came as a JSON object, in the order of its columns.
pub(super) fn as_row(json: &str) -> Result<Vec<Value>, Failed> {
    match serde_json::from_str(json) {
        Ok(Value::Object(fields)) => Ok(fields.into_iter().map(|(_, value)| value).collect()),
        _ => Err(Failed::Own("a row that is no JSON object".to_owned())),
    }
}

fn translated(text: &str, allowed: Allowed) -> Result<Translated, SqlError> {
    match allowed {
        Allowed::Write => translate_any(text, Dialect::Postgres),
        Allowed::Read => {
            let mut read = translate(text, Dialect::Postgres)?;
            read.sql = format!(
                "SELECT pg_catalog.row_to_json(holdpoint_row)::text FROM ({}) AS holdpoint_row",
                read.sql
            );
            Ok(read)
        }
    }
}

/// Prepares a statement and checks its parameters.
pub(super) async fn check(
    client: &Client,
    sql: &Sql,
    allowed: Allowed,
    names: &[&str],
) -> Result<(), Problem> {
    let read = carry::checked(sql, translated(&sql.text, allowed), names)?;
    let prepared = client.prepare(&read.sql).await;
    prepared
        .map(drop)
        .map_err(|error| carry::wrong(sql, &told(&error)))
}

/// A value as the server reads it from a literal of the type that it expects.
#[derive(Debug)]
pub(super) struct Text(Option<String>);

impl Text {
    fn of(value: &Scalar) -> Self {
        Self(match value {
            Scalar::Null => None,
            Scalar::Integer(number) => Some(number.to_string()),
            Scalar::Real(number) => Some(number.to_string()),
            Scalar::Text(text) => Some(text.clone()),
            Scalar::Blob(bytes) => Some(format!("\\x{}", data_encoding::HEXLOWER.encode(bytes))),
        })
    }
}

impl ToSql for Text {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            None => Ok(IsNull::Yes),
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}
