//! A solution's calls, carried out from the start state, and what is different afterwards.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::World;
use super::state::State;
use crate::eval::import::agentdojo::env::Step;
use crate::eval::sql::{Bindings, plain};
use crate::eval::world::sqlite::Sandbox;
use crate::eval::world::{Answer, Fault};

/// What calls have changed.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// By table.
    pub(super) tables: BTreeMap<String, Differences>,
    /// Everything afterwards.
    pub(super) after: State,
    /// How many calls there were.
    pub(super) calls: usize,
}

/// What has changed in one table, in the order of the keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Differences {
    /// Rows whose key is new.
    pub added: Vec<Vec<Value>>,
    /// Rows whose key is gone, as they were.
    pub gone: Vec<Vec<Value>>,
    /// Rows with other values than before: as they were, as they are.
    pub changed: Vec<(Vec<Value>, Vec<Value>)>,
}

/// Why a solution cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsolved {
    /// The world does not have this tool.
    #[error("the solution calls a tool that the world does not have")]
    Tool(String),
    /// A call of this tool fails.
    #[error("a call of the solution fails in this world")]
    Fails {
        /// The tool.
        tool: String,
        /// What the tool said.
        said: String,
    },
    /// The sandbox failed.
    #[error("the world failed while the solution was carried out")]
    World(String),
}

impl Effects {
    /// Whether nothing has changed.
    pub fn nothing(&self) -> bool {
        self.tables.is_empty()
    }

    /// In a word: `none` without calls, `reads only`, or `writes`.
    pub fn kind(&self) -> &'static str {
        match self.calls {
            0 => "none",
            _ if self.nothing() => "reads only",
            _ => "writes",
        }
    }

    /// Whether rows of this table that were there have other values now.
    pub(super) fn changes(&self, table: &str) -> bool {
        let differences = self.tables.get(table);
        differences.is_some_and(|differences| !differences.changed.is_empty())
    }

    fn between(before: &State, after: State, calls: usize) -> Self {
        let mut tables = BTreeMap::new();
        for (name, new) in &after.0 {
            let Some(old) = before.0.get(name) else {
                continue;
            };
            let mut differences = Differences::default();
            for (key, row) in &old.rows {
                match new.rows.get(key) {
                    None => differences.gone.push(row.clone()),
                    Some(now) if now != row => differences.changed.push((row.clone(), now.clone())),
                    Some(_) => {}
                }
            }
            let fresh = new
                .rows
                .iter()
                .filter(|(key, _)| !old.rows.contains_key(*key));
            differences.added.extend(fresh.map(|(_, row)| row.clone()));
            if differences != Differences::default() {
                tables.insert(name.clone(), differences);
            }
        }
        Self {
            tables,
            after,
            calls,
        }
    }
}

/// Carries out the calls one after the other.
pub(super) fn solve(world: &World, solution: &[Step]) -> Result<Effects, Unsolved> {
    let failed = |error: std::io::Error| Unsolved::World(error.to_string());
    let folder = tempfile::tempdir().map_err(failed)?;
    let path = folder.path().join("solution.sqlite");
    let mut sandbox = world.start.image.sandbox(path).map_err(broken)?;
    let finish = world.rules.finish.iter().map(|step| (step, true));
    let steps = solution
        .iter()
        .map(|step| (step, world.rules.may_fail.contains(&step.tool)));
    for (at, (step, may_fail)) in steps.chain(finish).enumerate() {
        let answer = carry_out(world, &mut sandbox, step, at)?;
        if !answer.ok && !may_fail {
            return Err(Unsolved::Fails {
                tool: step.tool.clone(),
                said: answer.text,
            });
        }
    }
    let after =
        State::read(sandbox.connection()).map_err(|error| Unsolved::World(plain(&error)))?;
    Ok(Effects::between(&world.start.state, after, solution.len()))
}

fn broken(fault: Fault) -> Unsolved {
    Unsolved::World(fault.cause)
}

/// Whether the call succeeds from the start state.
pub(super) fn answers(world: &World, step: &Step) -> bool {
    let Ok(folder) = tempfile::tempdir() else {
        return false;
    };
    let sandbox = world.start.image.sandbox(folder.path().join("call.sqlite"));
    sandbox.is_ok_and(|mut sandbox| {
        carry_out(world, &mut sandbox, step, 0).is_ok_and(|answer| answer.ok)
    })
}

fn carry_out(
    world: &World,
    sandbox: &mut Sandbox,
    step: &Step,
    at: usize,
) -> Result<Answer, Unsolved> {
    let tool = world
        .tools
        .get(&step.tool)
        .ok_or_else(|| Unsolved::Tool(step.tool.clone()))?;
    let bound = bindings(world, &tool.args, &step.args, at);
    sandbox.call(tool, &bound, Some("")).map_err(broken)
}

fn bindings(world: &World, names: &[String], args: &Map<String, Value>, at: usize) -> Bindings {
    let [tenant, subject, _] = world.principal();
    let none = Value::Null;
    let bound = names.iter().fold(Bindings::default(), |bound, name| {
        bound.json(name, args.get(name).unwrap_or(&none))
    });
    bound
        .text("principal", subject)
        .text("tenant", tenant)
        .text("session", "solution")
        .text("trial", "solution")
        .text("call", format!("call_{at}"))
        .json("args", &Value::Object(args.clone()))
}
