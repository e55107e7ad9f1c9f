//! Argument selectors: JSON Pointer with two wildcard steps, `*` (each child) and `**` (this value and everything below).

use std::fmt;

use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Each,
    Deep,
}

/// Names values inside a call's arguments, such as `/to`, `/attendees/*/email` or `/**`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    steps: Vec<Step>,
}

impl Selector {
    /// Reads a selector.
    ///
    /// # Errors
    /// One line that says what is wrong, for the policy's author.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self { steps: Vec::new() });
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("a selector starts with '/', such as \"/{text}\""));
        };
        let steps = rest.split('/').map(step).collect::<Result<_, _>>()?;
        Ok(Self { steps })
    }

    /// Selects every value below the root: `/**`.
    pub fn everything() -> Self {
        Self {
            steps: vec![Step::Deep],
        }
    }

    /// The selected values with their JSON Pointers, in document order; each value once.
    pub fn select<'v>(&self, root: &'v Value) -> Vec<(String, &'v Value)> {
        let mut found = Vec::new();
        walk(&self.steps, root, &mut String::new(), &mut found);
        found
    }

    /// Every value at or below the selected ones, with its JSON Pointer.
    pub fn below<'v>(&self, root: &'v Value) -> Vec<(String, &'v Value)> {
        let mut below = self.clone();
        below.steps.push(Step::Deep);
        let mut found = below.select(root);
        found.dedup_by(|a, b| a.0 == b.0);
        found
    }

    /// Every string at or below the selected values, with its JSON Pointer.
    pub fn strings<'v>(&self, root: &'v Value) -> Vec<(String, &'v str)> {
        self.below(root)
            .into_iter()
            .filter_map(|(at, value)| value.as_str().map(|text| (at, text)))
            .collect()
    }
}

fn step(text: &str) -> Result<Step, String> {
    match text {
        "*" => Ok(Step::Each),
        "**" => Ok(Step::Deep),
        _ if text.contains('*') => Err(format!(
            "'*' stands alone in a step of a selector, not inside \"{text}\""
        )),
        _ => Ok(Step::Key(text.replace("~1", "/").replace("~0", "~"))),
    }
}

fn walk<'v>(
    steps: &[Step],
    value: &'v Value,
    at: &mut String,
    found: &mut Vec<(String, &'v Value)>,
) {
    let Some((first, rest)) = steps.split_first() else {
        found.push((at.clone(), value));
        return;
    };
    match first {
        Step::Key(key) => {
            let child = match value {
                Value::Object(map) => map.get(key),
                Value::Array(items) => key.parse::<usize>().ok().and_then(|i| items.get(i)),
                _ => None,
            };
            if let Some(child) = child {
                descend(key, child, rest, at, found);
            }
        }
        Step::Each => children(value, |key, child| descend(key, child, rest, at, found)),
        Step::Deep => {
            if !rest.is_empty() && matches!(rest.first(), Some(Step::Deep)) {
                return walk(rest, value, at, found);
            }
            walk(rest, value, at, found);
            children(value, |key, child| descend(key, child, steps, at, found));
        }
    }
}

fn children<'v>(value: &'v Value, mut visit: impl FnMut(&str, &'v Value)) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, child)| visit(key, child)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(i, child)| visit(&i.to_string(), child)),
        _ => {}
    }
}

fn descend<'v>(
    key: &str,
    child: &'v Value,
    rest: &[Step],
    at: &mut String,
    found: &mut Vec<(String, &'v Value)>,
) {
    let length = at.len();
    at.push('/');
    at.push_str(&key.replace('~', "~0").replace('/', "~1"));
    walk(rest, child, at, found);
    at.truncate(length);
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match step {
                Step::Key(key) => write!(f, "/{}", key.replace('~', "~0").replace('/', "~1"))?,
                Step::Each => f.write_str("/*")?,
                Step::Deep => f.write_str("/**")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointers(selector: &str, value: &Value) -> Vec<String> {
        let selector = Selector::parse(selector).unwrap();
        selector
            .select(value)
            .into_iter()
            .map(|(at, _)| at)
            .collect()
    }

    #[test]
    fn keys_wildcards_and_depth() {
        let value = json!({"to": ["a", "b"], "x": {"to": "c"}, "a/b": 1});
        assert_eq!(pointers("/to", &value), ["/to"]);
        assert_eq!(pointers("/to/*", &value), ["/to/0", "/to/1"]);
        assert_eq!(pointers("/**/to", &value), ["/to", "/x/to"]);
        assert_eq!(pointers("/a~1b", &value), ["/a~1b"]);
        assert_eq!(pointers("", &value), [""]);
        assert_eq!(pointers("/nothing", &value), [] as [&str; 0]);
    }

    #[test]
    fn strings_are_found_once_however_deep() {
        let value = json!({"a": {"b": ["x", {"c": "y"}]}, "n": 1});
        let all = Selector::everything();
        let found: Vec<_> = all.strings(&value).into_iter().map(|(_, s)| s).collect();
        assert_eq!(found, ["x", "y"]);
    }

    #[test]
    fn a_selector_without_slash_names_the_right_form() {
        assert!(Selector::parse("to").unwrap_err().contains("\"/to\""));
    }
}
