//! A suite: a folder that says what is replayed, in which world, under which policy, and how it is graded. Loading it checks
//! everything that can be checked without a trial. `docs/eval.md` is the reference of the format.

mod cases;
mod check;
mod generate;
mod load;
mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};

pub(in crate::eval) use self::read::tools_of;
use super::case::{Case, Kind};
use super::judge::{Change, Questions};
use super::sql::Sql;
use super::tokens::{Bearer, Check};
use super::world::{Database, Image, Tool};
use crate::policy::{Modes, Policy};
use crate::principal::Principal;
use crate::source::{Problem, Problems, Spot};

use crate::verdict::{LayerId, Mode};
pub use load::{World, load_world};
pub use read::WORLD;

/// The file that makes a folder a suite.
pub const FILE: &str = "suite.yaml";

/// Largest file of a suite, in bytes.
const MAX_FILE: u64 = 256 << 20;

/// A suite, checked.
pub struct Suite {
    /// Its name.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Where its facts come from.
    pub source: String,
    /// Under which licence they may be used.
    pub licence: String,
    /// SHA-256 of every file that was read, lower-case hex.
    pub digest: String,
    /// The policy under test.
    pub policy: Arc<Policy>,
    /// The world at the start of every trial.
    pub image: Image,
    /// First message of every conversation.
    pub system: Option<String>,
    /// On whose behalf cases run.
    pub principals: BTreeMap<String, Arc<Principal>>,
    /// How they are known where they come with tokens, by the same names; `None`: the proxy is told.
    pub bearers: Option<BTreeMap<String, Bearer>>,
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
    /// Benchmarks whose published defences stand beside the suite's points.
    pub published: Vec<String>,
    /// `None`: every case is replayed in every arm of the ablation.
    pub bound: Option<Bound>,
    /// In file order, generated ones last.
    pub cases: Vec<Arc<Case>>,
}

/// The two arms of a suite whose recordings were made live, each in one arm.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Where the contrast was written.
    pub at: Spot,
    /// In file order.
    pub arms: Vec<BoundArm>,
    /// The layer whose effect is measured.
    pub layer: LayerId,
    /// The arm without it.
    pub without: String,
    /// The arm with it.
    pub with: String,
}

/// An arm of such a suite.
#[derive(Clone, Debug)]
pub struct BoundArm {
    /// Its name.
    pub name: String,
    /// The layers that differ from the policy.
    pub layers: BTreeMap<LayerId, Mode>,
    /// Checks of the caller's identity that are left out.
    pub without: BTreeSet<Check>,
}

impl Bound {
    /// The modes of one of its arms.
    pub fn modes(&self, policy: &Policy, arm: &str) -> Modes {
        let overrides = self.arms.iter().find(|other| other.name == arm);
        overrides.map_or_else(
            || policy.modes.clone(),
            |arm| {
                let layers = arm.layers.iter();
                layers.fold(policy.modes.clone(), |modes, (l, m)| modes.with(*l, *m))
            },
        )
    }
}

impl Suite {
    /// Loads a suite's folder. Its world is made where the suite says, in SQLite by default.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with file, line and field.
    pub fn load(folder: &Path) -> Result<Self, Problems> {
        load::suite(folder, None)
    }

    /// The same, with its world made in this database.
    ///
    /// # Errors
    /// As [`Self::load`]; also a world without statements for the database.
    pub fn load_on(folder: &Path, database: Database) -> Result<Self, Problems> {
        load::suite(folder, Some(database))
    }

    /// The statements that grade a case.
    pub fn questions(&self, case: &Case) -> Questions<'_> {
        let named = |name: &String| self.assertions.get_key_value(name);
        Questions {
            goal: case
                .expect
                .goal
                .as_ref()
                .and_then(named)
                .map(|(_, sql)| sql),
            must: case
                .expect
                .must
                .iter()
                .filter_map(named)
                .map(|(name, sql)| (name.as_str(), sql))
                .collect(),
            may_change: case
                .expect
                .may_change
                .iter()
                .filter_map(|name| self.changes.get(name))
                .flatten()
                .chain(&self.ignored)
                .collect(),
            permissions: self
                .permissions
                .iter()
                .map(|(name, sql)| (name.as_str(), sql))
                .collect(),
        }
    }

    /// Whether some call was caused by an injection, so that the optimistic reading can differ from the pessimistic one.
    pub fn has_carriers(&self) -> bool {
        let mut calls = self.cases.iter().flat_map(|case| case.calls());
        calls.any(|call| !call.carriers.is_empty())
    }

    /// Cases of one kind that are run.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Arc<Case>> {
        let run = |case: &&Arc<Case>| case.excluded.is_none();
        self.cases
            .iter()
            .filter(run)
            .filter(move |case| case.kind == kind)
    }
}

/// Finds a suite by the path of its folder or of its `suite.yaml`, or by its name under `evalsets/`.
///
/// # Errors
/// There is none: names those that there are.
pub fn find(named: &str) -> Result<PathBuf, Problems> {
    let here = Path::new(named);
    if here.ends_with(FILE) && here.is_file() {
        return Ok(here.parent().unwrap_or(here).to_owned());
    }
    let home = Path::new("evalsets");
    for folder in [here.to_owned(), home.join(named)] {
        if folder.join(FILE).is_file() {
            return Ok(folder);
        }
    }
    // A path was meant where there is a folder beside the suite that is missing.
    let parent = here
        .parent()
        .filter(|parent| parent.is_dir() && here.components().count() > 1);
    let searched = parent.unwrap_or(home);
    let found = list(searched);
    let problem = Problem::new(format!("there is no suite `{named}`"));
    Err(if found.is_empty() {
        problem.help(format!(
            "name a folder that holds a {FILE}; {} has none",
            searched.display()
        ))
    } else {
        problem.help(format!(
            "suites in {}: {}",
            searched.display(),
            found.join(", ")
        ))
    }
    .into())
}

/// Names of the suites in a folder, sorted.
pub fn list(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let suites = entries.filter(|entry| entry.path().join(FILE).is_file());
    let names: BTreeSet<_> = suites
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.into_iter().collect()
}

/// Hashes what was read, in the order it was read.
struct Digest(Context);

impl Digest {
    fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    fn add(&mut self, text: &str) {
        // Lengths keep two files from being taken for one.
        self.0.update(&(text.len() as u64).to_be_bytes());
        self.0.update(text.as_bytes());
    }

    fn finish(self) -> String {
        data_encoding::HEXLOWER.encode(self.0.finish().as_ref())
    }
}
