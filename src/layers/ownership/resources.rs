//! Which resources a call names, each with the parameters that ask for its owner.

use serde_json::Value;

use super::Objection;
use crate::layers::support::Binds;
use crate::policy::{Branch, OwnershipRule, Selector, StateRule, leading};
use crate::store::sql::SqlValue;
use crate::wire::json::MAX_SAFE_INTEGER;

/// Most questions that one call may ask by one rule.
const MOST: usize = 1_000;

/// One question.
pub(in crate::layers) struct Resource {
    /// Where its id stands in the arguments.
    pub(in crate::layers) at: String,
    pub(in crate::layers) binds: Binds,
}

/// How a rule names resources.
pub(in crate::layers) struct Naming<'r> {
    resource: &'r Selector,
    bind: &'r str,
    with: &'r [(String, Selector)],
    optional: bool,
}

impl<'r> From<&'r OwnershipRule> for Naming<'r> {
    fn from(rule: &'r OwnershipRule) -> Self {
        Self {
            resource: &rule.resource,
            bind: &rule.bind,
            with: &rule.with,
            optional: rule.optional,
        }
    }
}

impl<'r> From<&'r StateRule> for Naming<'r> {
    fn from(rule: &'r StateRule) -> Self {
        Self {
            resource: &rule.resource,
            bind: &rule.bind,
            with: &rule.with,
            optional: rule.optional,
        }
    }
}

const NONE: &str = "the call names no resource";
const SHAPE: &str = "the arguments have another shape than the rule's selector";
const ID: &str = "the id is neither a plain string nor an exact integer";

/// Every resource that the arguments name, once.
pub(in crate::layers) fn resources(
    rule: &Naming<'_>,
    arguments: &Value,
) -> Result<Vec<Resource>, Objection> {
    let mut named: Vec<Resource> = Vec::new();
    for branch in rule.resource.branches(arguments) {
        let (at, value) = match branch {
            Branch::Missing(_) | Branch::Value(_, Value::Null) if rule.optional => continue,
            Branch::Missing(at) => return Err(missing(rule.resource, at)),
            Branch::Misfit(at) => return Err(Objection { at, detail: SHAPE }),
            Branch::Value(at, value) => (at, value),
        };
        let Some(id) = resource_id(value) else {
            return Err(Objection { at, detail: ID });
        };
        let mut questions = vec![vec![(rule.bind.to_owned(), id)]];
        for (name, selector) in rule.with {
            let values = belonging(rule, selector, &at, arguments)?;
            questions = crossed(&questions, name, &values);
            if questions.len() > MOST {
                return Err(too_many(at));
            }
        }
        for binds in questions {
            if named.iter().any(|known| known.binds == binds) {
                continue;
            }
            if named.len() == MOST {
                return Err(too_many(at));
            }
            named.push(Resource {
                at: at.clone(),
                binds,
            });
        }
    }
    Ok(named)
}

const fn too_many(at: String) -> Objection {
    Objection {
        at,
        detail: "the call names more than 1000 resources",
    }
}

/// The selector says more than the place where its way ends.
fn missing(selector: &Selector, at: String) -> Objection {
    let at = if at.is_empty() {
        selector.to_string()
    } else {
        at
    };
    Objection { at, detail: NONE }
}

/// Values of another argument that stand with the resource: below the same element, where both selectors lead through it.
fn belonging(
    rule: &Naming<'_>,
    selector: &Selector,
    resource: &str,
    arguments: &Value,
) -> Result<Vec<SqlValue>, Objection> {
    let shared = rule.resource.shared_steps(selector);
    let home = leading(resource, shared);
    let mut values = Vec::new();
    for branch in selector.branches(arguments) {
        let (Branch::Value(at, _) | Branch::Missing(at) | Branch::Misfit(at)) = &branch;
        if leading(at, shared) != home {
            continue;
        }
        match branch {
            Branch::Value(at, value) => match resource_id(value) {
                Some(id) => values.push(id),
                None => return Err(Objection { at, detail: ID }),
            },
            Branch::Missing(at) => return Err(missing(selector, at)),
            Branch::Misfit(at) => return Err(Objection { at, detail: SHAPE }),
        }
    }
    if values.is_empty() {
        return Err(missing(selector, String::new()));
    }
    Ok(values)
}

/// Each question with each value: a call that says a thing twice is judged by both.
fn crossed(questions: &[Binds], name: &str, values: &[SqlValue]) -> Vec<Binds> {
    let crossed = questions.iter().flat_map(|binds| {
        values.iter().map(|value| {
            let mut binds = binds.clone();
            binds.push((name.to_owned(), value.clone()));
            binds
        })
    });
    crossed.take(MOST + 1).collect()
}

/// An integer that every JSON reader takes for the same number, or a string that stands for itself: the database and the
/// backend may each trim blanks and cut at control characters in their own way, and then speak of two resources.
pub(in crate::layers) fn resource_id(value: &Value) -> Option<SqlValue> {
    match value {
        Value::String(text) if text.trim() != text || text.contains(char::is_control) => None,
        Value::String(text) => Some(SqlValue::Text(text.clone())),
        Value::Number(number) => number
            .as_i64()
            .filter(|id| id.unsigned_abs() <= MAX_SAFE_INTEGER)
            .map(SqlValue::Integer),
        _ => None,
    }
}
