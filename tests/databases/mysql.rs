//! MySQL and MariaDB: accounts that can write are found out, types are exact, and TLS is checked.

use holdpoint::store::sql::{Limits, ServerTls, SqlError, SqlValue, mysql};

use crate::servers::{Opened, Server, certificates, opened, rows, wanted};

fn open(server: &Server, user: &str) -> Opened {
    opened(mysql::open, server, user)
}

#[tokio::test]
async fn an_account_that_can_write_is_refused_and_nothing_is_left_behind() {
    if !wanted() {
        return;
    }
    let server = Server::mysql().await;
    server
        .admin("CREATE TABLE shop.more (x int); CREATE ROLE writers; GRANT INSERT ON shop.more TO writers")
        .await;
    for (name, grant, words) in [
        (
            "allowed",
            "GRANT ALL ON shop.* TO allowed@'%'",
            "ALL PRIVILEGES",
        ),
        (
            "inserts",
            "GRANT INSERT ON shop.more TO inserts@'%'",
            "INSERT",
        ),
        (
            "columns",
            "GRANT UPDATE (owner) ON shop.orders TO columns@'%'",
            "UPDATE",
        ),
        ("drops", "GRANT DROP ON shop.* TO drops@'%'", "DROP"),
        ("makes", "GRANT CREATE ON shop.* TO makes@'%'", "CREATE"),
        ("files", "GRANT FILE ON *.* TO files@'%'", "FILE"),
        ("runs", "GRANT EXECUTE ON shop.* TO runs@'%'", "EXECUTE"),
        (
            "gives",
            "GRANT SELECT ON shop.* TO gives@'%' WITH GRANT OPTION",
            "GRANT OPTION",
        ),
        ("becomes", "GRANT writers TO becomes@'%'", "role"),
    ] {
        let make = format!(
            "CREATE USER {name}@'%' IDENTIFIED BY 'p@ss:word'; GRANT SELECT ON shop.* TO {name}@'%'; {grant}"
        );
        server.admin(&make).await;
        let Err(error) = open(&server, name) else {
            panic!("{name} was taken");
        };
        assert!(
            matches!(error, SqlError::Writable { .. }),
            "{name}: {error}"
        );
        assert!(error.to_string().contains(words), "{name}: {error}");
        assert!(!error.to_string().contains("ss:word"), "{error}");
    }
    let reader = open(&server, "reader").unwrap();
    let left = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'shop' AND table_name <> :id ORDER BY 1";
    let tables = rows(&*reader, left, "x").await;
    assert_eq!(
        tables,
        [["more"], ["orders"]].map(|row| row.map(|name| SqlValue::Text(name.to_owned())).to_vec())
    );

    server.admin("CREATE USER blind@'%' IDENTIFIED BY 'p@ss:word'; GRANT SELECT ON mysql.proc TO blind@'%'; GRANT SELECT ON shop.* TO blind@'%'; REVOKE SELECT ON shop.* FROM blind@'%'").await;
    assert!(open(&server, "blind").is_err());
}

#[tokio::test]
async fn what_the_collation_takes_for_equal_is_told_as_it_stands() {
    if !wanted() {
        return;
    }
    let server = Server::mysql().await;
    server
        .admin(
            "CREATE TABLE shop.kinds (v varchar(20), c char(6), i int, u bigint unsigned, n decimal(9,2), b binary(4), f double, d date, j json) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
             INSERT INTO shop.kinds VALUES ('AbC', 'ab', 10, 18446744073709551615, 12.50, 'abcd', 1, '2026-01-01', '{}')",
        )
        .await;
    let reader = open(&server, "reader").unwrap();
    let text = |text: &str| SqlValue::Text(text.to_owned());
    for (column, asked, said) in [
        // Case, accents and trailing blanks do not count to the server: what it found is told.
        ("v", "abc", Some(text("AbC"))),
        ("v", "\u{c0}bc ", Some(text("AbC"))),
        ("c", "ab", Some(text("ab"))),
        ("i", "10", Some(SqlValue::Integer(10))),
        ("i", "1e1", Some(SqlValue::Integer(10))),
        ("i", "10x", Some(SqlValue::Integer(10))),
        (
            "u",
            "18446744073709551615",
            Some(text("18446744073709551615")),
        ),
        ("n", "12.5", Some(text("12.50"))),
    ] {
        let found = rows(
            &*reader,
            &format!("SELECT {column} FROM kinds WHERE {column} = :id"),
            asked,
        )
        .await;
        let expected: Vec<_> = said.into_iter().map(|said| vec![said]).collect();
        assert_eq!(found, expected, "{column} = {asked}");
    }
    // Bound as text: a number is not compared with the text `10x` as a number.
    server
        .admin("INSERT INTO shop.kinds (v) VALUES ('7x')")
        .await;
    let number = vec![("id".to_owned(), SqlValue::Integer(7))];
    let found = reader
        .query("SELECT v FROM kinds WHERE v = :id", number)
        .await;
    assert_eq!(found.unwrap().rows.len(), 0);
    for column in ["b", "f", "d"] {
        let error = reader
            .check(&format!("SELECT {column} FROM kinds"))
            .unwrap_err();
        assert!(error.to_string().contains("cast it"), "{column}: {error}");
    }
}

#[tokio::test]
async fn a_table_that_may_not_be_read_is_found_at_load() {
    if !wanted() {
        return;
    }
    let server = Server::mysql().await;
    server
        .admin("CREATE DATABASE hidden; CREATE TABLE hidden.t (id int)")
        .await;
    let reader = open(&server, "reader").unwrap();
    let error = reader
        .check("SELECT id FROM hidden.t WHERE id = :id")
        .unwrap_err();
    assert!(error.to_string().contains("denied"), "{error}");
}

#[tokio::test]
async fn tls_needs_the_right_authority_and_name() {
    if !wanted() {
        return;
    }
    let server = Server::mysql().await;
    let ours = ServerTls::On(Some(server.folder.path().join("ca.pem")));
    let open = |host: &str, tls: &ServerTls, more: &str| {
        let url = format!("{}{more}", server.url_at(host, "reader"));
        mysql::open(&url, tls, "shop", Limits::default())
    };
    open("localhost", &ours, "").unwrap();
    let others = tempfile::tempdir().unwrap();
    certificates(others.path());
    let others = ServerTls::On(Some(others.path().join("ca.pem")));
    for (host, tls, more) in [
        ("localhost", &others, ""),
        ("localhost", &ServerTls::On(None), ""),
        // The certificate has another name.
        ("127.0.0.1", &ours, ""),
        // What the URL says of TLS does not count.
        (
            "localhost",
            &others,
            "?require_ssl=true&verify_ca=false&verify_identity=false",
        ),
    ] {
        let Err(error) = open(host, tls, more) else {
            panic!("{host} {tls:?} was taken");
        };
        assert!(matches!(error, SqlError::Open { .. }), "{error}");
    }
}
