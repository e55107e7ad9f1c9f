//! What a solution changed, as what a task must and may change.

use serde_json::Value;

use super::rules::{Free, TableRules};
use super::solve::{Differences, Effects};
use super::state::{Condition, Table, Test};
use super::{Change, Statements, Wanted, World};

/// What a user's task must leave behind, and may change.
pub(super) fn task(world: &World, effects: &Effects, statements: &mut Statements) -> Wanted {
    let mut wanted = Wanted::default();
    for (name, differences) in &effects.tables {
        let rules = world.rules.of(name);
        let Some(before) = world.start.state.0.get(name) else {
            continue;
        };
        if matches!(rules.free, Free::All(_)) {
            continue;
        }
        Builder {
            name,
            before,
            rules: &rules,
            statements,
            wanted: &mut wanted,
        }
        .table(differences);
    }
    wanted
}

/// What every case may change.
pub(super) fn bookkeeping(world: &World, wanted: &mut Wanted, statements: &mut Statements) {
    for (table, rules) in &world.rules.tables {
        let columns = match &rules.free {
            Free::Nothing => continue,
            Free::Columns(columns) => columns.clone(),
            Free::All(_) => Vec::new(),
        };
        let change = Change {
            table: table.clone(),
            filter: None,
            columns,
        };
        let name = statements.change(&format!("{table}_bookkeeping"), change);
        wanted.expect.may_change.push(name);
    }
}

struct Builder<'b> {
    name: &'b str,
    before: &'b Table,
    rules: &'b TableRules,
    statements: &'b mut Statements,
    wanted: &'b mut Wanted,
}

impl Builder<'_> {
    fn table(&mut self, differences: &Differences) {
        for (at, (same, times)) in self.groups(&differences.added).into_iter().enumerate() {
            self.added(at + 1, same, times);
        }
        for (at, row) in differences.gone.iter().enumerate() {
            let key = self.key(row);
            self.must(&format!("gone_{}", at + 1), &key, 0);
            self.may(&format!("gone_{}", at + 1), &key, Vec::new());
        }
        for (at, (old, new)) in differences.changed.iter().enumerate() {
            self.changed(at + 1, old, new);
        }
    }

    /// New rows that differ only in what is not compared, and how many there are of each.
    fn groups(&self, added: &[Vec<Value>]) -> Vec<(Vec<Test>, usize)> {
        let mut groups: Vec<(Vec<Test>, usize)> = Vec::new();
        for row in added {
            let compared = self
                .compared()
                .map(|column| Test::Is(column.to_owned(), self.before.value(row, column).clone()));
            let same: Vec<_> = compared.collect();
            match groups.iter_mut().find(|(of, _)| *of == same) {
                Some((_, times)) => *times += 1,
                None => groups.push((same, 1)),
            }
        }
        groups
    }

    fn compared(&self) -> impl Iterator<Item = &str> {
        let columns = self.before.columns.iter().map(String::as_str);
        columns.filter(|column| self.rules.compares(column, self.before.is_key(column)))
    }

    fn key(&self, row: &[Value]) -> Condition {
        let tests = self
            .before
            .key_columns()
            .map(|column| Test::Is(column.to_owned(), self.before.value(row, column).clone()));
        Condition(tests.collect())
    }

    /// As many new rows with these values as the solution makes; rows that were there before are not among them.
    fn added(&mut self, at: usize, same: Vec<Test>, times: usize) {
        let mut condition = Condition(same);
        let keys: Vec<&str> = self.before.key_columns().collect();
        let mut rows = self.before.rows.values();
        let there: Vec<Vec<Value>> = rows
            .by_ref()
            .filter(|row| condition.takes(self.before, row))
            .map(|row| {
                keys.iter()
                    .map(|key| self.before.value(row, key).clone())
                    .collect()
            })
            .collect();
        if !there.is_empty() {
            let keys = keys.into_iter().map(str::to_owned).collect();
            condition.0.push(Test::NoneOf(keys, there));
        }
        let what = format!("new_{at}");
        self.must(&what, &condition, times);
        self.may(&what, &condition, Vec::new());
    }

    /// The compared columns as they are now; text alone must only be another.
    fn changed(&mut self, at: usize, old: &[Value], new: &[Value]) {
        let of = |row, column: &str| self.before.value(row, column).clone();
        let differing = self.before.columns.iter();
        let differing: Vec<String> = differing
            .filter(|column| !self.rules.is_free(column) && of(old, column) != of(new, column))
            .cloned()
            .collect();
        let compared = differing
            .iter()
            .filter(|column| self.rules.compares_update(column));
        let mut tests: Vec<_> = compared
            .map(|column| Test::Is(column.clone(), of(new, column)))
            .collect();
        if tests.is_empty() {
            let others = differing.iter();
            tests.extend(others.map(|column| Test::Differs(column.clone(), of(old, column))));
        }
        if tests.is_empty() {
            return;
        }
        let key = self.key(new);
        let mut condition = key.clone();
        condition.0.extend(tests);
        let what = format!("changed_{at}");
        self.must(&what, &condition, 1);
        self.may(&what, &key, differing);
    }

    fn prefix(&self, what: &str) -> String {
        format!("{}_{what}", self.name)
    }

    fn must(&mut self, what: &str, condition: &Condition, times: usize) {
        let prefix = self.prefix(what);
        let filter = condition.sql(&prefix, &mut self.wanted.params);
        let sql = format!(
            "SELECT count(*) = {times} FROM {} WHERE {filter}",
            self.name
        );
        let name = self.statements.assertion(&prefix, sql);
        self.wanted.expect.must.push(name);
    }

    fn may(&mut self, what: &str, condition: &Condition, columns: Vec<String>) {
        let prefix = self.prefix(what);
        let filter = condition.sql(&prefix, &mut self.wanted.params);
        let change = Change {
            table: self.name.to_owned(),
            filter: Some(filter),
            columns,
        };
        let name = self.statements.change(&prefix, change);
        self.wanted.expect.may_change.push(name);
    }
}
