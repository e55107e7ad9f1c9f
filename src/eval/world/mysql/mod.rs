//! Worlds in MySQL and MariaDB: a database per sandbox, made by the suite's scripts, and filled again from the database of the
//! image, in which nobody else writes.

mod calls;
mod judge;
mod plan;

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, OptsBuilder};

use super::estate::Estate;
use super::server::Server;
use super::{Fault, apart, script};
use crate::eval::judge::Judge;
use crate::eval::sql::{Dialect, STATEMENTS};
use crate::source::{Problems, SourceFile};
use crate::store::sql::mysql::{self as store, configure};
use crate::store::sql::{Limits, ReadOnlySql, SqlError};

pub use calls::Sandbox;

/// The scripts, and what was made from them. Everything goes when the last of it does.
pub struct Image(Arc<Made>);

struct Made {
    estate: Estate,
    scripts: Vec<Arc<SourceFile>>,
    plan: plan::Plan,
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
        let name = format!("{}w{}", estate.base, estate.next());
        self.0.create(&name).await?;
        Sandbox::open(Arc::clone(&self.0), name).await
    }
}

impl Made {
    async fn make(server: &Server, scripts: &[Arc<SourceFile>]) -> Result<Self, Problems> {
        let failed = |fault: Fault| Problems::from(server.problem(fault));
        let mut made = Self {
            estate: Estate::new(server, "hpeval", 16).map_err(failed)?,
            scripts: scripts.to_vec(),
            plan: plan::Plan::default(),
        };
        let image = made.image();
        let mut admin = made.connect(None).await.map_err(failed)?;
        // The pattern names every database of this image, and no other.
        let account = [
            format!(
                "CREATE USER '{0}'@'%' IDENTIFIED BY '{1}'",
                made.estate.base, made.estate.password
            ),
            format!(
                "GRANT SELECT, SHOW VIEW ON `{0}%`.* TO '{0}'@'%'",
                made.estate.base
            ),
        ];
        made.empty(&mut admin, &image).await.map_err(failed)?;
        for statement in account {
            run(&mut admin, &statement).await.map_err(failed)?;
        }
        let _ = admin.disconnect().await;
        let mut conn = made.connect(Some(&image)).await.map_err(failed)?;
        for file in scripts {
            run_script(&mut conn, file).await?;
        }
        let plan = plan::Plan::of(&mut conn, &image).await.map_err(failed)?;
        made.plan = plan;
        let _ = conn.disconnect().await;
        Ok(made)
    }

    fn image(&self) -> String {
        format!("{}image", self.estate.base)
    }

    fn opts(&self, database: Option<&str>) -> Result<Opts, Fault> {
        let server = &self.estate.server;
        let opts = configure(server.url(), server.tls()).map_err(Fault::gone)?;
        let mut opts = OptsBuilder::from_opts(opts).stmt_cache_size(STATEMENTS);
        if let Some(name) = database {
            opts = opts.db_name(Some(name));
        }
        Ok(opts.into())
    }

    async fn connect(&self, database: Option<&str>) -> Result<Conn, Fault> {
        let connected = Conn::new(self.opts(database)?).await;
        connected.map_err(|error| fault(&error))
    }

    /// An empty database of that name. Text is compared byte by byte, as the other databases do.
    async fn empty(&self, admin: &mut Conn, name: &str) -> Result<(), Fault> {
        self.estate.remember(name);
        run(admin, &format!("DROP DATABASE IF EXISTS `{name}`")).await?;
        let create = format!("CREATE DATABASE `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin");
        run(admin, &create).await
    }

    /// The world in a database of that name; where there is one it goes first.
    async fn create(&self, name: &str) -> Result<(), Fault> {
        let mut admin = self.connect(None).await?;
        self.empty(&mut admin, name).await?;
        let _ = admin.disconnect().await;
        let mut conn = self.connect(Some(name)).await?;
        for file in &self.scripts {
            let ran = run_script(&mut conn, file).await;
            ran.map_err(|problems| Fault::here(problems.to_string()))?;
        }
        let _ = conn.disconnect().await;
        Ok(())
    }

    async fn remove(&self) -> Result<(), Fault> {
        let mut admin = self.connect(None).await?;
        for name in self.estate.databases() {
            let _ = run(&mut admin, &format!("DROP DATABASE IF EXISTS `{name}`")).await;
        }
        let _ = run(
            &mut admin,
            &format!("DROP USER IF EXISTS '{}'@'%'", self.estate.base),
        )
        .await;
        let _ = admin.disconnect().await;
        Ok(())
    }

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

async fn run_script(conn: &mut Conn, file: &Arc<SourceFile>) -> Result<(), Problems> {
    for at in script::statements(&file.text, Dialect::Mysql) {
        let statement = file.text.get(at.clone()).unwrap_or_default();
        if let Err(error) = conn.query_drop(statement).await {
            return Err(script::problem(file, at, &told(&error)).into());
        }
    }
    Ok(())
}

async fn run(conn: &mut Conn, sql: &str) -> Result<(), Fault> {
    let done = conn.query_drop(sql).await;
    done.map_err(|error| fault(&error))
}

/// The server's own words, values included: the world is the suite's own.
fn told(error: &Error) -> String {
    match error {
        Error::Server(server) => server.message.clone(),
        other => store::said(other),
    }
}

fn fault(error: &Error) -> Fault {
    let gone = match error {
        // Class 08, a server that stops or has killed the connection, no such database.
        Error::Server(server) => {
            server.state.starts_with("08")
                || matches!(server.code, 1049 | 1053 | 1077 | 1079 | 1927 | 3168 | 4031)
        }
        _ => true,
    };
    Fault {
        cause: told(error),
        gone,
    }
}
