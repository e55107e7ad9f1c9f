//! `allow` of rules.

use serde_json::{Value, json};

use super::{name, object};

pub(super) fn allow(lists: &str) -> Value {
    json!({
        "type": "array",
        "items": {"anyOf": [name(), object(&["lookup"], &json!({"lookup": name()}))]},
        "description": format!("{lists}, or {{lookup: NAME}}")
    })
}
