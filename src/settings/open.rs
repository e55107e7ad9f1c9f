//! Opening what settings name.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Settings, SqlStore};
use crate::names::StoreName;
use crate::source::{Problem, Problems};
use crate::store::sql::{ReadOnlySql, sqlite};

/// Databases by the name the config gives them.
pub type SqlStores = HashMap<StoreName, Arc<dyn ReadOnlySql>>;

impl Settings {
    /// Opens every database for look-ups, proved unable to write. What cannot be opened is left out and reported.
    pub fn open_sql(&self) -> (SqlStores, Problems) {
        let mut stores = SqlStores::new();
        let mut problems = Problems::default();
        for (name, store) in &self.stores {
            let SqlStore::Sqlite(path) = store;
            match sqlite::open(path) {
                Ok(store) => drop(stores.insert(name.clone(), store)),
                Err(error) => problems.0.push(
                    Problem::new(format!("the store `{name}`: {error}"))
                        .help(format!("check `stores.{name}.sqlite` in the config")),
                ),
            }
        }
        (stores, problems)
    }
}
