//! Every row of a world at one moment, by its key, and conditions over rows that are written as SQL and can be counted here.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde_json::Value;

use crate::eval::judge::quoted;
use crate::eval::sql::to_json;

/// A world's tables, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State(pub BTreeMap<String, Table>);

/// One table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    /// Column names in the schema's order.
    pub columns: Vec<String>,
    /// Which of them hold text.
    pub texts: Vec<bool>,
    /// Which of them are the key, by position.
    pub key: Vec<usize>,
    /// Rows by their key's JSON.
    pub rows: BTreeMap<String, Vec<Value>>,
}

impl State {
    /// Reads every table.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let tables = tables(connection)?.into_iter().map(|name| {
            let table = Table::read(connection, &name)?;
            Ok((name, table))
        });
        Ok(Self(tables.collect::<rusqlite::Result<_>>()?))
    }
}

/// The names of all tables, in the order in which they were made.
pub(super) fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut names = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid",
    )?;
    let names = names.query_map([], |row| row.get(0))?;
    names.collect()
}

impl Table {
    fn read(connection: &Connection, name: &str) -> rusqlite::Result<Self> {
        let mut table = Self::default();
        let mut about = connection.prepare(&format!("PRAGMA table_info({})", quoted(name)))?;
        let mut columns = about.query([])?;
        let mut key: Vec<(i64, usize)> = Vec::new();
        while let Some(column) = columns.next()? {
            let place: i64 = column.get("pk")?;
            if place > 0 {
                key.push((place, table.columns.len()));
            }
            let kind: String = column.get("type")?;
            table.columns.push(column.get("name")?);
            table.texts.push(kind.eq_ignore_ascii_case("TEXT"));
        }
        key.sort_unstable();
        table.key = key.into_iter().map(|(_, at)| at).collect();
        if table.key.is_empty() {
            table.key = (0..table.columns.len()).collect();
        }
        let mut select = connection.prepare(&format!("SELECT * FROM {}", quoted(name)))?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let values = (0..table.columns.len()).map(|at| row.get_ref(at).map(to_json));
            let values = values.collect::<rusqlite::Result<Vec<_>>>()?;
            table.rows.insert(table.key_of(&values), values);
        }
        Ok(table)
    }

    fn key_of(&self, row: &[Value]) -> String {
        let values: Vec<_> = self.key.iter().filter_map(|at| row.get(*at)).collect();
        serde_json::to_string(&values).unwrap_or_default()
    }

    /// The value of a column in a row.
    pub(super) fn value<'r>(&self, row: &'r [Value], column: &str) -> &'r Value {
        let at = self.columns.iter().position(|named| named == column);
        at.and_then(|at| row.get(at)).unwrap_or(&Value::Null)
    }

    /// Names of the key's columns.
    pub(super) fn key_columns(&self) -> impl Iterator<Item = &str> {
        let names = self.key.iter().filter_map(|at| self.columns.get(*at));
        names.map(String::as_str)
    }

    /// Whether a column belongs to the key.
    pub(super) fn is_key(&self, column: &str) -> bool {
        self.key_columns().any(|named| named == column)
    }

    /// How many rows a condition takes.
    pub(super) fn count(&self, condition: &Condition) -> usize {
        let rows = self.rows.values();
        rows.filter(|row| condition.takes(self, row)).count()
    }
}

/// What is asked of a row; all of it must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Condition(pub Vec<Test>);

/// One question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    /// The column has this value.
    Is(String, Value),
    /// The column has another value.
    Differs(String, Value),
    /// One of these columns holds this text, whatever the case.
    Holds(Vec<String>, String),
    /// The row is none of those with these values of these columns.
    NoneOf(Vec<String>, Vec<Vec<Value>>),
}

impl Condition {
    /// Whether all of it holds of a row.
    pub(super) fn takes(&self, table: &Table, row: &[Value]) -> bool {
        self.0.iter().all(|test| match test {
            Test::Is(column, value) => table.value(row, column) == value,
            Test::Differs(column, value) => table.value(row, column) != value,
            Test::Holds(columns, text) => columns.iter().any(|column| {
                let value = table.value(row, column).as_str().unwrap_or_default();
                value.to_ascii_lowercase().contains(text)
            }),
            Test::NoneOf(columns, rows) => !rows.iter().any(|values| {
                let mut same = columns.iter().zip(values);
                same.all(|(column, value)| table.value(row, column) == value)
            }),
        })
    }

    /// As SQL, with parameters whose names begin with `prefix`; what must be bound is added to `params`.
    pub(super) fn sql(&self, prefix: &str, params: &mut BTreeMap<String, Value>) -> String {
        let mut bind = |name: String, value: &Value| {
            let name = format!("{prefix}_{name}");
            params.insert(name.clone(), value.clone());
            format!(":{name}")
        };
        let mut tests = Vec::new();
        for test in &self.0 {
            tests.push(match test {
                Test::Is(column, Value::Null) => format!("{column} IS NULL"),
                Test::Is(column, value) => format!("{column} = {}", bind(column.clone(), value)),
                Test::Differs(column, Value::Null) => format!("{column} IS NOT NULL"),
                Test::Differs(column, value) => {
                    format!("{column} <> {}", bind(format!("old_{column}"), value))
                }
                Test::Holds(columns, text) => {
                    let text = bind("text".to_owned(), &Value::from(text.as_str()));
                    // True in every dialect exactly where the text stands in the column.
                    let holds = columns.iter().map(|column| {
                        format!("replace(lower({column}), {text}, '') <> lower({column})")
                    });
                    let holds: Vec<_> = holds.collect();
                    format!("({})", holds.join(" OR "))
                }
                Test::NoneOf(columns, rows) => {
                    let mut none = Vec::new();
                    for (at, values) in rows.iter().enumerate() {
                        let same = columns.iter().zip(values).map(|(column, value)| {
                            format!(
                                "{column} = {}",
                                bind(format!("not_{}_{column}", at + 1), value)
                            )
                        });
                        let same: Vec<_> = same.collect();
                        none.push(format!("NOT ({})", same.join(" AND ")));
                    }
                    none.join(" AND ")
                }
            });
        }
        tests.join(" AND ")
    }
}
