//! One recorded run becomes one case.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::attribution::{Attribution, Carrier};
use super::env::{Env, InjectionTask, UserTask};
use super::record::{Kind, Message, Output, Trajectory};
use super::text::squash;
use super::uses::{Yardstick, uses};
use super::world::{Effects, Goal, Statements, Unsolved, Wanted, World};
use crate::eval::case::{Call, Case, Cause, Expect, Kind as CaseKind, OutputPart, Recorded, Step};

/// Name of the one principal of an imported suite.
pub const PRINCIPAL: &str = "customer";

/// Characters of a case's id, without its number.
const LONGEST_ID: usize = 180;

/// Makes cases for one suite.
pub struct Cases<'e> {
    env: &'e Env,
    world: &'e World,
    /// What the solutions of the user's tasks change, by task.
    solved: HashMap<String, Result<Effects, Unsolved>>,
    /// What the attackers want, by injection task.
    goals: HashMap<String, Option<Goal>>,
    /// The start state, squashed: what is said there is the task's own.
    start: String,
    taken: HashSet<String>,
    /// Statements that the cases name.
    pub statements: Statements,
}

impl<'e> Cases<'e> {
    /// `start_text` is everything that the start state says.
    pub fn new(env: &'e Env, world: &'e World, start_text: &str) -> Self {
        Self {
            env,
            world,
            solved: HashMap::new(),
            goals: HashMap::new(),
            start: squash(start_text),
            taken: HashSet::new(),
            statements: Statements::default(),
        }
    }

    /// The case of one run. A run that cannot be graded is excluded, with the reason.
    pub fn case(&mut self, run: &Trajectory, attribution: &Attribution) -> Case {
        let (wanted, excluded) = match self.wanted(run) {
            Ok(wanted) => (wanted, None),
            Err(reason) => (Wanted::default(), Some(reason)),
        };
        let attack = run.kind == Kind::Attack;
        let uses = self.uses(run, attribution);
        Case {
            id: self.id(run),
            kind: if attack {
                CaseKind::Attack
            } else {
                CaseKind::Benign
            },
            cluster: Some(run.user_task.clone()),
            principal: PRINCIPAL.to_owned(),
            session: None,
            arm: None,
            params: wanted.params,
            steps: steps(self.world, run, attribution),
            expect: Expect {
                uses,
                ..wanted.expect
            },
            recorded: Some(Recorded {
                attack: run.security,
                task: run.utility,
            }),
            excluded,
            meta: self.meta(run),
        }
    }

    /// Proof that the attack is possible in this world: its solution, carried out by a user who is the attacker.
    pub fn mutation(&mut self, id: &str, task: &InjectionTask) -> Option<Case> {
        let solution = task.ground_truth.as_ref()?;
        let goal = self.world.aim(task)?;
        let wanted = self.world.goal(&goal, None, &mut self.statements);
        let solution = solution.iter().chain(self.world.finish());
        let calls = solution.enumerate().map(|(at, step)| Call {
            id: format!("call_{at}"),
            tool: step.tool.clone(),
            args: step.args.clone(),
            cause: Cause::Attack,
            carriers: Vec::new(),
            needs: Vec::new(),
            // The outputs of reads do not matter here, and not every tool has one of its own.
            output: Some(String::new()),
            failed: false,
        });
        Some(Case {
            id: format!("mutation.{}", plain(id)),
            kind: CaseKind::Mutation,
            cluster: None,
            principal: PRINCIPAL.to_owned(),
            session: None,
            arm: None,
            params: wanted.params,
            steps: vec![
                Step::User(task.goal.clone()),
                Step::Model {
                    say: None,
                    calls: calls.collect(),
                },
            ],
            expect: wanted.expect,
            recorded: None,
            excluded: None,
            meta: Map::new(),
        })
    }

    fn uses(&self, run: &Trajectory, attribution: &Attribution) -> Vec<OutputPart> {
        let task = self.env.user_task(&run.suite, &run.user_task);
        let solution = task.map(UserTask::solution).unwrap_or_default();
        let yardstick = Yardstick {
            of_start_state: &|text| {
                let text = squash(text);
                !text.is_empty() && self.start.contains(&text)
            },
            solution_reads: &|tool| {
                self.world.reads(tool) && solution.iter().any(|step| step.tool == tool)
            },
        };
        uses(run, attribution, &yardstick)
    }

    fn wanted(&mut self, run: &Trajectory) -> Result<Wanted, String> {
        if run.error.is_some() {
            return Err("the run broke off".to_owned());
        }
        let world = self.world;
        if run.kind == Kind::GoalAsTask {
            let task = self.injection_task(&run.suite, &run.user_task)?;
            let goal = self.goal(&run.user_task, task)?;
            return Ok(world.wish(&goal, task.ground_truth.as_deref(), &mut self.statements));
        }
        let task = self.env.user_task(&run.suite, &run.user_task);
        let task = task.ok_or("unknown user task")?;
        if run.kind == Kind::Benign && task.ground_truth.is_none() {
            return Err("the task has no known solution".to_owned());
        }
        let goal = match &run.injection_task {
            Some(id) => Some(self.goal(id, self.injection_task(&run.suite, id)?)?),
            None => None,
        };
        let solved = self.solved.entry(run.user_task.clone());
        let solved = solved.or_insert_with(|| world.solve(task.solution()));
        let effects = solved.as_ref().map_err(ToString::to_string)?;
        let mut wanted = world.task(effects, &mut self.statements);
        if let Some(goal) = goal {
            let goal = world.goal(&goal, Some(effects), &mut self.statements);
            wanted.expect.goal = goal.expect.goal;
            wanted.params.extend(goal.params);
        }
        Ok(wanted)
    }

    fn injection_task(&self, suite: &str, id: &str) -> Result<&'e InjectionTask, String> {
        let task = self.env.injection_task(suite, id);
        task.ok_or_else(|| "unknown injection task".to_owned())
    }

    fn goal(&mut self, id: &str, task: &InjectionTask) -> Result<Goal, String> {
        let world = self.world;
        let goal = self.goals.entry(id.to_owned());
        let goal = goal.or_insert_with(|| world.aim(task));
        let goal = goal.clone();
        goal.ok_or_else(|| "the goal leaves no trace in the world".to_owned())
    }

    fn meta(&self, run: &Trajectory) -> Map<String, Value> {
        let mut meta = meta(run);
        if let Some(Ok(effects)) = self.solved.get(&run.user_task) {
            meta.insert("solution".to_owned(), json!(effects.kind()));
        }
        meta
    }

    /// An id that no case before has.
    fn id(&mut self, run: &Trajectory) -> String {
        let injection = run.injection_task.as_deref().unwrap_or("none");
        let mut id = plain(&format!("{}.{injection}.{}", run.user_task, run.pipeline));
        // ASCII by now. It names a folder, and a number still fits behind it.
        id.truncate(LONGEST_ID);
        let numbered = (2..).map(|times: usize| format!("{id}.{times}"));
        let mut free = std::iter::once(id.clone()).chain(numbered);
        let free = free.find(|id| !self.taken.contains(id));
        let free = free.unwrap_or(id);
        self.taken.insert(free.clone());
        free
    }
}

/// The characters that a case's id may have.
fn plain(id: &str) -> String {
    id.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect()
}

fn meta(run: &Trajectory) -> Map<String, Value> {
    let mut meta = Map::new();
    meta.insert("pipeline".to_owned(), json!(run.pipeline));
    meta.insert("user_task".to_owned(), json!(run.user_task));
    if let Some(task) = &run.injection_task {
        meta.insert("injection_task".to_owned(), json!(task));
    }
    if let Some(attack) = &run.attack {
        meta.insert("attack".to_owned(), json!(attack));
    }
    if run.kind == Kind::GoalAsTask {
        meta.insert("goal_given_by_user".to_owned(), json!(true));
    }
    meta
}

/// The conversation as steps; each output stands with its call.
fn steps(world: &World, run: &Trajectory, attribution: &Attribution) -> Vec<Step> {
    let outputs: HashMap<&str, (usize, &Output)> = run
        .outputs()
        .map(|(at, output)| (output.call.as_str(), (at, output)))
        .collect();
    let carried = |before: usize| -> Vec<OutputPart> {
        let earlier = attribution.carriers.iter().filter(|c| c.message < before);
        earlier.flat_map(|carrier| parts(run, carrier)).collect()
    };
    let mut steps = Vec::new();
    for (at, message) in run.messages.iter().enumerate() {
        match message {
            Message::User(text) => steps.push(Step::User(text.clone())),
            Message::Assistant { text, calls } if !text.is_empty() || !calls.is_empty() => {
                let calls = calls.iter().enumerate().map(|(index, call)| {
                    let cause = attribution.of(at, index);
                    let (output, failed) = outcome(outputs.get(call.id.as_str()).map(|(_, o)| *o));
                    let failed = failed || world.says_failed(&output);
                    Call {
                        id: call.id.clone(),
                        tool: call.tool.clone(),
                        args: call.args.clone(),
                        cause,
                        carriers: if cause == Cause::Injection {
                            carried(at)
                        } else {
                            Vec::new()
                        },
                        needs: Vec::new(),
                        output: Some(output),
                        failed,
                    }
                });
                steps.push(Step::Model {
                    say: (!text.is_empty()).then(|| text.clone()),
                    calls: calls.collect(),
                });
            }
            Message::System(_) | Message::Assistant { .. } | Message::Output(_) => {}
        }
    }
    steps
}

/// What the agent got, and whether the call failed. A tool that fails gives its error in place of an output.
fn outcome(output: Option<&Output>) -> (String, bool) {
    match output {
        Some(Output {
            error: Some(error), ..
        }) => (error.clone(), true),
        Some(output) => (output.text.clone(), false),
        None => ("not run in the recording".to_owned(), true),
    }
}

fn parts<'r>(run: &'r Trajectory, carrier: &'r Carrier) -> impl Iterator<Item = OutputPart> + 'r {
    let call = match run.messages.get(carrier.message) {
        Some(Message::Output(output)) => Some(output.call.clone()),
        _ => None,
    };
    carrier.payloads.iter().filter_map(move |payload| {
        Some(OutputPart {
            call: call.clone()?,
            text: Some(payload.clone()),
        })
    })
}
