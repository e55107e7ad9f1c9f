//! Worlds in files: the image is the bytes of one, and a trial begins with these bytes in place.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::{Answer, Fault, Tool};
use crate::eval::sql::{Bindings, STATEMENTS, Steps, as_text, plain, run_script};
use crate::source::{Problem, Problems, SourceFile};
use crate::store::sql::sqlite as store;
use crate::store::sql::{ReadOnlySql, SqlError};

/// Bytes of a database's header. <https://sqlite.org/fileformat.html>, section 1.3.
const HEADER: usize = 100;
/// Where the header counts the transactions that changed the file: a connection that reads another number than it knows forgets
/// its pages.
const CHANGES: usize = 24;
/// Where the header counts changes of the schema.
const SCHEMA: usize = 40;
/// The number of changes for which the header's size of the database holds.
const VALID_FOR: usize = 92;

/// The database at the start of every trial, as bytes of its file.
pub struct Image(Arc<[u8]>);

impl Image {
    /// Runs schema and fixtures once.
    ///
    /// # Errors
    /// The statement that fails, with its place; or a temporary folder that cannot be written.
    pub(in crate::eval) fn build(scripts: &[Arc<SourceFile>]) -> Result<Self, Problems> {
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
        let bytes = std::fs::read(&path).map_err(|error| made(&error))?;
        Ok(Self(bytes.into()))
    }

    /// A database at `path`.
    pub(in crate::eval) fn sandbox(&self, path: PathBuf) -> Result<Sandbox, Fault> {
        let made = |error: &dyn std::fmt::Display| Fault::here(error.to_string());
        std::fs::write(&path, &self.0).map_err(|error| made(&error))?;
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let (connection, steps) = in_trials(&path).map_err(|error| made(&plain(&error)))?;
        Ok(Sandbox {
            connection,
            steps,
            image: Arc::clone(&self.0),
            file: file.map_err(|error| made(&error))?,
            path,
            fresh: number(&self.0, CHANGES),
            schema: number(&self.0, SCHEMA),
        })
    }
}

/// A number of the header.
fn number(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..at + 4).and_then(|it| it.try_into().ok());
    found.map_or(0, u32::from_be_bytes)
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

/// As trials use it: nothing that outlives a trial beside the file.
fn in_trials(path: &Path) -> rusqlite::Result<(Connection, Steps)> {
    let (mut connection, steps) = writable(path)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.authorizer(Some(in_the_file_alone))?;
    Ok((connection, steps))
}

/// A suite's SQL reaches no file but its world's: ATTACH, and VACUUM which attaches, could write to any.
fn within(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Attach { .. } => Authorization::Deny,
        _ => Authorization::Allow,
    }
}

/// What a connection remembers beside its file would come from another trial: temporary tables, settings, and counts of rows.
fn in_the_file_alone(context: AuthContext<'_>) -> Authorization {
    match context.action {
        // Reads the schema, nothing else: how the importers learn a table's key.
        AuthAction::Pragma {
            pragma_name: "table_info",
            ..
        } => Authorization::Allow,
        AuthAction::Attach { .. }
        | AuthAction::Pragma { .. }
        | AuthAction::CreateTempTable { .. }
        | AuthAction::CreateTempView { .. }
        | AuthAction::CreateTempIndex { .. }
        | AuthAction::CreateTempTrigger { .. } => Authorization::Deny,
        AuthAction::Function { function_name } => {
            let remembered = ["last_insert_rowid", "changes", "total_changes"];
            if remembered.contains(&function_name) {
                Authorization::Deny
            } else {
                Authorization::Allow
            }
        }
        _ => Authorization::Allow,
    }
}

/// The guard's look-ups into the world.
pub(super) fn lookups(path: &Path) -> Result<Arc<dyn ReadOnlySql>, SqlError> {
    store::open(path)
}

/// A file in which trials run.
pub struct Sandbox {
    path: PathBuf,
    connection: Connection,
    steps: Steps,
    image: Arc<[u8]>,
    /// The file beside SQLite. Dropped last: closing it gives up SQLite's locks, which nobody holds by then.
    file: File,
    /// The number of changes that the file had when it was last at its image.
    fresh: u32,
    /// The number of changes of the schema that it had then.
    schema: u32,
}

impl Sandbox {
    /// Its file.
    pub(in crate::eval) fn path(&self) -> &Path {
        &self.path
    }

    /// To check statements on; trials go through [`Sandbox::call`].
    pub(in crate::eval) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Writes the image over the file. No connection is inside a transaction, and each of them takes it for what another process
    /// has committed, since the count of changes goes on.
    pub(in crate::eval) fn reset(&mut self) -> Result<(), Fault> {
        let written = self.restored();
        written.map_err(|error| Fault::here(format!("the world cannot be reset: {error}")))
    }

    fn restored(&mut self) -> std::io::Result<()> {
        let mut header = [0_u8; HEADER];
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_exact(&mut header)?;
        let changes = number(&header, CHANGES);
        if changes == self.fresh {
            return Ok(());
        }
        let next = changes.wrapping_add(1);
        let mut bytes = self.image.to_vec();
        for at in [CHANGES, VALID_FOR] {
            if let Some(field) = bytes.get_mut(at..at + 4) {
                field.copy_from_slice(&next.to_be_bytes());
            }
        }
        // Tables that came or went: this count goes on, too, so that no statement is taken for one of another schema.
        let schema = number(&header, SCHEMA);
        let schema = schema.wrapping_add(u32::from(schema != self.schema));
        if let Some(field) = bytes.get_mut(SCHEMA..SCHEMA + 4) {
            field.copy_from_slice(&schema.to_be_bytes());
        }
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&bytes)?;
        self.file.set_len(bytes.len() as u64)?;
        self.fresh = next;
        self.schema = schema;
        Ok(())
    }

    /// A connection of its own again.
    pub(in crate::eval) fn renew(&mut self) -> Result<(), Fault> {
        self.reset()?;
        let (connection, steps) =
            in_trials(&self.path).map_err(|error| Fault::here(plain(&error)))?;
        self.connection = connection;
        self.steps = steps;
        Ok(())
    }

    /// Carries out one call.
    pub(in crate::eval) fn call(
        &mut self,
        tool: &Tool,
        bound: &Bindings,
        recorded: Option<&str>,
    ) -> Result<Answer, Fault> {
        self.steps.renew();
        let result = self.transact(tool, bound, recorded);
        result.or_else(|error| match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => {
                Ok(Answer::error(format!("the tool failed: {}", plain(&error))))
            }
            _ => Err(Fault::here(format!("the world failed: {}", plain(&error)))),
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
    use crate::eval::sql::Sql;

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

    fn world(folder: &Path) -> Sandbox {
        let image = Image::build(&[
            file("CREATE TABLE notes (id TEXT PRIMARY KEY, body TEXT NOT NULL);"),
            file("INSERT INTO notes VALUES ('a', 'first');"),
        ])
        .unwrap();
        image.sandbox(folder.join("trial.sqlite")).unwrap()
    }

    fn count(world: &Sandbox) -> i64 {
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
            example: None,
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

    /// Every connection sees the image again, whatever it has read of the trial before: rows, tables that came, a longer file.
    #[test]
    fn a_reset_is_seen_by_connections_that_stay_open() {
        let folder = tempfile::tempdir().unwrap();
        let mut world = world(folder.path());
        let reader = store::connect(world.path(), Duration::ZERO).unwrap();
        let seen = |on: &Connection| -> (i64, i64) {
            let counted = "SELECT count(*), (SELECT count(*) FROM sqlite_schema) FROM notes";
            let mut statement = on.prepare_cached(counted).unwrap();
            statement
                .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
                .unwrap()
        };
        let start = seen(&reader);
        for round in 0..20 {
            let changed = match round % 4 {
                0 => "INSERT INTO notes VALUES ('b', 'new')".to_owned(),
                1 => format!("CREATE TABLE more{round} AS SELECT * FROM notes"),
                2 => "INSERT INTO notes SELECT 'r' || value, zeroblob(9000) FROM json_each('[1,2,3,4,5,6,7]')"
                    .to_owned(),
                _ => "DELETE FROM notes".to_owned(),
            };
            world.connection.execute_batch(&changed).unwrap();
            // Only sometimes: a connection must not need to have seen it.
            if round % 3 != 0 {
                assert_ne!(seen(&reader), start, "{changed}");
            }
            world.reset().unwrap();
            assert_eq!(seen(&reader), start, "{changed}");
            assert_eq!(seen(&world.connection), start, "{changed}");
        }
    }

    #[test]
    fn what_a_connection_remembers_is_no_part_of_the_world() {
        let folder = tempfile::tempdir().unwrap();
        let world = world(folder.path());
        for sql in [
            "SELECT last_insert_rowid()",
            "SELECT total_changes()",
            "CREATE TEMP TABLE t (x)",
            "PRAGMA foreign_keys = OFF",
            "ATTACH ':memory:' AS other",
        ] {
            assert!(world.connection.prepare(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn an_open_transaction_in_the_fixtures_is_a_problem() {
        let problems = Image::build(&[file("BEGIN; CREATE TABLE t (x);")])
            .err()
            .unwrap();
        assert!(problems.to_string().contains("leaves a transaction open"));
    }
}
