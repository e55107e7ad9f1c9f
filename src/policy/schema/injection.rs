//! `injection`.

use serde_json::{Value, json};

use super::{described, matcher, object};

fn threshold(description: &str) -> Value {
    json!({
        "anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"const": "never"}],
        "description": description
    })
}

pub(super) fn section() -> Value {
    let redact = || threshold("From this score the matching spans are removed");
    let block = || threshold("From this score the whole output is withheld");
    let tool = object(
        &["tool"],
        &json!({"tool": matcher(), "redact": redact(), "block": block()}),
    );
    described(
        object(
            &[],
            &json!({
                "redact": redact(),
                "block": block(),
                "tools": {"type": "array", "items": tool}
            }),
        ),
        "Thresholds for what tools give back",
    )
}
