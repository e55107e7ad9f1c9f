//! What calls do to the world.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{of_dialect, optional, sql};
use crate::eval::sql::{COMMON, Dialect};
use crate::eval::world::{Example, Tool};
use crate::source::{Field, Problems, Reader, parse};

/// Parameters of a tool's statements besides [`COMMON`] and the tool's own arguments.
pub(in crate::eval::suite) const CALL_PARAMETERS: &[&str] = &["call", "args"];

pub(super) fn tools(field: &Field<'_>, dialect: Dialect) -> Option<BTreeMap<String, Tool>> {
    let mut tools = BTreeMap::new();
    let mut whole = true;
    for field in field.filled_list()? {
        let Some((name, tool)) = tool(&field, dialect) else {
            whole = false;
            continue;
        };
        if tools.insert(name.to_owned(), tool).is_some() {
            field.error(format!("the tool `{name}` is here twice"), "remove one");
            whole = false;
        }
    }
    whole.then_some(tools)
}

fn tool<'r>(field: &Field<'r>, dialect: Dialect) -> Option<(&'r str, Tool)> {
    let mut fields = field.map()?;
    let name = fields.required("tool").and_then(|f| f.text());
    let description = match fields.optional("description") {
        Some(field) => field.text().map(|text| Some(text.to_owned())),
        None => Some(None),
    };
    let args = optional(&mut fields, "args", arguments);
    let error_when = match fields.optional("error_when") {
        Some(field) => sql(&field, dialect).map(Some),
        None => Some(None),
    };
    let effect = optional(&mut fields, "effect", |f| {
        let entries = of_dialect(f, dialect)?.one_or_more()?;
        let read: Vec<_> = entries.iter().map(|f| sql(f, dialect)).collect();
        read.into_iter().collect::<Option<Vec<_>>>()
    });
    let output = fields.required("output").and_then(|f| {
        let f = of_dialect(&f, dialect)?;
        match f.text()? {
            "recorded" => Some(None),
            _ => sql(&f, dialect).map(Some),
        }
    });
    let example = fields.optional_or("example", None, |f| example(f).map(Some));
    fields.finish();
    let tool = Tool {
        description: description?,
        args: args?,
        error_when: error_when?,
        effect: effect?,
        output: output?,
        example: example?,
    };
    Some((name?, tool))
}

fn example(field: &Field<'_>) -> Option<Example> {
    let mut fields = field.map()?;
    let principal = fields.optional_or("principal", None, |f| {
        f.name().map(|name| Some(name.to_owned()))
    });
    let args = fields.optional_or("args", Map::new(), |f| {
        if let Value::Object(args) = f.json() {
            return Some(args);
        }
        f.error(
            "`args` is no map",
            "write the arguments by name: `{id: a-1}`",
        );
        None
    });
    let fails = fields.optional_or("fails", false, Field::bool);
    fields.finish();
    Some(Example {
        at: field.spot(),
        principal: principal?,
        args: args?,
        fails: fails?,
    })
}

fn arguments(field: &Field<'_>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for field in field.list()? {
        let name = field.name()?;
        if COMMON.contains(&name) || CALL_PARAMETERS.contains(&name) {
            field.error(
                format!("an argument named `{name}` would hide the parameter `:{name}`"),
                "leave it out: `:args` holds all arguments as JSON",
            );
            return None;
        }
        names.push(name.to_owned());
    }
    Some(names)
}

/// The tools of a document that has `tools:` and nothing else.
///
/// # Errors
/// Every place that is wrong.
pub(in crate::eval) fn tools_of(
    name: &str,
    text: String,
) -> Result<BTreeMap<String, Tool>, Problems> {
    let tree = parse(name, text)?;
    let reader = Reader::new();
    let read = only_tools(&reader.root(&tree));
    reader.finish(read)
}

fn only_tools(root: &Field<'_>) -> Option<BTreeMap<String, Tool>> {
    let mut fields = root.map()?;
    let read = fields
        .required("tools")
        .and_then(|f| tools(&f, Dialect::Sqlite));
    fields.finish();
    read
}
