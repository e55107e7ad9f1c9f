//! A call in one transaction on a server, the same for each of them.

use serde_json::Value;

use super::{Answer, Fault, Tool};
use crate::eval::sql::{Bindings, Sql, as_text};
use crate::source::Problem;
use crate::store::sql::SqlError;
use crate::store::sql::tokens::Translated;

/// Why a statement did not run.
pub(super) enum Failed<E> {
    Server(E),
    Own(String),
}

impl<E> From<E> for Failed<E> {
    fn from(error: E) -> Self {
        Self::Server(error)
    }
}

impl<E> Failed<E> {
    /// A statement that cannot be sent.
    pub(super) fn own(error: &SqlError) -> Self {
        Self::Own(error.to_string())
    }
}

/// A connection on which calls are carried out.
pub(super) trait Carrier: Send {
    type Error: Send;

    /// Runs a statement of our own.
    fn run(&mut self, sql: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Runs a statement of a tool.
    fn write(
        &mut self,
        sql: &Sql,
        bound: &Bindings,
    ) -> impl Future<Output = Result<(), Failed<Self::Error>>> + Send;

    /// The first value of the first row of a SELECT.
    fn first(
        &mut self,
        sql: &Sql,
        bound: &Bindings,
    ) -> impl Future<Output = Result<Option<Value>, Failed<Self::Error>>> + Send;

    /// Whether what the call asked for is to blame.
    fn blames_the_call(error: &Self::Error) -> bool;

    /// The server's own words, values included: the world is the suite's own.
    fn told(error: &Self::Error) -> String;

    /// What it means for the trial.
    fn fault(error: &Self::Error) -> Fault;
}

/// Carries out one call.
pub(super) async fn call<C: Carrier>(
    on: &mut C,
    tool: &Tool,
    bound: &Bindings,
    recorded: Option<&str>,
) -> Result<Answer, Fault> {
    let begun = on.run("START TRANSACTION").await;
    begun.map_err(|error| C::fault(&error))?;
    let done = match carried_out(on, tool, bound, recorded).await {
        // What is checked at the end only fails here.
        Ok(answer) if answer.ok => on.run("COMMIT").await.map(|()| answer),
        undone => {
            let rolled_back = on.run("ROLLBACK").await;
            rolled_back.map_err(|error| C::fault(&error))?;
            match undone {
                Ok(answer) => Ok(answer),
                Err(Failed::Server(error)) => Err(error),
                Err(Failed::Own(cause)) => return Err(Fault::here(cause)),
            }
        }
    };
    done.or_else(|error| {
        if C::blames_the_call(&error) {
            let told = C::told(&error);
            return Ok(Answer::error(format!("the tool failed: {told}")));
        }
        let Fault { cause, gone } = C::fault(&error);
        let cause = format!("the world failed: {cause}");
        Err(Fault { cause, gone })
    })
}

async fn carried_out<C: Carrier>(
    on: &mut C,
    tool: &Tool,
    bound: &Bindings,
    recorded: Option<&str>,
) -> Result<Answer, Failed<C::Error>> {
    if let Some(sql) = &tool.error_when
        && let Some(text) = on.first(sql, bound).await?
    {
        return Ok(Answer::error(as_text(text)));
    }
    for sql in &tool.effect {
        on.write(sql, bound).await?;
    }
    let text = match (recorded, &tool.output) {
        (Some(text), _) => text.to_owned(),
        (None, Some(sql)) => on.first(sql, bound).await?.map(as_text).unwrap_or_default(),
        (None, None) => String::new(),
    };
    Ok(Answer { ok: true, text })
}

/// A statement as a server gets it, where it is one and somebody binds its parameters.
pub(super) fn checked(
    sql: &Sql,
    read: Result<Translated, SqlError>,
    names: &[&str],
) -> Result<Translated, Problem> {
    let read = read.map_err(|error| match error {
        SqlError::Statement { cause } if cause.contains("SELECT") => sql
            .problem(&format!("this SQL must be one SELECT: {cause}"))
            .help("statements that write belong into a tool's `effect`"),
        SqlError::Statement { cause } => wrong(sql, &cause),
        other => wrong(sql, &other.to_string()),
    })?;
    for name in read.names() {
        sql.known(&name, names)?;
    }
    Ok(read)
}

/// A statement that the server does not take.
pub(super) fn wrong(sql: &Sql, cause: &str) -> Problem {
    sql.problem(&format!("wrong SQL: {cause}"))
}
