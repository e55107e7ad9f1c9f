//! `suite.yaml`: read strictly, every problem at its line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cases::Placed;
use super::{Bound, BoundArm, Digest, FILE, MAX_FILE, Suite, cases, check, generate};
use crate::eval::judge::Change;
use crate::eval::sql::{COMMON, Sql};
use crate::eval::tokens::{Bearer, Check};
use crate::eval::world::{Image, Tool};
use crate::principal::Principal;
use crate::source::{Field, Fields, MAX_YAML, Problems, Reader, SourceFile, parse, read_text};
use crate::verdict::{LayerId, Mode};

/// Parameters of a tool's statements besides [`COMMON`] and the tool's own arguments.
pub(super) const CALL_PARAMETERS: &[&str] = &["call", "args"];

/// What the YAML says, before policy, world and cases are read.
pub(super) struct Written {
    pub name: String,
    pub about: String,
    pub source: String,
    pub licence: String,
    pub policy: PathBuf,
    pub scripts: Vec<PathBuf>,
    pub system: Option<String>,
    pub principals: BTreeMap<String, Arc<Principal>>,
    pub bearers: Option<BTreeMap<String, Bearer>>,
    pub tools: BTreeMap<String, Tool>,
    pub assertions: BTreeMap<String, Sql>,
    pub permissions: BTreeMap<String, Sql>,
    pub changes: BTreeMap<String, Vec<Change>>,
    pub bound: Option<Bound>,
    pub cases: PathBuf,
    pub generate: Option<(PathBuf, PathBuf)>,
}

pub(super) fn load(folder: &Path) -> Result<Suite, Problems> {
    let mut digest = Digest::new();
    let path = folder.join(FILE);
    let text = read_text(&path, MAX_YAML)?;
    digest.add(&text);
    let tree = parse(&path.display().to_string(), text)?;
    let reader = Reader::new();
    let written = suite(&reader.root(&tree), folder);
    let written = reader.finish(written)?;

    let policy = Arc::new(crate::policy::load(&written.policy)?);
    digest.add(&policy.hash.0);
    let mut scripts = Vec::new();
    for path in &written.scripts {
        let text = read_text(path, MAX_FILE)?;
        digest.add(&text);
        let path = path.display().to_string();
        scripts.push(Arc::new(SourceFile { path, text }));
    }
    let image = Image::build(&scripts)?;
    let mut placed = Vec::new();
    if written.generate.is_none() || written.cases.exists() {
        placed.extend(cases::read(&written.cases, &mut digest)?);
    }
    if let Some((counts, templates)) = &written.generate {
        placed.extend(generate::read(counts, templates, &mut digest)?);
    }
    check::everything(&written, &policy, &image, &placed)?;
    Ok(Suite {
        name: written.name,
        about: written.about,
        source: written.source,
        licence: written.licence,
        digest: digest.finish(),
        policy,
        image,
        system: written.system,
        principals: written.principals,
        bearers: written.bearers,
        tools: written.tools,
        assertions: written.assertions,
        permissions: written.permissions,
        changes: written.changes,
        bound: written.bound,
        cases: placed.into_iter().map(|Placed { case, .. }| case).collect(),
    })
}

fn suite(root: &Field<'_>, folder: &Path) -> Option<Written> {
    let mut fields = root.map()?;
    let version = fields.required("version").and_then(|f| version(&f));
    let name = fields.required("name").and_then(|f| f.name());
    let about = words(&mut fields, "about");
    let source = words(&mut fields, "source");
    let licence = words(&mut fields, "licence");
    let policy = fields.required("policy").and_then(|f| f.text());
    let scripts = fields.required("world").and_then(|f| world(&f, folder));
    let system = match fields.optional("system") {
        Some(field) => field.text().map(|text| Some(text.to_owned())),
        None => Some(None),
    };
    let principals = fields
        .required("principals")
        .and_then(|f| named(&f, principal));
    let by_token = fields.optional_or("tokens", false, Field::bool);
    let tools = fields.required("tools").and_then(|f| tools(&f));
    let assertions = optional(&mut fields, "assertions", |f| named(f, sql));
    let permissions = optional(&mut fields, "permissions", |f| named(f, sql));
    let changes = optional(&mut fields, "changes", |f| named(f, changes));
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
    let (principals, bearers) = callers(root, principals?, by_token?)?;
    Some(Written {
        name: name?.to_owned(),
        about: about?,
        source: source?,
        licence: licence?,
        policy: folder.join(policy?),
        scripts: scripts?,
        system: system?,
        principals,
        bearers,
        tools: tools?,
        assertions: assertions?,
        permissions: permissions?,
        changes: changes?,
        bound: bound?,
        cases: folder.join(cases?),
        generate: generate?,
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

fn paths(field: &Field<'_>, folder: &Path) -> Option<Vec<PathBuf>> {
    let read: Vec<_> = field
        .one_or_more()?
        .iter()
        .map(|f| f.text().map(|text| folder.join(text)))
        .collect();
    read.into_iter().collect()
}

fn world(field: &Field<'_>, folder: &Path) -> Option<Vec<PathBuf>> {
    let mut fields = field.map()?;
    let schema = fields.required("schema").and_then(|f| paths(&f, folder));
    let fixtures = optional(&mut fields, "fixtures", |f| paths(f, folder));
    fields.finish();
    let (mut scripts, fixtures) = (schema?, fixtures?);
    scripts.extend(fixtures);
    Some(scripts)
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

fn sql(field: &Field<'_>) -> Option<Sql> {
    Some(Sql {
        text: field.text()?.trim_end().trim_end_matches(';').into(),
        at: field.spot(),
    })
}

fn tools(field: &Field<'_>) -> Option<BTreeMap<String, Tool>> {
    let mut tools = BTreeMap::new();
    let mut whole = true;
    for field in field.filled_list()? {
        let Some((name, tool)) = tool(&field) else {
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

fn tool<'r>(field: &Field<'r>) -> Option<(&'r str, Tool)> {
    let mut fields = field.map()?;
    let name = fields.required("tool").and_then(|f| f.text());
    let description = match fields.optional("description") {
        Some(field) => field.text().map(|text| Some(text.to_owned())),
        None => Some(None),
    };
    let args = optional(&mut fields, "args", arguments);
    let error_when = match fields.optional("error_when") {
        Some(field) => sql(&field).map(Some),
        None => Some(None),
    };
    let effect = optional(&mut fields, "effect", |f| {
        let read: Vec<_> = f.one_or_more()?.iter().map(sql).collect();
        read.into_iter().collect::<Option<Vec<_>>>()
    });
    let output = fields.required("output").and_then(|f| match f.text()? {
        "recorded" => Some(None),
        _ => sql(&f).map(Some),
    });
    fields.finish();
    let tool = Tool {
        description: description?,
        args: args?,
        error_when: error_when?,
        effect: effect?,
        output: output?,
    };
    Some((name?, tool))
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

fn changes(field: &Field<'_>) -> Option<Vec<Change>> {
    let read: Vec<_> = field.one_or_more()?.iter().map(change).collect();
    read.into_iter().collect()
}

fn change(field: &Field<'_>) -> Option<Change> {
    let mut fields = field.map()?;
    let table = fields.required("table");
    let name = table.as_ref().and_then(Field::text);
    let rows = match fields.optional("where") {
        Some(field) => sql(&field).map(Some),
        None => Some(None),
    };
    let columns = match fields.optional("columns") {
        Some(field) => {
            let read: Option<Vec<_>> = field
                .filled_list()?
                .iter()
                .map(|f| f.text().map(str::to_owned))
                .collect();
            read.map(Some)
        }
        None => Some(None),
    };
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
    let read = fields.required("tools").and_then(|f| tools(&f));
    fields.finish();
    read
}
