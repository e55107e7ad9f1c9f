//! Rules for resources in arguments.

use super::{Names, id, selector};
use crate::policy::usage::ALWAYS_BOUND;
use crate::policy::{Owners, OwnershipRule, Selector};
use crate::source::{Field, Key};

pub(super) fn ownership(field: &Field<'_>, names: &Names<'_>) -> Option<OwnershipRule> {
    let mut fields = field.map()?;
    let resource = fields.required("resource").and_then(|f| selector(&f));
    let bind = fields.required("as").and_then(|f| parameter(&f, f.text()?));
    let with = match fields.optional("with") {
        Some(field) => with(&field, bind.as_deref()),
        None => Some(Vec::new()),
    };
    let optional = match fields.optional("optional") {
        Some(field) => field.bool(),
        None => Some(false),
    };
    let owners = match fields.optional("owners") {
        Some(field) => field.choice(&[("all", Owners::All), ("any", Owners::Any)]),
        None => Some(Owners::All),
    };
    let owner = fields.required("owner").and_then(|f| names.lookup(&f));
    Some(OwnershipRule {
        id: id(field),
        resource: resource?,
        bind: bind?,
        with: with?,
        optional: optional?,
        owners: owners?,
        owner: owner?,
    })
}

pub(super) fn with(field: &Field<'_>, bind: Option<&str>) -> Option<Vec<(String, Selector)>> {
    let mut read = Vec::new();
    let mut whole = true;
    for (key, value) in field.entries()? {
        let name = parameter(&key, key.text());
        if name.as_deref() == bind && bind.is_some() {
            key.error(
                format!("`:{}` is bound already", key.text()),
                "choose another name, here and in the look-up",
            );
            whole = false;
        }
        match (name, selector(&value)) {
            (Some(name), Some(selector)) => read.push((name, selector)),
            _ => whole = false,
        }
    }
    if whole && read.is_empty() {
        field.error(
            "`with` is empty",
            "bind a parameter, such as `order_id: /order_id`, or remove it",
        );
        return None;
    }
    whole.then_some(read)
}

/// A place in the file that can be wrong.
pub(in crate::policy::compile) trait Place {
    fn wrong(&self, message: String, help: String);
}

impl Place for Field<'_> {
    fn wrong(&self, message: String, help: String) {
        self.error(message, help);
    }
}

impl Place for Key<'_> {
    fn wrong(&self, message: String, help: String) {
        self.error(message, help);
    }
}

/// The name of a parameter that an argument fills.
pub(in crate::policy::compile) fn parameter(at: &impl Place, text: &str) -> Option<String> {
    let start = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let help = match text.strip_prefix(':') {
        Some(name) => format!("write it without colon: `{name}`"),
        None => "use letters, digits and `_`, such as `order_id`".to_owned(),
    };
    if !start || !rest {
        at.wrong(format!("`{text}` cannot name a parameter"), help);
        return None;
    }
    if ALWAYS_BOUND.contains(&text) {
        at.wrong(
            format!("`:{text}` is always bound by Holdpoint itself"),
            "choose another name, such as `resource_id`, here and in the look-up".to_owned(),
        );
        return None;
    }
    if text == "owner" {
        at.wrong(
            "`owner` is the column of the owner".to_owned(),
            "choose another name, such as `resource_id`, here and in the look-up".to_owned(),
        );
        return None;
    }
    Some(text.to_owned())
}
