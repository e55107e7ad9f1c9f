//! SQLite: what it answers, what it refuses, and that it finds out a connection that can write.

use std::path::Path;
use std::time::Duration;

use holdpoint::store::sql::sqlite::{Limits, open, open_with, prove_read_only};
use holdpoint::store::sql::{SqlError, SqlValue};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, OpenFlags};

fn shop(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("shop.db");
    let writer = Connection::open(&path).unwrap();
    writer
        .execute_batch(
            "CREATE TABLE orders (id TEXT PRIMARY KEY, owner TEXT NOT NULL, cents INTEGER);
             INSERT INTO orders VALUES ('o-1', 'ann', 100), ('o-2', 'bob', 200);
             CREATE VIEW sums AS SELECT owner, sum(cents) AS cents FROM orders GROUP BY owner;",
        )
        .unwrap();
    path
}

fn text(value: &str) -> SqlValue {
    SqlValue::Text(value.to_owned())
}

#[tokio::test]
async fn parameters_are_bound_by_name_and_commits_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = shop(folder.path());
    let database = open(&path).unwrap();
    let sql = "SELECT owner FROM orders WHERE id = :order_id";
    let described = database.check(sql).unwrap();
    assert_eq!(described.parameters, ["order_id"]);
    assert_eq!(described.columns, ["owner"]);
    let params = || {
        vec![
            ("order_id".to_owned(), text("o-2")),
            ("unused".to_owned(), SqlValue::Null),
        ]
    };
    let rows = database.query(sql, params()).await.unwrap();
    assert_eq!(rows.columns, ["owner"]);
    assert_eq!(rows.rows, [[text("bob")]]);

    let writer = Connection::open(&path).unwrap();
    writer
        .execute("UPDATE orders SET owner = 'cy' WHERE id = 'o-2'", [])
        .unwrap();
    let rows = database.query(sql, params()).await.unwrap();
    assert_eq!(rows.rows, [[text("cy")]]);

    let missing = database.query(sql, Vec::new()).await.unwrap_err();
    assert!(missing.to_string().contains(":order_id"), "{missing}");
}

#[tokio::test]
async fn views_recursion_and_harmless_functions_work() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&shop(folder.path())).unwrap();
    for sql in [
        "SELECT cents FROM sums WHERE owner = 'ann'",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT max(i) FROM n",
        "SELECT json_extract('{\"a\":100}', '$.a')",
        "SELECT value FROM json_each('[100]')",
        "VALUES (100);  -- and no more",
    ] {
        let rows = database.query(sql, Vec::new()).await.unwrap();
        assert_eq!(rows.rows, [[SqlValue::Integer(100)]], "{sql}");
    }
}

#[tokio::test]
async fn whatever_is_not_one_select_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = shop(folder.path());
    let before = std::fs::read(&path).unwrap();
    let database = open(&path).unwrap();
    let other = folder.path().join("other.db");
    let attach = format!("ATTACH '{}' AS other", other.display());
    let vacuum = format!("VACUUM INTO '{}'", other.display());
    for sql in [
        "DELETE FROM orders",
        "INSERT INTO orders VALUES ('x', 'y', 1) RETURNING id",
        "UPDATE orders SET owner = 'ann' RETURNING owner",
        "CREATE TEMP TABLE t (x)",
        "WITH n AS (SELECT 1) DELETE FROM orders RETURNING id",
        "PRAGMA query_only = OFF",
        "PRAGMA table_info(orders)",
        "SELECT 1; SELECT 2",
        "BEGIN",
        "SAVEPOINT s",
        "EXPLAIN SELECT 1",
        "SELECT load_extension('x')",
        "SELECT randomblob(1000000)",
        "SELECT \"no_such_column\" FROM orders",
        "SELECT ?1",
        "SELECT $x",
        "",
        "-- nothing",
        &attach,
        &vacuum,
    ] {
        let error = database.check(sql).unwrap_err();
        assert!(
            matches!(error, SqlError::Statement { .. }),
            "{sql}: {error}"
        );
        assert!(database.query(sql, Vec::new()).await.is_err(), "{sql}");
    }
    // Only found out when it runs.
    let pragma = "SELECT name FROM pragma_table_info('orders')";
    assert!(database.query(pragma, Vec::new()).await.is_err());
    assert_eq!(before, std::fs::read(&path).unwrap());
    assert!(!other.exists());
}

#[tokio::test]
async fn time_rows_and_bytes_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        time: Duration::from_millis(50),
        rows: 3,
        bytes: 100,
    };
    let database = open_with(&shop(folder.path()), limits).unwrap();
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    for (sql, words) in [
        (
            format!("{endless} SELECT count(*) FROM n"),
            "no answer within 50ms",
        ),
        (format!("{endless} SELECT i FROM n"), "more than 3 rows"),
        (
            "SELECT printf('%.*c', 101, 'x')".to_owned(),
            "more than 100 bytes",
        ),
    ] {
        let error = database.query(&sql, Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let rows = database.query("SELECT 1", Vec::new()).await.unwrap();
    assert_eq!(rows.rows.len(), 1);
}

#[tokio::test]
async fn many_queries_at_once_are_all_answered() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&shop(folder.path())).unwrap();
    let queries = (0..40).map(|i| {
        let params = vec![("i".to_owned(), SqlValue::Integer(i))];
        database.query("SELECT :i + count(*) FROM orders", params)
    });
    let answers = futures_util::future::join_all(queries).await;
    for (i, answer) in (0_i64..).zip(answers) {
        assert_eq!(answer.unwrap().rows, [[SqlValue::Integer(i + 2)]]);
    }
}

#[test]
fn a_missing_file_and_a_file_of_another_kind_are_errors_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.db");
    assert!(matches!(open(&missing), Err(SqlError::Open { .. })));
    assert!(!missing.exists());
    let text = folder.path().join("notes.txt");
    std::fs::write(
        &text,
        "not a database, only a text of more than a few bytes".repeat(50),
    )
    .unwrap();
    let Err(error) = open(&text) else {
        panic!("opened a text file")
    };
    assert!(error.to_string().contains("notes.txt"), "{error}");
    // A URI is a file name here, not a way to ask for another mode.
    let path = shop(folder.path());
    let uri = format!("file:{}?mode=rwc", path.display());
    assert!(open(Path::new(&uri)).is_err());
}

#[test]
fn a_connection_that_can_write_is_found_out_and_the_file_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = shop(folder.path());
    for journal in ["DELETE", "WAL"] {
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", journal).unwrap();
        let before = std::fs::read(&path).unwrap();
        let error = prove_read_only(&writer, "shop.db").unwrap_err();
        assert!(
            matches!(&error, SqlError::Writable { database, probe }
                if database == "shop.db" && probe.starts_with("CREATE")),
            "{error}"
        );
        assert!(writer.is_autocommit());
        assert_eq!(before, std::fs::read(&path).unwrap());
        let count: i64 = writer
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .unwrap();
        assert_eq!(count, 3, "orders, its index, sums");
    }
}

#[test]
fn a_lock_held_elsewhere_is_no_proof() {
    let folder = tempfile::tempdir().unwrap();
    let path = shop(folder.path());
    let suspect = Connection::open(&path).unwrap();
    suspect.busy_timeout(Duration::ZERO).unwrap();
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = prove_read_only(&suspect, "shop.db").unwrap_err();
    assert!(matches!(error, SqlError::Open { .. }), "{error}");
    holder.execute_batch("ROLLBACK").unwrap();
    assert!(matches!(
        prove_read_only(&suspect, "shop.db"),
        Err(SqlError::Writable { .. })
    ));
}

#[test]
fn a_file_opened_read_only_can_still_attach_and_is_refused_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = shop(folder.path());
    let reader = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let error = prove_read_only(&reader, "shop.db").unwrap_err();
    assert!(error.to_string().contains("ATTACH"), "{error}");
    let names: i64 = reader
        .query_row("SELECT count(*) FROM pragma_database_list", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(names, 1, "detached again");
}

#[test]
fn an_open_transaction_hides_what_it_can_do() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Connection::open(shop(folder.path())).unwrap();
    writer.execute_batch("BEGIN").unwrap();
    let error = prove_read_only(&writer, "shop.db").unwrap_err();
    assert!(error.to_string().contains("transaction"), "{error}");
}

/// One hole in an otherwise tight authorizer.
type Hole = fn(&AuthAction<'_>) -> bool;

#[test]
fn each_way_to_write_is_found_alone() {
    let holes: [(&str, Hole); 4] = [
        ("INSERT", |action| {
            matches!(action, AuthAction::Insert { .. })
        }),
        ("UPDATE", |action| {
            matches!(action, AuthAction::Update { .. })
        }),
        ("DELETE", |action| {
            matches!(action, AuthAction::Delete { .. })
        }),
        ("PRAGMA", |action| {
            matches!(action, AuthAction::Pragma { .. })
        }),
    ];
    for (name, hole) in holes {
        let folder = tempfile::tempdir().unwrap();
        let path = shop(folder.path());
        let before = std::fs::read(&path).unwrap();
        let mut suspect = Connection::open(&path).unwrap();
        let authorizer = move |context: AuthContext<'_>| {
            let open = hole(&context.action)
                || matches!(
                    context.action,
                    AuthAction::Select
                        | AuthAction::Read { .. }
                        | AuthAction::Function { .. }
                        | AuthAction::Transaction { .. }
                );
            if open {
                Authorization::Allow
            } else {
                Authorization::Deny
            }
        };
        suspect.authorizer(Some(authorizer)).unwrap();
        let error = prove_read_only(&suspect, "shop.db").unwrap_err();
        assert!(
            matches!(&error, SqlError::Writable { probe, .. } if probe.starts_with(name)),
            "{name}: {error}"
        );
        assert_eq!(before, std::fs::read(&path).unwrap());
    }
}
