//! What every read-only database must do, whatever it is.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use holdpoint::store::sql::{
    Limits, ReadOnlySql, Rows, ServerTls, SqlError, SqlValue, mysql, postgres, sqlite,
};

use crate::servers::{Server, wanted};

/// One kind: how it is opened, and how somebody else writes to it.
struct Kind<'k> {
    open: &'k dyn Fn(Limits) -> Arc<dyn ReadOnlySql>,
    write: &'k dyn Fn(&'static str) -> BoxFuture<'k, ()>,
    /// A query that runs until it is stopped, and one of many rows.
    slow: &'k str,
    many: &'k str,
}

fn text(value: &str) -> SqlValue {
    SqlValue::Text(value.to_owned())
}

async fn ask(
    database: &dyn ReadOnlySql,
    sql: &str,
    values: &[(&str, SqlValue)],
) -> Result<Rows, SqlError> {
    let values = values
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()));
    database.query(sql, values.collect()).await
}

async fn conforms(kind: Kind<'_>) {
    let database = (kind.open)(Limits::default());
    let database = &*database;
    let owner = "SELECT owner, id AS order_id, number, tenant FROM orders WHERE id = :order_id";

    // Described at load.
    let described = database.check(owner).unwrap();
    assert_eq!(described.parameters, ["order_id"]);
    assert_eq!(described.columns, ["owner", "order_id", "number", "tenant"]);
    let described = database
        .check("SELECT owner FROM orders WHERE tenant = :tenant AND (id = :id OR tenant = :tenant)")
        .unwrap();
    assert_eq!(described.parameters, ["tenant", "id"]);

    // Values by name, each type exactly.
    let rows = ask(
        database,
        owner,
        &[("unused", SqlValue::Null), ("order_id", text("o-2"))],
    )
    .await
    .unwrap();
    assert_eq!(rows.columns, ["owner", "order_id", "number", "tenant"]);
    assert_eq!(
        rows.rows,
        [[text("bob"), text("o-2"), SqlValue::Integer(2), text("acme")]]
    );
    let null = ask(database, owner, &[("order_id", text("o-3"))])
        .await
        .unwrap();
    assert_eq!(null.rows[0][0], SqlValue::Null);
    let by_number = "SELECT owner FROM orders WHERE number = :number";
    for value in [SqlValue::Integer(1), text("1")] {
        let rows = ask(database, by_number, &[("number", value)])
            .await
            .unwrap();
        assert_eq!(rows.rows, [[text("ann")]]);
    }
    for value in [SqlValue::Integer(i64::MAX), SqlValue::Null, text("ann")] {
        let rows = ask(database, by_number, &[("number", value)])
            .await
            .unwrap();
        assert_eq!(rows.rows.len(), 0);
    }

    // A value is never SQL, and a colon in a string is no parameter.
    let quoted = ask(database, owner, &[("order_id", text("O'Brien"))])
        .await
        .unwrap();
    assert_eq!(quoted.rows[0][0], text("cy"));
    for hostile in [
        "o-1' OR '1'='1",
        "o-1'; DROP TABLE orders; --",
        "o-1\\",
        "\u{1f980}",
        "%",
        "",
        ":order_id",
    ] {
        let rows = ask(database, owner, &[("order_id", text(hostile))])
            .await
            .unwrap();
        assert_eq!(rows.rows.len(), 0, "{hostile}");
    }
    let literal = "SELECT ':no', 'it''s :no' /* :no */ -- :no\n FROM orders WHERE id = :id";
    let rows = ask(database, literal, &[("id", text("o-1"))])
        .await
        .unwrap();
    assert_eq!(rows.rows, [[text(":no"), text("it's :no")]]);

    // What is not one query that can run is found at load, and never carried out.
    for bad in [
        "",
        "DELETE FROM orders",
        "UPDATE orders SET owner = 'ann'",
        "INSERT INTO orders SELECT * FROM orders",
        "CREATE TABLE more (x int)",
        "DROP TABLE orders",
        "SELECT 1; SELECT 2",
        "SELECT 1; DELETE FROM orders",
        "SELECT owner FROM no_such_table",
        "SELECT no_such_column FROM orders",
        "SELECT owner FROM",
    ] {
        let error = database.check(bad).unwrap_err();
        assert!(
            matches!(error, SqlError::Statement { .. }),
            "{bad}: {error}"
        );
        assert!(ask(database, bad, &[]).await.is_err(), "{bad}");
    }
    let missing = ask(database, owner, &[]).await.unwrap_err();
    assert!(missing.to_string().contains(":order_id"), "{missing}");
    let count = "SELECT count(*) AS n FROM orders";
    assert_eq!(
        ask(database, count, &[]).await.unwrap().rows,
        [[SqlValue::Integer(4)]]
    );

    // What others have committed is seen.
    (kind.write)("UPDATE orders SET owner = 'dan' WHERE id = 'o-2'").await;
    let rows = ask(database, owner, &[("order_id", text("o-2"))])
        .await
        .unwrap();
    assert_eq!(rows.rows[0][0], text("dan"));

    // Many at once, and limits.
    let value = [("id", text("o-1"))];
    let all =
        join_all((0..40).map(|_| ask(database, "SELECT owner FROM orders WHERE id = :id", &value)))
            .await;
    assert!(
        all.into_iter()
            .all(|rows| rows.unwrap().rows == [[text("ann")]])
    );
    let tight = (kind.open)(Limits {
        time: Duration::from_secs(2),
        rows: 3,
        bytes: 100,
    });
    for (sql, words) in [
        (kind.slow, "no answer within 2s"),
        (kind.many, "more than 3 rows"),
    ] {
        let error = ask(&*tight, sql, &[]).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    // Nothing of it stays behind.
    for _ in 0..6 {
        let rows = ask(&*tight, "SELECT owner FROM orders WHERE id = :id", &value)
            .await
            .unwrap();
        assert_eq!(rows.rows.len(), 1);
    }
}

#[tokio::test]
async fn sqlite_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let writer = rusqlite::Connection::open(&path).unwrap();
    writer
        .execute_batch(
            "CREATE TABLE orders (id TEXT PRIMARY KEY, number INTEGER NOT NULL UNIQUE, owner TEXT, tenant TEXT NOT NULL);
             INSERT INTO orders VALUES ('o-1', 1, 'ann', 'acme'), ('o-2', 2, 'bob', 'acme'), ('o-3', 3, NULL, 'acme'), ('O''Brien', 4, 'cy', 'other');",
        )
        .unwrap();
    let writer = &writer;
    conforms(Kind {
        open: &|limits| sqlite::open_with(&path, limits).unwrap(),
        write: &|sql| {
            writer.execute_batch(sql).unwrap();
            Box::pin(std::future::ready(()))
        },
        slow: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        many: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
    })
    .await;
}

#[tokio::test]
async fn postgres_conforms() {
    if !wanted() {
        return;
    }
    let server = Server::postgres().await;
    let url = server.url("reader");
    conforms(Kind {
        open: &|limits| postgres::open(&url, &ServerTls::Off, "shop", limits).unwrap(),
        write: &|sql| Box::pin(server.admin(sql)),
        slow: "SELECT count(*) FROM generate_series(1, 100000000000) AS n",
        many: "SELECT 'x' FROM generate_series(1, 1000) AS n",
    })
    .await;
}

#[tokio::test]
async fn mysql_conforms() {
    if !wanted() {
        return;
    }
    let server = Server::mysql().await;
    let url = server.url("reader");
    conforms(Kind {
        open: &|limits| mysql::open(&url, &ServerTls::Off, "shop", limits).unwrap(),
        write: &|sql| Box::pin(server.admin(sql)),
        slow: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
               SELECT count(*) FROM n a, n b, n c, n d",
        many: "SELECT a.id FROM orders a, orders b",
    })
    .await;
}
