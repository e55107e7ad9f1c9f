//! `ownership` of a tool.

use serde_json::{Value, json};

use super::{described, name, object, selector};

pub(super) fn rule() -> Value {
    object(
        &["resource", "as", "owner"],
        &json!({
            "resource": selector(),
            "as": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "description": "SQL parameter that gets the id"},
            "owner": described(name(), "Look-up that returns the owner's subject")
        }),
    )
}
