//! The keys of a map: known ones that a reader asks for, and names that the author chose.

use std::collections::HashSet;

use super::reader::{Field, NAME_HELP, Reader};
use super::scalar::is_name;
use super::{Entry, Problem, Spot, nearest};

/// A key that the author chose.
#[derive(Clone, Copy, Debug)]
pub struct Key<'r> {
    reader: &'r Reader,
    entry: &'r Entry,
}

impl<'r> Key<'r> {
    pub(super) const fn new(reader: &'r Reader, entry: &'r Entry) -> Self {
        Self { reader, entry }
    }

    /// Its text.
    pub fn text(&self) -> &'r str {
        &self.entry.key
    }

    /// Where it stands.
    pub fn spot(&self) -> Spot {
        self.entry.key_spot.clone()
    }

    /// The text, if it is a name (see [`Field::name`]).
    pub fn name(&self) -> Option<&'r str> {
        if is_name(self.text()) {
            return Some(self.text());
        }
        self.error(format!("`{}` is not a name", self.text()), NAME_HELP);
        None
    }

    /// Reports a warning at the key.
    pub fn warn(&self, message: impl Into<String>, help: impl Into<String>) {
        let problem = Problem::new(message).help(help).at(self.spot());
        self.reader.report(problem.warning());
    }

    /// Reports an error at the key.
    pub fn error(&self, message: impl Into<String>, help: impl Into<String>) {
        let problem = Problem::new(message).help(help).at(self.spot());
        self.reader.report(problem);
    }
}

/// The values of a map with known keys. Keys that nobody asked for are reported when it goes out of scope.
#[derive(Debug)]
pub struct Fields<'r> {
    field: Field<'r>,
    entries: &'r [Entry],
    asked: Vec<&'static str>,
    missing: Vec<&'static str>,
}

impl<'r> Fields<'r> {
    pub(super) const fn new(field: Field<'r>, entries: &'r [Entry]) -> Self {
        Self {
            field,
            entries,
            asked: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// The map itself.
    pub const fn field(&self) -> &Field<'r> {
        &self.field
    }

    /// The value of a key that must be there.
    pub fn required(&mut self, key: &'static str) -> Option<Field<'r>> {
        let found = self.optional(key);
        if found.is_none() {
            self.missing.push(key);
        }
        found
    }

    /// The value of a key that may be missing.
    pub fn optional(&mut self, key: &'static str) -> Option<Field<'r>> {
        self.asked.push(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(self.field.child(entry))
    }

    /// What `read` makes of a key's value, or `default` where the key is missing.
    pub fn optional_or<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&Field<'r>) -> Option<T>,
    ) -> Option<T> {
        match self.optional(key) {
            Some(field) => read(&field),
            None => Some(default),
        }
    }

    /// The value of the one key of several that must be there.
    pub fn exactly_one(&mut self, keys: &[&'static str]) -> Option<(&'static str, Field<'r>)> {
        let mut found: Vec<_> = keys
            .iter()
            .filter_map(|key| self.optional(key).map(|field| (*key, field)))
            .collect();
        let all: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
        let help = format!("write exactly one of {}", all.join(", "));
        match found.len() {
            1 => return found.pop(),
            0 => self.field.error(
                format!("{} says neither of {}", self.field.title(), all.join(", ")),
                help,
            ),
            _ => self.field.error(
                format!("{} has keys that exclude each other", self.field.title()),
                help,
            ),
        }
        None
    }

    /// Ends the map now: reports the keys that nobody asked for.
    pub fn finish(self) {}
}

impl Drop for Fields<'_> {
    fn drop(&mut self) {
        let mut missing = std::mem::take(&mut self.missing);
        let there: HashSet<&str> = self.entries.iter().map(|e| e.key.as_str()).collect();
        for entry in self.entries {
            if self.asked.contains(&entry.key.as_str()) {
                continue;
            }
            let near = nearest(&entry.key, self.asked.iter().copied());
            // One slip is one problem.
            missing.retain(|key| near != Some(*key));
            self.unknown(entry, near, &there);
        }
        for key in missing {
            let message = format!("{} lacks the key `{key}`", self.field.title());
            self.field.error(message, format!("add `{key}: …`"));
        }
    }
}

impl Fields<'_> {
    fn unknown(&self, entry: &Entry, near: Option<&str>, there: &HashSet<&str>) {
        let taken = |key: &str| there.contains(key);
        let help = match near {
            Some(key) if taken(key) => format!("remove it; `{key}` is already there"),
            Some(key) => format!("did you mean `{key}`?"),
            None => {
                let free = self.asked.iter().filter(|key| !taken(key));
                let free: Vec<_> = free.map(|key| format!("`{key}`")).collect();
                match free.as_slice() {
                    [] => "remove it".to_owned(),
                    _ => format!("remove it; keys still free here: {}", free.join(", ")),
                }
            }
        };
        let place = match self.field.path() {
            "" => String::new(),
            path => format!(" in `{path}`"),
        };
        let problem = Problem::new(format!("unknown key `{}`{place}", entry.key))
            .help(help)
            .at(entry.key_spot.clone());
        self.field.report(problem);
    }
}
