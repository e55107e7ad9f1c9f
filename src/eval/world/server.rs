//! A database server on which worlds are made, named by an environment variable: its URL is a secret.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use data_encoding::HEXLOWER;

use super::Fault;
use crate::eval::sql::Dialect;
use crate::source::Problem;
use crate::store::sql::{ServerTls, mysql, postgres};

/// How long one statement of a suite may take on a server. SQLite counts steps instead.
pub(super) const WITHIN: Duration = Duration::from_secs(10);

/// A server with an account that may make databases and accounts.
#[derive(Clone)]
pub struct Server {
    dialect: Dialect,
    url: Arc<str>,
    variable: Arc<str>,
    tls: ServerTls,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("dialect", &self.dialect)
            .field("variable", &self.variable)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// The server whose URL an environment variable holds: `postgresql://..` or `mysql://..`. Over a network it is spoken to by
    /// TLS; `ca` is a PEM file with its authority, where that is no public one.
    ///
    /// # Errors
    /// The variable is not set, or holds no such URL. Its value is in no error.
    pub fn from_env(variable: &str, ca: Option<PathBuf>) -> Result<Self, Problem> {
        let help = format!(
            "set {variable} to postgresql://USER:PASSWORD@HOST/DATABASE or mysql://USER:PASSWORD@HOST/DATABASE, with an account \
             that may make databases and accounts"
        );
        let Ok(url) = std::env::var(variable) else {
            let unset = format!("the environment variable {variable} is not set");
            return Err(Problem::new(unset).help(help));
        };
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        let (dialect, local) = match scheme {
            "postgres" | "postgresql" => (Dialect::Postgres, postgres::is_local(&url)),
            "mysql" | "mariadb" => (Dialect::Mysql, mysql::is_local(&url)),
            _ => (Dialect::Sqlite, None),
        };
        let Some(local) = local else {
            let wrong = format!("the URL in {variable} is none of PostgreSQL or MySQL");
            return Err(Problem::new(wrong).help(help));
        };
        let tls = if local && ca.is_none() {
            ServerTls::Off
        } else {
            ServerTls::On(ca)
        };
        Ok(Self {
            dialect,
            url: url.into(),
            variable: variable.into(),
            tls,
        })
    }

    /// PostgreSQL or MySQL.
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) const fn tls(&self) -> &ServerTls {
        &self.tls
    }

    /// Its name in errors.
    pub(super) fn name(&self) -> &str {
        &self.variable
    }

    /// It cannot be used at all.
    pub(super) fn problem(&self, cause: impl fmt::Display) -> Problem {
        let message = format!(
            "the world's database cannot be made on the server of {}: {cause}",
            self.variable
        );
        Problem::new(message).help(
            "the account must be able to make databases and accounts: CREATEDB and CREATEROLE in PostgreSQL, CREATE, DROP, CREATE \
             USER and the right to grant in MySQL",
        )
    }
}

/// Random hex digits, for names and passwords.
pub(super) fn random(bytes: usize) -> Result<String, Fault> {
    let mut drawn = vec![0; bytes];
    rand::fill(&mut drawn).map_err(|_| Fault::here("no random bytes"))?;
    Ok(HEXLOWER.encode(&drawn))
}
