//! Opening what settings name.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Settings, SqlStore};
use crate::names::StoreName;
use crate::source::{Problem, Problems};
use crate::store::sql::{Limits, ReadOnlySql, mysql, postgres, sqlite};

/// Databases by the name the config gives them.
pub type SqlStores = HashMap<StoreName, Arc<dyn ReadOnlySql>>;

impl Settings {
    /// Opens every database for look-ups, proved unable to write. What cannot be opened is left out and reported.
    pub fn open_sql(&self) -> (SqlStores, Problems) {
        let mut stores = SqlStores::new();
        let mut problems = Problems::default();
        for (name, store) in &self.stores {
            let limits = Limits::default();
            let (key, opened) = match store {
                SqlStore::Sqlite(path) => ("sqlite", sqlite::open(path)),
                SqlStore::Postgres(server) => (
                    "postgres",
                    postgres::open(&server.url.0, &server.tls, name.as_str(), limits),
                ),
                SqlStore::MySql(server) => (
                    "mysql",
                    mysql::open(&server.url.0, &server.tls, name.as_str(), limits),
                ),
            };
            match opened {
                Ok(store) => drop(stores.insert(name.clone(), store)),
                Err(error) => problems.0.push(
                    Problem::new(format!("the store `{name}`: {error}"))
                        .help(format!("check `stores.{name}.{key}` in the config")),
                ),
            }
        }
        (stores, problems)
    }
}
