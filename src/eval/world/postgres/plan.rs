//! What the template has besides the world, and how tables are filled again from it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use tokio_postgres::SimpleQueryMessage;

use super::super::order::by_references;
use super::{COPIES, Fault, Link, fault};

/// Every table that holds rows: its name, its columns that can be written, whether it has triggers.
const TABLES: &str = "
SELECT format('%I.%I', n.nspname, c.relname),
  coalesce(string_agg(format('%I', a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.attgenerated = ''), ''),
  EXISTS (SELECT 1 FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal)::text
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%'
GROUP BY n.nspname, c.relname, c.oid ORDER BY 1";

const REFERENCES: &str = "
SELECT format('%I.%I', fn.nspname, f.relname), format('%I.%I', tn.nspname, t.relname)
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class f ON f.oid = k.conrelid JOIN pg_catalog.pg_namespace fn ON fn.oid = f.relnamespace
JOIN pg_catalog.pg_class t ON t.oid = k.confrelid JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace
WHERE k.contype = 'f'";

const SEQUENCES: &str = "
SELECT quote_literal(format('%I.%I', schemaname, sequencename)), coalesce(last_value, start_value)::text,
  (last_value IS NOT NULL)::text
FROM pg_catalog.pg_sequences WHERE schemaname NOT LIKE 'pg\\_%' ORDER BY 1";

const SCHEMAS: &str = "
SELECT format('%I', nspname) FROM pg_catalog.pg_namespace
WHERE nspname NOT IN ('pg_catalog', 'information_schema') AND nspname NOT LIKE 'pg\\_%' ORDER BY 1";

/// Copies the rows, lets the judge's role read what is there and what calls make, and gives the statements that fill the tables again in one transaction.
pub(super) async fn prepare(link: &Link, role: &str) -> Result<String, Fault> {
    for row in texts(link, SCHEMAS).await? {
        let [schema] = row.as_slice() else { continue };
        link.run(&format!(
            "GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}; \
             ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {role}; \
             REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC"
        ))
        .await?;
    }
    let tables = texts(link, TABLES).await?;
    let references = texts(link, REFERENCES).await?;
    let sequences = texts(link, SEQUENCES).await?;
    link.run(&format!("CREATE SCHEMA {COPIES}")).await?;
    let names: BTreeSet<String> = tables
        .iter()
        .filter_map(|row| row.first().cloned())
        .collect();
    let pairs: Vec<(String, String)> = references
        .into_iter()
        .filter_map(|row| <[String; 2]>::try_from(row).ok())
        .map(|[from, to]| (from, to))
        .collect();
    let order = by_references(&names, &pairs);
    let mut steps = "BEGIN; SET CONSTRAINTS ALL DEFERRED;\n".to_owned();
    let mut back = String::new();
    let mut fills = String::new();
    for table in order.iter().rev() {
        let _ = writeln!(fills, "DELETE FROM {table};");
    }
    for (number, name) in order.iter().enumerate() {
        let Some([_, columns, triggers]) = tables
            .iter()
            .filter_map(|row| <&[String; 3]>::try_from(row.as_slice()).ok())
            .find(|[table, ..]| table == name)
        else {
            continue;
        };
        let copy = format!("{COPIES}.t{number}");
        link.run(&format!("CREATE TABLE {copy} AS TABLE {name}"))
            .await?;
        if triggers == "true" {
            let _ = writeln!(steps, "ALTER TABLE {name} DISABLE TRIGGER USER;");
            let _ = writeln!(back, "ALTER TABLE {name} ENABLE TRIGGER USER;");
        }
        if !columns.is_empty() {
            let _ = writeln!(
                fills,
                "INSERT INTO {name} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {copy};"
            );
        }
    }
    for row in sequences {
        if let [name, value, called] = row.as_slice() {
            let _ = writeln!(
                fills,
                "SELECT pg_catalog.setval({name}, {value}, {called});"
            );
        }
    }
    steps.push_str(&fills);
    // Deferred constraints fire before their triggers come back.
    if !back.is_empty() {
        steps.push_str("SET CONSTRAINTS ALL IMMEDIATE;\n");
        steps.push_str(&back);
    }
    steps.push_str("COMMIT;");
    Ok(steps)
}

/// Rows of a query in which nothing is NULL.
pub(super) async fn texts(link: &Link, sql: &str) -> Result<Vec<Vec<String>>, Fault> {
    let said = link.client.simple_query(sql).await;
    let said = said.map_err(|error| fault(&error))?;
    let rows = said.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let texts = |row: tokio_postgres::SimpleQueryRow| -> Vec<String> {
        let cells = (0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned());
        cells.collect()
    };
    Ok(rows.map(texts).collect())
}
