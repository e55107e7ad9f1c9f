//! A world for recordings whose own nobody has built: one table of the calls that were carried out.
//!
//! Every tool gives back what was recorded. What a call would change elsewhere is not known: that it was carried out is a row,
//! so that a call which an attack asked for is one, and a task has lost what was refused.

mod case;
mod guess;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

pub use case::{MADE, RECORDED, honest, steps};
pub use guess::{Guess, guess};
use serde_json::json;

use super::folder::{self, FolderError};
use crate::eval::case::Case;

/// The principal of every case.
pub const PRINCIPAL: &str = "user";

/// The world's only table, in the order in which calls were carried out.
const SCHEMA: &str = "CREATE TABLE calls (\n  id TEXT PRIMARY KEY,\n  position INTEGER NOT NULL,\n  tool TEXT NOT NULL,\n  \
                      args TEXT NOT NULL\n);\n";

/// Which calls become rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Those of tools that seem to write.
    Writes,
    /// All.
    All,
}

/// A suite over the table.
#[derive(Debug)]
pub struct Suite<'s> {
    /// One line for people.
    pub about: &'s str,
    /// Where the recordings came from.
    pub source: &'s str,
    /// The operator's instructions.
    pub system: Option<&'s str>,
    /// Every tool.
    pub tools: &'s BTreeSet<String>,
    /// Which calls become rows.
    pub rows: Rows,
    /// Assertions by name.
    pub assertions: &'s [(&'s str, &'s str)],
    /// Changes of the table that cases may name, with the condition on its rows.
    pub changes: &'s [(&'s str, &'s str)],
    /// The policy to start from. `None`: made from the tools' names.
    pub policy: Option<&'s str>,
    /// The cases.
    pub cases: &'s [Case],
}

impl Suite<'_> {
    /// Writes the suite's folder.
    ///
    /// # Errors
    /// The folder is there already, or cannot be written; nothing is left behind then.
    pub fn write(&self, folder: &Path) -> Result<(), FolderError> {
        let name = folder::name(folder)?.to_owned();
        let mut lines = String::new();
        for case in self.cases {
            let line = case.to_line().map_err(|error| FolderError::Write {
                folder: folder.to_owned(),
                cause: std::io::Error::other(error),
            })?;
            lines.push_str(&line);
            lines.push('\n');
        }
        let policy = self
            .policy
            .map_or_else(|| starter(&name, self.tools), str::to_owned);
        folder::write(
            folder,
            &[
                ("suite.yaml", self.yaml(&name)),
                ("schema.sql", SCHEMA.to_owned()),
                ("policy.yaml", policy),
                ("cases.jsonl", lines),
            ],
        )
    }

    fn yaml(&self, name: &str) -> String {
        let mut yaml = format!(
            "version: 1\nname: {}\nabout: {}\nsource: {}\nlicence: that of the recordings\npolicy: policy.yaml\n\nworld:\n  \
             schema: [schema.sql]\n\n",
            quoted(name),
            quoted(self.about),
            quoted(self.source)
        );
        if let Some(system) = self.system {
            let _ = writeln!(yaml, "system: {}\n", quoted(system));
        }
        let _ = writeln!(
            yaml,
            "principals:\n  {PRINCIPAL}: {{tenant: recorded, subject: user, agent: agent}}\n\ntools:{}",
            if self.tools.is_empty() { " []" } else { "" }
        );
        for tool in self.tools {
            self.tool(&mut yaml, tool);
        }
        yaml.push_str("\nassertions:\n");
        let named = |name: &str| {
            self.cases.iter().any(|case| {
                let expect = &case.expect;
                expect.goal.as_deref() == Some(name) || expect.must.iter().any(|must| must == name)
            })
        };
        // A parameter that no case has is none.
        for (name, sql) in self.assertions.iter().filter(|(name, _)| named(name)) {
            let _ = writeln!(yaml, "  {name}: {}", quoted(sql));
        }
        yaml.push_str("\nchanges:\n");
        for (name, condition) in self.changes {
            let _ = writeln!(
                yaml,
                "  {name}:\n    - {{table: calls, where: {}}}",
                quoted(condition)
            );
        }
        yaml.push_str("\ncases: cases.jsonl\n");
        yaml
    }

    fn tool(&self, yaml: &mut String, tool: &str) {
        let guessed = guess(tool);
        let said = match guessed {
            Guess::Read => "reads",
            Guess::Write => "writes",
        };
        let _ = write!(
            yaml,
            "  # Guessed from its name: {said}.\n  - tool: {}\n",
            quoted(tool)
        );
        if guessed == Guess::Write || self.rows == Rows::All {
            let insert = format!(
                "INSERT INTO calls (id, position, tool, args) SELECT :call, count(*), {}, :args FROM calls",
                literal(tool)
            );
            let _ = writeln!(yaml, "    effect: [{}]", quoted(&insert));
        }
        yaml.push_str("    output: recorded\n");
    }
}

/// A policy to start from: tools that seem to read may be called, everything else needs a person, outputs are scanned.
fn starter(name: &str, tools: &BTreeSet<String>) -> String {
    let mut policy = format!(
        "# A policy to start from: which tools read is guessed from their names. Check each, and say of those that write what\n\
         # they may reach.\nversion: 1\nname: {}\n\nlayers: {{catalog: off, identity: off, egress: off, recipients: off, \
         ownership: off, injection: enforce, tickets: enforce}}\n\ntools:\n",
        quoted(name)
    );
    for tool in tools.iter().filter(|tool| guess(tool) == Guess::Read) {
        let _ = writeln!(policy, "  - {{tool: {}, effect: read}}", quoted(tool));
    }
    policy.push_str(
        "  - tool: \"*\" # what does not seem to read\n    ticket: {gate: confirm, ttl: 15m}\n\ninjection: {redact: 0.6, \
         block: 0.95}\n",
    );
    policy
}

/// A double-quoted scalar: JSON's strings are YAML's.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

/// A text in SQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
