//! SQLite, opened so that it can only be read, and proved so.
//!
//! Three locks, each enough alone: the file is opened read-only, the connection is `query_only`, and an authorizer lets
//! through nothing but SELECT over tables and functions without effect. A look-up therefore cannot write, attach a file,
//! read a pragma or call an extension, whatever its SQL says.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement};
use tokio::sync::Semaphore;

pub use super::Limits;
pub use super::proof::prove_read_only;
use super::{Described, ReadOnlySql, Rows, SqlError, SqlValue};

/// Connections that one database keeps, and queries that run at once.
const CONNECTIONS: usize = 4;

/// Virtual machine steps between two looks at the clock.
const STEPS: i32 = 2_000;

/// Opens the database at `path` for reading and proves that it cannot be written through.
///
/// Each query sees what other connections have committed by then.
///
/// # Errors
/// [`SqlError::Open`] where there is no such file or it is no database, [`SqlError::Writable`] where the proof fails.
pub fn open(path: &Path) -> Result<Arc<dyn ReadOnlySql>, SqlError> {
    open_with(path, Limits::default())
}

/// The same with other limits: eval's judge reads whole tables.
///
/// # Errors
/// As [`open`].
pub fn open_with(path: &Path, limits: Limits) -> Result<Arc<dyn ReadOnlySql>, SqlError> {
    let database = Database {
        path: path.to_owned(),
        limits,
        idle: Mutex::default(),
    };
    database.give(database.connect()?);
    Ok(Arc::new(Sqlite {
        database: Arc::new(database),
        permits: Arc::new(Semaphore::new(CONNECTIONS)),
    }))
}

/// One locked-down connection, for a caller that runs its statements in its own thread: eval's judge. Not proved yet: that is
/// what [`prove_read_only`] is for. `wait` is how long it waits for a lock.
///
/// # Errors
/// [`SqlError::Open`] where there is no such file or it is no database.
pub fn connect(path: &Path, wait: Duration) -> Result<Connection, SqlError> {
    let failed = |error: rusqlite::Error| SqlError::Open {
        database: path.display().to_string(),
        cause: error.to_string(),
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    lock_down(&mut connection, wait).map_err(failed)?;
    Ok(connection)
}

struct Sqlite {
    database: Arc<Database>,
    permits: Arc<Semaphore>,
}

struct Database {
    path: PathBuf,
    limits: Limits,
    idle: Mutex<Vec<Connection>>,
}

impl ReadOnlySql for Sqlite {
    fn check(&self, sql: &str) -> Result<Described, SqlError> {
        let connection = self.database.take()?;
        let described = prepared(&connection, sql).and_then(|statement| {
            Ok(Described {
                parameters: parameters(&statement)?,
                columns: columns(&statement),
            })
        });
        self.database.give(connection);
        described
    }

    fn query<'a>(
        &'a self,
        sql: &'a str,
        params: Vec<(String, SqlValue)>,
    ) -> BoxFuture<'a, Result<Rows, SqlError>> {
        Box::pin(async move {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            let database = Arc::clone(&self.database);
            let sql = sql.to_owned();
            let ran = tokio::task::spawn_blocking(move || {
                // Held until the query ends, also where nobody waits for it any more.
                let _permit = permit;
                database.run(&sql, &params)
            });
            ran.await.unwrap_or_else(|error| {
                Err(SqlError::Run {
                    cause: error.to_string(),
                })
            })
        })
    }
}

impl Database {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn connect(&self) -> Result<Connection, SqlError> {
        let connection = connect(&self.path, self.limits.time)?;
        prove_read_only(&connection, &self.name())?;
        Ok(connection)
    }

    fn take(&self) -> Result<Connection, SqlError> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        idle.map_or_else(|| self.connect(), Ok)
    }

    fn give(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < CONNECTIONS {
            idle.push(connection);
        }
    }

    fn run(&self, sql: &str, params: &[(String, SqlValue)]) -> Result<Rows, SqlError> {
        let mut connection = self.take()?;
        let deadline = Instant::now() + self.limits.time;
        connection
            .progress_handler(STEPS, Some(move || Instant::now() >= deadline))
            .map_err(|error| self.failure(&error))?;
        let rows = self.read(&connection, sql, params);
        // A connection that failed while it ran is not used again.
        if !matches!(rows, Err(SqlError::Run { .. })) {
            self.give(connection);
        }
        rows
    }

    fn read(
        &self,
        connection: &Connection,
        sql: &str,
        params: &[(String, SqlValue)],
    ) -> Result<Rows, SqlError> {
        let mut statement = prepared(connection, sql)?;
        for (index, name) in parameters(&statement)?.iter().enumerate() {
            let Some((_, value)) = params.iter().find(|(given, _)| given == name) else {
                return Err(SqlError::Statement {
                    cause: format!("the parameter :{name} has no value"),
                });
            };
            statement
                .raw_bind_parameter(index + 1, bound(value))
                .map_err(|error| self.failure(&error))?;
        }
        let columns = columns(&statement);
        let mut found = Rows {
            columns,
            rows: Vec::new(),
        };
        let mut bytes = 0_usize;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(|error| self.failure(&error))? {
            if found.rows.len() >= self.limits.rows {
                return Err(SqlError::Run {
                    cause: format!("more than {} rows", self.limits.rows),
                });
            }
            let mut values = Vec::with_capacity(found.columns.len());
            for column in 0..found.columns.len() {
                let value = row.get_ref(column).map_err(|error| self.failure(&error))?;
                values.push(read_value(value, &mut bytes)?);
            }
            if bytes > self.limits.bytes {
                return Err(SqlError::Run {
                    cause: format!("more than {} bytes", self.limits.bytes),
                });
            }
            found.rows.push(values);
        }
        Ok(found)
    }

    fn failure(&self, error: &rusqlite::Error) -> SqlError {
        if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
            return SqlError::Run {
                cause: format!("no answer within {:?}", self.limits.time),
            };
        }
        SqlError::Run {
            cause: error.to_string(),
        }
    }
}

fn lock_down(connection: &mut Connection, wait: Duration) -> Result<(), rusqlite::Error> {
    connection.busy_timeout(wait)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // A mistyped column in double quotes is an error, not a string.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.authorizer(Some(authorize))
}

fn authorize(context: AuthContext<'_>) -> Authorization {
    let harmless = match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => FUNCTIONS
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(function_name)),
        _ => false,
    };
    if harmless {
        Authorization::Allow
    } else {
        Authorization::Deny
    }
}

/// Functions whose result depends on their arguments alone (and the clock, for dates) and that touch nothing.
const FUNCTIONS: &[&str] = &[
    // aggregates and windows
    "avg",
    "count",
    "group_concat",
    "max",
    "min",
    "string_agg",
    "sum",
    "total",
    "cume_dist",
    "dense_rank",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
    // values and text
    "abs",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "format",
    "glob",
    "hex",
    "if",
    "ifnull",
    "iif",
    "instr",
    "length",
    "like",
    "lower",
    "ltrim",
    "nullif",
    "octet_length",
    "printf",
    "quote",
    "replace",
    "round",
    "rtrim",
    "sign",
    "substr",
    "substring",
    "trim",
    "typeof",
    "unhex",
    "unicode",
    "unistr",
    "upper",
    // numbers
    "ceil",
    "ceiling",
    "exp",
    "floor",
    "ln",
    "log",
    "log10",
    "log2",
    "mod",
    "pow",
    "power",
    "sqrt",
    "trunc",
    // dates
    "date",
    "datetime",
    "julianday",
    "strftime",
    "time",
    "timediff",
    "unixepoch",
    // JSON
    "->",
    "->>",
    "json",
    "json_array",
    "json_array_length",
    "json_each",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_object",
    "json_quote",
    "json_tree",
    "json_type",
    "json_valid",
];

fn prepared<'c>(connection: &'c Connection, sql: &str) -> Result<Statement<'c>, SqlError> {
    let bad = |cause: &str| SqlError::Statement {
        cause: cause.to_owned(),
    };
    let statement = connection
        .prepare(sql)
        .map_err(|error| match error.sqlite_error_code() {
            Some(
                code @ (ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::OperationInterrupted),
            ) => SqlError::Run {
                cause: format!("{code:?}"),
            },
            Some(ErrorCode::AuthorizationForStatementDenied) => {
                bad("only one SELECT over tables and side-effect-free functions is allowed here")
            }
            _ => SqlError::Statement {
                cause: error.to_string(),
            },
        })?;
    if !statement.readonly() || statement.is_explain() != 0 || statement.column_count() == 0 {
        return Err(bad("it is not a SELECT"));
    }
    Ok(statement)
}

/// Names in order of their index, without colon.
fn parameters(statement: &Statement<'_>) -> Result<Vec<String>, SqlError> {
    (1..=statement.parameter_count())
        .map(|index| {
            statement
                .parameter_name(index)
                .and_then(|name| name.strip_prefix(':'))
                .map(str::to_owned)
                .ok_or_else(|| SqlError::Statement {
                    cause: "parameters are named, such as :principal".to_owned(),
                })
        })
        .collect()
}

fn columns(statement: &Statement<'_>) -> Vec<String> {
    statement.column_names().map(str::to_owned).collect()
}

fn bound(value: &SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Integer(number) => Value::Integer(*number),
        SqlValue::Real(number) => Value::Real(*number),
        SqlValue::Text(text) => Value::Text(text.clone()),
        SqlValue::Blob(bytes) => Value::Blob(bytes.clone()),
    }
}

fn read_value(value: ValueRef<'_>, size: &mut usize) -> Result<SqlValue, SqlError> {
    Ok(match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Integer(number),
        ValueRef::Real(number) => SqlValue::Real(number),
        ValueRef::Text(bytes) => {
            *size = size.saturating_add(bytes.len());
            let text = String::from_utf8(bytes.to_vec()).map_err(|_| SqlError::Run {
                cause: "a text value is not UTF-8".to_owned(),
            })?;
            SqlValue::Text(text)
        }
        ValueRef::Blob(bytes) => {
            *size = size.saturating_add(bytes.len());
            SqlValue::Blob(bytes.to_vec())
        }
    })
}
