//! The world's scripts and database, what of it nobody compares, and what cases may change.

use std::path::{Path, PathBuf};

use super::{of_dialect, optional, sql};
use crate::eval::judge::Change;
use crate::eval::sql::Dialect;
use crate::eval::world::{Database, Server};
use crate::source::{Field, Fields};

fn paths(field: &Field<'_>, folder: &Path, dialect: Dialect) -> Option<Vec<PathBuf>> {
    let read: Vec<_> = of_dialect(field, dialect)?
        .one_or_more()?
        .iter()
        .map(|f| f.text().map(|text| folder.join(text)))
        .collect();
    read.into_iter().collect()
}

/// Scripts of the world, and what of it nobody compares.
pub(super) fn world_of(
    field: &Field<'_>,
    folder: &Path,
    dialect: Dialect,
) -> Option<(Vec<PathBuf>, Vec<Change>)> {
    let mut fields = field.map()?;
    let schema = fields.required("schema");
    let schema = schema.and_then(|f| paths(&f, folder, dialect));
    let fixtures = optional(&mut fields, "fixtures", |f| paths(f, folder, dialect));
    let ignored = optional(&mut fields, "compare", compare);
    // Read before all else: it says whose SQL the rest is.
    let _ = fields.optional("database");
    fields.finish();
    let (mut scripts, fixtures) = (schema?, fixtures?);
    scripts.extend(fixtures);
    Some((scripts, ignored?))
}

fn compare(field: &Field<'_>) -> Option<Vec<Change>> {
    let mut fields = field.map()?;
    let ignored = fields.required("ignore").and_then(|f| {
        let read: Vec<_> = f.one_or_more()?.iter().map(ignored).collect();
        read.into_iter().collect::<Option<Vec<_>>>()
    });
    fields.finish();
    ignored
}

fn ignored(field: &Field<'_>) -> Option<Change> {
    let mut fields = field.map()?;
    let table = fields.required("table").and_then(|f| f.text());
    let columns = columns(&mut fields);
    fields.finish();
    Some(Change {
        table: table?.to_owned(),
        at: field.spot(),
        rows: None,
        columns: columns?,
    })
}

#[expect(
    clippy::option_option,
    reason = "outside: it could be read; inside: it is given"
)]
fn columns(fields: &mut Fields<'_>) -> Option<Option<Vec<String>>> {
    let Some(field) = fields.optional("columns") else {
        return Some(None);
    };
    let read: Option<Vec<_>> = field
        .filled_list()?
        .iter()
        .map(|f| f.text().map(str::to_owned))
        .collect();
    read.map(Some)
}

/// The environment variable with the URL of a server: `NAME`, or `{url_env: NAME, ca: FILE}`.
pub(super) fn database(field: &Field<'_>, folder: &Path) -> Option<Database> {
    let (variable, ca) = if field.is_map() {
        let mut fields = field.map()?;
        let variable = fields.required("url_env").and_then(|f| f.name());
        let ca = fields.optional_or("ca", None, |f| f.text().map(|text| Some(folder.join(text))));
        fields.finish();
        (variable?, ca?)
    } else {
        (field.name()?, None)
    };
    match Server::from_env(variable, ca) {
        Ok(server) => Some(Database::Server(server)),
        Err(problem) => {
            field.report(problem.at(field.spot()));
            None
        }
    }
}

pub(super) fn changes(field: &Field<'_>, dialect: Dialect) -> Option<Vec<Change>> {
    let entries = field.one_or_more()?;
    let read: Vec<_> = entries.iter().map(|f| change(f, dialect)).collect();
    read.into_iter().collect()
}

fn change(field: &Field<'_>, dialect: Dialect) -> Option<Change> {
    let mut fields = field.map()?;
    let table = fields.required("table");
    let name = table.as_ref().and_then(Field::text);
    let rows = match fields.optional("where") {
        Some(field) => sql(&field, dialect).map(Some),
        None => Some(None),
    };
    let columns = columns(&mut fields);
    fields.finish();
    Some(Change {
        table: name?.to_owned(),
        at: field.spot(),
        rows: rows?,
        columns: columns?,
    })
}
