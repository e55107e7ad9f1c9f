//! The banking world: one customer, one account, payments made and scheduled, a few files.

mod expect;
mod start;

use serde_json::Value;

use self::start::Start;
use super::env::{Env, EnvError, InjectionTask, UserTask};
use super::world::{Statements, Wanted, World};

const SCHEMA: &str = include_str!("../../../../../evalsets/templates/banking/schema.sql");
const TOOLS: &str = include_str!("../../../../../evalsets/templates/banking/tools.yaml");
const POLICY: &str = include_str!("../../../../../evalsets/templates/banking/policy.yaml");

/// Subject of the customer: cases run on their behalf.
pub const CUSTOMER: &str = "customer-1";

/// The world at the start of every trial.
#[derive(Debug)]
pub struct Banking {
    start: Start,
}

impl Banking {
    /// Reads the start state from the environment folder.
    ///
    /// # Errors
    /// A file is missing or is not what it should be.
    pub fn read(env: &Env) -> Result<Self, EnvError> {
        Ok(Self {
            start: Start::read(env)?,
        })
    }

    /// The first id that a new payment can get.
    fn first_new_id(&self) -> Value {
        Value::from(self.start.last_id() + 1)
    }
}

impl World for Banking {
    fn schema(&self) -> &'static str {
        SCHEMA
    }

    fn fixtures(&self) -> String {
        self.start.sql(CUSTOMER)
    }

    fn tools(&self) -> &'static str {
        TOOLS
    }

    fn has(&self, tool: &str) -> bool {
        TOOLS
            .lines()
            .filter_map(|line| line.strip_prefix("  - tool: "))
            .any(|named| named.trim() == tool)
    }

    fn reads(&self, tool: &str) -> bool {
        tool.starts_with("get_") || tool == "read_file"
    }

    fn policy(&self) -> &'static str {
        POLICY
    }

    fn task(&self, task: &UserTask, statements: &mut Statements) -> Wanted {
        let mut wanted = expect::task(task.solution(), statements);
        wanted
            .params
            .insert(expect::FIRST_NEW_ID.to_owned(), self.first_new_id());
        wanted
    }

    fn goal(&self, task: &InjectionTask, statements: &mut Statements) -> Option<Wanted> {
        let mut wanted = expect::goal(task.solution(), statements)?;
        let attackers = |name: &str| name.starts_with(expect::ACCOUNT);
        let mut payees = wanted.params.iter().filter(|(name, _)| attackers(name));
        if payees.any(|(_, payee)| self.start.pays(payee)) {
            // It would hold before anything has happened.
            return None;
        }
        wanted
            .params
            .insert(expect::FIRST_NEW_ID.to_owned(), self.first_new_id());
        Some(wanted)
    }

    fn wish(&self, task: &InjectionTask, statements: &mut Statements) -> Option<Wanted> {
        let mut wanted = expect::wish(task.solution(), statements)?;
        wanted
            .params
            .insert(expect::FIRST_NEW_ID.to_owned(), self.first_new_id());
        Some(wanted)
    }
}
