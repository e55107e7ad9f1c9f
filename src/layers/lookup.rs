//! Look-ups that are ready to run: their database or backend is there, and they fit the rule that uses them.

use std::fmt::Write as _;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::Memo;
use crate::names::{LookupName, RuleId};
use crate::policy::usage::{self, Misfit, Shape};
use crate::policy::{HttpLookup, Lookup, Policy};
use crate::principal::Session;
use crate::settings::template;
use crate::source::Problem;
use crate::store::Stores;
use crate::store::http::HttpRead;
use crate::store::sql::{ReadOnlySql, SqlValue};
use crate::verdict::{LayerId, Undecided};
use crate::wire::json::MAX_SAFE_INTEGER;

/// A look-up, ready to run.
#[derive(Clone)]
pub(super) struct ReadyLookup {
    name: LookupName,
    asks: Asks,
}

#[derive(Clone)]
enum Asks {
    Sql {
        sql: String,
        store: Arc<dyn ReadOnlySql>,
        /// `None`: one column of values.
        shape: Option<Shape>,
    },
    Http {
        lookup: HttpLookup,
        backend: Arc<dyn HttpRead>,
    },
}

/// What a look-up says of one thing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// Its owner, or a value of a list.
    pub(super) owner: SqlValue,
    /// Its tenant, where the look-up tells.
    pub(super) tenant: Option<SqlValue>,
    /// What the parameters were taken for, in the order of the rule's; an empty list where nothing tells.
    pub(super) echo: Vec<(String, SqlValue)>,
}

/// All of it.
pub(super) type Answer = Vec<Row>;

/// Values of parameters by name.
pub(super) type Binds = Vec<(String, SqlValue)>;

impl ReadyLookup {
    /// Finds the look-up and what it asks, and checks that it fits. `binds` are the parameters that the arguments fill, for a
    /// look-up that tells an owner; `None` for one that lists values.
    pub(super) fn new(
        policy: &Policy,
        stores: &Stores,
        name: &LookupName,
        rule: &RuleId,
        binds: Option<&[&str]>,
    ) -> Result<Self, Problem> {
        let Some(lookup) = policy.lookups.get(name) else {
            return Err(
                Problem::new(format!("{rule}: there is no look-up `{name}`")).help(format!(
                    "add `{name}` under `lookups`, or name one of: {}",
                    super::support::names(policy.lookups.keys())
                )),
            );
        };
        let unfit =
            |misfit: Misfit| Problem::new(format!("{rule}: {}", misfit.message)).help(misfit.help);
        let asks = match lookup {
            Lookup::Sql(lookup) => {
                let store = stores.sql.get(&lookup.store).ok_or_else(|| {
                    Problem::new(format!(
                        "look-up `{name}` asks the store `{}`, which is not configured",
                        lookup.store
                    ))
                    .help(format!("add `stores.{}` to the config", lookup.store))
                })?;
                let described = store.check(&lookup.sql).map_err(|error| {
                    Problem::new(format!("look-up `{name}`: {error}"))
                        .help("a look-up is one SELECT with named parameters such as :principal")
                })?;
                let shape = match binds {
                    Some(binds) => {
                        usage::owner_fits(name.as_str(), &lookup.sql, &described, binds).map(Some)
                    }
                    None => usage::values_fit(name.as_str(), &described).map(|()| None),
                };
                Asks::Sql {
                    sql: lookup.sql.clone(),
                    store: Arc::clone(store),
                    shape: shape.map_err(unfit)?,
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
                lookup
                    .http_fits(name.as_str(), binds.unwrap_or_default())
                    .map_err(unfit)?;
                Asks::Http {
                    lookup: http.clone(),
                    backend: Arc::clone(backend),
                }
            }
        };
        Ok(Self {
            name: name.clone(),
            asks,
        })
    }

    /// The values that it lists for the session's principal.
    pub(super) async fn values(
        &self,
        layer: LayerId,
        session: &Session,
        memo: Option<&Memo>,
    ) -> Result<Vec<SqlValue>, Undecided> {
        let answer = self.ask(layer, session, memo, &Binds::new()).await?;
        Ok(answer.iter().map(|row| row.owner.clone()).collect())
    }

    /// What it says of the resource that the parameters name. Asked once per exchange.
    pub(super) async fn ask(
        &self,
        layer: LayerId,
        session: &Session,
        memo: Option<&Memo>,
        binds: &Binds,
    ) -> Result<Arc<Answer>, Undecided> {
        let failed = |cause: String| Undecided { layer, cause };
        let key = self.key(binds);
        if let Some(known) = memo.and_then(|memo| memo.get(&key)) {
            return known.map_err(failed);
        }
        let answer = self.run(session, binds).await;
        let answer = answer
            .map(Arc::new)
            .map_err(|cause| format!("look-up `{}`: {cause}", self.name));
        if let Some(memo) = memo {
            memo.keep(key, answer.clone());
        }
        answer.map_err(failed)
    }

    /// One text for one question: the principal of an exchange is one.
    fn key(&self, binds: &Binds) -> String {
        let mut key = self.name.to_string();
        for (name, value) in binds {
            let (kind, text) = match value {
                SqlValue::Integer(number) => ('i', number.to_string()),
                SqlValue::Text(text) => ('t', text.clone()),
                SqlValue::Null | SqlValue::Real(_) | SqlValue::Blob(_) => {
                    ('o', format!("{value:?}"))
                }
            };
            let _ = write!(key, "\0{name}\0{kind}{}\0{text}", text.len());
        }
        key
    }

    async fn run(&self, session: &Session, binds: &Binds) -> Result<Answer, String> {
        let principal = &session.principal;
        let mut params = binds.clone();
        params.push(text_of("principal", &principal.subject));
        params.push(text_of("tenant", &principal.tenant));
        match &self.asks {
            Asks::Sql { sql, store, shape } => {
                let rows = store.query(sql, params).await;
                let rows = rows.map_err(|error| error.to_string())?;
                let row = |cells: Vec<SqlValue>| read_row(cells, shape.as_ref());
                rows.rows
                    .into_iter()
                    .map(row)
                    .collect::<Option<_>>()
                    .ok_or_else(|| "it gives other columns than at start".to_owned())
            }
            Asks::Http { lookup, backend } => {
                let Some(path) = target(lookup, &params) else {
                    // No path of this shape names it.
                    return Ok(Answer::new());
                };
                let document = backend.get(&path).await;
                match document.map_err(|error| error.to_string())? {
                    None => Ok(Answer::new()),
                    Some(document) => read_document(lookup, &document, binds),
                }
            }
        }
    }
}

fn text_of(name: &str, value: &str) -> (String, SqlValue) {
    (name.to_owned(), SqlValue::Text(value.to_owned()))
}

fn read_row(cells: Vec<SqlValue>, shape: Option<&Shape>) -> Option<Row> {
    let Some(shape) = shape else {
        return Some(Row {
            owner: cells.into_iter().next()?,
            tenant: None,
            echo: Vec::new(),
        });
    };
    let echo = shape.echo.iter();
    Some(Row {
        owner: cells.get(shape.owner)?.clone(),
        tenant: match shape.tenant {
            Some(index) => Some(cells.get(index)?.clone()),
            None => None,
        },
        echo: echo
            .map(|(name, index)| Some((name.clone(), cells.get(*index)?.clone())))
            .collect::<Option<_>>()?,
    })
}

/// Everything but letters, digits and what RFC 3986 calls unreserved.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Path and query of a look-up by HTTP; `None` where a value cannot stand in the path.
pub(super) fn target(lookup: &HttpLookup, params: &Binds) -> Option<String> {
    let mut target = filled(&lookup.path, params)?;
    for (index, (field, parameter)) in lookup.query.iter().enumerate() {
        let text = match &params.iter().find(|(given, _)| given == parameter)?.1 {
            SqlValue::Text(text) => text.clone(),
            SqlValue::Integer(number) => number.to_string(),
            SqlValue::Null | SqlValue::Real(_) | SqlValue::Blob(_) => return None,
        };
        target.push(if index == 0 { '?' } else { '&' });
        target.extend(utf8_percent_encode(field, SEGMENT));
        target.push('=');
        target.extend(utf8_percent_encode(&text, SEGMENT));
    }
    Some(target)
}

/// The path with its parameters, each one segment; `None` where a value cannot stand in one without meaning something else to
/// some server: an empty one, dots alone, or one with slashes, or with escapes that a second decoding would open.
fn filled(path: &str, params: &Binds) -> Option<String> {
    let mut filled = String::with_capacity(path.len() + 32);
    for segment in path.split('/').skip(1) {
        filled.push('/');
        let Some(name) = template::parameters(segment).next() else {
            filled.push_str(segment);
            continue;
        };
        let text = match &params.iter().find(|(given, _)| given == name)?.1 {
            SqlValue::Text(text) => text.clone(),
            SqlValue::Integer(number) => number.to_string(),
            SqlValue::Null | SqlValue::Real(_) | SqlValue::Blob(_) => return None,
        };
        let steps_out = text.chars().all(|c| c == '.')
            || text.contains(['/', '\\', '%'])
            || text.contains(char::is_control);
        if steps_out {
            return None;
        }
        filled.extend(utf8_percent_encode(&text, SEGMENT));
    }
    Some(filled)
}

/// Text or an exact integer; nothing and `null` are NULL.
fn scalar(value: Option<&Value>) -> Option<SqlValue> {
    match value {
        None | Some(Value::Null) => Some(SqlValue::Null),
        Some(Value::String(text)) => Some(SqlValue::Text(text.clone())),
        Some(Value::Number(number)) => number
            .as_i64()
            .filter(|number| number.unsigned_abs() <= MAX_SAFE_INTEGER)
            .map(SqlValue::Integer),
        Some(_) => None,
    }
}

fn read_document(lookup: &HttpLookup, document: &Value, binds: &Binds) -> Result<Answer, String> {
    let at = |pointer: &str| {
        scalar(document.pointer(pointer))
            .ok_or_else(|| format!("`{pointer}` is neither text nor an integer"))
    };
    let tenant = lookup.tenant.as_deref().map(at).transpose()?;
    let mut echo = Vec::new();
    for (name, _) in binds {
        if let Some(pointer) = lookup.echo.get(name) {
            echo.push((name.clone(), at(pointer)?));
        }
    }
    let owner = lookup
        .owner
        .as_deref()
        .ok_or_else(|| "it tells no owner".to_owned())?;
    let owners = match document.pointer(owner) {
        Some(Value::Array(owners)) => owners.iter().map(|owner| scalar(Some(owner))).collect(),
        owner => vec![scalar(owner)],
    };
    let rows = owners.into_iter().map(|owner| {
        Some(Row {
            owner: owner?,
            tenant: tenant.clone(),
            echo: echo.clone(),
        })
    });
    rows.collect::<Option<_>>()
        .ok_or_else(|| format!("`{owner}` is neither text nor an integer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_in_its_segment() {
        let fill = |value: SqlValue| filled("/orders/{id}/x", &vec![("id".to_owned(), value)]);
        let text = |text: &str| fill(SqlValue::Text(text.to_owned()));
        assert_eq!(text("o-1~.a_b").unwrap(), "/orders/o-1~.a_b/x");
        assert_eq!(
            text("#W 1?x;y=ü").unwrap(),
            "/orders/%23W%201%3Fx%3By%3D%C3%BC/x"
        );
        assert_eq!(fill(SqlValue::Integer(-7)).unwrap(), "/orders/-7/x");
        for bad in [
            "", ".", "..", "...", "a/b", "..\\b", "%2e%2e", "a\0", "a\nb",
        ] {
            assert_eq!(text(bad), None, "{bad:?}");
        }
        assert_eq!(fill(SqlValue::Null), None);
    }
}
