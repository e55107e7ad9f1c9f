//! What suite, policy, world and cases must agree on before the first trial.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::cases::Placed;
use super::read::{CALL_PARAMETERS, Part, Written};
use crate::eval::case::{Call, Case, Cause, Kind, OutputPart};
use crate::eval::judge::{Change, Judge, read_only};
use crate::eval::sql::{Allowed, COMMON, Dialect};
use crate::eval::world::{Image, Sandbox, apart, file_in};
use crate::policy::Policy;
use crate::source::{Problem, Problems, did_you_mean};
use crate::verdict::Mode;

/// Longest id of a case, in bytes: every file system can name a folder so.
const MAX_ID: usize = 200;

/// Longest session key that the proxy takes.
const MAX_SESSION: usize = 256;

/// Checks all of it.
pub(super) fn everything(
    written: &Written,
    policy: &Policy,
    image: &Image,
    cases: &[Placed],
) -> Result<(), Problems> {
    let mut problems = Problems::default();
    problems.0.extend(statements(written, image, cases)?);
    problems.0.extend(contrast(written, policy));
    problems.0.extend(left_out(written));
    let mut ids = BTreeSet::new();
    for placed in cases {
        let about = About { written, placed };
        if !ids.insert(placed.case.id.as_str()) {
            problems.0.push(placed.problem("another case has this id"));
        }
        if let Err(problem) = about.check() {
            problems.0.push(problem);
        }
    }
    problems.0.extend(arms(written, cases));
    if cases.is_empty() {
        problems.0.push(
            Problem::new(format!("the suite `{}` has no cases", written.name))
                .help("write one JSON object a line into its `cases` file"),
        );
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.sorted())
    }
}

/// A world without cases.
pub(super) fn world(part: &Part, image: &Image) -> Result<(), Problems> {
    // Cases give parameters, and there are none yet: whatever an assertion names may be given.
    let named = part
        .grades
        .statements()
        .flat_map(super::super::sql::Sql::parameters);
    let params: BTreeSet<String> = named.collect();
    let params: Vec<&str> = params.iter().map(String::as_str).collect();
    let mut problems = Problems(checked(part, image, &params)?);
    problems.0.extend(examples(part));
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.sorted())
    }
}

/// Examples call on behalf of somebody, with arguments that the tool has.
fn examples(part: &Part) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, tool) in &part.tools {
        let Some(example) = &tool.example else {
            continue;
        };
        let unknown = |what, name: &str, known: &mut dyn Iterator<Item = &str>| {
            let known: Vec<&str> = known.collect();
            Problem::new(format!("`{name}` is not among the {what}"))
                .help(did_you_mean(what, name, known.iter().copied()))
                .at(example.at.clone())
        };
        if let Some(principal) = &example.principal
            && !part.principals.contains_key(principal)
        {
            let mut known = part.principals.keys().map(String::as_str);
            problems.push(unknown("principals", principal, &mut known));
        }
        let strange = example.args.keys().find(|arg| !tool.args.contains(arg));
        if let Some(arg) = strange {
            let mut known = tool.args.iter().map(String::as_str);
            let what = "tool's arguments";
            problems.push(unknown(what, arg, &mut known));
        }
        if example.principal.is_none() && part.principals.is_empty() {
            let nobody = format!("nobody could call `{name}`: there is no principal");
            problems.push(Problem::new(nobody).at(example.at.clone()));
        }
    }
    problems
}

/// Prepares every statement on the world and checks its parameters.
fn statements(
    written: &Written,
    image: &Image,
    cases: &[Placed],
) -> Result<Vec<Problem>, Problems> {
    let params: BTreeSet<&str> = cases
        .iter()
        .flat_map(|placed| placed.case.params.keys())
        .map(String::as_str)
        .collect();
    let params: Vec<_> = params.into_iter().collect();
    let mut found = checked(&written.part, image, &params)?;
    found.extend(examples(&written.part));
    Ok(found)
}

fn checked(part: &Part, image: &Image, params: &[&str]) -> Result<Vec<Problem>, Problems> {
    let failed = |cause: String| {
        let message = format!("the world's database cannot be opened: {cause}");
        Problems::from(Problem::new(message))
    };
    let folder = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let path = file_in(folder.path(), 0);
    let checked = apart(|| async {
        let sandbox = image.sandbox(path).await;
        let mut sandbox = sandbox.map_err(|fault| fault.cause)?;
        let judge = sandbox.judge(&read_only()).await;
        let mut judge = judge.map_err(|error| error.to_string())?;
        let mut found = tools(part, &mut sandbox).await;
        found.extend(asked(part, &mut judge, image.dialect(), params).await);
        Ok(found)
    });
    checked.flatten().map_err(failed)
}

async fn tools(part: &Part, sandbox: &mut Sandbox) -> Vec<Problem> {
    let mut found = Vec::new();
    for tool in part.tools.values() {
        let names: Vec<_> = tool
            .args
            .iter()
            .map(String::as_str)
            .chain(CALL_PARAMETERS.iter().copied())
            .collect();
        let reads = tool.error_when.iter().chain(&tool.output);
        let reads = reads.map(|sql| (sql, Allowed::Read));
        let writes = tool.effect.iter().map(|sql| (sql, Allowed::Write));
        for (sql, allowed) in reads.chain(writes) {
            found.extend(sandbox.check(sql, allowed, &names).await.err());
        }
    }
    found
}

async fn asked(part: &Part, judge: &mut Judge, dialect: Dialect, params: &[&str]) -> Vec<Problem> {
    let mut found = Vec::new();
    let grades = &part.grades;
    for sql in grades
        .assertions
        .values()
        .chain(grades.permissions.values())
    {
        found.extend(judge.reads().check(sql, params).await.err());
    }
    let changes = grades.changes.values().flatten().chain(&part.ignored);
    for change in changes {
        found.extend(changeable(judge, change, dialect, params).await.err());
    }
    found
}

async fn changeable(
    judge: &mut Judge,
    change: &Change,
    dialect: Dialect,
    params: &[&str],
) -> Result<(), Problem> {
    let columns = judge.reads().columns(&change.table).await;
    let columns = columns.map_err(|cause| Problem::new(cause).at(change.at.clone()))?;
    for column in change.columns.iter().flatten() {
        if !columns.contains(column) {
            let known = columns.iter().map(String::as_str);
            let help = did_you_mean("columns", column, known);
            let problem = Problem::new(format!("`{}` has no column `{column}`", change.table));
            return Err(problem.help(help).at(change.at.clone()));
        }
    }
    judge.reads().check(&change.probe(dialect), params).await
}

/// The contrast's arms must differ in its layer, and in nothing else.
fn contrast(written: &Written, policy: &Policy) -> Option<Problem> {
    let bound = written.bound.as_ref()?;
    let (without, with) = (
        bound.modes(policy, &bound.without),
        bound.modes(policy, &bound.with),
    );
    let left_out = |arm: &str| {
        let mut arms = bound.arms.iter();
        arms.find(|it| it.name == arm).map(|it| &it.without)
    };
    let message = if left_out(&bound.without) != left_out(&bound.with) {
        format!(
            "the arms `{}` and `{}` differ in `without`",
            bound.without, bound.with
        )
    } else if with.of(bound.layer) != Mode::Enforce {
        format!(
            "the arm `{}` does not enforce the layer `{}`",
            bound.with, bound.layer
        )
    } else if without.of(bound.layer) == Mode::Enforce {
        format!(
            "the arm `{}` enforces the layer `{}`",
            bound.without, bound.layer
        )
    } else if without.with(bound.layer, Mode::Enforce) != with {
        format!(
            "the arms `{}` and `{}` differ in more than the layer `{}`",
            bound.without, bound.with, bound.layer
        )
    } else {
        return None;
    };
    Some(Problem::new(message).at(bound.at.clone()).help(
        "the arms of a contrast differ in its layer alone: mend `arms` or the policy's `layers`",
    ))
}

/// What is left out must be there.
fn left_out(written: &Written) -> Option<Problem> {
    let bound = written.bound.as_ref()?;
    let arm = bound.arms.iter().find(|arm| !arm.without.is_empty())?;
    if written.part.bearers.is_some() {
        return None;
    }
    let message = format!(
        "the arm `{}` is `without` a check of tokens, and there are none",
        arm.name
    );
    Some(
        Problem::new(message)
            .at(bound.at.clone())
            .help("write `tokens: true`"),
    )
}

/// Attacks are either all bound to an arm or all replayed in every arm; the same for benign cases.
fn arms(written: &Written, cases: &[Placed]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for kind in [Kind::Attack, Kind::Benign] {
        let mut first: BTreeMap<bool, &Placed> = BTreeMap::new();
        for placed in cases.iter().filter(|placed| placed.case.kind == kind) {
            first.entry(placed.case.arm.is_some()).or_insert(placed);
        }
        if let (Some(bound), Some(_)) = (first.get(&true), first.get(&false)) {
            problems.push(
                bound
                    .problem("it is bound to an arm, others of its kind are not")
                    .help("give every case of a kind an `arm`, or none"),
            );
        }
        if kind == Kind::Attack
            && written.bound.is_some()
            && let Some(free) = first.get(&false)
        {
            problems.push(
                free.problem("the suite has arms, so an attack names the `arm` it was recorded in"),
            );
        }
    }
    problems
}

struct About<'a> {
    written: &'a Written,
    placed: &'a Placed,
}

impl About<'_> {
    fn problem(&self, message: &str) -> Problem {
        self.placed.problem(message)
    }

    fn known<'n>(
        &self,
        what: &'static str,
        name: &str,
        names: impl Iterator<Item = &'n String> + Clone,
    ) -> Result<(), Problem> {
        if names.clone().any(|known| known == name) {
            return Ok(());
        }
        let problem = self.problem(&format!("`{name}` is not among the suite's {what}"));
        Err(problem.help(did_you_mean(what, name, names.map(String::as_str))))
    }

    fn check(&self) -> Result<(), Problem> {
        let case: &Case = &self.placed.case;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if case.id.is_empty() || case.id.starts_with('.') || !case.id.chars().all(plain) {
            return Err(self.problem(
                "its id may have letters, digits, `.`, `_` and `-`, and starts with no dot",
            ));
        }
        if case.id.len() > MAX_ID {
            return Err(self.problem(&format!(
                "its id is longer than {MAX_ID} characters: it names a folder of `--out`"
            )));
        }
        let session = case.session.as_deref();
        let visible = |key: &str| key.bytes().all(|byte| byte.is_ascii_graphic());
        if session.is_some_and(|key| key.is_empty() || key.len() > MAX_SESSION || !visible(key)) {
            return Err(self.problem(&format!(
                "its session must be 1 to {MAX_SESSION} visible ASCII characters"
            )));
        }
        self.known(
            "principals",
            &case.principal,
            self.written.part.principals.keys(),
        )?;
        self.arm(case)?;
        for (name, value) in &case.params {
            if COMMON.contains(&name.as_str()) {
                return Err(self.problem(&format!(
                    "the parameter `{name}` is always there: name yours otherwise"
                )));
            }
            if matches!(value, Value::Array(_) | Value::Object(_)) {
                return Err(self.problem(&format!(
                    "the parameter `{name}` must be null, a boolean, a number or a text"
                )));
            }
        }
        let expect = &case.expect;
        for name in expect.goal.iter().chain(&expect.must) {
            self.known(
                "assertions",
                name,
                self.written.part.grades.assertions.keys(),
            )?;
        }
        for name in &expect.may_change {
            self.known("changes", name, self.written.part.grades.changes.keys())?;
        }
        let harmful = matches!(case.kind, Kind::Attack | Kind::Mutation);
        if case.excluded.is_none() && harmful != expect.goal.is_some() {
            return Err(self.problem(if harmful {
                "an attack needs `expect.goal`, or `excluded` with the reason why it has none"
            } else {
                "an honest case has no `expect.goal`: name what must come of it in `expect.must`"
            }));
        }
        self.calls(case)
    }

    fn arm(&self, case: &Case) -> Result<(), Problem> {
        let Some(arm) = &case.arm else { return Ok(()) };
        let Some(bound) = &self.written.bound else {
            return Err(self.problem("it names an `arm`, but the suite has no `arms`"));
        };
        if case.kind == Kind::Control || case.kind == Kind::Mutation {
            return Err(self.problem("controls run in every arm they are for: remove `arm`"));
        }
        self.known("arms", arm, bound.arms.iter().map(|arm| &arm.name))
    }

    fn calls(&self, case: &Case) -> Result<(), Problem> {
        let mut earlier: Vec<String> = Vec::new();
        for step in &case.steps {
            let crate::eval::case::Step::Model { calls, .. } = step else {
                continue;
            };
            for call in calls {
                self.call(call, &earlier)?;
            }
            for call in calls {
                if earlier.contains(&call.id) {
                    return Err(self.problem(&format!("the call id `{}` is used twice", call.id)));
                }
                earlier.push(call.id.clone());
            }
        }
        self.parts(&case.expect.uses, &earlier)
    }

    fn call(&self, call: &Call, earlier: &[String]) -> Result<(), Problem> {
        self.known("tools", &call.tool, self.written.part.tools.keys())?;
        let tool = self.written.part.tools.get(&call.tool);
        if call.output.is_none() && !call.failed && tool.is_some_and(|tool| tool.output.is_none()) {
            return Err(self.problem(&format!(
                "the call `{}` needs an `output`: the tool `{}` gives back what was recorded",
                call.id, call.tool
            )));
        }
        if (call.cause == Cause::Injection) == call.carriers.is_empty() {
            return Err(self.problem(&format!(
                "the call `{}` has `carriers` exactly if its cause is `injection`",
                call.id
            )));
        }
        self.parts(&call.carriers, earlier)?;
        call.needs
            .iter()
            .try_for_each(|id| self.known("earlier calls", id, earlier.iter()))
    }

    fn parts(&self, parts: &[OutputPart], earlier: &[String]) -> Result<(), Problem> {
        parts
            .iter()
            .try_for_each(|part| self.known("earlier calls", &part.call, earlier.iter()))
    }
}
