//! How the tables of a world are filled again.

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use super::{Fault, fault, run};

/// Tables with the columns that can be written, the number that comes next where they count, and whether they have triggers.
const TABLES: &str = "
SELECT t.table_name, CAST(t.auto_increment AS CHAR),
  (SELECT count(*) FROM information_schema.triggers g
   WHERE g.event_object_schema = t.table_schema AND g.event_object_table = t.table_name)
FROM information_schema.tables t WHERE t.table_schema = database() AND t.table_type = 'BASE TABLE' ORDER BY t.table_name";

const COLUMNS: &str = "
SELECT column_name FROM information_schema.columns
WHERE table_schema = database() AND table_name = ? AND extra NOT LIKE '%GENERATED%' ORDER BY ordinal_position";

/// Statements, in order.
#[derive(Default)]
pub(super) struct Plan {
    refill: Vec<String>,
    count: Vec<String>,
}

impl Plan {
    /// From the image, to which the connection leads.
    pub(super) async fn of(conn: &mut Conn, image: &str) -> Result<Self, Fault> {
        let failed = |error: mysql_async::Error| fault(&error);
        let tables: Vec<(String, Option<String>, u64)> =
            conn.query(TABLES).await.map_err(failed)?;
        let mut plan = Self::default();
        // What triggers write into other tables is gone when those are filled.
        let (with, without): (Vec<_>, Vec<_>) =
            tables.into_iter().partition(|(.., triggers)| *triggers > 0);
        for (table, next, _) in with.into_iter().chain(without) {
            let columns: Vec<String> = conn
                .exec(COLUMNS, (table.as_str(),))
                .await
                .map_err(failed)?;
            let columns: Vec<_> = columns.iter().map(|column| quoted(column)).collect();
            let (table, columns) = (quoted(&table), columns.join(", "));
            plan.refill.push(format!("DELETE FROM {table}"));
            if !columns.is_empty() {
                plan.refill.push(format!(
                    "INSERT INTO {table} ({columns}) SELECT {columns} FROM `{image}`.{table}"
                ));
            }
            if let Some(next) = next {
                plan.count
                    .push(format!("ALTER TABLE {table} AUTO_INCREMENT = {next}"));
            }
        }
        Ok(plan)
    }

    /// Fills the tables in one transaction; then those that count, count from where they did.
    pub(super) async fn run(&self, conn: &mut Conn) -> Result<(), Fault> {
        run(conn, "SET FOREIGN_KEY_CHECKS = 0").await?;
        run(conn, "START TRANSACTION").await?;
        let mut filled = Ok(());
        for statement in &self.refill {
            filled = run(conn, statement).await;
            if filled.is_err() {
                break;
            }
        }
        let end = if filled.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = run(conn, end).await;
        run(conn, "SET FOREIGN_KEY_CHECKS = 1").await?;
        filled?;
        ended?;
        for statement in &self.count {
            run(conn, statement).await?;
        }
        Ok(())
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
