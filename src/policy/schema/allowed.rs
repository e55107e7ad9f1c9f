//! `allow` of rules.

use serde_json::{Value, json};

use super::{at, described, matcher, name, object, otherwise};

pub(super) fn allow(lists: &str) -> Value {
    let said = object(&["from"], &json!({"from": {"enum": ["user", "operator"]}}));
    json!({
        "type": "array",
        "items": {"anyOf": [
            name(),
            object(&["lookup"], &json!({"lookup": name()})),
            said,
            output()
        ]},
        "description": format!("{lists}, {{lookup: NAME}}, or {{from: user | operator | tool_output}}")
    })
}

fn output() -> Value {
    let several = |of: &Value, description: &str| {
        let many = json!({"type": "array", "minItems": 1, "items": of});
        json!({"anyOf": [of, many], "description": description})
    };
    let field = json!({"type": "string", "pattern": "^(/.+|[^/*]+)$"});
    object(
        &["from"],
        &json!({
            "from": {"const": "tool_output"},
            "tools": several(&matcher(), "Of these tools; default: any"),
            "fields": several(&field, "The whole value of such a field: a key, or a path such as /contacts/*/email"),
            "asked": described(json!({"type": "boolean"}), "Only from calls whose every text argument the user or operator has said"),
            "free_text": described(json!({"type": "boolean"}), "Also inside a longer text")
        }),
    )
}

pub(super) fn arguments() -> Value {
    object(
        &["at", "allow"],
        &json!({
            "at": at(),
            "allow": allow("What vouches for the value"),
            "otherwise": otherwise()
        }),
    )
}
