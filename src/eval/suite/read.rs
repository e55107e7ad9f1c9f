//! `suite.yaml`: read strictly, every problem at its line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Bound, BoundArm, Digest};
use crate::eval::judge::Change;
use crate::eval::report::benchmarks;
use crate::eval::sql::{COMMON, Dialect, Sql};
use crate::eval::tokens::{Bearer, Check};
use crate::eval::world::{Database, Example, Server, Tool};
use crate::principal::Principal;
use crate::source::{
    Field, Fields, MAX_YAML, Problems, Reader, Tree, did_you_mean, parse, read_text,
};
use crate::verdict::{LayerId, Mode};

/// Parameters of a tool's statements besides [`COMMON`] and the tool's own arguments.
pub(super) const CALL_PARAMETERS: &[&str] = &["call", "args"];

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

fn paths(field: &Field<'_>, folder: &Path, dialect: Dialect) -> Option<Vec<PathBuf>> {
    let read: Vec<_> = of_dialect(field, dialect)?
        .one_or_more()?
        .iter()
        .map(|f| f.text().map(|text| folder.join(text)))
        .collect();
    read.into_iter().collect()
}

/// Scripts of the world, and what of it nobody compares.
fn world_of(
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
fn database(field: &Field<'_>, folder: &Path) -> Option<Database> {
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

type Callers = (
    BTreeMap<String, Arc<Principal>>,
    Option<BTreeMap<String, Bearer>>,
);

/// Principals with how each differs from what a good token of it would say.
fn callers(
    root: &Field<'_>,
    named: BTreeMap<String, (Arc<Principal>, Option<Bearer>)>,
    by_token: bool,
) -> Option<Callers> {
    let told = named.values().any(|(_, bearer)| bearer.is_some());
    if told && !by_token {
        root.error(
            "a principal has a `token`, and principals come without tokens here",
            "write `tokens: true`, or remove `token`",
        );
        return None;
    }
    let mut principals = BTreeMap::new();
    let mut bearers = BTreeMap::new();
    for (name, (principal, bearer)) in named {
        bearers.insert(name.clone(), bearer.unwrap_or_default());
        principals.insert(name, principal);
    }
    Some((principals, by_token.then_some(bearers)))
}

fn bearer(field: &Field<'_>) -> Option<Bearer> {
    let mut fields = field.map()?;
    let text = |field: &Field<'_>| field.name().map(|text| Some(text.to_owned()));
    let signed_by = fields.optional_or("signed_by", None, text);
    let session = fields.optional_or("session", None, text);
    fields.finish();
    Some(Bearer {
        signed_by: signed_by?,
        session: session?,
    })
}

fn principal(field: &Field<'_>) -> Option<(Arc<Principal>, Option<Bearer>)> {
    let mut fields = field.map()?;
    let tenant = fields.required("tenant").and_then(|f| f.text());
    let subject = fields.required("subject").and_then(|f| f.text());
    let issuer = fields
        .optional("issuer")
        .map_or(Some("config"), |f| f.text());
    let agent = fields.optional("agent").map_or(Some("eval"), |f| f.text());
    let scopes = optional(&mut fields, "scopes", |f| {
        let read: Vec<_> = f.list()?.iter().map(|f| f.text().map(Arc::from)).collect();
        read.into_iter().collect::<Option<BTreeSet<_>>>()
    });
    let bearer = fields.optional_or("token", None, |f| bearer(f).map(Some));
    fields.finish();
    let principal = Arc::new(Principal {
        tenant: tenant?.into(),
        issuer: issuer?.into(),
        subject: subject?.into(),
        agent: agent?.into(),
        actors: Vec::new(),
        scopes: scopes?,
    });
    Some((principal, bearer?))
}

fn sql(field: &Field<'_>, dialect: Dialect) -> Option<Sql> {
    let field = of_dialect(field, dialect)?;
    Some(Sql {
        text: field.text()?.trim_end().trim_end_matches(';').into(),
        at: field.spot(),
    })
}

fn tools(field: &Field<'_>, dialect: Dialect) -> Option<BTreeMap<String, Tool>> {
    let mut tools = BTreeMap::new();
    let mut whole = true;
    for field in field.filled_list()? {
        let Some((name, tool)) = tool(&field, dialect) else {
            whole = false;
            continue;
        };
        if tools.insert(name.to_owned(), tool).is_some() {
            field.error(format!("the tool `{name}` is here twice"), "remove one");
            whole = false;
        }
    }
    whole.then_some(tools)
}

fn tool<'r>(field: &Field<'r>, dialect: Dialect) -> Option<(&'r str, Tool)> {
    let mut fields = field.map()?;
    let name = fields.required("tool").and_then(|f| f.text());
    let description = match fields.optional("description") {
        Some(field) => field.text().map(|text| Some(text.to_owned())),
        None => Some(None),
    };
    let args = optional(&mut fields, "args", arguments);
    let error_when = match fields.optional("error_when") {
        Some(field) => sql(&field, dialect).map(Some),
        None => Some(None),
    };
    let effect = optional(&mut fields, "effect", |f| {
        let entries = of_dialect(f, dialect)?.one_or_more()?;
        let read: Vec<_> = entries.iter().map(|f| sql(f, dialect)).collect();
        read.into_iter().collect::<Option<Vec<_>>>()
    });
    let output = fields.required("output").and_then(|f| {
        let f = of_dialect(&f, dialect)?;
        match f.text()? {
            "recorded" => Some(None),
            _ => sql(&f, dialect).map(Some),
        }
    });
    let example = fields.optional_or("example", None, |f| example(f).map(Some));
    fields.finish();
    let tool = Tool {
        description: description?,
        args: args?,
        error_when: error_when?,
        effect: effect?,
        output: output?,
        example: example?,
    };
    Some((name?, tool))
}

fn example(field: &Field<'_>) -> Option<Example> {
    let mut fields = field.map()?;
    let principal = fields.optional_or("principal", None, |f| {
        f.name().map(|name| Some(name.to_owned()))
    });
    let args = fields.optional_or("args", Map::new(), |f| {
        if let Value::Object(args) = f.json() {
            return Some(args);
        }
        f.error(
            "`args` is no map",
            "write the arguments by name: `{id: a-1}`",
        );
        None
    });
    let fails = fields.optional_or("fails", false, Field::bool);
    fields.finish();
    Some(Example {
        at: field.spot(),
        principal: principal?,
        args: args?,
        fails: fails?,
    })
}

fn arguments(field: &Field<'_>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for field in field.list()? {
        let name = field.name()?;
        if COMMON.contains(&name) || CALL_PARAMETERS.contains(&name) {
            field.error(
                format!("an argument named `{name}` would hide the parameter `:{name}`"),
                "leave it out: `:args` holds all arguments as JSON",
            );
            return None;
        }
        names.push(name.to_owned());
    }
    Some(names)
}

fn changes(field: &Field<'_>, dialect: Dialect) -> Option<Vec<Change>> {
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

type Differs = (BTreeMap<LayerId, Mode>, BTreeSet<Check>);

/// What an arm does otherwise than the policy: modes of layers, and `without: [CHECK]`.
fn differs(field: &Field<'_>) -> Option<Differs> {
    let words = [
        ("off", Mode::Off),
        ("shadow", Mode::Shadow),
        ("enforce", Mode::Enforce),
    ];
    let mut without = BTreeSet::new();
    if let Some(field) = field.peek("without") {
        let checks = Check::ALL.map(|check| (check.as_str(), check));
        for entry in field.filled_list()? {
            without.insert(entry.choice(&checks)?);
        }
    }
    let read: Vec<_> = field
        .entries()?
        .into_iter()
        .filter(|(key, _)| key.text() != "without")
        .map(|(key, value)| {
            let layer = LayerId::from_name(key.text());
            if layer.is_none() {
                let known = LayerId::ALL.map(LayerId::as_str).join(", ");
                key.error(
                    format!("there is no layer `{}`", key.text()),
                    format!("layers: {known}"),
                );
            }
            let mode = value.choice(&words);
            Some((layer?, mode?))
        })
        .collect();
    let layers = read.into_iter().collect::<Option<_>>()?;
    Some((layers, without))
}

fn bound(arms: &Field<'_>, contrast: &Field<'_>) -> Option<Bound> {
    let read = arms.entries()?.into_iter();
    let read: Vec<_> = read
        .map(|(key, f)| {
            let (layers, without) = differs(&f)?;
            Some(BoundArm {
                name: key.name()?.to_owned(),
                layers,
                without,
            })
        })
        .collect();
    let mut fields = contrast.map()?;
    let layers = LayerId::ALL.map(|layer| (layer.as_str(), layer));
    let layer = fields.required("layer").and_then(|f| f.choice(&layers));
    let without = fields.required("without");
    let with = fields.required("with");
    fields.finish();
    let (arms, layer) = (read.into_iter().collect::<Option<Vec<_>>>()?, layer?);
    let known = |field: &Field<'_>| {
        let name = field.text()?;
        if arms.iter().any(|arm| arm.name == name) {
            return Some(name.to_owned());
        }
        field.error(format!("there is no arm `{name}`"), "name a key of `arms`");
        None
    };
    let (without, with) = (known(&without?), known(&with?));
    Some(Bound {
        layer,
        at: contrast.spot(),
        without: without?,
        with: with?,
        arms,
    })
}

fn generated(field: &Field<'_>, folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut fields = field.map()?;
    let counts = fields.required("counts").and_then(|f| f.text());
    let templates = fields.required("templates").and_then(|f| f.text());
    fields.finish();
    Some((folder.join(counts?), folder.join(templates?)))
}

/// The tools of a document that has `tools:` and nothing else.
///
/// # Errors
/// Every place that is wrong.
pub(in crate::eval) fn tools_of(
    name: &str,
    text: String,
) -> Result<BTreeMap<String, Tool>, Problems> {
    let tree = parse(name, text)?;
    let reader = Reader::new();
    let read = only_tools(&reader.root(&tree));
    reader.finish(read)
}

fn only_tools(root: &Field<'_>) -> Option<BTreeMap<String, Tool>> {
    let mut fields = root.map()?;
    let read = fields
        .required("tools")
        .and_then(|f| tools(&f, Dialect::Sqlite));
    fields.finish();
    read
}
