//! The proof that an account of MySQL or MariaDB cannot write: ask the server what it was granted, and try.
//!
//! A session that is read-only proves nothing, since the session can undo it. Statements that make or drop a table cannot be
//! rolled back here, so the attempts are ones that must fail in any case, and the error tells whether the privilege was missing.

use futures_util::future::BoxFuture;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Row, Value};

use super::said;
use crate::store::sql::SqlError;
use crate::store::sql::attempts::{Outcome, Proof, Tries, on_rows};

/// Privileges that let nobody write.
const READS: [&str; 4] = ["USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES"];

/// Tables that the account may read, with a column.
const TABLES: &str = "
SELECT t.table_schema, t.table_name, min(c.column_name) FROM information_schema.tables t
JOIN information_schema.columns c ON c.table_schema = t.table_schema AND c.table_name = t.table_name
WHERE t.table_type = 'BASE TABLE' AND t.table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
  AND c.extra NOT LIKE '%GENERATED%'
GROUP BY t.table_schema, t.table_name ORDER BY t.table_schema, t.table_name LIMIT 8";

/// Asks, then tries; nothing is left behind, whatever comes of it. `database` is its name in errors.
pub(crate) async fn prove_read_only(conn: &mut Conn, database: &str) -> Result<(), SqlError> {
    let proof = Proof {
        database,
        who: "account",
    };
    let unproved = |cause: String| proof.unproved(cause);
    for row in texts(conn, "SHOW GRANTS").await.map_err(unproved)? {
        let grant = row.into_iter().next().unwrap_or_default();
        if let Some(more) = beyond_reading(&grant) {
            return Err(proof.writable(format!("the grant of {more}")));
        }
    }
    let mut attempts = Vec::new();
    for row in texts(conn, TABLES).await.map_err(unproved)? {
        let [schema, table, column] = row.as_slice() else {
            continue;
        };
        let schema = quoted(schema);
        let table = format!("{schema}.{}", quoted(table));
        attempts.extend(on_rows(&table, &quoted(column)));
        // The table is there already, and the other is not: these fail in any case.
        attempts.push(format!("CREATE TABLE {table} (x int)"));
        attempts.push(format!(
            "DROP TABLE {schema}.`holdpoint_write_probe_that_is_not_there`"
        ));
    }
    proof.by(conn, attempts).await
}

impl Tries for Conn {
    fn tried<'a>(&'a mut self, statement: &'a str) -> BoxFuture<'a, Result<Outcome, String>> {
        Box::pin(tried(self, statement))
    }
}

async fn tried(conn: &mut Conn, statement: &str) -> Result<Outcome, String> {
    let failed = |error: Error| said(&error);
    conn.query_drop("START TRANSACTION READ WRITE")
        .await
        .map_err(failed)?;
    let outcome = conn.query_drop(statement).await;
    conn.query_drop("ROLLBACK").await.map_err(failed)?;
    match outcome {
        Ok(()) => Ok(Outcome::Wrote),
        Err(Error::Server(error)) => Ok(match error.code {
            // Access denied: to the database, the table, the column, or for want of a privilege; a server that is read-only.
            1044 | 1142 | 1143 | 1227 | 1290 | 1836 => Outcome::Refused,
            // The table exists, or does not: the privilege was there.
            1050 | 1051 => Outcome::Wrote,
            _ => Outcome::Unclear,
        }),
        Err(error) => Err(said(&error)),
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

async fn texts(conn: &mut Conn, sql: &str) -> Result<Vec<Vec<String>>, String> {
    let rows: Vec<Row> = conn.query(sql).await.map_err(|error| said(&error))?;
    let text = |cell: Value| match cell {
        Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        _ => String::new(),
    };
    Ok(rows
        .into_iter()
        .map(|row| row.unwrap().into_iter().map(text).collect())
        .collect())
}

/// What a line of `SHOW GRANTS` gives besides reading, in words; `None`: nothing. Never the rest of the line, which may hold a
/// hash of the password.
fn beyond_reading(grant: &str) -> Option<String> {
    let told = grant.strip_prefix("GRANT ").unwrap_or(grant);
    let Some((privileges, rest)) = told.split_once(" ON ") else {
        return Some("a role; grant SELECT to the account itself".to_owned());
    };
    if rest.contains(" WITH GRANT OPTION") {
        return Some("GRANT OPTION".to_owned());
    }
    // Column lists: `SELECT (a, b), UPDATE (c)`.
    let mut depth = 0_usize;
    let outside: String = privileges
        .chars()
        .filter(|c| {
            match c {
                '(' => depth += 1,
                ')' => {
                    depth = depth.saturating_sub(1);
                    return false;
                }
                _ => {}
            }
            depth == 0
        })
        .collect();
    let more = outside
        .split(',')
        .map(str::trim)
        .find(|privilege| !READS.contains(privilege))?;
    Some(more.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_more_than_reading_is_found() {
        for grant in [
            "GRANT USAGE ON *.* TO `r`@`%` IDENTIFIED BY PASSWORD '*A'",
            "GRANT SELECT, SHOW VIEW ON `shop`.* TO `r`@`%`",
            "GRANT SELECT (`a`, `update`), SELECT ON `shop`.`t` TO `r`@`%`",
        ] {
            assert_eq!(beyond_reading(grant), None, "{grant}");
        }
        for (grant, more) in [
            ("GRANT ALL PRIVILEGES ON *.* TO `r`@`%`", "ALL PRIVILEGES"),
            ("GRANT SELECT, INSERT ON `shop`.* TO `r`@`%`", "INSERT"),
            (
                "GRANT SELECT (`a`), UPDATE (`b`) ON `shop`.`t` TO `r`@`%`",
                "UPDATE",
            ),
            (
                "GRANT SELECT ON `shop`.* TO `r`@`%` WITH GRANT OPTION",
                "GRANT OPTION",
            ),
            ("GRANT FILE ON *.* TO `r`@`%`", "FILE"),
            ("GRANT EXECUTE ON `shop`.* TO `r`@`%`", "EXECUTE"),
            ("GRANT PROXY ON ''@'%' TO 'root'@'%'", "PROXY"),
        ] {
            assert_eq!(beyond_reading(grant).as_deref(), Some(more), "{grant}");
        }
        assert!(
            beyond_reading("GRANT `writer`@`%` TO `r`@`%`")
                .unwrap()
                .contains("role")
        );
        let said = beyond_reading("GRANT INSERT ON *.* TO `r`@`%` IDENTIFIED BY PASSWORD '*A'");
        assert!(!said.unwrap().contains("*A"));
    }
}
