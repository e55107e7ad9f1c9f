//! SQL of a suite: checked when the suite is loaded, run with parameters bound by name.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use data_encoding::HEXLOWER;
use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Batch, Connection, ErrorCode, Rows, Statement};
use serde_json::{Value, json};

use crate::source::{Problem, Problems, SourceFile, Spot};

/// Parameters that every statement of a suite may name, besides those that its author declares.
pub const COMMON: &[&str] = &["principal", "tenant", "session", "trial"];

/// Statements that a connection of a sandbox or a judge keeps prepared.
pub(super) const STATEMENTS: usize = 512;

/// Whose SQL it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// SQLite's.
    #[default]
    Sqlite,
    /// PostgreSQL's.
    Postgres,
    /// MySQL's and MariaDB's.
    Mysql,
}

impl Dialect {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Sqlite, Self::Postgres, Self::Mysql];

    /// Its name in a suite.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
        }
    }
}

/// One statement, with the place it was written at.
#[derive(Clone, Debug)]
pub struct Sql {
    /// The statement.
    pub text: Arc<str>,
    /// Where it stands.
    pub at: Spot,
}

/// What a statement may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// One SELECT.
    Read,
    /// One statement of any kind.
    Write,
}

impl Sql {
    /// Prepares the statement on a database with the world's schema and checks its parameters.
    ///
    /// # Errors
    /// What SQLite says, a statement that writes where it must read, or a parameter that nobody binds; with its place.
    pub fn check(&self, on: &Connection, allowed: Allowed, names: &[&str]) -> Result<(), Problem> {
        let writes = || {
            self.problem("this SQL must be one SELECT")
                .help("statements that write belong into a tool's `effect`")
        };
        let denied = rusqlite::ErrorCode::AuthorizationForStatementDenied;
        let statement = on.prepare(&self.text).map_err(|error| {
            if allowed == Allowed::Read && error.sqlite_error_code() == Some(denied) {
                return writes();
            }
            self.problem(&format!("wrong SQL: {}", plain(&error)))
        })?;
        if allowed == Allowed::Read && !(statement.readonly() && statement.column_count() > 0) {
            return Err(writes());
        }
        for index in 1..=statement.parameter_count() {
            let Some(name) = statement.parameter_name(index) else {
                return Err(self
                    .problem("the SQL has a parameter without a name")
                    .help("write `:name` in place of `?`"));
            };
            self.known(bare(name), names)?;
        }
        Ok(())
    }

    /// What looks like a parameter in it, without colon.
    pub(super) fn parameters(&self) -> impl Iterator<Item = String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut rest = &*self.text;
        std::iter::from_fn(move || {
            loop {
                let (_, after) = rest.split_once(':')?;
                let (name, behind) =
                    after.split_at(after.find(|c| !plain(c)).unwrap_or(after.len()));
                rest = behind;
                if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                    return Some(name.to_owned());
                }
            }
        })
    }

    /// A parameter must be bound by somebody.
    pub(super) fn known(&self, name: &str, names: &[&str]) -> Result<(), Problem> {
        if names.contains(&name) || COMMON.contains(&name) {
            return Ok(());
        }
        let known: Vec<_> = names
            .iter()
            .chain(COMMON)
            .map(|n| format!(":{n}"))
            .collect();
        Err(self
            .problem(&format!("nothing is bound to the SQL parameter `:{name}`"))
            .help(format!("bound here: {}", known.join(", "))))
    }

    pub(super) fn problem(&self, message: &str) -> Problem {
        Problem::new(message).at(self.at.clone())
    }
}

/// Most steps of SQLite's virtual machine for one question or one call. Steps, not time: a trial ends alike on every machine.
const MOST_STEPS: u32 = 20_000_000;

/// Steps between two looks at the count.
const STRIDE: i32 = 10_000;

/// What is left of a connection's steps, so that a statement that never ends does not hang the run.
pub struct Steps(Arc<AtomicU32>);

impl Steps {
    /// Bounds the connection from now on.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn bound(on: &mut Connection) -> rusqlite::Result<Self> {
        let left = Arc::new(AtomicU32::new(MOST_STEPS));
        let counted = Arc::clone(&left);
        let exhausted = move || {
            let stride = STRIDE.unsigned_abs();
            let before = counted.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(stride));
            before.is_err()
        };
        on.progress_handler(STRIDE, Some(exhausted))?;
        Ok(Self(left))
    }

    /// Gives all of them again.
    pub fn renew(&self) {
        self.0.store(MOST_STEPS, Relaxed);
    }
}

/// SQLite's words without the statement around them.
pub fn plain(error: &rusqlite::Error) -> String {
    match error {
        _ if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            format!("the statement takes more than {MOST_STEPS} steps; does it ever end?")
        }
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::MultipleStatement => "more than one statement".to_owned(),
        rusqlite::Error::Empty => "no statement".to_owned(),
        other => other.to_string(),
    }
}

fn bare(parameter: &str) -> &str {
    parameter.trim_start_matches([':', '@', '$'])
}

/// Runs a script, statement by statement.
///
/// # Errors
/// The first statement that fails, with its place in the file.
pub fn run_script(on: &Connection, steps: &Steps, file: &Arc<SourceFile>) -> Result<(), Problems> {
    use rusqlite::fallible_iterator::FallibleIterator;

    let mut batch = Batch::new(on, &file.text);
    let mut done = 0;
    loop {
        let rest = without_comments(file.text.get(done..).unwrap_or_default());
        let start = file.text.len() - rest.len();
        let problem = |at, error: &rusqlite::Error| {
            let problem = Problem::new(format!("wrong SQL: {}", plain(error)));
            Problems::from(problem.at((Arc::clone(file), at)))
        };
        let mut statement = match batch.next() {
            Ok(Some(statement)) => statement,
            Ok(None) => return Ok(()),
            Err(error) => return Err(problem(fault(file, &error, start), &error)),
        };
        let text = statement.expanded_sql().unwrap_or_default();
        let end = start + without_comments(&text).len();
        let mut rows = statement.raw_query();
        let mut run = || -> rusqlite::Result<()> {
            steps.renew();
            while rows.next()?.is_some() {}
            Ok(())
        };
        run().map_err(|error| problem(start..end, &error))?;
        done = end;
    }
}

/// Where SQLite says that the script is wrong; where it does not say, the start of the statement.
fn fault(file: &SourceFile, error: &rusqlite::Error, start: usize) -> Range<usize> {
    let at = match error {
        rusqlite::Error::SqlInputError { sql, offset, .. } => {
            file.text.len() - sql.len() + usize::try_from(*offset).unwrap_or_default()
        }
        _ => start,
    };
    at..at
}

/// The statement without the blank and comment lines before it.
fn without_comments(sql: &str) -> &str {
    let mut rest = sql.trim_start();
    while let Some(comment) = rest.strip_prefix("--") {
        rest = comment
            .split_once('\n')
            .map_or("", |(_, after)| after)
            .trim_start();
    }
    rest
}

/// Values by parameter name. What is not there is NULL.
#[derive(Clone, Debug, Default)]
pub struct Bindings(BTreeMap<String, SqlValue>);

impl Bindings {
    /// Adds a text.
    #[must_use]
    pub fn text(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.insert(name.to_owned(), SqlValue::Text(value.into()));
        self
    }

    /// Adds a JSON value: booleans as 1 and 0, arrays and objects as JSON text.
    #[must_use]
    pub fn json(mut self, name: &str, value: &Value) -> Self {
        let value = match value {
            Value::Null => SqlValue::Null,
            Value::Bool(value) => SqlValue::Integer(i64::from(*value)),
            Value::Number(number) => number
                .as_i64()
                .map(SqlValue::Integer)
                .or_else(|| number.as_f64().map(SqlValue::Real))
                .unwrap_or(SqlValue::Null),
            Value::String(text) => SqlValue::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => SqlValue::Text(value.to_string()),
        };
        self.0.insert(name.to_owned(), value);
        self
    }

    /// The value of a parameter.
    pub(super) fn value(&self, name: &str) -> &SqlValue {
        self.0.get(name).unwrap_or(&SqlValue::Null)
    }

    /// Binds every parameter that the statement names.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn query<'s>(&self, statement: &'s mut Statement<'_>) -> rusqlite::Result<Rows<'s>> {
        for index in 1..=statement.parameter_count() {
            let name = statement.parameter_name(index).map(bare);
            let value = name.and_then(|name| self.0.get(name)).cloned();
            statement.raw_bind_parameter(index, value.unwrap_or(SqlValue::Null))?;
        }
        Ok(statement.raw_query())
    }

    /// Runs the statement and gives the first value of its first row; `None` for no row.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn first(&self, on: &Connection, sql: &Sql) -> rusqlite::Result<Option<Value>> {
        let mut statement = on.prepare_cached(&sql.text)?;
        let mut rows = self.query(&mut statement)?;
        match rows.next()? {
            Some(row) => Ok(Some(to_json(row.get_ref(0)?))),
            None => Ok(None),
        }
    }

    /// Runs the statement to its end.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn run(&self, on: &Connection, sql: &Sql) -> rusqlite::Result<()> {
        let mut statement = on.prepare_cached(&sql.text)?;
        let mut rows = self.query(&mut statement)?;
        while rows.next()?.is_some() {}
        Ok(())
    }
}

/// A value of the database as JSON. What JSON cannot say is an object, so that no two values are alike.
pub fn to_json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => serde_json::Number::from_f64(number)
            .map_or_else(|| json!({"real": number.to_string()}), Value::Number),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => json!({"text": HEXLOWER.encode(bytes)}),
        },
        ValueRef::Blob(bytes) => json!({"blob": HEXLOWER.encode(bytes)}),
    }
}

/// Whether SQL would take the value for true.
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|n| n != 0.0),
        Value::Bool(value) => *value,
        _ => false,
    }
}

/// The value as a tool gives it back.
pub fn as_text(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Arc<SourceFile> {
        Arc::new(SourceFile {
            path: "w.sql".into(),
            text: text.into(),
        })
    }

    fn sql(text: &str) -> Sql {
        Sql {
            text: text.into(),
            at: (file(text), 0..text.len()),
        }
    }

    #[test]
    fn a_script_tells_where_it_fails() {
        let mut on = Connection::open_in_memory().unwrap();
        let steps = Steps::bound(&mut on).unwrap();
        for (script, at, says) in [
            ("CREATE TABLE a (x);\n\nCREATE TALBE b (y);", 28, "TALBE"),
            (
                "CREATE TABLE c (x UNIQUE);\nINSERT INTO c VALUES (1);\n-- again\nINSERT INTO c VALUES (1)",
                62,
                "UNIQUE",
            ),
            ("-- a\nINSERT INTO nowhere VALUES (1);", 5, "no such table"),
        ] {
            let problems = run_script(&on, &steps, &file(script)).unwrap_err().0;
            assert!(
                problems[0].message.contains(says),
                "{}",
                problems[0].message
            );
            assert_eq!(problems[0].at.as_ref().unwrap().1.start, at, "{script}");
        }
        run_script(&on, &steps, &file("CREATE TABLE d (x); -- done\n")).unwrap();
    }

    #[test]
    fn statements_are_checked_before_they_run() {
        let mut on = Connection::open_in_memory().unwrap();
        let steps = Steps::bound(&mut on).unwrap();
        run_script(&on, &steps, &file("CREATE TABLE t (x);")).unwrap();
        let said = |text, allowed| match sql(text).check(&on, allowed, &["x"]) {
            Ok(()) => "fine".to_owned(),
            Err(problem) => problem.message,
        };
        assert_eq!(
            said("SELECT x FROM t WHERE x = :x AND :trial", Allowed::Read),
            "fine"
        );
        assert_eq!(said("DELETE FROM t", Allowed::Write), "fine");
        assert_eq!(
            said("DELETE FROM t RETURNING x", Allowed::Read),
            "this SQL must be one SELECT"
        );
        assert!(said("SELECT y FROM t", Allowed::Read).contains("no such column: y"));
        assert!(said("SELECT :y", Allowed::Read).contains("`:y`"));
        assert!(said("SELECT ?", Allowed::Read).contains("without a name"));
        assert!(said("SELECT 1; SELECT 2", Allowed::Read).contains("more than one statement"));
    }

    #[test]
    fn json_goes_in_and_comes_out() {
        let on = Connection::open_in_memory().unwrap();
        let bound = Bindings::default()
            .json("a", &serde_json::json!(true))
            .json("b", &serde_json::json!([1, "x"]))
            .text("c", "t");
        let first = |text: &str| bound.first(&on, &sql(text)).unwrap();
        assert_eq!(first("SELECT :a"), Some(1.into()));
        assert_eq!(
            first("SELECT value FROM json_each(:b) WHERE key = 1"),
            Some("x".into())
        );
        assert_eq!(first("SELECT :nobody"), Some(Value::Null));
        assert_eq!(first("SELECT 1 WHERE :c = 'u'"), None);
    }

    #[test]
    fn values_that_print_alike_are_told_apart() {
        let on = Connection::open_in_memory().unwrap();
        let first = |text: &str| Bindings::default().first(&on, &sql(text)).unwrap();
        for (one, other) in [
            ("CAST(x'ff' AS TEXT)", "CAST(x'fe' AS TEXT)"),
            ("9e999", "'inf'"),
            ("x'ff'", "'{\"blob\":\"ff\"}'"),
        ] {
            let [one, other] = [one, other].map(|value| first(&format!("SELECT {value}")));
            assert_ne!(one, other);
        }
    }
}
