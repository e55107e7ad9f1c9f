//! PostgreSQL with a role that can only read, and proved so.
//!
//! Two locks, each enough alone: the role has no privilege to write anything (`proof`), and every query runs in a transaction
//! that is read-only, which also stops what a function would write with the rights of its owner.

pub(crate) mod proof;
mod tls;
mod values;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::BoxFuture;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Statement};

pub(crate) use self::tls::Tls;
use self::values::{Bound, Kind, Read};
use super::attempts::is_this_machine;
use super::remote::{Driver, Meter, Remote};
use super::tokens::{Dialect, Translated};
use super::{Limits, ReadOnlySql, Rows, ServerTls, SqlError, SqlValue};

/// Between two packets that ask a silent server whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Connects to the database of `url` (`postgresql://USER:PASSWORD@HOST/DATABASE`) and proves that the role cannot write.
/// `name` is the store's name in errors: the URL is a secret.
///
/// # Errors
/// [`SqlError::Open`] where the URL is none, or the server cannot be reached, [`SqlError::Writable`] where the proof fails.
pub fn open(
    url: &str,
    tls: &ServerTls,
    name: &str,
    limits: Limits,
) -> Result<Arc<dyn ReadOnlySql>, SqlError> {
    let failed = |cause: String| SqlError::Open {
        database: name.to_owned(),
        cause,
    };
    let (config, tls) = configure(url, tls, limits.time).map_err(failed)?;
    let driver = Postgres {
        config,
        tls,
        name: name.to_owned(),
        limits,
    };
    Ok(Remote::open(driver, name, limits)?)
}

/// How to connect to the database of `url`.
///
/// # Errors
/// What is wrong with the URL or with the authorities.
pub(crate) fn configure(
    url: &str,
    tls: &ServerTls,
    within: Duration,
) -> Result<(Config, Tls), String> {
    // Its errors name the part of the URL that is wrong, not what stands there.
    let mut config: Config = url
        .parse()
        .map_err(|_| "the URL is not one of PostgreSQL".to_owned())?;
    config
        .application_name("holdpoint")
        .connect_timeout(within)
        .keepalives_idle(KEEP_ALIVE)
        .ssl_mode(match tls {
            ServerTls::Off => SslMode::Disable,
            ServerTls::On(_) => SslMode::Require,
        });
    Ok((config, Tls::new(tls)?))
}

/// Whether every host of the URL is this machine; `None` where it is no URL of PostgreSQL.
pub fn is_local(url: &str) -> Option<bool> {
    use tokio_postgres::config::Host;
    let config: Config = url.parse().ok()?;
    let local = |host: &Host| match host {
        Host::Tcp(name) => is_this_machine(name),
        Host::Unix(_) => true,
    };
    let addresses = config.get_hostaddrs();
    Some(
        config.get_hosts().iter().all(local) && addresses.iter().all(std::net::IpAddr::is_loopback),
    )
}

struct Postgres {
    config: Config,
    tls: Tls,
    name: String,
    limits: Limits,
}

pub(super) struct Connection {
    client: Client,
    /// Prepared statements by their text: those of the policy's look-ups.
    prepared: HashMap<String, Prepared>,
    /// The server has hung up.
    broken: AtomicBool,
    /// How long a query may take.
    time: Duration,
}

#[derive(Clone)]
struct Prepared {
    statement: Statement,
    parameters: Vec<Kind>,
    columns: Vec<Kind>,
}

impl Postgres {
    async fn opened(&self) -> Result<Connection, SqlError> {
        let failed = |error: tokio_postgres::Error| SqlError::Open {
            database: self.name.clone(),
            cause: said(&error),
        };
        let (client, connection) = self
            .config
            .connect(self.tls.clone())
            .await
            .map_err(failed)?;
        // Ends with the client; the client tells why.
        tokio::spawn(async move { connection.await.is_ok() });
        let time = self.limits.time.as_millis();
        client
            .batch_execute(&format!(
                "SET statement_timeout = {time}; SET idle_in_transaction_session_timeout = {time}; \
                 SET standard_conforming_strings = on; SET default_transaction_read_only = on"
            ))
            .await
            .map_err(failed)?;
        proof::prove_read_only(&client, &self.name).await?;
        Ok(Connection {
            client,
            prepared: HashMap::new(),
            broken: AtomicBool::new(false),
            time: self.limits.time,
        })
    }
}

impl Driver for Postgres {
    type Connection = Connection;

    const DIALECT: Dialect = Dialect::Postgres;

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
            let prepared = connection.prepared(statement).await?;
            connection.rows(&prepared, values, self.limits).await
        })
    }

    fn is_open(connection: &Connection) -> bool {
        !connection.client.is_closed() && !connection.broken.load(Ordering::Relaxed)
    }
}

impl Connection {
    async fn prepared(&mut self, translated: &Translated) -> Result<Prepared, SqlError> {
        if let Some(known) = self.prepared.get(&translated.sql) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(&translated.sql).await;
        let statement = statement.map_err(|error| self.fault(&error))?;
        let bad = |cause: String| SqlError::Statement { cause };
        if statement.params().len() != translated.placeholders.len() {
            return Err(bad(
                "the server counts other parameters than Holdpoint: write its strings and comments plainly".to_owned(),
            ));
        }
        if statement.columns().is_empty() {
            return Err(bad("it is not a SELECT".to_owned()));
        }
        let named = translated.placeholders.iter().zip(statement.params());
        let parameters = named.map(|(name, ty)| {
            Kind::of(ty).ok_or_else(|| {
                bad(format!(
                    "the parameter :{name} is compared with the type `{ty}`, which is not bound here; cast the column, such as `id::text`"
                ))
            })
        });
        let parameters = parameters.collect::<Result<_, _>>()?;
        let columns = statement.columns().iter().map(|column| {
            Kind::of(column.type_()).ok_or_else(|| {
                bad(format!(
                    "the column `{}` has the type `{}`, which is not read here; cast it, such as `id::text`",
                    column.name(),
                    column.type_()
                ))
            })
        });
        let columns = columns.collect::<Result<_, _>>()?;
        let prepared = Prepared {
            statement,
            parameters,
            columns,
        };
        self.prepared
            .insert(translated.sql.clone(), prepared.clone());
        Ok(prepared)
    }

    /// In a transaction that is read-only whatever the session's default has become.
    async fn rows(
        &self,
        prepared: &Prepared,
        values: &[SqlValue],
        limits: Limits,
    ) -> Result<Rows, SqlError> {
        let columns = prepared.statement.columns();
        let mut rows = Rows {
            columns: columns.iter().map(|c| c.name().to_owned()).collect(),
            rows: Vec::new(),
        };
        let bound = prepared.parameters.iter().zip(values);
        let bound: Option<Vec<Bound>> = bound.map(|(kind, value)| kind.bind(value)).collect();
        // A value that the type cannot hold is equal to none.
        let Some(bound) = bound else {
            return Ok(rows);
        };
        let failed = |error: tokio_postgres::Error| self.fault(&error);
        self.client
            .batch_execute("BEGIN READ ONLY")
            .await
            .map_err(failed)?;
        let mut meter = Meter::new(limits);
        let stream = self.client.query_raw(&prepared.statement, &bound).await;
        let read = async {
            let mut stream = pin!(stream.map_err(failed)?);
            while let Some(row) = stream.try_next().await.map_err(failed)? {
                let mut found = Vec::with_capacity(prepared.columns.len());
                for (index, kind) in prepared.columns.iter().enumerate() {
                    let cell: Read<'_> = row.try_get(index).map_err(failed)?;
                    found.push(kind.read(cell)?);
                }
                meter.row(&rows, &found)?;
                rows.rows.push(found);
            }
            Ok::<_, SqlError>(())
        };
        let done = read.await;
        let ended = self.client.batch_execute("ROLLBACK").await;
        done?;
        ended.map_err(failed)?;
        Ok(rows)
    }

    /// A fault of the statement is told from one of the server or the connection.
    fn fault(&self, error: &tokio_postgres::Error) -> SqlError {
        // Classes 42 (syntax or access rule) and 0A (not supported): the statement's own.
        let of_statement = error
            .code()
            .is_some_and(|code| code.code().starts_with("42") || code.code().starts_with("0A"));
        // Its own limit of time, which ends here as the client's does.
        if error.code() == Some(&SqlState::QUERY_CANCELED) {
            return SqlError::slow(self.time);
        }
        let cause = said(error);
        if of_statement {
            return SqlError::Statement { cause };
        }
        // Classes 08 (connection) and 57P (shut down), and whatever is no word of the server.
        let gone = error
            .code()
            .is_none_or(|code| code.code().starts_with("08") || code.code().starts_with("57P"));
        if gone {
            self.broken.store(true, Ordering::Relaxed);
        }
        SqlError::Run { cause }
    }
}

/// Classes of errors whose message is about the statement or the server, never about a value: connection, not supported,
/// authorisation, no such database, syntax and access rule, resources, operator.
const TOLD: [&str; 7] = ["08", "0A", "28", "3D", "42", "53", "57"];

/// The server's own words where they hold no value; never its detail.
pub(crate) fn said(error: &tokio_postgres::Error) -> String {
    let Some(db) = error.as_db_error() else {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        return text;
    };
    let code = db.code().code();
    if TOLD.iter().any(|class| code.starts_with(class)) {
        format!("{} ({code})", db.message())
    } else {
        format!("the server refuses it with {code}")
    }
}
