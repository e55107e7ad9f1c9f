//! Worlds in PostgreSQL: a database per sandbox, made from a template, and filled again from copies of its tables that stand in a
//! schema beside them.

mod calls;
mod judge;
mod plan;

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config};

use super::estate::Estate;
use super::server::{Server, WITHIN};
use super::{Fault, apart, script};
use crate::eval::judge::Judge;
use crate::eval::sql::Dialect;
use crate::source::{Problems, SourceFile};
use crate::store::sql::postgres::{self as store, configure};
use crate::store::sql::{Limits, ReadOnlySql, SqlError};

pub use calls::Sandbox;

/// The schema with the copies; no part of the world.
const COPIES: &str = "holdpoint_image";

/// A template, and what was made from it. Everything goes when the last of it does.
pub struct Image(Arc<Made>);

struct Made {
    estate: Estate,
    /// Fills the tables again.
    refill: String,
}

/// A connection. Its task ends with the client.
struct Link {
    client: Client,
    task: JoinHandle<()>,
}

impl Link {
    async fn open(config: &Config, server: &Server) -> Result<Self, Fault> {
        let tls = configure(server.url(), server.tls(), WITHIN).map_err(Fault::gone)?;
        let connected = config.connect(tls.1).await;
        let (client, connection) = connected.map_err(|error| fault(&error))?;
        let task = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self { client, task })
    }

    async fn run(&self, sql: &str) -> Result<(), Fault> {
        let done = self.client.batch_execute(sql).await;
        done.map_err(|error| fault(&error))
    }

    /// Ends when the server knows that it has ended.
    async fn close(self) {
        drop(self.client);
        let _ = self.task.await;
    }
}

impl Image {
    /// Runs schema and fixtures once.
    pub(super) fn build(server: &Server, scripts: &[Arc<SourceFile>]) -> Result<Self, Problems> {
        apart(|| Made::make(server, scripts))
            .map_err(|cause| Problems::from(server.problem(cause)))?
            .map(|made| Self(Arc::new(made)))
    }

    /// A database of its own.
    pub(super) async fn sandbox(&self) -> Result<Sandbox, Fault> {
        let estate = &self.0.estate;
        let name = format!("{}_{}", estate.base, estate.next());
        self.0.create(&name).await?;
        Sandbox::open(Arc::clone(&self.0), name).await
    }
}

impl Made {
    async fn make(server: &Server, scripts: &[Arc<SourceFile>]) -> Result<Self, Problems> {
        let failed = |fault: Fault| Problems::from(server.problem(fault));
        let estate = Estate::new(server, "holdpoint_eval_", 24).map_err(failed)?;
        let mut made = Self {
            estate,
            refill: String::new(),
        };
        let template = made.template();
        let role = &made.estate.base;
        let admin = Link::open(&made.admin().map_err(failed)?, server).await;
        let admin = admin.map_err(failed)?;
        let judge = format!(
            "CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD '{}'",
            made.estate.password
        );
        admin.run(&judge).await.map_err(failed)?;
        made.estate.remember(&template);
        let create = format!("CREATE DATABASE {template}");
        admin.run(&create).await.map_err(failed)?;
        admin.close().await;
        let link = Link::open(&made.of(&template).map_err(failed)?, server).await;
        let link = link.map_err(failed)?;
        link.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
            .await
            .map_err(failed)?;
        for file in scripts {
            run_script(&link, file).await?;
        }
        let refill = plan::prepare(&link, &made.estate.base)
            .await
            .map_err(failed)?;
        made.refill = refill;
        // Nobody may be connected to a template that is copied.
        link.close().await;
        Ok(made)
    }

    fn template(&self) -> String {
        format!("{}_image", self.estate.base)
    }

    fn admin(&self) -> Result<Config, Fault> {
        let server = &self.estate.server;
        let configured = configure(server.url(), server.tls(), WITHIN);
        Ok(configured.map_err(Fault::gone)?.0)
    }

    /// One of the databases, as the account that made it.
    fn of(&self, database: &str) -> Result<Config, Fault> {
        let mut config = self.admin()?;
        config.dbname(database);
        Ok(config)
    }

    /// Makes a database from the template; where there is one of that name it goes first.
    async fn create(&self, name: &str) -> Result<(), Fault> {
        self.estate.remember(name);
        let admin = Link::open(&self.admin()?, &self.estate.server).await?;
        admin
            .run(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
            .await?;
        let template = self.template();
        admin
            .run(&format!("CREATE DATABASE {name} TEMPLATE {template}"))
            .await?;
        admin.close().await;
        Ok(())
    }

    async fn remove(&self) -> Result<(), Fault> {
        let admin = Link::open(&self.admin()?, &self.estate.server).await?;
        for name in self.estate.databases() {
            let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
            let _ = admin.run(&drop).await;
        }
        let _ = admin
            .run(&format!("DROP ROLE IF EXISTS {}", self.estate.base))
            .await;
        admin.close().await;
        Ok(())
    }

    /// The judge of one of the databases.
    async fn judge(&self, database: &str) -> Result<Judge, SqlError> {
        let url = self.estate.judged(database)?;
        let reads = judge::Reader::open(&url, &self.estate.server).await?;
        Ok(Judge::over(Box::new(reads)))
    }

    fn lookups(&self, database: &str) -> Result<Arc<dyn ReadOnlySql>, SqlError> {
        let limits = Limits::default();
        let server = &self.estate.server;
        let url = self.estate.judged(database)?;
        store::open(&url, server.tls(), server.name(), limits)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // The server may be gone; then there is nothing to remove.
        let _ = apart(|| self.remove());
    }
}

async fn run_script(link: &Link, file: &Arc<SourceFile>) -> Result<(), Problems> {
    for at in script::statements(&file.text, Dialect::Postgres) {
        let statement = file.text.get(at.clone()).unwrap_or_default();
        if let Err(error) = link.client.batch_execute(statement).await {
            let place = match position(&error) {
                Some(chars) => {
                    let mut places = statement.char_indices().skip(chars);
                    let from = at.start + places.next().map_or(0, |(byte, _)| byte);
                    from..from
                }
                None => at,
            };
            return Err(script::problem(file, place, &told(&error)).into());
        }
    }
    Ok(())
}

/// How many characters before the place that the server points to.
fn position(error: &tokio_postgres::Error) -> Option<usize> {
    use tokio_postgres::error::ErrorPosition;
    match error.as_db_error()?.position()? {
        ErrorPosition::Original(place) => usize::try_from(*place).ok()?.checked_sub(1),
        ErrorPosition::Internal { .. } => None,
    }
}

/// The server's own words, values included: the world is the suite's own.
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => db.message().to_owned(),
        None => store::said(error),
    }
}

fn fault(error: &tokio_postgres::Error) -> Fault {
    let code = error.code().map(tokio_postgres::error::SqlState::code);
    Fault {
        cause: told(error),
        // Classes 08 (connection), 57P (shut down), 3D (no such database), and whatever is no word of the server.
        gone: code.is_none_or(|code| ["08", "57P", "3D"].iter().any(|it| code.starts_with(it))),
    }
}
