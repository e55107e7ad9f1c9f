//! Look-ups that are read by their columns: the state of what a call names, and whether a call took effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::lookup::{Binds, target};
use crate::names::{LookupName, RuleId};
use crate::policy::usage::ALWAYS_BOUND;
use crate::policy::{HttpLookup, Lookup, Policy};
use crate::principal::Principal;
use crate::source::Problem;
use crate::store::Stores;
use crate::store::http::HttpRead;
use crate::store::sql::{ReadOnlySql, SqlValue};

/// One row: what stands in each column that is read, as text; `None`: nothing.
pub(super) type Row = BTreeMap<String, Option<String>>;

/// A look-up, ready to be read.
#[derive(Clone)]
pub(super) struct Reading {
    name: LookupName,
    columns: Vec<String>,
    asks: Asks,
}

#[derive(Clone)]
enum Asks {
    Sql {
        sql: String,
        store: Arc<dyn ReadOnlySql>,
        /// Where each of the columns stands.
        at: Vec<usize>,
    },
    Http {
        lookup: HttpLookup,
        backend: Arc<dyn HttpRead>,
    },
}

impl Reading {
    /// Finds the look-up and what it asks, and checks that it fits. `always` are parameters that are bound whether it asks for
    /// them or not, beside the principal and the tenant; `binds` those that it must ask for.
    pub(super) fn new(
        (policy, stores): (&Policy, &Stores),
        name: &LookupName,
        rule: &RuleId,
        (always, binds): (&[&str], &[&str]),
        columns: &[&str],
    ) -> Result<Self, Problem> {
        let lookup = policy.lookups.get(name).ok_or_else(|| {
            Problem::new(format!("{rule}: there is no look-up `{name}`"))
                .help(format!("add `{name}` under `lookups`"))
        })?;
        let always: Vec<_> = ALWAYS_BOUND.iter().chain(always).copied().collect();
        let fits = |described| {
            let wanted = columns.iter().copied();
            let fits = lookup.columns_fit(name.as_str(), described, (&always, binds), wanted);
            fits.map_err(|misfit| {
                Problem::new(format!("{rule}: {}", misfit.message)).help(misfit.help)
            })
        };
        let asks = match lookup {
            Lookup::Sql(sql) => {
                let store = stores.sql.get(&sql.store).ok_or_else(|| {
                    Problem::new(format!(
                        "look-up `{name}` asks the store `{}`, which is not configured",
                        sql.store
                    ))
                    .help(format!("add `stores.{}` to the config", sql.store))
                })?;
                let described = store.check(&sql.sql).map_err(|error| {
                    Problem::new(format!("look-up `{name}`: {error}"))
                        .help("a look-up is one SELECT with named parameters such as :principal")
                })?;
                fits(Some(&described))?;
                let at = columns
                    .iter()
                    .filter_map(|wanted| described.columns.iter().position(|it| it == wanted));
                Asks::Sql {
                    sql: sql.sql.clone(),
                    store: Arc::clone(store),
                    at: at.collect(),
                }
            }
            Lookup::Http(http) => {
                let backend = stores.http.get(&http.upstream).ok_or_else(|| {
                    Problem::new(format!(
                        "look-up `{name}` asks the upstream `{}`, which is not configured",
                        http.upstream
                    ))
                    .help(format!("add `upstreams.{}` to the config", http.upstream))
                })?;
                fits(None)?;
                Asks::Http {
                    lookup: http.clone(),
                    backend: Arc::clone(backend),
                }
            }
        };
        Ok(Self {
            name: name.clone(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            asks,
        })
    }

    /// Its name.
    pub(super) const fn name(&self) -> &LookupName {
        &self.name
    }

    /// Its rows now; by HTTP one, or none for a 404.
    ///
    /// # Errors
    /// Why there is no answer to trust; holds nothing of the call.
    pub(super) async fn rows(
        &self,
        principal: &Principal,
        mut binds: Binds,
    ) -> Result<Vec<Row>, String> {
        for (name, value) in [
            ("principal", &principal.subject),
            ("tenant", &principal.tenant),
        ] {
            binds.push((name.to_owned(), SqlValue::Text(value.to_string())));
        }
        let asked = match &self.asks {
            Asks::Sql { sql, store, at } => self.sql(store.as_ref(), (sql, at), binds).await,
            Asks::Http { lookup, backend } => self.http(backend.as_ref(), lookup, binds).await,
        };
        asked.map_err(|cause| format!("look-up `{}`: {cause}", self.name))
    }

    async fn sql(
        &self,
        store: &dyn ReadOnlySql,
        (sql, at): (&str, &[usize]),
        binds: Binds,
    ) -> Result<Vec<Row>, String> {
        let found = store.query(sql, binds).await;
        let found = found.map_err(|error| error.to_string())?;
        let row = |cells: Vec<SqlValue>| {
            let cells = at.iter().map(|index| cells.get(*index).map(text));
            let cells: Vec<_> = cells.collect::<Option<_>>()?;
            Some(self.columns.iter().cloned().zip(cells).collect::<Row>())
        };
        let rows = found.rows.into_iter().map(row);
        rows.collect::<Option<_>>()
            .ok_or_else(|| "it gives other columns than at start".to_owned())
    }

    async fn http(
        &self,
        backend: &dyn HttpRead,
        lookup: &HttpLookup,
        binds: Binds,
    ) -> Result<Vec<Row>, String> {
        // No path of this shape names it.
        let Some(path) = target(lookup, &binds) else {
            return Ok(Vec::new());
        };
        let answer = backend.get(&path).await;
        let Some(document) = answer.map_err(|error| error.to_string())? else {
            return Ok(Vec::new());
        };
        let row = |element: &Value| {
            let cells = self.columns.iter().map(|column| {
                let at = lookup.columns.get(column);
                let value = at.and_then(|at| element.pointer(at));
                (column.clone(), shown(value))
            });
            cells.collect::<Row>()
        };
        let Some(rows) = &lookup.rows else {
            if document.is_array() {
                return Err("the answer is a list: add `rows` to it".to_owned());
            }
            return Ok(vec![row(&document)]);
        };
        let list = document.pointer(rows).and_then(Value::as_array);
        let list = list.ok_or_else(|| format!("there is no list at `{rows}` of the answer"))?;
        Ok(list.iter().map(row).collect())
    }
}

/// Numbers by their digits, bytes by their length and hash: only compared and shown.
fn text(value: &SqlValue) -> Option<String> {
    match value {
        SqlValue::Null => None,
        SqlValue::Integer(number) => Some(number.to_string()),
        SqlValue::Real(number) => Some(number.to_string()),
        SqlValue::Text(text) => Some(text.clone()),
        SqlValue::Blob(bytes) => Some(format!(
            "{} bytes, sha256 {}",
            bytes.len(),
            crate::store::tickets::digest::sha256_hex(bytes)
        )),
    }
}

/// A text as it is, anything else as canonical JSON.
fn shown(value: Option<&Value>) -> Option<String> {
    match value {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) => serde_json_canonicalizer::to_string(other).ok(),
    }
}
