//! Questions to databases and backends.

use std::collections::{BTreeMap, HashMap};

use super::tools::parameter;
use crate::names::LookupName;
use crate::policy::{HttpLookup, Lookup};
use crate::settings::template;
use crate::source::Field;

pub(super) fn lookups(field: &Field<'_>) -> HashMap<LookupName, Option<Lookup>> {
    let entries = field.entries().unwrap_or_default();
    let named = entries.iter().map(|(key, value)| {
        key.name();
        (LookupName::from(key.text()), lookup(value))
    });
    named.collect()
}

fn lookup(field: &Field<'_>) -> Option<Lookup> {
    let mut fields = field.map()?;
    if let Some(asked) = fields.optional("http") {
        return http(&asked).map(Lookup::Http);
    }
    let store = fields.required("store").and_then(|f| f.name());
    let sql = fields.required("sql").and_then(|f| f.text());
    Some(Lookup::sql(store?, sql?.trim()))
}

fn http(field: &Field<'_>) -> Option<HttpLookup> {
    let mut fields = field.map()?;
    let upstream = fields.required("upstream").and_then(|f| f.name());
    let path = fields.required("path").and_then(|f| path(&f));
    let query = fields.optional_or("query", BTreeMap::new(), query);
    let owner = fields.optional_or("owner", None, |f| pointer(f).map(Some));
    let tenant = fields.optional_or("tenant", None, |f| pointer(f).map(Some));
    let rows = fields.optional_or("rows", None, |f| {
        if f.node().as_text() == Some("") {
            return Some(Some(String::new()));
        }
        pointer(f).map(Some)
    });
    let columns = fields.optional_or("columns", BTreeMap::new(), columns);
    let echo = fields.optional("echo");
    let (path, query) = (path?, query?);
    let lookup = HttpLookup {
        upstream: upstream?.into(),
        path,
        query,
        owner: owner?,
        tenant: tenant?,
        echo: BTreeMap::new(),
        rows: rows?,
        columns: columns?,
    };
    let echo = match &echo {
        Some(field) => echo_of(field, &lookup.parameters())?,
        None => BTreeMap::new(),
    };
    Some(HttpLookup { echo, ..lookup })
}

/// Fields of the query with the parameters that fill them.
fn query(field: &Field<'_>) -> Option<BTreeMap<String, String>> {
    let mut query = BTreeMap::new();
    let mut whole = true;
    for (key, value) in field.entries()? {
        match value.text() {
            Some(text) if is_parameter(text) => {
                query.insert(key.text().to_owned(), text.to_owned());
            }
            Some(text) => {
                value.error(
                    format!("`{text}` cannot name a parameter"),
                    "name the parameter that fills this field, such as `ticket` or `order_id`",
                );
                whole = false;
            }
            None => whole = false,
        }
    }
    whole.then_some(query)
}

fn columns(field: &Field<'_>) -> Option<BTreeMap<String, String>> {
    let mut columns = BTreeMap::new();
    let mut whole = true;
    for (key, value) in field.entries()? {
        key.name();
        match pointer(&value) {
            Some(pointer) => drop(columns.insert(key.text().to_owned(), pointer)),
            None => whole = false,
        }
    }
    whole.then_some(columns)
}

fn is_parameter(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn path(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let plain = |c: char| c.is_ascii_graphic() && !"?#%\\\"<>^`|".contains(c);
    let mut names: Vec<_> = template::parameters(text).collect();
    let whole = names.iter().all(|name| is_parameter(name));
    names.sort_unstable();
    let once = names.windows(2).all(|pair| pair.first() != pair.last());
    let steps = text
        .split('/')
        .skip(1)
        .all(|step| !matches!(step, "." | ".."));
    if text.starts_with('/')
        && !text.contains("//")
        && text.chars().all(plain)
        && template::is_plain(text)
        && whole
        && once
        && steps
    {
        return Some(text.to_owned());
    }
    field.error(
        format!("`{text}` is not a path whose parameters are whole segments"),
        "write it plainly, such as `/orders/{order_id}`, without query and escapes",
    );
    None
}

fn pointer(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    if text.starts_with('/') {
        return Some(text.to_owned());
    }
    field.error(
        format!("`{text}` is not a JSON Pointer"),
        "it starts with `/`, such as `/customer/id`",
    );
    None
}

fn echo_of(field: &Field<'_>, parameters: &[String]) -> Option<BTreeMap<String, String>> {
    let mut echo = BTreeMap::new();
    let mut whole = true;
    for (key, value) in field.entries()? {
        let name = parameter(&key, key.text());
        if parameters.iter().all(|parameter| parameter != key.text()) {
            key.error(
                format!("`echo.{}` answers no parameter of the look-up", key.text()),
                "name a parameter of the path, such as `order_id` for `/orders/{order_id}`",
            );
            whole = false;
        }
        match (name, pointer(&value)) {
            (Some(name), Some(pointer)) => drop(echo.insert(name, pointer)),
            _ => whole = false,
        }
    }
    whole.then_some(echo)
}
