//! The start state: the environment folder as one JSON value, `start.sql` over it, and the rows written as SQL.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::Value;

use super::Source;
use super::state::{State, tables};
use crate::eval::import::agentdojo::env::{Env, EnvError};
use crate::eval::judge::quoted;
use crate::eval::sql::plain;
use crate::eval::world::sqlite::Image;
use crate::source::SourceFile;

/// The file of the environment folder that the others are included in.
const TOP: &str = "environment.yaml";

/// The tag that stands for another file's content.
const INCLUDE: &str = "!include ";

/// The world before anything has happened.
pub(super) struct Start {
    /// Schema and rows as an image for sandboxes.
    pub image: Image,
    /// The rows, as SQL.
    pub fixtures: String,
    /// The rows.
    pub state: State,
}

/// An injection point and what stands there when nobody attacks.
#[derive(Debug, Deserialize)]
struct Vector {
    #[serde(default)]
    default: String,
}

impl Start {
    /// Makes the start state of a suite's environment.
    pub(super) fn make(source: &Source, env: &Env) -> Result<Self, EnvError> {
        let reader = Reader::new(source.suite, env)?;
        let environment = reader.read(TOP)?;
        Self::of(source, &environment).map_err(|what| reader.wrong(TOP, what))
    }

    /// Makes the start state of an environment that is already read.
    pub(super) fn of(source: &Source, environment: &Value) -> Result<Self, String> {
        let text = environment.to_string().replace('\'', "''");
        let script = |path: &str, text: String| {
            Arc::new(SourceFile {
                path: path.to_owned(),
                text,
            })
        };
        let given = format!(
            "CREATE TABLE environment (json TEXT NOT NULL);\nINSERT INTO environment VALUES ('{text}');"
        );
        let full = Image::build(&[
            script("schema.sql", source.schema.to_owned()),
            script("environment", given),
            script("start.sql", source.start.to_owned()),
            script("environment", "DROP TABLE environment;".to_owned()),
        ])
        .map_err(|problems| super::one_line(&problems))?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let sandbox = full.sandbox(folder.path().join("start.sqlite"));
        let sandbox = sandbox.map_err(|fault| fault.cause)?;
        let made = |error: rusqlite::Error| plain(&error);
        let fixtures = dump(sandbox.connection()).map_err(made)?;
        let state = State::read(sandbox.connection()).map_err(made)?;
        let image = Image::build(&[
            script("schema.sql", source.schema.to_owned()),
            script("fixtures.sql", fixtures.clone()),
        ])
        .map_err(|problems| super::one_line(&problems))?;
        Ok(Self {
            image,
            fixtures,
            state,
        })
    }
}

/// One INSERT per row, tables in the order of the schema, rows in the order in which they came.
fn dump(connection: &Connection) -> rusqlite::Result<String> {
    let mut sql = String::new();
    for name in tables(connection)? {
        let columns: Vec<String> = {
            let select = connection.prepare(&format!("SELECT * FROM {}", quoted(&name)))?;
            select.column_names().map(str::to_owned).collect()
        };
        let values: Vec<_> = columns
            .iter()
            .map(|column| format!("quote({})", quoted(column)))
            .collect();
        let mut select = connection.prepare(&format!(
            "SELECT {} FROM {} ORDER BY rowid",
            values.join(" || ', ' || "),
            quoted(&name)
        ))?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let values: String = row.get(0)?;
            let columns = columns.join(", ");
            sql.extend([
                "INSERT INTO ",
                &name,
                " (",
                &columns,
                ") VALUES (",
                &values,
                ");\n",
            ]);
        }
    }
    Ok(sql)
}

/// Reads the environment's files with the default text at every injection point.
struct Reader<'e> {
    suite: &'e str,
    env: &'e Env,
    vectors: BTreeMap<String, Vector>,
}

impl<'e> Reader<'e> {
    fn new(suite: &'e str, env: &'e Env) -> Result<Self, EnvError> {
        let mut reader = Self {
            suite,
            env,
            vectors: BTreeMap::new(),
        };
        let name = "injection_vectors.yaml";
        let text = env.file(suite, name)?;
        reader.vectors = serde_saphyr::from_str(&text)
            .map_err(|error| reader.wrong(name, super::one_line(&error)))?;
        Ok(reader)
    }

    fn wrong(&self, name: &str, what: String) -> EnvError {
        EnvError::Content {
            file: self.env.dir().join(self.suite).join(name),
            what,
        }
    }

    /// A file with everything that it includes.
    fn read(&self, name: &str) -> Result<Value, EnvError> {
        let mut text = self.env.file(self.suite, name)?;
        // Before it is YAML, as the benchmark does it: a default may hold escapes. Several lines would end a block.
        self.fill(&mut text, false);
        let lines = text.lines().map(|line| match line.split_once(INCLUDE) {
            Some((before, file)) if before.trim_end().ends_with(':') => {
                format!(
                    "{before}{}",
                    Value::from(format!("{INCLUDE}{}", file.trim()))
                )
            }
            _ => line.to_owned(),
        });
        let lines: Vec<_> = lines.collect();
        let mut value: Value = serde_saphyr::from_str(&lines.join("\n"))
            .map_err(|error| self.wrong(name, super::one_line(&error)))?;
        self.fill_all(&mut value);
        self.include(&mut value, name)?;
        Ok(value)
    }

    /// Puts in the defaults of one line, or those of several.
    fn fill(&self, text: &mut String, lines: bool) {
        for (slot, vector) in &self.vectors {
            let slot = format!("{{{slot}}}");
            if vector.default.trim_end().contains('\n') == lines && text.contains(&slot) {
                *text = text.replace(&slot, &vector.default);
            }
        }
    }

    fn fill_all(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.fill(text, true),
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill_all(item)),
            Value::Object(members) => members
                .values_mut()
                .for_each(|member| self.fill_all(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn include(&self, value: &mut Value, within: &str) -> Result<(), EnvError> {
        let Value::Object(members) = value else {
            return Ok(());
        };
        for member in members.values_mut() {
            let Some(file) = member.as_str().and_then(|text| text.strip_prefix(INCLUDE)) else {
                self.include(member, within)?;
                continue;
            };
            let plain = Path::new(file)
                .components()
                .all(|part| matches!(part, std::path::Component::Normal(_)));
            if !plain || file == within {
                return Err(self.wrong(
                    within,
                    format!("`{INCLUDE}{file}` leaves the suite's folder, or names itself"),
                ));
            }
            *member = self.read(file)?;
        }
        Ok(())
    }
}
