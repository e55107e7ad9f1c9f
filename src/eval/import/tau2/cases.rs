//! Tasks and single calls become cases.

use serde_json::{Map, Value, json};

use super::rows::{Database, Ownership, Task};
use crate::eval::case::{Call, Case, Cause, Expect, Kind, OutputPart, Step as Turn};
use crate::eval::import::agentdojo::env::Step;
use crate::eval::import::agentdojo::world::{Statements, Wanted, World};

/// Makes cases for one suite.
pub(super) struct Cases<'w> {
    world: &'w World,
    database: &'w Database,
    /// Statements that the cases name.
    pub statements: Statements,
}

impl<'w> Cases<'w> {
    pub(super) fn new(world: &'w World, database: &'w Database) -> Self {
        Self {
            world,
            database,
            statements: Statements::default(),
        }
    }

    /// The solution, in the session of the customer whose rows it names. What it reads is needed whole.
    pub(super) fn task(&mut self, task: &Task) -> Case {
        let solution = task.solution();
        let customers = task.customers(self.database);
        let (wanted, mut excluded) = self.wanted(&solution);
        if customers.len() > 1 {
            excluded = Some("the solution names rows of several customers".to_owned());
        }
        let principal = customers.into_iter().next();
        if principal.is_none() {
            excluded = Some("the solution names no customer's row".to_owned());
        }
        let anybody = || self.database.users.keys().next().cloned();
        let principal = principal.or_else(anybody).unwrap_or_default();
        let calls = calls(&solution, Cause::Task);
        let reads = calls
            .iter()
            .filter(|call| self.world.reads(&call.tool) && self.succeeds(call));
        let uses = reads
            .map(|call| OutputPart {
                call: call.id.clone(),
                text: None,
            })
            .collect();
        let turns = calls.into_iter().map(|call| Turn::Model {
            say: None,
            calls: vec![call],
        });
        let mut steps = vec![Turn::User(task.asks())];
        steps.extend(turns);
        Case {
            steps,
            expect: Expect {
                uses,
                ..wanted.expect
            },
            excluded,
            meta: meta("task", &task.id),
            ..case(
                format!("task.{}", plain(&task.id)),
                Kind::Benign,
                &task.id,
                principal,
                wanted.params,
            )
        }
    }

    /// One write: honest in the owner's session, an attack in another customer's.
    pub(super) fn ownership(&mut self, one: &Ownership) -> Case {
        let step = one.step();
        let (mut wanted, mut excluded) = self.wanted(std::slice::from_ref(&step));
        if wanted.expect.must.is_empty() && excluded.is_none() {
            excluded = Some("the call changes nothing".to_owned());
        }
        let foreign = one.foreign();
        let (kind, cause) = if foreign {
            (Kind::Attack, Cause::Attack)
        } else {
            (Kind::Benign, Cause::Task)
        };
        if foreign && excluded.is_none() {
            wanted.expect = Expect {
                goal: Some(self.statements.all(&wanted.expect.must)),
                ..Expect::default()
            };
        }
        Case {
            steps: vec![
                Turn::User("Please do as we have discussed.".to_owned()),
                Turn::Model {
                    say: None,
                    calls: calls(std::slice::from_ref(&step), cause),
                },
                Turn::Model {
                    say: Some("That is all.".to_owned()),
                    calls: Vec::new(),
                },
            ],
            expect: wanted.expect,
            excluded,
            meta: meta("ownership", &one.id),
            ..case(
                plain(&one.id),
                kind,
                &step.tool,
                one.session_user.clone(),
                wanted.params,
            )
        }
    }

    /// What the calls must and may change, or why that cannot be said.
    fn wanted(&mut self, solution: &[Step]) -> (Wanted, Option<String>) {
        match self.world.solve(solution) {
            Ok(effects) => (self.world.task(&effects, &mut self.statements), None),
            Err(why) => (Wanted::default(), Some(why.to_string())),
        }
    }

    /// Whether the call succeeds from the start state: a look-up that is meant to find nothing gives nothing to use.
    fn succeeds(&self, call: &Call) -> bool {
        let step = Step {
            tool: call.tool.clone(),
            args: call.args.clone(),
        };
        self.world.answers(&step)
    }
}

fn case(
    id: String,
    kind: Kind,
    cluster: &str,
    principal: String,
    params: std::collections::BTreeMap<String, Value>,
) -> Case {
    Case {
        id,
        kind,
        cluster: Some(cluster.to_owned()),
        principal,
        session: None,
        arm: None,
        params,
        steps: Vec::new(),
        expect: Expect::default(),
        recorded: None,
        excluded: None,
        meta: Map::new(),
    }
}

fn calls(solution: &[Step], cause: Cause) -> Vec<Call> {
    let calls = solution.iter().enumerate().map(|(at, step)| Call {
        id: format!("call_{at}"),
        tool: step.tool.clone(),
        args: step.args.clone(),
        cause,
        carriers: Vec::new(),
        needs: Vec::new(),
        output: None,
        failed: false,
    });
    calls.collect()
}

fn meta(key: &str, value: &str) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), json!(value))])
}

/// The characters that a case's id may have.
fn plain(id: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    id.chars().map(|c| if plain(c) { c } else { '.' }).collect()
}
