//! Rules for resources in arguments.

use super::{ALWAYS_BOUND, Names, id, selector};
use crate::policy::OwnershipRule;
use crate::source::Field;

pub(super) fn ownership(field: &Field<'_>, names: &Names<'_>) -> Option<OwnershipRule> {
    let mut fields = field.map()?;
    let resource = fields.required("resource").and_then(|f| selector(&f));
    let bind = fields.required("as").and_then(|f| parameter(&f));
    let owner = fields.required("owner").and_then(|f| names.lookup(&f));
    Some(OwnershipRule {
        id: id(field),
        resource: resource?,
        bind: bind?,
        owner: owner?,
    })
}

fn parameter(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let start = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let help = match text.strip_prefix(':') {
        Some(name) => format!("write it without colon: `{name}`"),
        None => "use letters, digits and `_`, such as `order_id`".to_owned(),
    };
    if !start || !rest {
        field.error(format!("`{text}` cannot name an SQL parameter"), help);
        return None;
    }
    if ALWAYS_BOUND.contains(&text) {
        field.error(
            format!("`:{text}` is always bound by Holdpoint itself"),
            "choose another name, such as `resource_id`, here and in the look-up's SQL",
        );
        return None;
    }
    Some(text.to_owned())
}
