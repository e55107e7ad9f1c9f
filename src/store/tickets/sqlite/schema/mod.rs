//! The ticket file: how it is made, recognised and opened.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::store::tickets::TicketError;

/// `PRAGMA application_id` of a ticket store: `hptk`.
const APPLICATION_ID: i64 = 0x6870_746b;

/// What makes each version of the schema from the one before it. A file of any earlier version is brought up to date when it is
/// opened; `PRAGMA user_version` says which it has.
const MIGRATIONS: [&str; 3] = [
    include_str!("0001.sql"),
    include_str!("0002.sql"),
    include_str!("0003.sql"),
];

/// The newest version.
const SCHEMA: i64 = 3;

const _: () = assert!(MIGRATIONS.len() == 3);

/// Pages of one step of a copy: all of them.
const PAGES: i32 = 1 << 20;

/// How long a transaction waits for another process's.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The tables of a private database, made once and copied: eval opens one per trial.
static EMPTY: Mutex<Option<Connection>> = Mutex::new(None);

/// A new, private database.
pub(super) fn in_memory() -> Result<Connection, TicketError> {
    copied().map_err(|error| failed(Path::new(":memory:"), &error))
}

fn copied() -> rusqlite::Result<Connection> {
    let mut made = EMPTY.lock().unwrap_or_else(PoisonError::into_inner);
    let empty = match &mut *made {
        Some(empty) => empty,
        none => {
            let mut fresh = Connection::open_in_memory()?;
            migrate(&mut fresh)?;
            none.insert(fresh)
        }
    };
    let mut connection = Connection::open_in_memory()?;
    Backup::new(empty, &mut connection)?.run_to_completion(PAGES, Duration::ZERO, None)?;
    Ok(connection)
}

/// Opens a ticket store; with `make`, a missing file is made, readable by its owner alone.
pub(super) fn open(path: &Path, make: bool) -> Result<Connection, TicketError> {
    if make {
        private_file(path).map_err(|e| cannot_open(path, &e))?;
    } else if let Err(error) = File::open(path) {
        return Err(cannot_open(path, &error));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(|e| failed(path, &e))?;
    connection
        .busy_timeout(BUSY_TIMEOUT)
        .map_err(|e| failed(path, &e))?;
    match identify(&connection).map_err(|e| failed(path, &e))? {
        Kind::Tickets(found) if !make && found < SCHEMA => {
            let path = path.display().to_string();
            return Err(TicketError::Older { path, found });
        }
        Kind::Tickets(_) => {}
        Kind::Empty if make => {}
        Kind::Newer(found) => {
            return Err(TicketError::Newer {
                path: path.display().to_string(),
                found,
                known: SCHEMA,
            });
        }
        Kind::Empty | Kind::Other => return Err(foreign(path)),
    }
    durable(path, &connection)?;
    migrate(&mut connection).map_err(|e| failed(path, &e))?;
    Ok(connection)
}

/// WAL with `synchronous=FULL`: with less a power cut could turn a used ticket back into an approved one.
fn durable(path: &Path, connection: &Connection) -> Result<(), TicketError> {
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(|e| failed(path, &e))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(TicketError::Open {
            path: path.display().to_string(),
            cause: "its file system cannot hold a write-ahead log; put it on a local one"
                .to_owned(),
        });
    }
    connection
        .pragma_update(None, "synchronous", "FULL")
        .map_err(|e| failed(path, &e))
}

enum Kind {
    /// With this version of the schema.
    Tickets(i64),
    Newer(i64),
    Empty,
    Other,
}

fn identify(connection: &Connection) -> rusqlite::Result<Kind> {
    let number = |name: &str| -> rusqlite::Result<i64> {
        connection.pragma_query_value(None, name, |row| row.get(0))
    };
    let application = number("application_id")?;
    let version = number("user_version")?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, version, tables) {
        (APPLICATION_ID, version, _) if version > SCHEMA => Kind::Newer(version),
        (APPLICATION_ID, version, _) if version > 0 => Kind::Tickets(version),
        (0, 0, 0) => Kind::Empty,
        _ => Kind::Other,
    })
}

/// Brings the tables up to date. Of two processes that start at once one does it.
fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    // Columns are dropped and tables filled from others: nothing refers to them meanwhile.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version = match identify(&transaction)? {
        Kind::Tickets(version) => version,
        Kind::Empty => 0,
        Kind::Newer(_) | Kind::Other => return Ok(()),
    };
    let applied = usize::try_from(version).unwrap_or(usize::MAX);
    for migration in MIGRATIONS.iter().skip(applied) {
        transaction.execute_batch(migration)?;
    }
    if version < SCHEMA {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", SCHEMA)?;
    }
    transaction.commit()
}

/// Held by the one process that serves the store; the operating system lets go of it however the process ends.
pub(super) fn serving_lock(path: &Path) -> Result<File, TicketError> {
    let mut lock_path = path.as_os_str().to_owned();
    lock_path.push("-serving");
    let lock_path = PathBuf::from(lock_path);
    let lock = private_file(&lock_path).map_err(|e| cannot_open(&lock_path, &e))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(TicketError::Served {
            path: path.display().to_string(),
        }),
        Err(TryLockError::Error(error)) => Err(cannot_open(&lock_path, &error)),
    }
}

/// The file holds arguments and receipts, and access to it is the authority to approve.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn cannot_open(path: &Path, error: &io::Error) -> TicketError {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "; check the path and make its folder",
        io::ErrorKind::PermissionDenied => "; access to this file is what lets a person approve",
        _ => "",
    };
    TicketError::Open {
        path: path.display().to_string(),
        cause: format!("{error}{hint}"),
    }
}

fn foreign(path: &Path) -> TicketError {
    TicketError::NotATicketStore {
        path: path.display().to_string(),
    }
}

fn failed(path: &Path, error: &rusqlite::Error) -> TicketError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => foreign(path),
        _ => TicketError::Open {
            path: path.display().to_string(),
            cause: error.to_string(),
        },
    }
}
