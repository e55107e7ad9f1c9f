//! The file, and which matcher judges which kind.

use std::collections::HashMap;

use holdpoint::policy::Selector;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{destinations, people};

/// Allowed, or the fine code of the refusal.
pub type Said = Result<(), &'static str>;

/// Said, or why the vector cannot be understood.
pub type Decided = Result<Said, String>;

#[derive(Deserialize)]
pub struct File {
    policies: HashMap<String, Value>,
    pub vectors: Vec<Vector>,
}

#[derive(Deserialize)]
pub struct Vector {
    pub id: String,
    pub kind: String,
    policy: String,
    /// As it stands: an id beyond 2^53 keeps its digits.
    input: Box<RawValue>,
}

impl File {
    pub fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("not a file of vectors: {error}"))
    }

    pub fn decide(&self, vector: &Vector) -> Decided {
        let policy = self
            .policies
            .get(&vector.policy)
            .ok_or_else(|| format!("there is no policy `{}`", vector.policy))?;
        let raw = vector.input.get();
        let value = || -> Result<Value, String> {
            serde_json::from_str(raw).map_err(|error| format!("input: {error}"))
        };
        match vector.kind.as_str() {
            "url" => destinations::url(policy, &value()?),
            "args" => destinations::args(policy, &value()?),
            "connect" => destinations::connect(policy, &value()?),
            "http_forward" => destinations::http_forward(policy, &value()?),
            "resolve" => destinations::resolve(policy, &value()?),
            "redirect" => destinations::redirect(policy, &value()?),
            "text" => destinations::rendered(policy, &value()?),
            kind => people::decide(kind, policy, raw),
        }
    }
}

/// The texts of a list, or none where the key is missing.
pub fn texts(of: &Value, key: &str) -> Result<Vec<String>, String> {
    match of.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(value) => each_text(value).ok_or_else(|| format!("`{key}` is not a list of texts")),
    }
}

/// A number counts by its digits: ids are often written so.
fn each_text(value: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    value.as_array()?.iter().map(text).collect()
}

/// A text that must be there.
pub fn text<'v>(of: &'v Value, key: &str) -> Result<&'v str, String> {
    of.get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("`{key}` is not a text"))
}

/// A switch, or what holds where the key is missing.
pub fn switch(of: &Value, key: &str, missing: bool) -> Result<bool, String> {
    match of.get(key) {
        None => Ok(missing),
        Some(value) => value
            .as_bool()
            .ok_or_else(|| format!("`{key}` is not true or false")),
    }
}

/// `$.links[*].url`, or `links[*].url`, as a selector.
pub fn selector(path: &str) -> Result<Selector, String> {
    let inner = path.strip_prefix('$').unwrap_or(path);
    let dotted = inner
        .replace("..", ".**.")
        .replace('[', ".")
        .replace(']', "");
    let steps: Vec<_> = dotted.split('.').filter(|step| !step.is_empty()).collect();
    let mut pointer = String::new();
    for step in steps {
        pointer.push('/');
        let key = step.trim_matches(['\'', '"']);
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
    }
    Selector::parse(&pointer).map_err(|error| format!("`{path}`: {error}"))
}

/// Selectors of a list of paths.
pub fn selectors(of: &Value, key: &str) -> Result<Vec<Selector>, String> {
    texts(of, key)?.iter().map(|path| selector(path)).collect()
}
