//! `suite.yaml`: read strictly, every problem at its line.

mod arms;
mod callers;
mod tools;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Bound, Digest};
use crate::eval::judge::Change;
use crate::eval::report::benchmarks;
use crate::eval::sql::{Dialect, Sql};
use crate::eval::tokens::Bearer;
use crate::eval::world::{Database, Tool};
use crate::principal::Principal;
use crate::source::{
    Field, Fields, MAX_YAML, Problems, Reader, Tree, did_you_mean, parse, read_text,
};

use arms::bound;
use callers::{callers, principal};
pub(super) use tools::CALL_PARAMETERS;
use tools::tools;
pub(in crate::eval) use tools::tools_of;
use world::{changes, database, world_of};

/// The file of a world that stands alone.
pub const WORLD: &str = "world.yaml";

/// What a suite or a world says of its world.
pub(super) struct Part {
    pub scripts: Vec<PathBuf>,
    pub ignored: Vec<Change>,
    pub system: Option<String>,
    pub principals: BTreeMap<String, Arc<Principal>>,
    pub bearers: Option<BTreeMap<String, Bearer>>,
    pub tools: BTreeMap<String, Tool>,
    pub grades: Grades,
}

/// Statements that the judge asks.
#[derive(Default)]
pub(super) struct Grades {
    pub assertions: BTreeMap<String, Sql>,
    pub permissions: BTreeMap<String, Sql>,
    pub changes: BTreeMap<String, Vec<Change>>,
}

impl Grades {
    /// Every statement of them.
    pub(super) fn statements(&self) -> impl Iterator<Item = &Sql> {
        let changes = self.changes.values().flatten();
        let asked = self.assertions.values().chain(self.permissions.values());
        asked.chain(changes.filter_map(|change| change.rows.as_ref()))
    }
}

/// What the YAML says, before policy, world and cases are read.
pub(super) struct Written {
    pub name: String,
    pub about: String,
    pub source: String,
    pub licence: String,
    pub policy: PathBuf,
    pub published: Vec<String>,
    pub part: Part,
    pub bound: Option<Bound>,
    pub cases: PathBuf,
    pub generate: Option<(PathBuf, PathBuf)>,
}

/// A world with its name, read from a file of its own.
pub(super) struct Alone {
    pub name: String,
    pub about: String,
    pub part: Part,
}

/// A parsed file and the folder that its paths are relative to.
pub(super) struct File {
    pub tree: Tree,
    pub folder: PathBuf,
}

impl File {
    pub(super) fn read(path: &Path, digest: &mut Digest) -> Result<Self, Problems> {
        let text = read_text(path, MAX_YAML)?;
        digest.add(&text);
        Ok(Self {
            tree: parse(&path.display().to_string(), text)?,
            folder: path.parent().unwrap_or(path).to_owned(),
        })
    }

    /// The database that it names, if any.
    pub(super) fn database(&self) -> Result<Option<Database>, Problems> {
        let reader = Reader::new();
        let root = reader.root(&self.tree);
        let named = root.peek("world").and_then(|world| world.peek("database"));
        let database = match named {
            Some(field) => database(&field, &self.folder).map(Some),
            None => Some(None),
        };
        reader.finish(database)
    }
}

/// The file of the world that a suite takes over; `None` where it describes its own.
pub(super) fn taken_over(suite: &File, digest: &mut Digest) -> Result<Option<File>, Problems> {
    let reader = Reader::new();
    let root = reader.root(&suite.tree);
    let world = root.peek("world");
    let Some(path) = world.and_then(|field| field.node().as_text()) else {
        return Ok(None);
    };
    let path = suite.folder.join(path);
    let path = if path.is_dir() {
        path.join(WORLD)
    } else {
        path
    };
    File::read(&path, digest).map(Some)
}

/// A world's own file.
pub(super) fn alone(file: &File, dialect: Dialect) -> Result<Alone, Problems> {
    let reader = Reader::new();
    let read = world_alone(&reader.root(&file.tree), &file.folder, dialect);
    reader.finish(read)
}

fn world_alone(root: &Field<'_>, folder: &Path, dialect: Dialect) -> Option<Alone> {
    let mut fields = root.map()?;
    let version = fields.required("version").and_then(|f| version(&f));
    let name = fields.required("name").and_then(|f| f.name());
    let about = words(&mut fields, "about");
    let part = part(root, &mut fields, folder, dialect);
    fields.finish();
    version?;
    Some(Alone {
        name: name?.to_owned(),
        about: about?,
        part: part?,
    })
}

/// A suite; its world stands in it, or is `world`.
pub(super) fn written(
    file: &File,
    world: Option<Alone>,
    dialect: Dialect,
) -> Result<Written, Problems> {
    let reader = Reader::new();
    let written = suite(&reader.root(&file.tree), &file.folder, world, dialect);
    reader.finish(written)
}

fn suite(
    root: &Field<'_>,
    folder: &Path,
    world: Option<Alone>,
    dialect: Dialect,
) -> Option<Written> {
    let mut fields = root.map()?;
    let version = fields.required("version").and_then(|f| version(&f));
    let name = fields.required("name").and_then(|f| f.name());
    let about = words(&mut fields, "about");
    let source = words(&mut fields, "source");
    let licence = words(&mut fields, "licence");
    let policy = fields.required("policy").and_then(|f| f.text());
    let published = optional(&mut fields, "published", |f| {
        let known = benchmarks();
        let read: Vec<_> = f
            .one_or_more()?
            .iter()
            .map(|f| benchmark(f, &known))
            .collect();
        read.into_iter().collect::<Option<Vec<_>>>()
    });
    let part = match world {
        Some(taken) => {
            let _ = fields.required("world");
            more(root, &mut fields, taken.part, dialect)
        }
        None => part(root, &mut fields, folder, dialect),
    };
    let bound = match (fields.optional("arms"), fields.optional("contrast")) {
        (Some(arms), Some(contrast)) => bound(&arms, &contrast).map(Some),
        (None, None) => Some(None),
        (Some(field), None) | (None, Some(field)) => {
            field.error(
                "`arms` and `contrast` belong together",
                "`arms` names the two arms that cases were recorded in, `contrast` the layer whose effect they show",
            );
            None
        }
    };
    let cases = match fields.optional("cases") {
        Some(field) => field.text(),
        None => Some("cases.jsonl"),
    };
    let generate = match fields.optional("generate") {
        Some(field) => generated(&field, folder).map(Some),
        None => Some(None),
    };
    fields.finish();
    version?;
    Some(Written {
        name: name?.to_owned(),
        about: about?,
        source: source?,
        licence: licence?,
        policy: folder.join(policy?),
        published: published?,
        part: part?,
        bound: bound?,
        cases: folder.join(cases?),
        generate: generate?,
    })
}

fn benchmark(field: &Field<'_>, known: &[String]) -> Option<String> {
    let name = field.text()?;
    if known.iter().any(|it| it == name) {
        return Some(name.to_owned());
    }
    let help = did_you_mean("benchmarks", name, known.iter().map(String::as_str));
    field.error(format!("nothing is published here of `{name}`"), help);
    None
}

/// What a suite adds to a world that it takes over.
fn more(
    root: &Field<'_>,
    fields: &mut Fields<'_>,
    mut part: Part,
    dialect: Dialect,
) -> Option<Part> {
    let added = grades(fields, dialect)?;
    let known = &mut part.grades;
    let twice = added
        .assertions
        .keys()
        .find(|name| known.assertions.contains_key(*name))
        .or_else(|| {
            let mut names = added.permissions.keys();
            names.find(|name| known.permissions.contains_key(*name))
        })
        .or_else(|| {
            let mut names = added.changes.keys();
            names.find(|name| known.changes.contains_key(*name))
        });
    if let Some(name) = twice {
        root.error(
            format!("`{name}` is in the world already"),
            "give it another name: a suite adds to its world and changes nothing there",
        );
        return None;
    }
    known.assertions.extend(added.assertions);
    known.permissions.extend(added.permissions);
    known.changes.extend(added.changes);
    Some(part)
}

fn grades(fields: &mut Fields<'_>, dialect: Dialect) -> Option<Grades> {
    let sql = |field: &Field<'_>| sql(field, dialect);
    let assertions = optional(fields, "assertions", |f| named(f, sql));
    let permissions = optional(fields, "permissions", |f| named(f, sql));
    let changes = optional(fields, "changes", |f| named(f, |f| changes(f, dialect)));
    Some(Grades {
        assertions: assertions?,
        permissions: permissions?,
        changes: changes?,
    })
}

fn part(
    root: &Field<'_>,
    fields: &mut Fields<'_>,
    folder: &Path,
    dialect: Dialect,
) -> Option<Part> {
    let world = fields.required("world");
    let world = world.and_then(|f| world_of(&f, folder, dialect));
    let system = match fields.optional("system") {
        Some(field) => field.text().map(|text| Some(text.to_owned())),
        None => Some(None),
    };
    let principals = fields
        .required("principals")
        .and_then(|f| named(&f, principal));
    let by_token = fields.optional_or("tokens", false, Field::bool);
    let tools = fields.required("tools").and_then(|f| tools(&f, dialect));
    let grades = grades(fields, dialect);
    let (principals, bearers) = callers(root, principals?, by_token?)?;
    let (scripts, ignored) = world?;
    Some(Part {
        scripts,
        ignored,
        system: system?,
        principals,
        bearers,
        tools: tools?,
        grades: grades?,
    })
}

fn version(field: &Field<'_>) -> Option<()> {
    let version = field.whole::<u8>()?;
    if version == 1 {
        return Some(());
    }
    field.error(
        format!("suites of version {version} are unknown"),
        "this build reads `version: 1`",
    );
    None
}

fn words(fields: &mut Fields<'_>, key: &'static str) -> Option<String> {
    let text = fields.required(key).and_then(|f| f.text())?;
    Some(text.trim().to_owned())
}

fn optional<T: Default>(
    fields: &mut Fields<'_>,
    key: &'static str,
    read: impl Fn(&Field<'_>) -> Option<T>,
) -> Option<T> {
    match fields.optional(key) {
        Some(field) => read(&field),
        None => Some(T::default()),
    }
}

fn named<T>(
    field: &Field<'_>,
    read: impl Fn(&Field<'_>) -> Option<T>,
) -> Option<BTreeMap<String, T>> {
    let read: Vec<_> = field
        .entries()?
        .into_iter()
        .map(|(key, value)| {
            let (name, value) = (key.name(), read(&value));
            Some((name?.to_owned(), value?))
        })
        .collect();
    read.into_iter().collect()
}

/// What stands there for the dialect: the field itself where it is for all of them.
fn of_dialect<'r>(field: &Field<'r>, dialect: Dialect) -> Option<Field<'r>> {
    if !field.is_map() {
        return Some(field.clone());
    }
    let mut fields = field.map()?;
    let found = Dialect::ALL.map(|one| (one, fields.optional(one.as_str())));
    let any = fields.optional("any");
    fields.finish();
    let named: Vec<_> = found
        .iter()
        .filter(|(_, field)| field.is_some())
        .map(|(one, _)| one.as_str())
        .collect();
    let named = named.join(", ");
    let here = found.into_iter().find(|(one, _)| *one == dialect);
    let here = here.and_then(|(_, field)| field).or(any);
    if here.is_none() {
        field.error(
            format!("there is nothing here for {}", dialect.as_str()),
            format!(
                "add `{}:`, or run it on a database that is named here: {named}",
                dialect.as_str()
            ),
        );
    }
    here
}

fn sql(field: &Field<'_>, dialect: Dialect) -> Option<Sql> {
    let field = of_dialect(field, dialect)?;
    Some(Sql {
        text: field.text()?.trim_end().trim_end_matches(';').into(),
        at: field.spot(),
    })
}

fn generated(field: &Field<'_>, folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut fields = field.map()?;
    let counts = fields.required("counts").and_then(|f| f.text());
    let templates = fields.required("templates").and_then(|f| f.text());
    fields.finish();
    Some((folder.join(counts?), folder.join(templates?)))
}
