//! A whole database as the judge saw it, and what differs between two of them.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use serde::Serialize;
use serde_json::{Map, Value};

use super::judge::{Change, identifier};
use super::sql::{Bindings, Dialect, is_true, to_json};

/// SQLite's own table of everything that the database defines.
const SCHEMA: &str = "sqlite_schema";

/// Every table of the world at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// By name.
    pub tables: BTreeMap<String, Table>,
}

/// One table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Column names in the schema's order.
    pub columns: Vec<String>,
    /// Rows in no order that matters.
    pub rows: Vec<Row>,
}

/// One row, and what of it the case may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// One value per column.
    pub values: Vec<Value>,
    /// What may change.
    pub free: Free,
}

/// What of a row the case may change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Free {
    /// Nothing.
    #[default]
    Nothing,
    /// These columns, by index.
    Columns(BTreeSet<usize>),
    /// The row may come, go and change.
    All,
}

impl Free {
    /// Adds what one more change allows: `None` for the whole row.
    pub fn widen(&mut self, columns: Option<&[usize]>) {
        match (&mut *self, columns) {
            (Self::All, _) => {}
            (_, None) => *self = Self::All,
            (Self::Columns(free), Some(more)) => free.extend(more),
            (Self::Nothing, Some(more)) => *self = Self::Columns(more.iter().copied().collect()),
        }
    }
}

/// What changed in one table although nothing allowed it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The table.
    pub table: String,
    /// Rows that were there before and are not there as they were.
    pub removed: Vec<Map<String, Value>>,
    /// Rows that are there now and were not there so before.
    pub added: Vec<Map<String, Value>>,
}

impl Snapshot {
    /// Reads every table over the judge's connection.
    pub(super) fn read(
        connection: &Connection,
        changes: &[&Change],
        bound: &Bindings,
    ) -> rusqlite::Result<Self> {
        let mut schema = connection.prepare_cached(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )?;
        let names = schema
            .query_map([], |row| row.get::<_, String>(0))?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        let mut tables = BTreeMap::new();
        for name in names {
            let about: Vec<_> = changes
                .iter()
                .filter(|c| c.table == name)
                .copied()
                .collect();
            let table = table(connection, &name, &about, bound)?;
            tables.insert(name, table);
        }
        // Tables, views and triggers themselves: what comes or goes without a row would not show otherwise.
        let schema = table(connection, SCHEMA, &[], bound)?;
        tables.insert(SCHEMA.to_owned(), schema);
        Ok(Self { tables })
    }

    /// Everything that differs and that neither snapshot's rows leave free, table by table.
    pub fn difference(&self, after: &Self) -> Vec<Difference> {
        let names: BTreeSet<_> = self.tables.keys().chain(after.tables.keys()).collect();
        let nothing = Table::default();
        let differing = names.into_iter().filter_map(|name| {
            let old = self.tables.get(name).unwrap_or(&nothing);
            let new = after.tables.get(name).unwrap_or(&nothing);
            if old.has_rows_of(new) {
                return None;
            }
            let (removed, added) = (old.without(new), new.without(old));
            let changed = !(removed.is_empty() && added.is_empty());
            changed.then(|| Difference {
                table: name.clone(),
                removed,
                added,
            })
        });
        differing.collect()
    }

    /// Whether every table has the same rows, whatever may change of them.
    pub fn is_as(&self, other: &Self) -> bool {
        self.tables.len() == other.tables.len()
            && self.tables.iter().all(|(name, table)| {
                let twin = other.tables.get(name);
                twin.is_some_and(|twin| table.has_rows_of(twin) || table.sorted() == twin.sorted())
            })
    }

    /// As one text, the same for the same rows in any order.
    pub(super) fn canonical(&self) -> String {
        let tables = self.tables.iter().map(|(name, table)| {
            let rows = table.sorted().into_iter().map(Value::String);
            (name.clone(), rows.collect::<Value>())
        });
        Value::Object(tables.collect()).to_string()
    }

    /// As JSON: an array of row objects per table.
    pub fn to_json(&self) -> Value {
        let tables = self.tables.iter().map(|(name, table)| {
            let rows = table.rows.iter().map(|row| table.object(row).into());
            (name.clone(), Value::Array(rows.collect()))
        });
        Value::Object(tables.collect())
    }
}

impl Table {
    /// Whether the rows are the same, in the same order.
    fn has_rows_of(&self, other: &Self) -> bool {
        let mut rows = self.rows.iter().zip(&other.rows);
        self.rows.len() == other.rows.len() && rows.all(|(one, twin)| one.values == twin.values)
    }

    /// The rows in an order of their own.
    fn sorted(&self) -> Vec<String> {
        let rows = self.rows.iter().map(|row| Value::from(row.values.clone()));
        let mut rows: Vec<_> = rows.map(|row| row.to_string()).collect();
        rows.sort_unstable();
        rows
    }

    /// Of rows as a server gives them: values, and whether each change is about the row.
    pub(super) fn assembled(
        columns: Vec<String>,
        changes: &[&Change],
        rows: impl IntoIterator<Item = (Vec<Value>, Vec<bool>)>,
    ) -> Self {
        let free = freed(&columns, changes);
        let rows = rows.into_iter().map(|(values, about)| {
            let mut may = Free::Nothing;
            for (columns, about) in free.iter().zip(about) {
                if about {
                    may.widen(columns.as_deref());
                }
            }
            Row { values, free: may }
        });
        Self {
            rows: rows.collect(),
            columns,
        }
    }

    /// Rows of this table, each as often as `other` has it less often.
    fn without(&self, other: &Self) -> Vec<Map<String, Value>> {
        let mut there: BTreeMap<String, usize> = BTreeMap::new();
        for key in other.rows.iter().filter_map(Row::key) {
            *there.entry(key).or_default() += 1;
        }
        let missing = self.rows.iter().filter(|row| {
            let Some(key) = row.key() else { return false };
            match there.get_mut(&key) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    false
                }
                _ => true,
            }
        });
        missing.map(|row| self.object(row)).collect()
    }

    fn object(&self, row: &Row) -> Map<String, Value> {
        let named = self.columns.iter().cloned().zip(row.values.iter().cloned());
        named.collect()
    }
}

impl Row {
    /// What must stay as it is; `None` where all may change.
    fn key(&self) -> Option<String> {
        let free = match &self.free {
            Free::All => return None,
            Free::Nothing => None,
            Free::Columns(columns) => Some(columns),
        };
        let kept = self.values.iter().enumerate().map(|(index, value)| {
            let masked = free.is_some_and(|columns| columns.contains(&index));
            if masked {
                "*".to_owned()
            } else {
                value.to_string()
            }
        });
        Some(kept.collect::<Vec<_>>().join(","))
    }
}

/// Of each change the columns that it frees, by index; `None`: the whole row.
fn freed(columns: &[String], changes: &[&Change]) -> Vec<Option<Vec<usize>>> {
    let index = |column: &String| columns.iter().position(|c| c == column);
    let freed = changes.iter().map(|change| {
        let named = change.columns.as_ref()?;
        Some(named.iter().filter_map(index).collect())
    });
    freed.collect()
}

fn table(
    connection: &Connection,
    name: &str,
    changes: &[&Change],
    bound: &Bindings,
) -> rusqlite::Result<Table> {
    let all = if name == SCHEMA {
        // Not where on the disk it stands.
        "type, name, tbl_name, sql"
    } else {
        "*"
    };
    let mut select = format!("SELECT {all}");
    for change in changes {
        select += ", ";
        select += &change.condition();
    }
    select += " FROM ";
    select += &identifier(name, Dialect::Sqlite);
    let mut statement = connection.prepare_cached(&select)?;
    let width = statement.column_count() - changes.len();
    let columns: Vec<String> = statement
        .column_names()
        .take(width)
        .map(str::to_owned)
        .collect();
    let free = freed(&columns, changes);
    let mut rows = bound.query(&mut statement)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..width)
            .map(|column| row.get_ref(column).map(to_json))
            .collect::<rusqlite::Result<Vec<_>>>()?;
        let mut may = Free::Nothing;
        for (offset, columns) in free.iter().enumerate() {
            if is_true(&to_json(row.get_ref(width + offset)?)) {
                may.widen(columns.as_deref());
            }
        }
        found.push(Row { values, free: may });
    }
    drop(rows);
    Ok(Table {
        columns,
        rows: found,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn snapshot(rows: &[(Value, i64, Free)]) -> Snapshot {
        let table = Table {
            columns: vec!["id".into(), "n".into()],
            rows: rows
                .iter()
                .map(|(id, n, free)| Row {
                    values: vec![id.clone(), (*n).into()],
                    free: free.clone(),
                })
                .collect(),
        };
        Snapshot {
            tables: [("t".to_owned(), table)].into(),
        }
    }

    #[test]
    fn what_is_free_may_change_and_nothing_else() {
        let free = || {
            let mut free = Free::Nothing;
            free.widen(Some(&[1]));
            free
        };
        let before = snapshot(&[
            (json!("a"), 1, Free::Nothing),
            (json!("b"), 1, free()),
            (json!("c"), 1, Free::All),
        ]);
        let same = snapshot(&[(json!("b"), 7, free()), (json!("a"), 1, Free::Nothing)]);
        assert_eq!(before.difference(&same), []);
        let after = snapshot(&[(json!("a"), 2, Free::Nothing), (json!("d"), 1, free())]);
        let [difference] = &before.difference(&after)[..] else {
            panic!("one table differs")
        };
        assert_eq!(
            json!(difference.removed),
            json!([{"id": "a", "n": 1}, {"id": "b", "n": 1}])
        );
        assert_eq!(
            json!(difference.added),
            json!([{"id": "a", "n": 2}, {"id": "d", "n": 1}])
        );
    }

    #[test]
    fn rows_are_counted() {
        let row = || (json!(1), 1, Free::Nothing);
        let (one, two) = (snapshot(&[row()]), snapshot(&[row(), row()]));
        assert_eq!(one.difference(&two)[0].added.len(), 1);
        assert_eq!(two.difference(&one)[0].removed.len(), 1);
        assert_eq!(one.difference(&Snapshot::default())[0].removed.len(), 1);
    }

    #[test]
    fn types_and_texts_are_not_confused() {
        let of = |value| snapshot(&[(value, 0, Free::Nothing)]);
        for (a, b) in [
            (json!(1), json!("1")),
            (json!(1), json!(1.0)),
            (json!(null), json!("null")),
        ] {
            assert_eq!(of(a).difference(&of(b)).len(), 1);
        }
    }
}
