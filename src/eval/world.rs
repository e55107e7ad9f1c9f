//! The sandbox: one real database per trial, made from an image of the suite's schema and fixtures. Calls that the proxy
//! lets through are carried out here, and nothing here knows about layers or verdicts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::sql::{Bindings, Sql, Steps, as_text, plain, run_script};
use crate::source::{Problem, Problems, SourceFile};

/// What a call of a tool does.
#[derive(Clone, Debug)]
pub struct Tool {
    /// For the model.
    pub description: Option<String>,
    /// Names of its arguments.
    pub args: Vec<String>,
    /// A row means that the call fails; its first value is the error's text.
    pub error_when: Option<Sql>,
    /// What changes.
    pub effect: Vec<Sql>,
    /// What is given back; `None`: each recorded call brings its own.
    pub output: Option<Sql>,
}

/// What the agent gets from a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the tool did what it was asked to.
    pub ok: bool,
    /// Output, or the error's text.
    pub text: String,
}

impl Answer {
    fn error(text: String) -> Self {
        Self { ok: false, text }
    }
}

/// The database at the start of every trial, as bytes of its file.
pub struct Image(Vec<u8>);

impl Image {
    /// Runs schema and fixtures once.
    ///
    /// # Errors
    /// The statement that fails, with its place; or a temporary folder that cannot be written.
    pub fn build(scripts: &[Arc<SourceFile>]) -> Result<Self, Problems> {
        let made = |error: &dyn std::fmt::Display| {
            Problems::from(
                Problem::new(format!("the world's database cannot be made: {error}"))
                    .help("is the temporary folder writable and not full?"),
            )
        };
        let folder = tempfile::tempdir().map_err(|error| made(&error))?;
        let path = folder.path().join("image.sqlite");
        let (connection, steps) = writable(&path).map_err(|error| made(&plain(&error)))?;
        for script in scripts {
            run_script(&connection, &steps, script)?;
        }
        if !connection.is_autocommit() {
            return Err(Problem::new("the world's SQL leaves a transaction open")
                .help("end it with COMMIT, or leave BEGIN away")
                .into());
        }
        drop(connection);
        std::fs::read(&path).map(Self).map_err(|error| made(&error))
    }

    /// Writes the database to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, &self.0)
    }
}

fn writable(path: &Path) -> rusqlite::Result<(Connection, Steps)> {
    let mut connection = Connection::open(path)?;
    // A trial's database need not survive a crash of the machine.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    // A mistyped column in double quotes is an error, not a string.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    connection.authorizer(Some(within))?;
    connection.busy_timeout(Duration::from_secs(5))?;
    let steps = Steps::bound(&mut connection)?;
    Ok((connection, steps))
}

/// A suite's SQL reaches no file but its world's: ATTACH, and VACUUM which attaches, could write to any.
fn within(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Attach { .. } => Authorization::Deny,
        _ => Authorization::Allow,
    }
}

/// One trial's database.
pub struct World {
    path: PathBuf,
    connection: Connection,
    steps: Steps,
}

impl World {
    /// A fresh database at `path`.
    ///
    /// # Errors
    /// Why it could not be made.
    pub fn create(image: &Image, path: PathBuf) -> Result<Self, String> {
        image.write(&path).map_err(|error| error.to_string())?;
        let (connection, steps) = writable(&path).map_err(|error| plain(&error))?;
        Ok(Self {
            path,
            connection,
            steps,
        })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// To check statements on; trials go through [`World::call`].
    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Carries out one call. `recorded` wins over the tool's own output.
    ///
    /// # Errors
    /// The suite's SQL failed in a way that no call can be blamed for: the trial is inconclusive.
    pub fn call(
        &mut self,
        tool: &Tool,
        bound: &Bindings,
        recorded: Option<&str>,
    ) -> Result<Answer, String> {
        self.steps.renew();
        let result = self.transact(tool, bound, recorded);
        result.or_else(|error| match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => {
                Ok(Answer::error(format!("the tool failed: {}", plain(&error))))
            }
            _ => Err(format!("the world failed: {}", plain(&error))),
        })
    }

    fn transact(
        &mut self,
        tool: &Tool,
        bound: &Bindings,
        recorded: Option<&str>,
    ) -> rusqlite::Result<Answer> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some(sql) = &tool.error_when
            && let Some(text) = bound.first(&transaction, sql)?
        {
            return Ok(Answer::error(as_text(text)));
        }
        for sql in &tool.effect {
            bound.run(&transaction, sql)?;
        }
        let text = match (recorded, &tool.output) {
            (Some(text), _) => text.to_owned(),
            (None, Some(sql)) => bound
                .first(&transaction, sql)?
                .map(as_text)
                .unwrap_or_default(),
            (None, None) => String::new(),
        };
        transaction.commit()?;
        Ok(Answer { ok: true, text })
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
            at: (file(text), 0..0),
        }
    }

    fn world(folder: &Path) -> World {
        let image = Image::build(&[
            file("CREATE TABLE notes (id TEXT PRIMARY KEY, body TEXT NOT NULL);"),
            file("INSERT INTO notes VALUES ('a', 'first');"),
        ])
        .unwrap();
        World::create(&image, folder.join("trial.sqlite")).unwrap()
    }

    fn count(world: &World) -> i64 {
        let counted = world
            .connection
            .query_row("SELECT count(*) FROM notes", [], |row| row.get(0));
        counted.unwrap()
    }

    #[test]
    fn error_effect_and_output_are_one_transaction() {
        let folder = tempfile::tempdir().unwrap();
        let mut world = world(folder.path());
        let tool = Tool {
            description: None,
            args: vec!["id".into()],
            error_when: Some(sql("SELECT 'no id' WHERE :id IS NULL")),
            effect: vec![
                sql("INSERT INTO notes VALUES ('x' || :id, 'new')"),
                sql("INSERT INTO notes VALUES (:id, 'new')"),
            ],
            output: Some(sql("SELECT count(*) FROM notes")),
        };
        let id = |id: &str| Bindings::default().text("id", id);
        let mut call = |bound, recorded| world.call(&tool, &bound, recorded).unwrap();
        assert_eq!(
            call(Bindings::default(), None),
            Answer::error("no id".into())
        );
        assert_eq!(call(id("b"), None).text, "3");
        assert_eq!(call(id("c"), Some("as recorded")).text, "as recorded");
        // The second statement breaks the key: the first is undone with it.
        let failed = call(id("a"), None);
        assert!(
            !failed.ok && failed.text.contains("UNIQUE"),
            "{}",
            failed.text
        );
        assert_eq!(count(&world), 5);
    }

    #[test]
    fn an_open_transaction_in_the_fixtures_is_a_problem() {
        let problems = Image::build(&[file("BEGIN; CREATE TABLE t (x);")])
            .err()
            .unwrap();
        assert!(problems.to_string().contains("leaves a transaction open"));
    }
}
