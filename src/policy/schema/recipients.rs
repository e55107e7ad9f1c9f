//! `recipients` of a tool.

use serde_json::{Map, Value, json};

use super::allowed::allow;
use super::{at, described, object, otherwise};
use crate::policy::{Permit, RecipientKind};

pub(super) fn rule() -> Value {
    let kinds = RecipientKind::ALL.map(RecipientKind::as_str);
    let mut properties = Map::new();
    for (key, schema) in [
        ("at", at()),
        ("kind", json!({"enum": kinds})),
        ("allow", allow("Lists")),
        ("otherwise", otherwise(super::USUAL)),
        (
            "plus",
            json!({"enum": ["distinct", "fold"], "description": "fold: ann+x@ is ann@"}),
        ),
        (
            "region",
            json!({"type": "string", "pattern": "^[A-Z]{2}$", "description": "Country of national phone numbers"}),
        ),
        (
            "headers",
            described(at(), "More texts that become header lines of a mail"),
        ),
        (
            "none",
            json!({"enum": ["deny", "allow"], "description": "A call that names nobody: deny (default)"}),
        ),
    ] {
        properties.insert(key.to_owned(), schema);
    }
    for (_, key, kind) in Permit::SWITCHES {
        let schema =
            json!({"type": "boolean", "description": format!("For kind {}", kind.as_str())});
        properties.insert(key.to_owned(), schema);
    }
    object(&["kind", "allow"], &properties.into())
}

pub(super) fn undeclared() -> Value {
    json!({
        "enum": ["warn", "deny"],
        "description": "Texts that look like recipients and that no rule is for"
    })
}
