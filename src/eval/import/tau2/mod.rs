//! tau2's retail domain: its database becomes a web shop's world, its tasks honest cases, and every write of theirs once more in
//! the session of the owner and of another customer.
//!
//! What a case must and may change is found as elsewhere: the calls of the solution are run through the world's own tools.

mod cases;
mod rows;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use self::cases::Cases;
use self::rows::{Database, Ownership, Task};
use super::agentdojo::suite::Suite;
use super::agentdojo::world::{RETAIL, World};
use crate::eval::case::Case;

/// What to import.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder with `db_users`, `db_orders`, `db_products`, `tasks` and, where there are any, `ownership_cases`: each `.jsonl` or
    /// `.jsonl.gz`.
    pub data: PathBuf,
    /// The suite's folder, which must not be there yet.
    pub out: PathBuf,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file is missing or cannot be read.
    #[error("cannot read {}: {cause}; expected the files of tau2's retail domain in that folder", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A line is not what it should be.
    #[error("{}:{line}: {what}", .file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// The rows do not fit the world.
    #[error("the database in {} does not fit the world of a web shop: {what}", .folder.display())]
    World {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The folder for the suite is there already.
    #[error("{} is there already; give `--out` a new folder", .0.display())]
    Exists(PathBuf),
    /// The suite's folder has no name, or cannot be written.
    #[error("cannot write {}: {cause}", .folder.display())]
    Write {
        /// The folder.
        folder: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

/// What was imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Tasks, as honest cases.
    pub tasks: usize,
    /// Of these: left out, with the reason in the case.
    pub excluded: usize,
    /// Calls in the session of the owner.
    pub own: usize,
    /// Calls in the session of another customer.
    pub foreign: usize,
    /// Customers in the world: those whom a case names.
    pub customers: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "tasks          {}, {} of them excluded",
            self.tasks, self.excluded
        )?;
        writeln!(
            f,
            "ownership      {} calls of the owner, {} of another customer",
            self.own, self.foreign
        )?;
        write!(f, "customers      {}", self.customers)
    }
}

/// Imports the domain and writes a suite's folder.
///
/// # Errors
/// One line that names the file, the line and what to do. Nothing is written then, unless writing itself failed.
pub fn import(options: &Options) -> Result<Summary, ImportError> {
    if options.out.exists() {
        return Err(ImportError::Exists(options.out.clone()));
    }
    let mut database = Database::read(&options.data)?;
    let tasks = rows::tasks(&options.data)?;
    let ownership = rows::ownership(&options.data)?;
    database.keep(&named(&database, &tasks, &ownership));
    let unfit = |what: String| ImportError::World {
        folder: options.data.clone(),
        what,
    };
    let world = World::of(&RETAIL, &database.environment()).map_err(unfit)?;
    let mut cases = Cases::new(&world, &database);
    let mut written: Vec<Case> = tasks.iter().map(|task| cases.task(task)).collect();
    let mut summary = Summary {
        tasks: written.len(),
        excluded: written.iter().filter(|c| c.excluded.is_some()).count(),
        customers: database.users.len(),
        ..Summary::default()
    };
    for one in &ownership {
        if one.foreign() {
            summary.foreign += 1;
        } else {
            summary.own += 1;
        }
        written.push(cases.ownership(one));
    }
    let cannot_write = |cause| ImportError::Write {
        folder: options.out.clone(),
        cause,
    };
    let name = options.out.file_name().and_then(|name| name.to_str());
    let customers: BTreeSet<String> = written.iter().map(|c| c.principal.clone()).collect();
    let suite = Suite {
        name: name.ok_or_else(|| cannot_write(io::Error::other("the folder has no name")))?,
        source: &source(&options.data),
        system: Some("You help the customers of a web shop."),
        world: &world,
        customers: &customers,
        unknown_tools: &BTreeSet::new(),
        statements: &cases.statements,
        cases: &written,
    };
    suite.write(&options.out).map_err(cannot_write)?;
    Ok(summary)
}

/// The customers whom a task or a case is about: the judge reads every row twice per trial, so the others stay away.
fn named(database: &Database, tasks: &[Task], ownership: &[Ownership]) -> BTreeSet<String> {
    let of_tasks = tasks.iter().flat_map(|task| task.customers(database));
    let of_cases = ownership
        .iter()
        .flat_map(|one| [one.session_user.clone(), one.resource_owner.clone()]);
    of_tasks.chain(of_cases).collect()
}

fn source(data: &Path) -> String {
    let name = data.file_name().and_then(|name| name.to_str());
    name.unwrap_or("tau2 retail").to_owned()
}
