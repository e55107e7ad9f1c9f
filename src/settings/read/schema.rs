//! What the arguments of an operation may be, by its schemas: for checks of a policy alone. What cannot be read is passed over.

use std::cell::Cell;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::source::Field;

/// In place of texts: an address, a URL, and any other.
const ADDRESS: &str = "someone@undeclared.example";
const URL: &str = "https://undeclared.example/";
const TEXT: &str = "x";

/// Formats of texts that name nobody and lead nowhere.
const NOBODY: [&str; 7] = [
    "date",
    "date-time",
    "time",
    "duration",
    "byte",
    "binary",
    "uuid",
];

/// Deepest schema, most references in a row, and most schemas of one operation.
const DEPTH: usize = 8;
const REFERENCES: usize = 16;
const MOST: usize = 2048;

/// The arguments of an operation, each once: parameters, and the members of its body.
pub(super) fn example(root: &Field<'_>, item: &Field<'_>, operation: &Field<'_>) -> Value {
    let schemas = Schemas {
        root,
        left: Cell::new(MOST),
    };
    let mut arguments = Map::new();
    let lists = [item, operation].map(|at| at.peek("parameters").and_then(|list| list.list()));
    for parameter in lists.into_iter().flatten().flatten() {
        schemas.parameter(&parameter, &mut arguments);
    }
    let body = operation.peek("requestBody");
    let content = body.and_then(|body| schemas.resolved(body)?.peek("content"));
    for (_, media) in content
        .and_then(|content| content.entries())
        .unwrap_or_default()
    {
        if let Some(schema) = media.peek("schema") {
            schemas.gather(schema, DEPTH, &mut arguments);
        }
    }
    Value::Object(arguments)
}

struct Schemas<'s, 'r> {
    root: &'s Field<'r>,
    left: Cell<usize>,
}

impl<'r> Schemas<'_, 'r> {
    fn parameter(&self, parameter: &Field<'r>, arguments: &mut Map<String, Value>) {
        let Some(parameter) = self.resolved(parameter.clone()) else {
            return;
        };
        let word = |key| {
            let field = parameter.peek(key)?;
            field.node().as_text()
        };
        // Cookies are one argument, whose parts nobody names.
        let (Some(name), Some("path" | "query" | "header")) = (word("name"), word("in")) else {
            return;
        };
        let schema = parameter.peek("schema");
        let value = schema.map_or_else(|| TEXT.into(), |schema| self.value(schema, DEPTH));
        arguments.insert(name.to_owned(), value);
    }

    fn value(&self, schema: Field<'r>, depth: usize) -> Value {
        let left = self.left.get();
        let Some(schema) = self.resolved(schema).filter(|_| left > 0 && depth > 0) else {
            return Value::Null;
        };
        self.left.set(left - 1);
        // Fixed values reach nobody whom the agent chooses.
        if schema.peek("enum").is_some() || schema.peek("const").is_some() {
            return Value::Null;
        }
        if let Some(items) = schema.peek("items") {
            return Value::Array(vec![self.value(items, depth - 1)]);
        }
        let mut members = Map::new();
        self.gather(schema.clone(), depth, &mut members);
        if !members.is_empty() {
            return Value::Object(members);
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            let parts = schema.peek(key).and_then(|parts| parts.list());
            let mut values = parts.unwrap_or_default().into_iter();
            let values = values.find_map(|part| {
                let value = self.value(part, depth - 1);
                (!value.is_null()).then_some(value)
            });
            if let Some(value) = values {
                return value;
            }
        }
        let word = |key| {
            let field = schema.peek(key)?;
            field.node().as_text()
        };
        let kinds = ["integer", "number", "boolean", "null", "object", "array"];
        match (word("type"), word("format")) {
            (Some(kind), _) if kinds.contains(&kind) => Value::Null,
            (_, Some(format)) if NOBODY.contains(&format) => Value::Null,
            (_, Some("email" | "idn-email")) => ADDRESS.into(),
            (_, Some("uri" | "url" | "iri")) => URL.into(),
            _ => TEXT.into(),
        }
    }

    /// The members of an object, also of what it is made of.
    fn gather(&self, schema: Field<'r>, depth: usize, members: &mut Map<String, Value>) {
        let Some(schema) = self.resolved(schema).filter(|_| depth > 0) else {
            return;
        };
        let properties = schema.peek("properties").filter(Field::is_map);
        let properties = properties.and_then(|properties| properties.entries());
        for (key, property) in properties.unwrap_or_default() {
            let value = self.value(property, depth - 1);
            members.entry(key.text()).or_insert(value);
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            let parts = schema.peek(key).and_then(|parts| parts.list());
            for part in parts.unwrap_or_default() {
                self.gather(part, depth - 1, members);
            }
        }
    }

    /// What a reference within the document leads to.
    fn resolved(&self, mut field: Field<'r>) -> Option<Field<'r>> {
        for _ in 0..REFERENCES {
            let Some(reference) = field.is_map().then(|| field.peek("$ref")).flatten() else {
                return field.is_map().then_some(field);
            };
            let pointer = reference.node().as_text()?.strip_prefix("#/")?;
            field = pointer.split('/').try_fold(self.root.clone(), |at, step| {
                let step = percent_decode_str(step).decode_utf8().ok()?;
                let step = step.replace("~1", "/").replace("~0", "~");
                at.is_map().then(|| at.peek(&step)).flatten()
            })?;
        }
        None
    }
}
