//! A world looked at as a whole: that it can be reset, that its judge cannot write, what each tool does, and what is missing.

use std::collections::BTreeSet;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use serde::Serialize;

use super::judge::{Judge, read_only};
use super::snapshot::{Difference, Snapshot};
use super::sql::{Bindings, Dialect};
use super::suite::World;
use super::world::{Answer, Example, Fault, Sandbox, Tool, apart, file_in};
use crate::principal::Principal;
use crate::source::{Problem, Problems};

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// Where it was looked at.
    pub database: Dialect,
    /// SHA-256 of the start state as the judge sees it.
    pub start: String,
    /// Its tables with how many rows each has at the start.
    pub tables: Vec<(String, usize)>,
    /// By name.
    pub tools: Vec<Looked>,
    /// What the author may want to add; the world runs without.
    pub missing: Vec<String>,
}

/// A tool.
#[derive(Clone, Debug, Serialize)]
pub struct Looked {
    /// Its name.
    pub tool: String,
    /// Tables that its effect names as written to.
    pub writes: Vec<String>,
    /// What came of its example.
    pub example: Option<Shown>,
}

/// An example that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Whether the tool did what it was asked to.
    pub ok: bool,
    /// Output, or the error's text.
    pub text: String,
    /// Tables that changed, each with rows that came and went.
    pub changed: Vec<(String, usize, usize)>,
}

/// Looks at a world.
///
/// # Errors
/// An example that comes out otherwise than it says, a world that cannot be reset, a judge that can write.
pub fn inspect(world: &World) -> Result<Inspection, Problems> {
    let failed = |cause: String| Problems::from(Problem::new(cause));
    let folder = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let path = file_in(folder.path(), 0);
    let looked = apart(|| async {
        let sandbox = world.image.sandbox(path).await;
        let sandbox = sandbox.map_err(|fault| failed(fault.cause))?;
        let judge = sandbox.judge(&read_only()).await;
        let judge = judge.map_err(|error| failed(error.to_string()))?;
        let mut look = Look {
            world,
            sandbox,
            judge,
            start: Snapshot::default(),
        };
        look.whole().await
    });
    looked.map_err(failed)?
}

struct Look<'w> {
    world: &'w World,
    sandbox: Sandbox,
    judge: Judge,
    start: Snapshot,
}

impl Look<'_> {
    async fn whole(&mut self) -> Result<Inspection, Problems> {
        self.start = self.seen().await?;
        let mut tools = Vec::new();
        let mut problems = Problems::default();
        for (name, tool) in &self.world.tools {
            let example = match &tool.example {
                Some(example) => match self.example(name, tool, example).await {
                    Ok(shown) => Some(shown),
                    Err(problem) => {
                        problems.0.push(problem);
                        None
                    }
                },
                None => None,
            };
            tools.push(Looked {
                tool: name.clone(),
                writes: written(tool, &self.start),
                example,
            });
        }
        // Whatever was done in between, it is what it was.
        self.back("all examples").await.map_err(Problems::from)?;
        if !problems.is_empty() {
            return Err(problems.sorted());
        }
        let tables = self.start.tables.iter();
        let own = tables.filter(|(name, _)| !is_catalog(name));
        Ok(Inspection {
            database: self.world.image.dialect(),
            start: hash(&self.start),
            tables: own
                .map(|(name, table)| (name.clone(), table.rows.len()))
                .collect(),
            missing: missing(self.world, &tools),
            tools,
        })
    }

    async fn seen(&mut self) -> Result<Snapshot, Problem> {
        let seen = self.judge.snapshot(&[], &Bindings::default()).await;
        seen.map_err(|error| Problem::new(format!("the judge failed: {error}")))
    }

    /// Twice, each time on the world as it was made.
    async fn example(
        &mut self,
        name: &str,
        tool: &Tool,
        example: &Example,
    ) -> Result<Shown, Problem> {
        let at = |problem: Problem| problem.at(example.at.clone());
        let first = self.carried_out(name, tool, example).await.map_err(at)?;
        let again = self.carried_out(name, tool, example).await.map_err(at)?;
        if first != again {
            return Err(at(Problem::new(format!(
                "the example of `{name}` gives something else when it is made again: trials could not be repeated"
            ))
            .help("leave the clock and chance out of its statements; a value that must be new can be `:call`")));
        }
        let first = first.0;
        if first.ok == example.fails {
            let problem = if first.ok {
                Problem::new(format!("the example of `{name}` should fail, and does not"))
            } else {
                Problem::new(format!("the example of `{name}` fails: {}", first.text))
                    .help("mend its arguments or the tool, or write `fails: true`")
            };
            return Err(at(problem));
        }
        Ok(first)
    }

    /// What the example gave, and what the world was then.
    async fn carried_out(
        &mut self,
        name: &str,
        tool: &Tool,
        example: &Example,
    ) -> Result<(Shown, String), Problem> {
        let world = self.world;
        let principals = &world.principals;
        let named = example.principal.as_ref();
        let principal = match named {
            Some(name) => principals.get(name),
            None => principals.values().next(),
        };
        let bound = bindings(tool, example, principal.map(|it| &**it));
        // A tool whose output is recorded has none here.
        let recorded = tool.output.is_none().then_some("");
        let answered = self.sandbox.call(tool, &bound, recorded).await;
        let failed = |fault: Fault| Problem::new(format!("the example of `{name}`: {fault}"));
        let Answer { ok, text } = answered.map_err(failed)?;
        let after = self.seen().await?;
        let left = hash(&after);
        let changed = self.start.difference(&after);
        let changed = changed.into_iter().map(|difference| {
            let Difference {
                table,
                removed,
                added,
            } = difference;
            (table, added.len(), removed.len())
        });
        let shown = Shown {
            ok,
            text,
            changed: changed.collect(),
        };
        self.back(&format!("the example of `{name}`")).await?;
        Ok((shown, left))
    }

    /// As it was made: in place, or made anew where a call has changed more than rows.
    async fn back(&mut self, after: &str) -> Result<(), Problem> {
        let failed = |fault: Fault| {
            Problem::new(format!("the world cannot be reset after {after}: {fault}"))
        };
        self.sandbox.reset().await.map_err(failed)?;
        let now = self.seen().await?;
        if self.start.is_as(&now) {
            return Ok(());
        }
        self.sandbox.renew().await.map_err(failed)?;
        let judge = self.sandbox.judge(&read_only()).await;
        self.judge = judge.map_err(|error| Problem::new(error.to_string()))?;
        let now = self.seen().await?;
        if self.start.is_as(&now) {
            return Ok(());
        }
        let differing: Vec<_> = self.start.difference(&now);
        let tables: Vec<_> = differing.iter().map(|it| it.table.as_str()).collect();
        Err(Problem::new(format!(
            "the world cannot be reset after {after}: {} is not as it was at the start",
            tables.join(", ")
        ))
        .help("a start state that depends on the clock or on chance is another each time: write the values into the fixtures"))
    }
}

fn bindings(tool: &Tool, example: &Example, principal: Option<&Principal>) -> Bindings {
    let none = serde_json::Value::Null;
    let given = tool.args.iter();
    let bound = given.fold(Bindings::default(), |bound, name| {
        bound.json(name, example.args.get(name).unwrap_or(&none))
    });
    let bound = match principal {
        Some(principal) => bound
            .text("principal", &*principal.subject)
            .text("tenant", &*principal.tenant),
        None => bound,
    };
    let args = serde_json::Value::Object(example.args.clone());
    bound
        .text("session", "example")
        .text("trial", "example")
        .text("call", "c1")
        .json("args", &args)
}

fn is_catalog(table: &str) -> bool {
    ["sqlite_schema", "pg_catalog", "information_schema"].contains(&table)
}

fn hash(snapshot: &Snapshot) -> String {
    let text = snapshot.canonical();
    HEXLOWER.encode(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Tables behind the words that write. What triggers do besides, an example shows.
fn written(tool: &Tool, start: &Snapshot) -> Vec<String> {
    let mut tables = BTreeSet::new();
    for sql in &tool.effect {
        let words = sql.text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let [verb, table] = pair else { continue };
            let verbs = ["INTO", "UPDATE", "FROM"];
            let writes = verbs.iter().any(|it| it.eq_ignore_ascii_case(verb));
            let deletes = !verb.eq_ignore_ascii_case("FROM")
                || words
                    .first()
                    .is_some_and(|it| it.eq_ignore_ascii_case("DELETE"));
            if writes && deletes && start.tables.contains_key(*table) {
                tables.insert((*table).to_owned());
            }
        }
    }
    tables.into_iter().collect()
}

fn missing(world: &World, tools: &[Looked]) -> Vec<String> {
    let mut missing = Vec::new();
    let names = |found: Vec<&str>| found.join(", ");
    let unshown: Vec<&str> = tools
        .iter()
        .filter(|looked| looked.example.is_none())
        .map(|looked| looked.tool.as_str())
        .collect();
    if !unshown.is_empty() {
        missing.push(format!(
            "no `example`, so nothing was carried out: {}",
            names(unshown)
        ));
    }
    let writes = |tool: &Tool| !tool.effect.is_empty();
    let always: Vec<&str> = world
        .tools
        .iter()
        .filter(|(_, tool)| writes(tool) && tool.error_when.is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    if !always.is_empty() {
        missing.push(format!(
            "no `error_when`, so they fail where a constraint does and nowhere else: {}",
            names(always)
        ));
    }
    for (what, empty, why) in [
        (
            "permissions",
            world.permissions.is_empty(),
            "gate 3 asks nothing",
        ),
        (
            "assertions",
            world.assertions.is_empty(),
            "cases have no goal and no duty to name",
        ),
        (
            "changes",
            world.changes.is_empty(),
            "no case may change anything",
        ),
    ] {
        if empty {
            missing.push(format!("no `{what}`: {why}"));
        }
    }
    missing
}
