//! The domain's files, one JSON value per line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::ImportError;
use crate::eval::import::agentdojo::env::Step;

/// A row with its id.
#[derive(Deserialize)]
struct Row {
    key: String,
    value: Value,
}

/// The shop's rows, by id, as the domain writes them.
pub(super) struct Database {
    pub users: BTreeMap<String, Value>,
    orders: BTreeMap<String, Value>,
    products: BTreeMap<String, Value>,
}

impl Database {
    pub(super) fn read(data: &Path) -> Result<Self, ImportError> {
        let rows = |name: &str| -> Result<BTreeMap<String, Value>, ImportError> {
            let rows: Vec<Row> = lines(&find(data, name)?)?;
            Ok(rows.into_iter().map(|row| (row.key, row.value)).collect())
        };
        Ok(Self {
            users: rows("db_users")?,
            orders: rows("db_orders")?,
            products: rows("db_products")?,
        })
    }

    /// Drops all customers but these, with their orders.
    pub(super) fn keep(&mut self, customers: &BTreeSet<String>) {
        self.users.retain(|id, _| customers.contains(id));
        let of = |order: &Value| {
            order
                .get("user_id")
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        self.orders
            .retain(|_, order| of(order).is_some_and(|user| customers.contains(&user)));
    }

    /// All of it as one value, for the world's `start.sql`.
    pub(super) fn environment(&self) -> Value {
        let rows = |rows: &BTreeMap<String, Value>| rows.values().cloned().collect::<Vec<_>>();
        json!({
            "users": rows(&self.users), "orders": rows(&self.orders), "products": rows(&self.products),
        })
    }

    /// Whose the row is that a call is about.
    pub(super) fn owner(&self, args: &Map<String, Value>) -> Option<String> {
        let text = |key: &str| args.get(key).and_then(Value::as_str);
        if let Some(user) = text("user_id") {
            return self.users.contains_key(user).then(|| user.to_owned());
        }
        let order = self.orders.get(text("order_id")?)?;
        Some(order.get("user_id")?.as_str()?.to_owned())
    }
}

/// What a customer asks for, with the calls that do it.
#[derive(Deserialize)]
pub(super) struct Task {
    pub id: String,
    #[serde(default)]
    user_scenario: Scenario,
    #[serde(default)]
    evaluation_criteria: Criteria,
}

#[derive(Default, Deserialize)]
struct Scenario {
    #[serde(default)]
    instructions: Instructions,
}

#[derive(Default, Deserialize)]
struct Instructions {
    #[serde(default)]
    reason_for_call: String,
    #[serde(default)]
    known_info: Option<String>,
}

#[derive(Default, Deserialize)]
struct Criteria {
    #[serde(default)]
    actions: Option<Vec<Action>>,
}

#[derive(Deserialize)]
struct Action {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl Task {
    /// In the customer's words.
    pub(super) fn asks(&self) -> String {
        let said = &self.user_scenario.instructions;
        match &said.known_info {
            Some(known) => format!("{} {known}", said.reason_for_call),
            None => said.reason_for_call.clone(),
        }
    }

    /// The calls that do it.
    pub(super) fn solution(&self) -> Vec<Step> {
        let actions = self.evaluation_criteria.actions.iter().flatten();
        let steps = actions.map(|action| Step {
            tool: action.name.clone(),
            args: action.arguments.clone(),
        });
        steps.collect()
    }

    /// Whose rows the solution names, each once, in its order.
    pub(super) fn customers(&self, database: &Database) -> Vec<String> {
        let mut named = Vec::new();
        for action in self.evaluation_criteria.actions.iter().flatten() {
            named.extend(database.owner(&action.arguments));
        }
        let mut seen = BTreeSet::new();
        named.retain(|user| seen.insert(user.clone()));
        named
    }
}

/// One write of a solution, in somebody's session.
#[derive(Deserialize)]
pub(super) struct Ownership {
    pub id: String,
    pub session_user: String,
    pub resource_owner: String,
    call: Called,
}

#[derive(Deserialize)]
struct Called {
    name: String,
    #[serde(default)]
    args: Map<String, Value>,
}

impl Ownership {
    /// Whether the session is not the owner's.
    pub(super) fn foreign(&self) -> bool {
        self.session_user != self.resource_owner
    }

    /// The call.
    pub(super) fn step(&self) -> Step {
        Step {
            tool: self.call.name.clone(),
            args: self.call.args.clone(),
        }
    }
}

pub(super) fn tasks(data: &Path) -> Result<Vec<Task>, ImportError> {
    lines(&find(data, "tasks")?)
}

/// None where the folder has no such file.
pub(super) fn ownership(data: &Path) -> Result<Vec<Ownership>, ImportError> {
    match find(data, "ownership_cases") {
        Ok(file) => lines(&file),
        Err(ImportError::File { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
            Ok(Vec::new())
        }
        Err(other) => Err(other),
    }
}

/// The file of that name, packed or not.
fn find(data: &Path, name: &str) -> Result<PathBuf, ImportError> {
    let packed = data.join(format!("{name}.jsonl.gz"));
    let plain = data.join(format!("{name}.jsonl"));
    for file in [packed, plain.clone()] {
        if file.is_file() {
            return Ok(file);
        }
    }
    Err(ImportError::File {
        file: plain,
        cause: io::Error::new(io::ErrorKind::NotFound, "there is no such file"),
    })
}

fn lines<T: DeserializeOwned>(file: &Path) -> Result<Vec<T>, ImportError> {
    let failed = |cause| ImportError::File {
        file: file.to_owned(),
        cause,
    };
    let plain = BufReader::new(File::open(file).map_err(failed)?);
    let from: Box<dyn BufRead> = if file.extension().is_some_and(|ending| ending == "gz") {
        Box::new(BufReader::new(MultiGzDecoder::new(plain)))
    } else {
        Box::new(plain)
    };
    let mut read = Vec::new();
    for (index, line) in from.lines().enumerate() {
        let line = line.map_err(failed)?;
        if line.trim().is_empty() {
            continue;
        }
        let value = serde_json::from_str(&line).map_err(|error| ImportError::Line {
            file: file.to_owned(),
            line: index + 1,
            what: error.to_string(),
        })?;
        read.push(value);
    }
    Ok(read)
}
