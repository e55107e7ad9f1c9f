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
    let owner = fields.required("owner").and_then(|f| pointer(&f));
    let tenant = match fields.optional("tenant") {
        Some(field) => pointer(&field).map(Some),
        None => Some(None),
    };
    let echo = fields.optional("echo");
    let (path, echo) = match &echo {
        Some(field) => (path.as_deref()?, echo_of(field, path.as_deref()?)?),
        None => (path.as_deref()?, BTreeMap::new()),
    };
    Some(HttpLookup {
        upstream: upstream?.into(),
        path: path.to_owned(),
        owner: owner?,
        tenant: tenant?,
        echo,
    })
}

fn path(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let plain = |c: char| c.is_ascii_graphic() && !"?#%\\\"<>^`|".contains(c);
    let mut names: Vec<_> = template::parameters(text).collect();
    let whole = names.iter().all(|name| {
        let mut chars = name.chars();
        chars
            .next()
            .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
    });
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

fn echo_of(field: &Field<'_>, path: &str) -> Option<BTreeMap<String, String>> {
    let mut echo = BTreeMap::new();
    let mut whole = true;
    for (key, value) in field.entries()? {
        let name = parameter(&key, key.text());
        if template::parameters(path).all(|parameter| parameter != key.text()) {
            key.error(
                format!("`echo.{}` answers no parameter of `path`", key.text()),
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
