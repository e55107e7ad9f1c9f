//! File, environment and flags as one tree. `config` decides which of them wins; every value keeps the place it came from.

use std::ops::Range;
use std::sync::Arc;

use config::{Config, ConfigError, Map, Source, Value, ValueKind};

use super::secrets::is_exposed;
use super::{Environment, Overrides};
use crate::source::{Entry, Kind, Node, Problem, Problems, SourceFile, Spot, Tree};

/// Variables that start so, in any case, are settings.
const PREFIX: &str = "HOLDPOINT";
const SEPARATOR: &str = "__";

/// Where `config` has a value from.
const FILE: &str = "file";
const FLAGS: &str = "command line";

/// The tree in which the strongest of the three holds at each place.
pub(super) fn merge(
    file: &Tree,
    overrides: &Overrides,
    environment: &Environment,
) -> Result<Tree, Problems> {
    existing_elements(file, overrides, environment)?;
    let variables = config::Environment::with_prefix(PREFIX)
        .prefix_separator(SEPARATOR)
        .separator(SEPARATOR)
        .source(Some(environment.clone().into_iter().collect()));
    let merged = Config::builder()
        .add_source(Layer(value(&file.root)))
        .add_source(variables)
        .add_source(Flags(overrides.clone()))
        .build()
        .map_err(|error| Problem::new(format!("the settings cannot be merged: {error}")))?;
    let origins = Origins {
        overrides,
        environment,
    };
    let path = Vec::new();
    Ok(Tree {
        file: Arc::clone(&file.file),
        root: origins.node(Some(&file.root), &merged.cache, &path),
    })
}

/// Only elements that the file has can be set: `config` would make room for any number of them.
fn existing_elements(
    file: &Tree,
    overrides: &Overrides,
    environment: &Environment,
) -> Result<(), Problems> {
    let flags = overrides.0.iter().map(|(key, _)| (key.clone(), key, FLAGS));
    let prefix = format!("{PREFIX}{SEPARATOR}").to_lowercase();
    let variables = environment.keys().filter_map(|name| {
        let lower = name.to_lowercase();
        let key = lower.strip_prefix(&prefix)?.replace(SEPARATOR, ".");
        Some((key, name, "environment"))
    });
    let mut problems = Problems::default();
    for (key, name, place) in flags.chain(variables) {
        let mut ends = key.match_indices(']').map(|(at, _)| key.get(..=at));
        if key.contains('[') && !ends.all(|path| path.is_some_and(|p| file.at(p).is_some())) {
            let problem = Problem::new("only elements that the file has can be set")
                .help("count from 0, such as `routes[0].prefix`, or edit the file")
                .at(spots(place, name, "").0);
            problems.0.push(problem);
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// The file as the weakest source: keys are taken as they are, not as paths.
#[derive(Clone, Debug)]
struct Layer(Value);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        self.0.clone().into_table()
    }

    fn collect_to(&self, cache: &mut Value) -> Result<(), ConfigError> {
        *cache = self.0.clone();
        Ok(())
    }
}

/// The command line as the strongest source.
#[derive(Clone, Debug)]
struct Flags(Overrides);

impl Source for Flags {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        let origin = FLAGS.to_owned();
        let pairs = self.0.0.iter().map(|(key, text)| {
            let value = Value::new(Some(&origin), ValueKind::String(text.clone()));
            (key.clone(), value)
        });
        Ok(pairs.collect())
    }
}

fn value(node: &Node) -> Value {
    let kind = match &node.kind {
        Kind::Null => ValueKind::Nil,
        Kind::Bool(value) => ValueKind::Boolean(*value),
        // Only the place of a number is needed here: the node keeps its value.
        Kind::Number(number) => ValueKind::String(number.to_string()),
        Kind::Text(text) | Kind::Loose(text) => ValueKind::String(text.clone()),
        Kind::List(items) => ValueKind::Array(items.iter().map(value).collect()),
        Kind::Map(entries) => ValueKind::Table(
            entries
                .iter()
                .map(|entry| (entry.key.clone(), value(&entry.value)))
                .collect(),
        ),
    };
    Value::new(Some(&FILE.to_owned()), kind)
}

/// Finds the place of a value that is not the file's.
struct Origins<'s> {
    overrides: &'s Overrides,
    environment: &'s Environment,
}

impl Origins<'_> {
    fn node(&self, file: Option<&Node>, merged: &Value, path: &[String]) -> Node {
        match &merged.kind {
            ValueKind::Table(table) => self.map(file, table, path),
            ValueKind::Array(items) => self.list(file, items, path),
            kind => match (merged.origin(), file) {
                (Some(FILE), Some(node)) => node.clone(),
                _ => Node {
                    spot: self.spots(path, merged.origin() == Some(FLAGS)).1,
                    kind: match kind {
                        ValueKind::String(text) => Kind::Loose(text.clone()),
                        _ => Kind::Null,
                    },
                },
            },
        }
    }

    fn map(&self, file: Option<&Node>, table: &Map<String, Value>, path: &[String]) -> Node {
        let known = match file.map(|node| &node.kind) {
            Some(Kind::Map(entries)) => entries.as_slice(),
            _ => &[],
        };
        let below = |key: &str| {
            let mut path = path.to_vec();
            path.push(key.to_owned());
            path
        };
        let mut entries = Vec::new();
        for entry in known {
            if let Some(merged) = table.get(&entry.key) {
                entries.push(Entry {
                    value: self.node(Some(&entry.value), merged, &below(&entry.key)),
                    ..entry.clone()
                });
            }
        }
        let mut added: Vec<_> = table
            .iter()
            .filter(|(key, _)| !known.iter().any(|entry| entry.key == **key))
            .collect();
        added.sort_unstable_by_key(|(key, _)| *key);
        for (key, merged) in added {
            let path = below(key);
            entries.push(Entry {
                key: key.clone(),
                key_spot: self.spots(&path, from_flags(merged)).0,
                value: self.node(None, merged, &path),
            });
        }
        let map = file.filter(|node| matches!(node.kind, Kind::Map(_)));
        let spot = match (map, entries.first()) {
            (Some(node), _) => node.spot.clone(),
            (None, Some(first)) => first.key_spot.clone(),
            (None, None) => self.spots(path, false).0,
        };
        Node {
            spot,
            kind: Kind::Map(entries),
        }
    }

    fn list(&self, file: Option<&Node>, items: &[Value], path: &[String]) -> Node {
        let known = match file.map(|node| &node.kind) {
            Some(Kind::List(items)) => items.as_slice(),
            _ => &[],
        };
        let nodes: Vec<_> = items
            .iter()
            .enumerate()
            .map(|(index, merged)| {
                let mut path = path.to_vec();
                path.push(format!("[{index}]"));
                self.node(known.get(index), merged, &path)
            })
            .collect();
        let spot = match (file, nodes.first()) {
            (Some(node), _) => node.spot.clone(),
            (None, Some(first)) => first.spot.clone(),
            (None, None) => self.spots(path, true).0,
        };
        Node {
            spot,
            kind: Kind::List(nodes),
        }
    }

    /// Key and value of the variable or flag that set `path` or something below it. The key's place does not show the
    /// value: an unknown variable may hold a secret.
    fn spots(&self, path: &[String], flags: bool) -> (Spot, Spot) {
        if flags {
            let key = path.join(".").replace(".[", "[");
            let all = self.overrides.0.iter().rev();
            let found = all.clone().find(|(name, _)| *name == key);
            let found = found.or_else(|| all.clone().find(|(name, _)| name.starts_with(&key)));
            let (name, value) = found.map_or((key.as_str(), ""), |(n, v)| (n, v));
            return spots(FLAGS, &format!("--set {name}"), value);
        }
        let name = format!("{PREFIX}{SEPARATOR}{}", path.join(SEPARATOR)).to_lowercase();
        let mut all = self.environment.iter();
        let found = all.clone().find(|(key, _)| key.to_lowercase() == name);
        let found = found.or_else(|| all.find(|(key, _)| key.to_lowercase().starts_with(&name)));
        let (name, value) = found.map_or((name.as_str(), ""), |(n, v)| (n, v));
        let key = path.last().map_or("", String::as_str);
        if is_exposed(key, value) {
            return spots("environment", name, &"*".repeat(value.len()));
        }
        spots("environment", name, value)
    }
}

/// Whether a flag set the value or the first thing below it.
fn from_flags(value: &Value) -> bool {
    match &value.kind {
        ValueKind::Table(table) => table.values().any(from_flags),
        ValueKind::Array(items) => items.iter().any(from_flags),
        _ => value.origin() == Some(FLAGS),
    }
}

fn spots(path: &str, name: &str, value: &str) -> (Spot, Spot) {
    let file = |text: String| {
        Arc::new(SourceFile {
            path: path.to_owned(),
            text,
        })
    };
    let key: Range<usize> = 0..name.len();
    let whole = format!("{name}={value}");
    let bytes = name.len() + 1..whole.len();
    ((file(name.to_owned()), key), (file(whole), bytes))
}
