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
use crate::eval::sql::{Allowed, Bindings, Sql, as_text};
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
        self.link.run("BEGIN").await?;
        let done = self.carried_out(tool, bound, recorded).await;
        let ended = match &done {
            Ok(answer) if answer.ok => "COMMIT",
            _ => "ROLLBACK",
        };
        let done = match done {
            Ok(answer) => self.link.client.batch_execute(ended).await.map(|()| answer),
            Err(failed) => {
                let rolled_back = self.link.client.batch_execute(ended).await;
                rolled_back.map_err(|error| fault(&error))?;
                match failed {
                    Failed::Server(error) => Err(error),
                    Failed::Own(cause) => return Err(Fault::here(cause)),
                }
            }
        };
        done.or_else(|error| {
            if blames_the_call(&error) {
                return Ok(Answer::error(format!("the tool failed: {}", told(&error))));
            }
            let Fault { cause, gone } = fault(&error);
            let cause = format!("the world failed: {cause}");
            Err(Fault { cause, gone })
        })
    }

    async fn carried_out(
        &mut self,
        tool: &Tool,
        bound: &Bindings,
        recorded: Option<&str>,
    ) -> Result<Answer, Failed> {
        let client = &self.link.client;
        if let Some(sql) = &tool.error_when
            && let Some(text) = self.prepared.first(client, sql, bound).await?
        {
            return Ok(Answer::error(as_text(text)));
        }
        for sql in &tool.effect {
            let ready = self.prepared.of(client, sql, Allowed::Write).await?;
            let values = ready.values(bound);
            client.execute_raw(&ready.statement, &values).await?;
        }
        let text = match (recorded, &tool.output) {
            (Some(text), _) => text.to_owned(),
            (None, Some(sql)) => {
                let first = self.prepared.first(client, sql, bound).await?;
                first.map(as_text).unwrap_or_default()
            }
            (None, None) => String::new(),
        };
        Ok(Answer { ok: true, text })
    }
}

async fn connected(made: &Made, name: &str) -> Result<Link, Fault> {
    let link = Link::open(&made.of(name)?, &made.server).await?;
    let time = super::WITHIN.as_millis();
    link.run(&format!(
        "SET statement_timeout = {time}; SET standard_conforming_strings = on; SET synchronous_commit = off"
    ))
    .await?;
    Ok(link)
}

/// Classes 22 (data), 23 (constraints), 44 (check option), and what a trigger raises.
fn blames_the_call(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        let code = code.code();
        ["22", "23", "44"]
            .iter()
            .any(|class| code.starts_with(class))
            || code == "P0001"
    })
}

/// Why a statement did not run.
pub(super) enum Failed {
    Server(tokio_postgres::Error),
    Own(String),
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

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
        let read =
            translated(&sql.text, allowed).map_err(|error| Failed::Own(error.to_string()))?;
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

    /// The first value of the first row of a SELECT.
    async fn first(
        &mut self,
        client: &Client,
        sql: &Sql,
        bound: &Bindings,
    ) -> Result<Option<Value>, Failed> {
        let ready = self.of(client, sql, Allowed::Read).await?;
        let values = ready.values(bound);
        let rows = client.query(&ready.statement, &refs(&values)).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let row = as_row(row.try_get(0)?)?;
        Ok(Some(row.into_iter().next().unwrap_or(Value::Null)))
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
    let wrong = |cause: String| sql.problem(&format!("wrong SQL: {cause}"));
    let read = translated(&sql.text, allowed).map_err(|error| match error {
        SqlError::Statement { cause } if cause.contains("SELECT") => sql
            .problem(&format!("this SQL must be one SELECT: {cause}"))
            .help("statements that write belong into a tool's `effect`"),
        SqlError::Statement { cause } => wrong(cause),
        other => wrong(other.to_string()),
    })?;
    for name in read.names() {
        sql.known(&name, names)?;
    }
    let prepared = client.prepare(&read.sql).await;
    prepared.map(drop).map_err(|error| wrong(told(&error)))
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
