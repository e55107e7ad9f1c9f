//! Writes a suite's folder.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::json;

use super::case::PRINCIPAL;
use super::world::{Statements, World};
use crate::eval::case::Case;

/// Everything that is written.
pub(in crate::eval::import) struct Suite<'s> {
    /// The folder's name.
    pub name: &'s str,
    /// Where the records came from.
    pub source: &'s str,
    /// The operator's instructions in the records.
    pub system: Option<&'s str>,
    /// The world.
    pub world: &'s World,
    /// Subjects on whose behalf cases run, each a principal of that name; none: the world's one.
    pub customers: &'s BTreeSet<String>,
    /// Tools that records call and the world does not have.
    pub unknown_tools: &'s BTreeSet<String>,
    /// Statements that cases name.
    pub statements: &'s Statements,
    /// The cases.
    pub cases: &'s [Case],
}

impl Suite<'_> {
    /// Makes the folder and writes its files.
    ///
    /// # Errors
    /// The folder is there already, or cannot be written.
    pub(in crate::eval::import) fn write(&self, folder: &Path) -> io::Result<()> {
        let mut lines = String::new();
        for case in self.cases {
            lines.push_str(&case.to_line().map_err(io::Error::other)?);
            lines.push('\n');
        }
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::create_dir(folder)?;
        fs::write(folder.join("suite.yaml"), self.yaml())?;
        fs::write(folder.join("schema.sql"), self.world.schema())?;
        fs::write(folder.join("fixtures.sql"), self.world.fixtures())?;
        fs::write(folder.join("policy.yaml"), self.world.policy())?;
        fs::write(folder.join("cases.jsonl"), lines)
    }

    fn yaml(&self) -> String {
        let mut yaml = format!(
            "version: 1\nname: {}\nabout: {}\nsource: {}\n\
             licence: that of the recordings\npolicy: policy.yaml\n\nworld:\n  schema: [schema.sql]\n  fixtures: \
             [fixtures.sql]\n\n",
            quoted(self.name),
            quoted(self.world.about()),
            quoted(self.source)
        );
        let published = self.world.published();
        if !published.is_empty() {
            let _ = writeln!(yaml, "published: [{}]\n", published.join(", "));
        }
        if let Some(system) = self.system {
            let _ = writeln!(yaml, "system: {}\n", quoted(system));
        }
        let [tenant, subject, agent] = self.world.principal().map(quoted);
        yaml.push_str("principals:\n");
        let mut principal = |name: &str, subject: &str| {
            let _ = writeln!(
                yaml,
                "  {name}: {{tenant: {tenant}, subject: {subject}, agent: {agent}}}"
            );
        };
        if self.customers.is_empty() {
            principal(PRINCIPAL, &subject);
        }
        for customer in self.customers {
            principal(&quoted(customer), &quoted(customer));
        }
        yaml.push('\n');
        yaml.push_str(self.world.tools());
        for tool in self.unknown_tools {
            let _ = write!(
                yaml,
                "\n  # Made up by a model.\n  - tool: {}\n    output: recorded\n",
                quoted(tool)
            );
        }
        self.statements(&mut yaml);
        yaml.push_str("\ncases: cases.jsonl\n");
        yaml
    }

    fn statements(&self, yaml: &mut String) {
        if !self.statements.assertions.is_empty() {
            yaml.push_str("\nassertions:\n");
        }
        for (name, sql) in &self.statements.assertions {
            let _ = writeln!(yaml, "  {name}: {}", quoted(sql));
        }
        if self.statements.changes.is_empty() {
            return;
        }
        yaml.push_str("\nchanges:\n");
        for (name, change) in &self.statements.changes {
            let _ = write!(yaml, "  {name}:\n    - {{table: {}", change.table);
            if let Some(filter) = &change.filter {
                let _ = write!(yaml, ", where: {}", quoted(filter));
            }
            if !change.columns.is_empty() {
                let _ = write!(yaml, ", columns: [{}]", change.columns.join(", "));
            }
            yaml.push_str("}\n");
        }
    }
}

/// A double-quoted scalar: JSON's strings are YAML's.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}
