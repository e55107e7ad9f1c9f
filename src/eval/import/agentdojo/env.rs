//! The environment folder that a suite's start state, tasks and injection goals are read from.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Why an environment folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EnvError {
    /// A file is missing or cannot be read.
    #[error(
        "cannot read {}: {cause}; `--env DIR` names the folder with user_tasks.json, injection_tasks.json and a \
         folder per suite",
        .file.display()
    )]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {what}", .file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// One call of a task's solution.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Step {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Map<String, Value>,
}

/// What a user asks for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct UserTask {
    suite: String,
    id: String,
    /// In the user's words.
    pub prompt: String,
    /// Calls that solve it, in order.
    #[serde(default)]
    pub ground_truth: Option<Vec<Step>>,
}

impl UserTask {
    /// The calls that solve it.
    pub fn solution(&self) -> &[Step] {
        self.ground_truth.as_deref().unwrap_or_default()
    }
}

/// What an attacker asks for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct InjectionTask {
    suite: String,
    id: String,
    /// In the attacker's words.
    pub goal: String,
    /// Calls that reach it, in order, where the environment knows.
    #[serde(default)]
    pub ground_truth: Option<Vec<Step>>,
    /// Tools that reach it.
    #[serde(default)]
    pub tools: Vec<String>,
    /// What the attacker controls: an account, an address, a link, a password.
    #[serde(default)]
    pub target: String,
}

impl InjectionTask {
    /// The calls that reach the goal.
    pub fn solution(&self) -> &[Step] {
        self.ground_truth.as_deref().unwrap_or_default()
    }

    /// Whether a call of this tool can carry out the goal, or a part of it.
    pub fn uses(&self, tool: &str) -> bool {
        self.tools.iter().any(|named| named == tool)
    }
}

/// Tasks of every suite, and where the suites' start states are.
#[derive(Debug)]
pub struct Env {
    dir: PathBuf,
    users: HashMap<(String, String), UserTask>,
    injections: HashMap<(String, String), InjectionTask>,
}

impl Env {
    /// Reads the tasks.
    ///
    /// # Errors
    /// A file is missing or is not what it should be.
    pub fn open(dir: &Path) -> Result<Self, EnvError> {
        let users: Vec<UserTask> = json(&dir.join("user_tasks.json"))?;
        let injections: Vec<InjectionTask> = json(&dir.join("injection_tasks.json"))?;
        Ok(Self {
            dir: dir.to_owned(),
            users: users
                .into_iter()
                .map(|task| ((task.suite.clone(), task.id.clone()), task))
                .collect(),
            injections: injections
                .into_iter()
                .map(|task| ((task.suite.clone(), task.id.clone()), task))
                .collect(),
        })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The user task of that suite and id.
    pub fn user_task(&self, suite: &str, id: &str) -> Option<&UserTask> {
        self.users.get(&(suite.to_owned(), id.to_owned()))
    }

    /// The injection task of that suite and id.
    pub fn injection_task(&self, suite: &str, id: &str) -> Option<&InjectionTask> {
        self.injections.get(&(suite.to_owned(), id.to_owned()))
    }

    /// A file of the suite, as text.
    ///
    /// # Errors
    /// It is missing or cannot be read.
    pub fn file(&self, suite: &str, name: &str) -> Result<String, EnvError> {
        text(&self.dir.join(suite).join(name))
    }

    /// Everything that the suite's start state says, placeholders and default texts included; empty for a suite without
    /// a folder.
    ///
    /// # Errors
    /// A file of the folder cannot be read.
    pub fn benign_text(&self, suite: &str) -> Result<String, EnvError> {
        let top = self.dir.join(suite);
        let mut all = String::new();
        for folder in [top.join("include"), top] {
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            let mut files: Vec<_> = entries
                .filter_map(Result::ok)
                .map(|entry| entry.path())
                .filter(|file| file.extension().is_some_and(|ending| ending == "yaml"))
                .collect();
            files.sort();
            for file in files {
                all.push_str(&text(&file)?);
                all.push('\n');
            }
        }
        Ok(all)
    }
}

fn text(file: &Path) -> Result<String, EnvError> {
    fs::read_to_string(file).map_err(|cause| EnvError::File {
        file: file.to_owned(),
        cause,
    })
}

fn json<T: DeserializeOwned>(file: &Path) -> Result<T, EnvError> {
    serde_json::from_str(&text(file)?).map_err(|e| EnvError::Content {
        file: file.to_owned(),
        what: e.to_string(),
    })
}
