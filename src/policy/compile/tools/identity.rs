//! What a tool asks of the caller's identity: `scopes`, `agents`, `session`.

use std::sync::Arc;

use crate::source::{Field, Fields};

/// Texts without blanks, each once.
pub(super) fn words(
    fields: &mut Fields<'_>,
    key: &'static str,
    example: &str,
) -> Option<Vec<Arc<str>>> {
    let Some(field) = fields.optional(key) else {
        return Some(Vec::new());
    };
    let mut words: Vec<Arc<str>> = Vec::new();
    for entry in field.filled_list()? {
        let text = entry.text()?;
        let fault = if text.is_empty() || text.contains(char::is_whitespace) {
            "is empty or has blanks"
        } else if words.iter().any(|word| **word == *text) {
            "is listed twice"
        } else {
            words.push(text.into());
            continue;
        };
        entry.error(
            format!("`{text}` {fault}"),
            format!("list each once, such as `{example}`"),
        );
        return None;
    }
    Some(words)
}

/// `session: own`.
pub(super) fn own_session(fields: &mut Fields<'_>) -> Option<bool> {
    match fields.optional("session") {
        None => Some(false),
        Some(field) => own(&field),
    }
}

fn own(field: &Field<'_>) -> Option<bool> {
    field.choice(&[("own", true)])
}
