//! What was made on a server: databases, and the account of the judge, by names that say whose they are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use url::Url;

use super::Fault;
use super::server::{Server, random};
use crate::store::sql::SqlError;

/// One image's part of a server.
pub(super) struct Estate {
    pub server: Server,
    /// What the databases and the judge's account are called.
    pub base: String,
    /// Of the judge's account.
    pub password: String,
    sandboxes: AtomicUsize,
    databases: Mutex<Vec<String>>,
}

impl Estate {
    /// Nothing yet. `password` is how many random bytes the judge's password has.
    pub(super) fn new(server: &Server, prefix: &str, password: usize) -> Result<Self, Fault> {
        Ok(Self {
            server: server.clone(),
            base: format!("{prefix}{}", random(6)?),
            password: random(password)?,
            sandboxes: AtomicUsize::new(0),
            databases: Mutex::default(),
        })
    }

    /// The number of the next sandbox.
    pub(super) fn next(&self) -> usize {
        self.sandboxes.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes a database that must go in the end.
    pub(super) fn remember(&self, database: &str) {
        let mut databases = self.held();
        if !databases.iter().any(|known| known == database) {
            databases.push(database.to_owned());
        }
    }

    /// Every database.
    pub(super) fn databases(&self) -> Vec<String> {
        self.held().clone()
    }

    fn held(&self) -> MutexGuard<'_, Vec<String>> {
        self.databases
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The URL of one of the databases for the judge's account.
    pub(super) fn judged(&self, database: &str) -> Result<String, SqlError> {
        let failed = |cause: &str| SqlError::Open {
            database: self.server.name().to_owned(),
            cause: cause.to_owned(),
        };
        let mut url = Url::parse(self.server.url()).map_err(|_| failed("the URL is none"))?;
        let set = url
            .set_username(&self.base)
            .and_then(|()| url.set_password(Some(&self.password)));
        set.map_err(|()| failed("the URL names no host"))?;
        url.set_path(database);
        Ok(url.into())
    }
}
