//! `when` of a tool.

use serde_json::{Value, json};

use super::allowed::allow;
use super::{at, described, object, selector, text};
use crate::policy::PrincipalPart;

pub(super) fn rule() -> Value {
    let decimal = || json!({"type": ["number", "string"], "pattern": "^-?[0-9]+(\\.[0-9]+)?$"});
    let most = |of: &str| described(decimal(), of);
    let scalar = json!({"type": ["string", "number", "boolean"]});
    let per = json!({"enum": ["session", "principal"]});
    let window = json!({"type": "string", "pattern": "^[0-9]", "description": "How long a call counts, such as 24h"});
    let time = json!({"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"});
    let count = object(
        &["per", "at_most"],
        &json!({"per": per, "window": window, "at_most": {"type": "integer", "minimum": 1}}),
    );
    let sum = object(
        &["at", "per", "at_most"],
        &json!({"at": selector(), "per": per, "window": window, "at_most": decimal(), "optional": {"type": "boolean"}}),
    );
    let between = object(
        &["from", "to", "zone"],
        &json!({
            "from": time,
            "to": time,
            "zone": described(text(), "IANA name, such as Europe/Berlin"),
            "days": {"type": "array", "minItems": 1, "items": {"enum": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}}
        }),
    );
    object(
        &[],
        &json!({
            "at": at(),
            "principal": {"enum": PrincipalPart::ALL.map(PrincipalPart::as_str)},
            "between": described(between, "Hours and days"),
            "count": described(count, "How many calls"),
            "sum": described(sum, "What an argument adds up to"),
            "tainted": {"const": false, "description": "No text that reads like an instruction has come into the session"},
            "at_least": most("A number, not below"),
            "at_most": most("A number, not above"),
            "one_of": {"type": "array", "minItems": 1, "items": scalar, "description": "Exactly one of these"},
            "matches": described(text(), "Regular expression for the whole text"),
            "in_cidr": {"type": "array", "minItems": 1, "items": text(), "description": "Networks of an address"},
            "allow": allow("For arguments, no lists"),
            "optional": {"type": "boolean", "description": "Whether the condition holds without the argument"},
            "else": {"enum": ["deny", "hold"], "description": "deny (default), or hold for a ticket"}
        }),
    )
}
