//! The sandbox: a real database in which the calls that the proxy lets through are carried out, back at its image before every
//! trial. Nothing here knows about layers or verdicts.

mod carry;
mod estate;
mod mysql;
mod order;
mod postgres;
mod script;
mod server;
pub(in crate::eval) mod sqlite;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use server::Server;

use super::judge::{Connect, Judge};
use super::sql::{Allowed, Bindings, Dialect, Sql};
use crate::source::{Problem, Problems, SourceFile};
use crate::store::sql::{ReadOnlySql, SqlError};

/// What a call of a tool does.
#[derive(Clone, Debug)]
pub struct Tool {
    /// For the model.
    pub description: Option<String>,
    /// Names of its arguments.
    pub args: Vec<String>,
    /// A row means that the call fails; its first value is the error's text.
    pub error_when: Option<Sql>,
    /// What changes.
    pub effect: Vec<Sql>,
    /// What is given back; `None`: each recorded call brings its own.
    pub output: Option<Sql>,
    /// A call that `eval world` carries out.
    pub example: Option<Example>,
}

/// A call that shows what a tool does.
#[derive(Clone, Debug)]
pub struct Example {
    /// Where it was written.
    pub at: crate::source::Spot,
    /// On whose behalf; absent: the first principal.
    pub principal: Option<String>,
    /// With which arguments.
    pub args: serde_json::Map<String, serde_json::Value>,
    /// Whether the tool must say that it failed.
    pub fails: bool,
}

/// What the agent gets from a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the tool did what it was asked to.
    pub ok: bool,
    /// Output, or the error's text.
    pub text: String,
}

impl Answer {
    fn error(text: String) -> Self {
        Self { ok: false, text }
    }
}

/// The sandbox failed in a way that no call can be blamed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub cause: String,
    /// The database is gone: no other trial would fare better.
    pub gone: bool,
}

impl std::error::Error for Fault {}

impl Fault {
    /// Of this trial alone.
    pub fn here(cause: impl Into<String>) -> Self {
        Self {
            cause: cause.into(),
            gone: false,
        }
    }

    /// Of the database.
    pub fn gone(cause: impl Into<String>) -> Self {
        Self {
            cause: cause.into(),
            gone: true,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)
    }
}

/// Where the worlds of a suite are made.
#[derive(Clone, Debug, Default)]
pub enum Database {
    /// In files of their own.
    #[default]
    Sqlite,
    /// In databases of their own on a server.
    Server(Server),
}

impl Database {
    /// Which SQL it takes.
    pub const fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite => Dialect::Sqlite,
            Self::Server(server) => server.dialect(),
        }
    }
}

/// The world at the start of every trial.
pub enum Image {
    /// Bytes of a file.
    Sqlite(sqlite::Image),
    /// A template of PostgreSQL.
    Postgres(postgres::Image),
    /// The scripts of MySQL, which has no templates.
    MySql(mysql::Image),
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Image").field(&self.dialect()).finish()
    }
}

impl Image {
    /// Runs schema and fixtures once.
    ///
    /// # Errors
    /// The statement that fails, with its place; a temporary folder or a server that cannot be used.
    pub fn build(database: &Database, scripts: &[Arc<SourceFile>]) -> Result<Self, Problems> {
        match database {
            Database::Sqlite => sqlite::Image::build(scripts).map(Self::Sqlite),
            Database::Server(server) => match server.dialect() {
                Dialect::Postgres => postgres::Image::build(server, scripts).map(Self::Postgres),
                _ => mysql::Image::build(server, scripts).map(Self::MySql),
            },
        }
    }

    /// Which SQL it takes.
    pub const fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
            Self::MySql(_) => Dialect::Mysql,
        }
    }

    /// A database of its own. `path` is its file, where it has one.
    ///
    /// # Errors
    /// Why it could not be made.
    pub async fn sandbox(&self, path: PathBuf) -> Result<Sandbox, Fault> {
        Ok(match self {
            Self::Sqlite(image) => Sandbox::Sqlite(Box::new(image.sandbox(path)?)),
            Self::Postgres(image) => Sandbox::Postgres(Box::new(image.sandbox().await?)),
            Self::MySql(image) => Sandbox::MySql(Box::new(image.sandbox().await?)),
        })
    }
}

/// A database in which trials run, one after the other.
pub enum Sandbox {
    /// A file.
    Sqlite(Box<sqlite::Sandbox>),
    /// A database of a PostgreSQL server.
    Postgres(Box<postgres::Sandbox>),
    /// A database of a MySQL or MariaDB server.
    MySql(Box<mysql::Sandbox>),
}

impl Sandbox {
    /// Back to the image, in place. Whether that came about is for the judge to say.
    ///
    /// # Errors
    /// Why not.
    pub async fn reset(&mut self) -> Result<(), Fault> {
        match self {
            Self::Sqlite(sandbox) => sandbox.reset(),
            Self::Postgres(sandbox) => sandbox.reset().await,
            Self::MySql(sandbox) => sandbox.reset().await,
        }
    }

    /// Made anew from the image, where [`Self::reset`] is not enough: a call has changed more than rows.
    ///
    /// # Errors
    /// Why not.
    pub async fn renew(&mut self) -> Result<(), Fault> {
        match self {
            Self::Sqlite(sandbox) => sandbox.renew(),
            Self::Postgres(sandbox) => sandbox.renew().await,
            Self::MySql(sandbox) => sandbox.renew().await,
        }
    }

    /// Carries out one call. `recorded` wins over the tool's own output.
    ///
    /// # Errors
    /// The suite's SQL failed in a way that no call can be blamed for: the trial is inconclusive.
    pub async fn call(
        &mut self,
        tool: &Tool,
        bound: &Bindings,
        recorded: Option<&str>,
    ) -> Result<Answer, Fault> {
        match self {
            Self::Sqlite(sandbox) => sandbox.call(tool, bound, recorded),
            Self::Postgres(sandbox) => sandbox.call(tool, bound, recorded).await,
            Self::MySql(sandbox) => sandbox.call(tool, bound, recorded).await,
        }
    }

    /// A judge with a connection of its own, proved unable to write. `connect` is how it connects to a file.
    ///
    /// # Errors
    /// [`SqlError::Writable`] if it can write: nothing may be graded with it.
    pub async fn judge(&self, connect: &Connect) -> Result<Judge, SqlError> {
        match self {
            Self::Sqlite(sandbox) => Judge::open(connect, sandbox.path()),
            Self::Postgres(sandbox) => sandbox.judge().await,
            Self::MySql(sandbox) => sandbox.judge().await,
        }
    }

    /// What the guard's look-ups ask: read-only, and proved so.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn lookups(&self) -> Result<Arc<dyn ReadOnlySql>, SqlError> {
        match self {
            Self::Sqlite(sandbox) => sqlite::lookups(sandbox.path()),
            Self::Postgres(sandbox) => sandbox.lookups(),
            Self::MySql(sandbox) => sandbox.lookups(),
        }
    }

    /// Prepares a statement of a tool and checks its parameters.
    ///
    /// # Errors
    /// What the database says, with the statement's place.
    pub async fn check(
        &mut self,
        sql: &Sql,
        allowed: Allowed,
        names: &[&str],
    ) -> Result<(), Problem> {
        match self {
            Self::Sqlite(sandbox) => sql.check(sandbox.connection(), allowed, names),
            Self::Postgres(sandbox) => sandbox.check(sql, allowed, names).await,
            Self::MySql(sandbox) => sandbox.check(sql, allowed, names).await,
        }
    }
}

/// Where a trial's files may be.
pub(super) fn file_in(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("{number}.sqlite"))
}

/// Runs it to its end on a thread and a runtime of its own: suites are loaded and dropped wherever their caller is.
pub(super) fn apart<T, F>(work: impl FnOnce() -> F + Send) -> Result<T, String>
where
    T: Send,
    F: Future<Output = T>,
{
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        Ok(runtime.block_on(work()))
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(run);
        thread
            .join()
            .map_err(|_| "a thread ended early".to_owned())?
    })
}
