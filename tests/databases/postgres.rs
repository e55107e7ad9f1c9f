//! PostgreSQL: roles that can write are found out, types are exact, and TLS is checked.

use holdpoint::store::sql::{Limits, ServerTls, SqlError, SqlValue, postgres};

use crate::servers::{Opened, Server, certificates, opened, rows, wanted};

fn open(server: &Server, user: &str) -> Opened {
    opened(postgres::open, server, user)
}

#[tokio::test]
async fn a_role_that_can_write_is_refused_and_nothing_is_left_behind() {
    if !wanted() {
        return;
    }
    let server = Server::postgres().await;
    server
        .admin(
            "CREATE TABLE more (x int); CREATE SEQUENCE numbers; CREATE ROLE writers; GRANT INSERT ON more TO writers;
             CREATE VIEW seen AS SELECT id FROM orders;",
        )
        .await;
    for (name, grant, words) in [
        ("super", "ALTER ROLE super SUPERUSER", "superuser"),
        ("roles", "ALTER ROLE roles CREATEROLE", "may make roles"),
        (
            "inserts",
            "GRANT INSERT ON more TO inserts",
            "may write to more",
        ),
        (
            "columns",
            "GRANT UPDATE (owner) ON orders TO columns",
            "may write to orders",
        ),
        (
            "truncates",
            "GRANT TRUNCATE ON orders TO truncates",
            "may write to orders",
        ),
        (
            "views",
            "GRANT DELETE ON seen TO views",
            "may write to seen",
        ),
        (
            "counts",
            "GRANT USAGE ON SEQUENCE numbers TO counts",
            "advance the sequence numbers",
        ),
        (
            "makes",
            "GRANT CREATE ON SCHEMA public TO makes",
            "tables in the schema public",
        ),
        (
            "schemas",
            "GRANT CREATE ON DATABASE postgres TO schemas",
            "make schemas",
        ),
        // Not its own privilege, and not inherited: yet it can become the other.
        (
            "becomes",
            "ALTER ROLE becomes NOINHERIT; GRANT writers TO becomes",
            "may write to more",
        ),
        (
            "all_data",
            "GRANT pg_write_all_data TO all_data",
            "the role",
        ),
        (
            "files",
            "GRANT pg_write_server_files TO files",
            "member of pg_write_server_files",
        ),
        // The session's default is no proof: the session can change it.
        (
            "default_ro",
            "ALTER ROLE default_ro SET default_transaction_read_only = on; GRANT INSERT ON more TO default_ro",
            "may write to more",
        ),
    ] {
        let make = format!(
            "CREATE ROLE {name} LOGIN PASSWORD 'p@ss:word'; GRANT SELECT ON orders TO {name}; {grant};"
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
    let left = "SELECT count(*) FROM pg_catalog.pg_class WHERE relname LIKE '%probe%' AND relname = :id OR relname = 'holdpoint_write_probe'";
    assert_eq!(rows(&*reader, left, "x").await, [[SqlValue::Integer(0)]]);

    // A role that may read nothing proves nothing.
    server.admin("CREATE ROLE blind LOGIN PASSWORD 'p@ss:word'; REVOKE ALL ON orders FROM reader; REVOKE USAGE ON SCHEMA public FROM PUBLIC").await;
    let Err(error) = open(&server, "blind") else {
        panic!("a role that may read nothing was taken");
    };
    assert!(
        error.to_string().contains("nothing could be tried"),
        "{error}"
    );
}

#[tokio::test]
async fn a_function_with_the_rights_of_its_owner_cannot_write_from_a_look_up() {
    if !wanted() {
        return;
    }
    let server = Server::postgres().await;
    server
        .admin(
            "CREATE FUNCTION steal(id text) RETURNS text SECURITY DEFINER LANGUAGE sql
               AS 'UPDATE orders SET owner = ''eve'' WHERE orders.id = $1 RETURNING owner';
             CREATE FUNCTION unlock() RETURNS text SECURITY DEFINER LANGUAGE sql
               AS 'SELECT set_config(''default_transaction_read_only'', ''off'', false)'",
        )
        .await;
    let reader = open(&server, "reader").unwrap();
    assert!(reader.check("SELECT steal('o-1')").is_err());
    // Even where the session's default is undone first.
    let unlocked = reader.query("SELECT unlock()", Vec::new()).await;
    assert_eq!(unlocked.unwrap().rows.len(), 1);
    for _ in 0..6 {
        assert!(
            reader
                .query("SELECT steal('o-1')", Vec::new())
                .await
                .is_err()
        );
    }
    let owner = rows(&*reader, "SELECT owner FROM orders WHERE id = :id", "o-1").await;
    assert_eq!(owner, [[SqlValue::Text("ann".to_owned())]]);
}

#[tokio::test]
async fn types_are_exact_and_others_are_a_problem_at_load() {
    if !wanted() {
        return;
    }
    let server = Server::postgres().await;
    server
        .admin(
            "CREATE EXTENSION citext; CREATE DOMAIN order_no AS bigint CHECK (value > 0);
             CREATE TABLE kinds (t text, v varchar(9), c char(4), ci citext, s smallint, i int, b bigint, d order_no, n numeric, u uuid, m money, f float8, j jsonb, flag boolean);
             INSERT INTO kinds VALUES ('x', 'x', 'ab', 'MiXed', 7, 7, 9007199254740993, 7, 12.50, '67e55044-10b1-426f-9247-bb680e5fe0c8', 1, 1, '{}', true);
             GRANT SELECT ON kinds TO reader;",
        )
        .await;
    let reader = open(&server, "reader").unwrap();
    let text = |text: &str| SqlValue::Text(text.to_owned());
    for (column, asked, said) in [
        ("t", "x", Some(text("x"))),
        ("t", "X", None),
        ("v", "x", Some(text("x"))),
        // The padding is told, so that the echo differs from what was asked.
        ("c", "ab", Some(text("ab  "))),
        ("ci", "mixed", Some(text("MiXed"))),
        ("s", "7", Some(SqlValue::Integer(7))),
        ("i", "7", Some(SqlValue::Integer(7))),
        ("i", "07", None),
        ("i", "7e0", None),
        ("i", "99999999999", None),
        (
            "b",
            "9007199254740993",
            Some(SqlValue::Integer(9_007_199_254_740_993)),
        ),
        ("d", "7", Some(SqlValue::Integer(7))),
        ("n", "12", None),
        (
            "u",
            "67e55044-10b1-426f-9247-bb680e5fe0c8",
            Some(text("67e55044-10b1-426f-9247-bb680e5fe0c8")),
        ),
        ("u", "67E55044-10B1-426F-9247-BB680E5FE0C8", None),
        ("u", "nonsense", None),
    ] {
        let sql = format!("SELECT {column} FROM kinds WHERE {column} = :id");
        let found = rows(&*reader, &sql, asked).await;
        let expected: Vec<_> = said.into_iter().map(|said| vec![said]).collect();
        assert_eq!(found, expected, "{column} = {asked}");
    }
    let numeric = reader
        .query("SELECT n FROM kinds", Vec::new())
        .await
        .unwrap();
    assert_eq!(numeric.rows, [[text("12.50")]]);
    for column in ["m", "f", "j", "flag"] {
        let error = reader
            .check(&format!("SELECT {column} FROM kinds"))
            .unwrap_err();
        assert!(error.to_string().contains("cast it"), "{column}: {error}");
        let error = reader
            .check(&format!("SELECT t FROM kinds WHERE {column} = :id"))
            .unwrap_err();
        assert!(
            matches!(error, SqlError::Statement { .. }),
            "{column}: {error}"
        );
    }
}

#[tokio::test]
async fn a_table_that_may_not_be_read_is_found_at_load() {
    if !wanted() {
        return;
    }
    let server = Server::postgres().await;
    server.admin("CREATE TABLE hidden (id text)").await;
    let reader = open(&server, "reader").unwrap();
    let error = reader
        .check("SELECT id FROM hidden WHERE id = :id")
        .unwrap_err();
    assert!(error.to_string().contains("permission denied"), "{error}");
}

#[tokio::test]
async fn tls_needs_the_right_authority_and_name() {
    if !wanted() {
        return;
    }
    let server = Server::postgres().await;
    let ours = ServerTls::On(Some(server.folder.path().join("ca.pem")));
    let open = |host: &str, tls: &ServerTls| {
        postgres::open(
            &server.url_at(host, "reader"),
            tls,
            "shop",
            Limits::default(),
        )
    };
    let private = open("localhost", &ours).unwrap();
    let used = "SELECT CASE WHEN ssl THEN 'tls' ELSE 'plain' END FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let told = private.query(used, Vec::new()).await.unwrap();
    assert_eq!(told.rows, [[SqlValue::Text("tls".to_owned())]]);
    let others = tempfile::tempdir().unwrap();
    certificates(others.path());
    let others = ServerTls::On(Some(others.path().join("ca.pem")));
    for (host, tls) in [
        ("localhost", &others),
        ("localhost", &ServerTls::On(None)),
        // The certificate has another name.
        ("127.0.0.1", &ours),
    ] {
        let Err(error) = open(host, tls) else {
            panic!("{host} {tls:?} was taken");
        };
        assert!(matches!(error, SqlError::Open { .. }), "{error}");
    }
}
