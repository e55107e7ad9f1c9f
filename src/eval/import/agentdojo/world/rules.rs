//! `import.yaml`: what in a world's tables tells one outcome from another.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::state::State;
use crate::eval::import::agentdojo::env::Step;

/// What the importer must know of a world.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rules {
    /// One line for people.
    pub about: String,
    /// Benchmarks whose published defences stand beside the suite's points.
    #[serde(default)]
    pub published: Vec<String>,
    /// On whose behalf cases run.
    pub principal: Who,
    /// Tools whose effect is bookkeeping alone.
    #[serde(default)]
    pub reads: Vec<String>,
    /// Tools of which a call that fails is left out of a solution: solutions hold placeholders.
    #[serde(default)]
    pub may_fail: Vec<String>,
    /// Calls that end every solution, such as a confirmation; one that fails is left out.
    #[serde(default)]
    pub finish: Vec<Step>,
    /// Beginnings of recorded outputs that say that a call had no effect.
    #[serde(default)]
    pub failed_when: Vec<String>,
    /// By table; a table that is not named is compared on every column but its key.
    #[serde(default)]
    pub tables: BTreeMap<String, TableRules>,
}

/// The one principal.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Who {
    pub tenant: String,
    pub subject: String,
    pub agent: String,
}

/// How rows of one table are compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableRules {
    /// Columns that identify an outcome; what else a row says (text, clock, ids) is the writer's choice. Absent: all but the
    /// key.
    pub outcome: Option<Vec<String>>,
    /// Columns that are compared where a row changes; absent: the same.
    pub updated: Option<Vec<String>>,
    /// Bookkeeping, which every case may change.
    #[serde(default)]
    pub free: Free,
    /// What of the table shows an attacker's success; absent: nothing.
    pub attacker: Option<Attacker>,
}

/// What every case may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Free {
    /// Nothing.
    #[default]
    Nothing,
    /// These columns.
    Columns(Vec<String>),
    /// `all`: rows come and go, as in a log.
    All(All),
}

/// The word `all`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum All {
    #[serde(rename = "all")]
    All,
}

/// What of a table shows an attacker's success.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Attacker {
    /// Columns that say where something goes: an address, an account, a link, a name.
    #[serde(default)]
    pub to: Vec<String>,
    /// Columns of running text, which may hold a link of the attacker's.
    #[serde(default)]
    pub says: Vec<String>,
    /// Whether a row that changes counts.
    #[serde(default)]
    pub changed: bool,
    /// Whether a row that vanishes counts.
    #[serde(default)]
    pub gone: bool,
}

impl Rules {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        serde_saphyr::from_str(text)
            .map_err(|error| format!("import.yaml: {}", super::one_line(&error)))
    }

    /// Whether every table and column that is named exists.
    pub(super) fn check(&self, state: &State) -> Result<(), String> {
        for (name, rules) in &self.tables {
            let table = state.0.get(name);
            let table = table.ok_or_else(|| format!("import.yaml: there is no table `{name}`"))?;
            let free = match &rules.free {
                Free::Columns(columns) => columns.as_slice(),
                Free::Nothing | Free::All(_) => &[],
            };
            let attacker = rules
                .attacker
                .iter()
                .flat_map(|a| a.to.iter().chain(&a.says));
            let compared = rules.outcome.iter().chain(&rules.updated).flatten();
            let named = compared.chain(free).chain(attacker);
            for column in named {
                if !table.columns.contains(column) {
                    return Err(format!(
                        "import.yaml: the table `{name}` has no column `{column}`"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The rules of a table.
    pub(super) fn of(&self, table: &str) -> TableRules {
        self.tables.get(table).cloned().unwrap_or_default()
    }
}

impl TableRules {
    /// Whether a column is bookkeeping.
    pub(super) fn is_free(&self, column: &str) -> bool {
        match &self.free {
            Free::Nothing => false,
            Free::Columns(columns) => columns.iter().any(|named| named == column),
            Free::All(_) => true,
        }
    }

    /// Whether a column is compared where a row changes.
    pub(super) fn compares_update(&self, column: &str) -> bool {
        match &self.updated {
            Some(columns) => columns.iter().any(|named| named == column) && !self.is_free(column),
            None => self.compares(column, false),
        }
    }

    /// Whether a column identifies an outcome.
    pub(super) fn compares(&self, column: &str, is_key: bool) -> bool {
        let named = match &self.outcome {
            Some(columns) => columns.iter().any(|named| named == column),
            None => !is_key,
        };
        named && !self.is_free(column)
    }
}
