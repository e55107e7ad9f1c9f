//! What an importer must know of a suite's world to make it run, and the worlds that there are.

use std::collections::BTreeMap;

use serde_json::Value;

use super::banking::Banking;
use super::env::{Env, EnvError, InjectionTask, UserTask};
use crate::eval::case::Expect;

/// Part of a table that a case may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The table.
    pub table: &'static str,
    /// Which rows.
    pub filter: String,
    /// Which columns; none: all of them, and rows may come and go.
    pub columns: Vec<&'static str>,
}

/// The statements that cases name, gathered while cases are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statements {
    /// By name: one SELECT.
    pub assertions: BTreeMap<String, String>,
    /// By name.
    pub changes: BTreeMap<String, Change>,
}

/// What a case expects, with the parameters of its statements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Goal, duties and permitted changes, by name.
    pub expect: Expect,
    /// Bound by name.
    pub params: BTreeMap<String, Value>,
}

/// A world that calls have an effect on.
pub trait World {
    /// The tables, as SQL.
    fn schema(&self) -> &'static str;

    /// The start state, as SQL.
    fn fixtures(&self) -> String;

    /// The tools, as the part of `suite.yaml` from `tools:` on.
    fn tools(&self) -> &'static str;

    /// Whether the world has the tool.
    fn has(&self, tool: &str) -> bool;

    /// Whether the tool changes nothing.
    fn reads(&self, tool: &str) -> bool;

    /// A policy that an operator could start from.
    fn policy(&self) -> &'static str;

    /// What the user's task must and may change.
    fn task(&self, task: &UserTask, statements: &mut Statements) -> Wanted;

    /// What shows that the attacker has what they want; `None` where nothing in the world would show it.
    fn goal(&self, task: &InjectionTask, statements: &mut Statements) -> Option<Wanted>;

    /// The same goal as the user's own wish: the act must be done, and may be.
    fn wish(&self, task: &InjectionTask, statements: &mut Statements) -> Option<Wanted>;
}

/// Makes a world from the environment folder.
pub type Build = fn(&Env) -> Result<Box<dyn World>, EnvError>;

/// The suites that have a world.
pub const WORLDS: &[(&str, Build)] = &[("banking", |env| Ok(Box::new(Banking::read(env)?)))];

/// The world of a suite.
pub fn find(suite: &str) -> Option<Build> {
    WORLDS
        .iter()
        .find(|(name, _)| *name == suite)
        .map(|(_, build)| *build)
}

/// The names of the suites that have a world.
pub fn names() -> String {
    let names: Vec<_> = WORLDS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}
