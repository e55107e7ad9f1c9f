//! `secrets` of the policy and of a tool.

use serde_json::{Value, json};

use super::{matcher, object, one_otherwise, selector, text};
use crate::layers::egress::Class;

pub(super) fn section() -> Value {
    let kinds = Class::SCANNED.map(Class::as_str);
    let rule = object(
        &[],
        &json!({
            "kinds": {
                "type": "array", "minItems": 1, "items": {"enum": kinds},
                "description": "What is looked for: credentials and registered (default)"
            },
            "reads": {"enum": ["skip", "check"], "description": "Calls of tools that only read: skip (default)"},
            "otherwise": one_otherwise()
        }),
    );
    json!({
        "anyOf": [{"const": "off"}, rule],
        "description": "Secrets in what leaves; on with the layer egress unless it is off"
    })
}

pub(super) fn tool() -> Value {
    let many = json!({"type": "array", "minItems": 1, "items": selector()});
    let at = object(
        &["allow_at"],
        &json!({"allow_at": {"anyOf": [selector(), many]}}),
    );
    json!({
        "anyOf": [{"enum": ["check", "allow"]}, at],
        "description": "Secrets in arguments: check them though the tool only reads, or allow them"
    })
}

pub(super) fn private() -> Value {
    let some =
        |of: Value| json!({"anyOf": [of.clone(), {"type": "array", "minItems": 1, "items": of}]});
    let rule = object(
        &["tool", "fields"],
        &json!({
            "tool": matcher(),
            "fields": some(text()),
            "to": some(matcher()),
            "otherwise": one_otherwise()
        }),
    );
    json!({
        "type": "array", "minItems": 1, "items": rule,
        "description": "Fields of tools' outputs whose values go to no other tool in this session"
    })
}
