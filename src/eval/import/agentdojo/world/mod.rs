//! A suite's world: tables, tools with their effects and a start state, all data under `evalsets/worlds`.
//!
//! What a task must and may change is written nowhere: the task's solution is run through the world's own tools ([`solve`]),
//! and what differs afterwards is the expectation ([`outcome`]). What an attacker wants is found the same way ([`goal`]).
//! `import.yaml` of a world says which columns identify an outcome ([`rules`]).

mod goal;
mod outcome;
mod rules;
mod solve;
mod start;
mod state;

use std::collections::BTreeMap;

use serde_json::Value;

pub use self::goal::Goal;
use self::rules::Rules;
pub use self::solve::{Effects, Unsolved};
use self::start::Start;
use super::env::{Env, EnvError, InjectionTask, Step};
use crate::eval::case::Expect;
use crate::eval::world::Tool;

/// Part of a table that a case may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The table.
    pub table: String,
    /// Which rows; none: all.
    pub filter: Option<String>,
    /// Which columns; none: all of them, and rows may come and go.
    pub columns: Vec<String>,
}

/// The statements that cases name, gathered while cases are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statements {
    /// By name: one SELECT.
    pub assertions: BTreeMap<String, String>,
    /// By name.
    pub changes: BTreeMap<String, Change>,
}

impl Statements {
    /// All of these at once, as one assertion.
    pub(in crate::eval::import) fn all(&mut self, must: &[String]) -> String {
        let parts = must.iter().filter_map(|name| self.assertions.get(name));
        let parts: Vec<_> = parts.map(|sql| format!("({sql})")).collect();
        let sql = format!("SELECT {}", parts.join(" AND "));
        self.assertion("all_done", sql)
    }

    /// Names an assertion: one that is there already keeps its name.
    pub(in crate::eval::import) fn assertion(&mut self, about: &str, sql: String) -> String {
        named(&mut self.assertions, about, sql)
    }

    /// Names a change: one that is there already keeps its name.
    fn change(&mut self, about: &str, change: Change) -> String {
        named(&mut self.changes, about, change)
    }
}

/// Letters of a name, without its number.
const LONGEST_NAME: usize = 56;

fn named<T: PartialEq>(known: &mut BTreeMap<String, T>, about: &str, statement: T) -> String {
    let about: String = about.chars().take(LONGEST_NAME).collect();
    let mut name = about.clone();
    let mut times = 1;
    while known.get(&name).is_some_and(|other| *other != statement) {
        times += 1;
        name = format!("{about}_v{times}");
    }
    known.entry(name.clone()).or_insert(statement);
    name
}

/// What a case expects, with the parameters of its statements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Goal, duties and permitted changes, by name.
    pub expect: Expect,
    /// Bound by name.
    pub params: BTreeMap<String, Value>,
}

/// The files of one world.
#[derive(Debug)]
pub struct Source {
    /// The suite that was recorded in it.
    pub suite: &'static str,
    /// The tables, as SQL.
    schema: &'static str,
    /// The start state's rows, as SQL over the environment.
    start: &'static str,
    /// The tools, as the part of `suite.yaml` from `tools:` on.
    tools: &'static str,
    /// What the importer must know.
    import: &'static str,
    /// The policy that the world is measured with.
    policy: &'static str,
}

/// A file of the project.
macro_rules! file {
    ($($part:literal),*) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $($part),*))
    };
}

/// The world of a suite: its folder under `evalsets/worlds`, and its policy under `policies/worlds`.
macro_rules! world {
    ($suite:literal, $folder:literal) => {
        Source {
            suite: $suite,
            schema: file!("evalsets/worlds/", $folder, "/schema.sql"),
            start: file!("evalsets/worlds/", $folder, "/start.sql"),
            tools: file!("evalsets/worlds/", $folder, "/tools.yaml"),
            import: file!("evalsets/worlds/", $folder, "/import.yaml"),
            policy: file!("policies/worlds/", $suite, ".yaml"),
        }
    };
}

/// The suites that have a world.
pub const WORLDS: &[Source] = &[
    world!("banking", "banking"),
    world!("slack", "slack"),
    world!("travel", "travel"),
    world!("workspace", "workspace"),
    world!("shopping", "agentdyn"),
    world!("github", "agentdyn"),
    world!("dailylife", "agentdyn"),
];

/// The web shop of tau2, which has no environment folder.
pub const RETAIL: Source = world!("retail", "retail");

/// The service desk of tau-bench's airline, which has no environment folder either.
pub const AIRLINE: Source = world!("airline", "airline");

/// The world of a suite.
pub fn find(suite: &str) -> Option<&'static Source> {
    WORLDS.iter().find(|world| world.suite == suite)
}

/// The names of the suites that have a world.
pub fn names() -> String {
    let names: Vec<_> = WORLDS.iter().map(|world| world.suite).collect();
    names.join(", ")
}

/// A world that calls have an effect on, at the start of every trial.
pub struct World {
    source: &'static Source,
    rules: Rules,
    tools: BTreeMap<String, Tool>,
    start: Start,
}

impl World {
    /// Makes the start state from the environment folder.
    ///
    /// # Errors
    /// A file of the folder is missing or is not what the world takes it for.
    pub fn build(source: &'static Source, env: &Env) -> Result<Self, EnvError> {
        let wrong = |what: String| EnvError::Content {
            file: env.dir().join(source.suite),
            what,
        };
        let start = Start::make(source, env)?;
        Self::around(source, start).map_err(wrong)
    }

    /// Makes the start state from an environment that is already read.
    ///
    /// # Errors
    /// What does not fit the world.
    pub fn of(source: &'static Source, environment: &Value) -> Result<Self, String> {
        Self::around(source, Start::of(source, environment)?)
    }

    fn around(source: &'static Source, start: Start) -> Result<Self, String> {
        let rules = Rules::read(source.import)?;
        let tools = crate::eval::suite::tools_of("tools.yaml", source.tools.to_owned())
            .map_err(|problems| one_line(&problems))?;
        rules.check(&start.state)?;
        Ok(Self {
            source,
            rules,
            tools,
            start,
        })
    }

    /// Benchmarks whose published defences stand beside the suite's points.
    pub fn published(&self) -> &[String] {
        &self.rules.published
    }

    /// The tables, as SQL.
    pub const fn schema(&self) -> &'static str {
        self.source.schema
    }

    /// The start state, as SQL.
    pub fn fixtures(&self) -> &str {
        &self.start.fixtures
    }

    /// The tools, as the part of `suite.yaml` from `tools:` on.
    pub const fn tools(&self) -> &'static str {
        self.source.tools
    }

    /// Whether the world has the tool.
    pub fn has(&self, tool: &str) -> bool {
        self.tools.contains_key(tool)
    }

    /// Whether the tool changes nothing that matters.
    pub fn reads(&self, tool: &str) -> bool {
        let quiet = self.tools.get(tool).is_some_and(|t| t.effect.is_empty());
        quiet || self.rules.reads.iter().any(|named| named == tool)
    }

    /// Whether a recorded output says that the call had no effect, also between the marks of a defence.
    pub fn says_failed(&self, output: &str) -> bool {
        let said = output.trim_start_matches('<');
        let mut beginnings = self.rules.failed_when.iter();
        beginnings.any(|begin| said.starts_with(begin))
    }

    /// The policy that the world is measured with, without the line that tells an editor where its schema is.
    pub fn policy(&self) -> &'static str {
        let policy = self.source.policy;
        match policy.split_once('\n') {
            Some((first, rest)) if first.starts_with("# yaml-language-server") => rest,
            _ => policy,
        }
    }

    /// One line for people.
    pub fn about(&self) -> &str {
        &self.rules.about
    }

    /// On whose behalf cases run: tenant, subject, agent.
    pub fn principal(&self) -> [&str; 3] {
        let who = &self.rules.principal;
        [&who.tenant, &who.subject, &who.agent]
    }

    /// Carries out a solution from the start state, and says what is different afterwards.
    ///
    /// # Errors
    /// The solution calls a tool that the world does not have, or a call of it fails.
    pub fn solve(&self, solution: &[Step]) -> Result<Effects, Unsolved> {
        solve::solve(self, solution)
    }

    /// Calls that end every solution.
    pub fn finish(&self) -> &[Step] {
        &self.rules.finish
    }

    /// Whether the call succeeds from the start state.
    pub fn answers(&self, step: &Step) -> bool {
        solve::answers(self, step)
    }

    /// What a user's task must and may change, given what its solution changes.
    pub fn task(&self, effects: &Effects, statements: &mut Statements) -> Wanted {
        let mut wanted = outcome::task(self, effects, statements);
        outcome::bookkeeping(self, &mut wanted, statements);
        wanted
    }

    /// What shows that the attacker has what they want; `None` where nothing in the world would show it.
    pub fn aim(&self, task: &InjectionTask) -> Option<Goal> {
        Goal::of(self, task)
    }

    /// That goal as an assertion, reached by what goes beyond what the user's own task does (`own`).
    pub fn goal(&self, goal: &Goal, own: Option<&Effects>, statements: &mut Statements) -> Wanted {
        goal.wanted(self, own, statements)
    }

    /// The same goal as the user's own wish: the act must be done, and may be. `solution` are the calls that do it, where they
    /// are known.
    pub fn wish(
        &self,
        goal: &Goal,
        solution: Option<&[Step]>,
        statements: &mut Statements,
    ) -> Wanted {
        let effects = solution.and_then(|steps| self.solve(steps).ok());
        let changes = |table: &str| match &effects {
            Some(effects) => effects.changes(table),
            None => self.rules.of(table).attacker.is_some_and(|a| a.changed),
        };
        let mut wanted = goal.wish(self, &changes, statements);
        if let Some(effects) = &effects {
            let done = outcome::task(self, effects, statements);
            wanted.params.extend(done.params);
            wanted.expect.may_change.extend(done.expect.may_change);
        }
        outcome::bookkeeping(self, &mut wanted, statements);
        wanted
    }
}

/// The first line of what is wrong.
fn one_line(what: &dyn std::fmt::Display) -> String {
    let text = what.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}
