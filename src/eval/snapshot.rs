//! A whole database as the judge saw it, and what differs between two of them.
//!
//! Two snapshots share the rows of a table that is the same in both: a row is compared where SQLite has it, and copied only where
//! it is another than it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row as SqlRow};
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
    pub columns: Arc<[String]>,
    /// Rows in no order that matters, one value per column.
    pub rows: Arc<[Vec<Value>]>,
    /// What the case may change of each row; of those that are not here, nothing.
    pub free: Vec<Free>,
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
    /// Reads every table over the judge's connection. `known` is an earlier look.
    pub(super) fn read(
        connection: &Connection,
        (changes, bound): (&[&Change], &Bindings),
        known: Option<&Self>,
    ) -> rusqlite::Result<Self> {
        let known = |table: &str| known.and_then(|known| known.tables.get(table));
        let mut schema = connection.prepare_cached(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )?;
        let names = schema
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<Vec<(String, String)>>>()?;
        let mut tables = BTreeMap::new();
        for (name, sql) in names {
            let about: Vec<_> = changes
                .iter()
                .filter(|c| c.table == name)
                .copied()
                .collect();
            let table = table(connection, (&name, &sql), (&about, bound), known(&name))?;
            tables.insert(name, table);
        }
        // Tables, views and triggers themselves: what comes or goes without a row would not show otherwise.
        let schema = table(connection, (SCHEMA, ""), (&[], bound), known(SCHEMA))?;
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
        Arc::ptr_eq(&self.rows, &other.rows) || self.rows == other.rows
    }

    /// The rows in an order of their own.
    fn sorted(&self) -> Vec<String> {
        let rows = self.rows.iter().map(|row| Value::from(row.clone()));
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
        let freed = freed(&columns, changes);
        let (mut kept, mut free) = (Vec::new(), Vec::new());
        for (values, about) in rows {
            let mut may = Free::Nothing;
            for (columns, about) in freed.iter().zip(about) {
                if about {
                    may.widen(columns.as_deref());
                }
            }
            kept.push(values);
            free.push(may);
        }
        Self {
            rows: kept.into(),
            columns: columns.into(),
            free,
        }
    }

    /// Rows of this table, each as often as `other` has it less often.
    fn without(&self, other: &Self) -> Vec<Map<String, Value>> {
        let mut there: BTreeMap<String, usize> = BTreeMap::new();
        for key in other.keys().filter_map(|(_, key)| key) {
            *there.entry(key).or_default() += 1;
        }
        let missing = self
            .keys()
            .filter_map(|(row, key)| match there.get_mut(&key?) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    None
                }
                _ => Some(self.object(row)),
            });
        missing.collect()
    }

    fn object(&self, row: &[Value]) -> Map<String, Value> {
        let named = self.columns.iter().cloned().zip(row.iter().cloned());
        named.collect()
    }

    /// Each row with what of it must stay as it is; `None` where all may change.
    fn keys(&self) -> impl Iterator<Item = (&[Value], Option<String>)> {
        let free = self.free.iter().chain(std::iter::repeat(&Free::Nothing));
        let rows = self.rows.iter().zip(free);
        rows.map(|(row, free)| (&row[..], free.key(row)))
    }
}

impl Free {
    fn key(&self, row: &[Value]) -> Option<String> {
        let free = match self {
            Self::All => return None,
            Self::Nothing => None,
            Self::Columns(columns) => Some(columns),
        };
        let kept = row.iter().enumerate().map(|(index, value)| {
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

/// `sql` is what the table was made by: a kept statement tells the columns that there were when it was prepared.
fn table(
    connection: &Connection,
    (name, sql): (&str, &str),
    (changes, bound): (&[&Change], &Bindings),
    known: Option<&Table>,
) -> rusqlite::Result<Table> {
    let all = if name == SCHEMA {
        // Not where on the disk it stands.
        "type, name, tbl_name, sql"
    } else {
        "*"
    };
    let mut select = format!("SELECT /*{:08x}*/ {all}", crc32fast::hash(sql.as_bytes()));
    for change in changes {
        select += ", ";
        select += &change.condition();
    }
    select += " FROM ";
    select += &identifier(name, Dialect::Sqlite);
    let mut statement = connection.prepare_cached(&select)?;
    let width = statement.column_count() - changes.len();
    let names = || statement.column_names().take(width);
    let known = known.filter(|known| known.columns.iter().map(String::as_str).eq(names()));
    let columns = known.map_or_else(
        || names().map(str::to_owned).collect(),
        |known| Arc::clone(&known.columns),
    );
    let freed = freed(&columns, changes);
    let mut rows = bound.query(&mut statement)?;
    let mut found = Found::over(known.map(|known| &known.rows));
    let mut free = Vec::new();
    while let Some(row) = rows.next()? {
        found.add(row, width)?;
        if freed.is_empty() {
            continue;
        }
        let mut may = Free::Nothing;
        for (offset, columns) in freed.iter().enumerate() {
            if is_true(&to_json(row.get_ref(width + offset)?)) {
                may.widen(columns.as_deref());
            }
        }
        free.push(may);
    }
    drop(rows);
    Ok(Table {
        columns,
        rows: found.rows(),
        free,
    })
}

/// Rows as they are read: those of an earlier look as long as they are the same.
enum Found<'k> {
    Same(&'k Arc<[Vec<Value>]>, usize),
    Other(Vec<Vec<Value>>),
}

impl<'k> Found<'k> {
    fn over(known: Option<&'k Arc<[Vec<Value>]>>) -> Self {
        known.map_or_else(|| Self::Other(Vec::new()), |known| Self::Same(known, 0))
    }

    fn add(&mut self, row: &SqlRow<'_>, width: usize) -> rusqlite::Result<()> {
        if let Self::Same(known, at) = self {
            if let Some(twin) = known.get(*at)
                && is(row, twin)?
            {
                *at += 1;
                return Ok(());
            }
            *self = Self::Other(known.iter().take(*at).cloned().collect());
        }
        if let Self::Other(rows) = self {
            let values = (0..width).map(|column| row.get_ref(column).map(to_json));
            rows.push(values.collect::<rusqlite::Result<Vec<_>>>()?);
        }
        Ok(())
    }

    fn rows(self) -> Arc<[Vec<Value>]> {
        match self {
            Self::Same(known, at) if at == known.len() => Arc::clone(known),
            Self::Same(known, at) => known.iter().take(at).cloned().collect(),
            Self::Other(rows) => rows.into(),
        }
    }
}

/// Whether a row has these values, which its columns had as JSON.
fn is(row: &SqlRow<'_>, values: &[Value]) -> rusqlite::Result<bool> {
    for (column, known) in values.iter().enumerate() {
        let same = match (row.get_ref(column)?, known) {
            (ValueRef::Null, Value::Null) => true,
            (ValueRef::Integer(number), Value::Number(known)) => known.as_i64() == Some(number),
            (ValueRef::Text(bytes), Value::String(known)) => known.as_bytes() == bytes,
            (value, known) => to_json(value) == *known,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn snapshot(rows: &[(Value, i64, Free)]) -> Snapshot {
        let table = Table {
            columns: ["id".into(), "n".into()].into(),
            rows: rows
                .iter()
                .map(|(id, n, _)| vec![id.clone(), (*n).into()])
                .collect(),
            free: rows.iter().map(|(.., free)| free.clone()).collect(),
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

    /// What is read over an earlier look is what is read without one, and shares with it what is the same.
    #[test]
    fn a_look_over_an_earlier_one_sees_the_same() {
        let on = Connection::open_in_memory().unwrap();
        on.execute_batch(
            "CREATE TABLE t (id, n); INSERT INTO t VALUES ('a', 1), (2, 1.5), (NULL, x'00'), (CAST(x'ff' AS TEXT), 9e999);
             CREATE TABLE other (x); INSERT INTO other VALUES (1)",
        )
        .unwrap();
        let bound = Bindings::default();
        let alone = || Snapshot::read(&on, (&[], &bound), None).unwrap();
        let first = alone();
        for (act, same) in [
            ("SELECT 1", true),
            ("UPDATE t SET n = 1.0 WHERE id = 'a'", false),
            ("UPDATE t SET n = 1 WHERE id = 'a'", true),
            ("UPDATE t SET n = x'01' WHERE id IS NULL", false),
            ("DELETE FROM t WHERE id IS NULL", false),
            ("DELETE FROM t WHERE typeof(n) = 'real'", false),
            ("DELETE FROM t; INSERT INTO t VALUES (1, 1)", false),
            ("ALTER TABLE t RENAME COLUMN n TO m", false),
            ("DROP TABLE t", false),
        ] {
            on.execute_batch(act).unwrap();
            let over = Snapshot::read(&on, (&[], &bound), Some(&first)).unwrap();
            assert_eq!(over, alone(), "{act}");
            let shared = |name: &str| {
                let twins = first.tables.get(name).zip(over.tables.get(name));
                twins.is_some_and(|(one, twin)| Arc::ptr_eq(&one.rows, &twin.rows))
            };
            assert_eq!((shared("t"), shared("other")), (same, true), "{act}");
            assert_eq!(first.difference(&over).is_empty(), same, "{act}");
        }
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
