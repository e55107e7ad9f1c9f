//! `ticket` of a tool.

use serde_json::{Value, json};

use super::{described, name, object, text};

pub(super) fn rule() -> Value {
    let duration = "^[0-9]";
    object(
        &["gate", "ttl"],
        &json!({
            "gate": {"enum": ["confirm", "approve"], "description": "confirm: the same user; approve: somebody else"},
            "role": described(name(), "Role that the approver must have"),
            "ttl": {"type": "string", "pattern": duration, "description": "Such as 15m; at most 720h"},
            "summary": described(text(), "For the approver; {/pointer} is replaced by the argument")
        }),
    )
}
