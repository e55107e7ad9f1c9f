//! `lookups`.

use serde_json::{Value, json};

use super::{described, name, object, parameter, text};

pub(super) fn lookup() -> Value {
    let sql = object(
        &["store", "sql"],
        &json!({
            "store": described(name(), "A store of the config"),
            "sql": described(text(), "One SELECT; :principal, :tenant and what rules bind")
        }),
    );
    let http = object(
        &["upstream", "path"],
        &json!({
            "upstream": described(name(), "An upstream of the config"),
            "path": {"type": "string", "pattern": "^/[^?#%]*$", "description": "Path with parameters, such as /orders/{order_id}"},
            "query": {
                "type": "object",
                "additionalProperties": parameter(),
                "description": "Fields of the query, each with the parameter that fills it"
            },
            "owner": described(pointer(), "The owner, or a list of owners, in the answer"),
            "tenant": described(pointer(), "The tenant in the answer"),
            "echo": {
                "type": "object",
                "propertyNames": parameter(),
                "additionalProperties": pointer(),
                "description": "What the backend took each parameter for"
            },
            "rows": {"type": "string", "pattern": "^(/|$)", "description": "A list in the answer whose elements are rows; empty: the answer itself"},
            "columns": {
                "type": "object",
                "propertyNames": name(),
                "additionalProperties": pointer(),
                "description": "What else stands in the answer, by the names that rules read it by"
            }
        }),
    );
    json!({"anyOf": [sql, object(&["http"], &json!({"http": http}))]})
}

fn pointer() -> Value {
    json!({"type": "string", "pattern": "^/", "description": "JSON Pointer"})
}
