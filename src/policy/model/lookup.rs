//! Questions to a database or a backend that change nothing.

use std::collections::BTreeMap;

use crate::names::{StoreName, UpstreamName};
use crate::settings::template;

/// A named question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// To a read-only database.
    Sql(SqlLookup),
    /// To a backend, by GET.
    Http(HttpLookup),
}

impl HttpLookup {
    /// Names of the parameters that it asks for, in the order of path and query.
    pub fn parameters(&self) -> Vec<String> {
        let path = template::parameters(&self.path).map(str::to_owned);
        path.chain(self.query.values().cloned()).collect()
    }
}

impl Lookup {
    /// One SELECT on a store.
    pub fn sql(store: impl Into<StoreName>, sql: impl Into<String>) -> Self {
        Self::Sql(SqlLookup {
            store: store.into(),
            sql: sql.into(),
        })
    }
}

/// A SELECT with bound parameters.
///
/// Where it tells the owner of a resource its columns go by their names: `owner`, one per parameter that an argument fills, with
/// what the database took it for, and perhaps `tenant`. Where it lists values it has one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlLookup {
    /// Which database.
    pub store: StoreName,
    /// One SELECT; parameters `:principal`, `:tenant` and those that rules bind.
    pub sql: String,
}

/// A GET of a JSON document. 404 means that there is no such resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLookup {
    /// Which backend; the request carries its credential.
    pub upstream: UpstreamName,
    /// Path below the upstream's URL; each parameter, such as `{order_id}`, is a whole segment.
    pub path: String,
    /// Fields of the query, each with the parameter that fills it.
    pub query: BTreeMap<String, String>,
    /// JSON Pointer of the owner, or of a list of owners; `None`: it tells none.
    pub owner: Option<String>,
    /// JSON Pointer of the tenant, where it is to be compared.
    pub tenant: Option<String>,
    /// JSON Pointer of what the backend took each parameter for.
    pub echo: BTreeMap<String, String>,
    /// JSON Pointer of a list in the answer whose elements are the rows that `columns` read; empty: the answer is the list.
    /// `None`: the answer is one row.
    pub rows: Option<String>,
    /// JSON Pointers of what else it tells, by the names that rules read it by.
    pub columns: BTreeMap<String, String>,
}
