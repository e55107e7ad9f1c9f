//! From files to a checked suite or world.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cases::Placed;
use super::read::{self, Alone, File, Part};
use super::{Digest, FILE, MAX_FILE, Suite, WORLD, cases, check, generate};
use crate::eval::judge::Change;
use crate::eval::sql::Sql;
use crate::eval::world::{Database, Image, Tool};
use crate::principal::Principal;
use crate::source::{Problem, Problems, SourceFile, read_text};

/// A world without cases: what `eval world` looks at.
pub struct World {
    /// Its name.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// The file that describes it.
    pub file: PathBuf,
    /// At the start of every trial.
    pub image: Image,
    /// On whose behalf calls are made.
    pub principals: BTreeMap<String, Arc<Principal>>,
    /// By name.
    pub tools: BTreeMap<String, Tool>,
    /// By name.
    pub assertions: BTreeMap<String, Sql>,
    /// By name.
    pub permissions: BTreeMap<String, Sql>,
    /// By name.
    pub changes: BTreeMap<String, Vec<Change>>,
    /// What the judge never compares.
    pub ignored: Vec<Change>,
}

/// Loads the world of a folder with a `world.yaml`, or that of a suite. Assertions may name any parameter, for cases give them.
///
/// # Errors
/// Everything that is wrong with it, each with file, line and field.
pub fn load_world(folder: &Path, database: Option<Database>) -> Result<World, Problems> {
    let mut digest = Digest::new();
    let own = folder.join(WORLD);
    let (file, name, about, part, image) = if own.is_file() {
        let file = File::read(&own, &mut digest)?;
        let database = chosen(&[&file], database)?;
        let Alone { name, about, part } = read::alone(&file, database.dialect())?;
        let image = built(&part, &database, &mut digest)?;
        (own, name, about, part, image)
    } else {
        let path = folder.join(FILE);
        if !path.is_file() {
            let none = format!("{} has neither a {WORLD} nor a {FILE}", folder.display());
            return Err(Problem::new(none)
                .help(format!(
                    "`holdpoint eval world {} --init` writes one to start from",
                    folder.display()
                ))
                .into());
        }
        let (written, database) = written(folder, database, &mut digest)?;
        let image = built(&written.part, &database, &mut digest)?;
        (path, written.name, written.about, written.part, image)
    };
    check::world(&part, &image)?;
    Ok(World {
        name,
        about,
        file,
        image,
        principals: part.principals,
        tools: part.tools,
        assertions: part.grades.assertions,
        permissions: part.grades.permissions,
        changes: part.grades.changes,
        ignored: part.ignored,
    })
}

pub(super) fn suite(folder: &Path, database: Option<Database>) -> Result<Suite, Problems> {
    let mut digest = Digest::new();
    let (written, database) = written(folder, database, &mut digest)?;
    let policy = Arc::new(crate::policy::load(&written.policy)?);
    digest.add(&policy.hash.0);
    let image = built(&written.part, &database, &mut digest)?;
    let mut placed = Vec::new();
    if written.generate.is_none() || written.cases.exists() {
        placed.extend(cases::read(&written.cases, &mut digest)?);
    }
    if let Some((counts, templates)) = &written.generate {
        placed.extend(generate::read(counts, templates, &mut digest)?);
    }
    check::everything(&written, &policy, &image, &placed)?;
    let part = written.part;
    Ok(Suite {
        name: written.name,
        about: written.about,
        source: written.source,
        licence: written.licence,
        digest: digest.finish(),
        policy,
        image,
        system: part.system,
        principals: part.principals,
        bearers: part.bearers,
        tools: part.tools,
        assertions: part.grades.assertions,
        permissions: part.grades.permissions,
        changes: part.grades.changes,
        ignored: part.ignored,
        published: written.published,
        bound: written.bound,
        cases: placed.into_iter().map(|Placed { case, .. }| case).collect(),
    })
}

/// A suite's file, with the world that it takes over.
fn written(
    folder: &Path,
    database: Option<Database>,
    digest: &mut Digest,
) -> Result<(read::Written, Database), Problems> {
    let file = File::read(&folder.join(FILE), digest)?;
    let world = read::taken_over(&file, digest)?;
    let files: Vec<&File> = std::iter::once(&file).chain(&world).collect();
    let database = chosen(&files, database)?;
    let dialect = database.dialect();
    let world = world
        .map(|world| read::alone(&world, dialect))
        .transpose()?;
    let written = read::written(&file, world, dialect)?;
    Ok((written, database))
}

/// What the caller wants wins over what the files say.
fn chosen(files: &[&File], wanted: Option<Database>) -> Result<Database, Problems> {
    if let Some(database) = wanted {
        return Ok(database);
    }
    for file in files {
        if let Some(database) = file.database()? {
            return Ok(database);
        }
    }
    Ok(Database::default())
}

fn built(part: &Part, database: &Database, digest: &mut Digest) -> Result<Image, Problems> {
    let mut scripts = Vec::new();
    for path in &part.scripts {
        let text = read_text(path, MAX_FILE)?;
        digest.add(&text);
        let path = path.display().to_string();
        scripts.push(Arc::new(SourceFile { path, text }));
    }
    Image::build(database, &scripts)
}
