//! What may vouch for a value: `allow` of rules.

use super::{Names, all, id, otherwise, selectors};
use crate::policy::compile::matcher::matcher;
use crate::policy::{Allowed, ArgumentRule, Fallback, List, Origin};
use crate::provenance::{Clean, FieldPath, OutputRule};
use crate::source::{Field, Fields};

/// One entry: the name of a list, `{lookup: NAME}`, or `{from: ORIGIN}`. `fault` says why a list cannot serve here.
pub(super) fn allowed(
    field: &Field<'_>,
    fault: impl FnOnce(&List) -> Option<(String, &'static str)>,
    names: &Names<'_>,
) -> Option<Allowed> {
    if field.is_map() {
        let mut fields = field.map()?;
        if field.peek("from").is_some() && field.peek("lookup").is_none() {
            let from = fields.required("from")?;
            let known = fields.optional_or("known", false, Field::bool);
            let origin = origin(&from, &mut fields)?;
            return Some(if known? {
                Allowed::Known(Some(origin))
            } else {
                Allowed::From(origin)
            });
        }
        return match fields.exactly_one(&["lookup", "from", "known"])? {
            ("lookup", lookup) => names.lookup(&lookup).map(Allowed::Lookup),
            (_, known) => alone(&known),
        };
    }
    names.list(field, fault).map(Allowed::List)
}

/// `{known: true}`.
fn alone(known: &Field<'_>) -> Option<Allowed> {
    if !known.bool()? {
        known.error(
            "`known: false` allows nothing",
            "remove the entry: a value that is met for the first time is what `otherwise` is for",
        );
        return None;
    }
    Some(Allowed::Known(None))
}

#[derive(Clone, Copy)]
enum Word {
    User,
    Operator,
    ToolOutput,
}

fn origin(from: &Field<'_>, fields: &mut Fields<'_>) -> Option<Origin> {
    match from.choice(&[
        ("user", Word::User),
        ("operator", Word::Operator),
        ("tool_output", Word::ToolOutput),
    ])? {
        Word::User => {
            let site = fields.optional_or("site", false, Field::bool)?;
            Some(if site { Origin::UserSite } else { Origin::User })
        }
        Word::Operator => Some(Origin::Operator),
        Word::ToolOutput => output(fields).map(Origin::ToolOutput),
    }
}

fn output(fields: &mut Fields<'_>) -> Option<OutputRule> {
    let tools = several(fields, "tools", matcher);
    let paths = several(fields, "fields", field_path);
    let asked = fields.optional_or("asked", false, Field::bool);
    let via = several(fields, "via", matcher);
    let sole = fields.optional_or("sole", false, Field::bool);
    let clean = fields.optional_or("clean", Clean::default(), |field| {
        field.choice(&[
            ("object", Clean::Object),
            ("output", Clean::Output),
            ("any", Clean::Any),
        ])
    });
    let beside = several(fields, "beside", |key| key.text().map(str::to_owned));
    let like_user = fields.optional_or("like_user", false, Field::bool);
    let site = fields.optional_or("site", false, |field| field.choice(&[("asked", true)]));
    let site_of = several(fields, "site_of", |key| key.text().map(str::to_owned));
    let free = fields.optional("free_text");
    let free_text = match &free {
        Some(field) => field.bool(),
        None => Some(false),
    };
    let (tools, paths, free_text) = (tools?, paths?, free_text?);
    if let Some(field) = free.filter(|_| free_text && !paths.is_empty()) {
        field.error(
            "`free_text: true` has no meaning beside `fields`: a field's value is whole",
            "remove one of the two",
        );
        return None;
    }
    Some(OutputRule {
        tools,
        fields: paths,
        asked: asked?,
        via: via?,
        free_text,
        sole: sole?,
        clean: clean?,
        beside: beside?,
        like_user: like_user?,
        site: site?,
        site_of: site_of?,
    })
}

/// One or more; empty where the key is missing.
fn several<T>(
    fields: &mut Fields<'_>,
    key: &'static str,
    read: impl FnMut(&Field<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let Some(field) = fields.optional(key) else {
        return Some(Vec::new());
    };
    let read: Vec<_> = field.one_or_more()?.iter().map(read).collect();
    if read.is_empty() {
        field.error(
            format!("`{}` is empty, so nothing would be trusted", field.path()),
            "name at least one, or remove the key for any",
        );
        return None;
    }
    read.into_iter().collect()
}

pub(super) fn field_path(field: &Field<'_>) -> Option<FieldPath> {
    match FieldPath::parse(field.text()?) {
        Ok(path) => Some(path),
        Err(fault) => {
            let help = "write a key such as `email`, or a path such as `/contacts/*/email`";
            field.error(fault, help);
            None
        }
    }
}

/// A rule for other arguments.
pub(super) fn arguments(field: &Field<'_>, names: &Names<'_>) -> Option<ArgumentRule> {
    let mut fields = field.map()?;
    let at = selectors(&mut fields);
    let no_list = |_: &List| {
        Some((
            "cannot serve here: lists hold hosts and recipients".to_owned(),
            "write `{from: ...}` or `{lookup: NAME}`",
        ))
    };
    let allow = fields
        .required("allow")
        .and_then(|field| all(&field, |entry| allowed(entry, no_list, names)));
    let otherwise = otherwise(&mut fields, Fallback::default());
    Some(ArgumentRule {
        id: id(field),
        at: at?,
        allow: allow?,
        otherwise: otherwise?,
    })
}
