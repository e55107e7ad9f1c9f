//! `ticket` of a tool.

use serde_json::{Value, json};

use super::{conditions, described, name, object, parameter, rules, selector, text};

fn duration(description: &str) -> Value {
    json!({"type": "string", "pattern": "^[0-9]", "description": description})
}

fn pointer(description: &str) -> Value {
    json!({"type": "string", "pattern": "^/", "description": description})
}

fn one_or_more(of: &Value, description: &str) -> Value {
    let many = json!({"type": "array", "minItems": 1, "items": of});
    json!({"anyOf": [of, many], "description": description})
}

fn with() -> Value {
    json!({
        "type": "object",
        "minProperties": 1,
        "propertyNames": parameter(),
        "additionalProperties": selector(),
        "description": "Further parameters of the look-up, from other arguments"
    })
}

fn state() -> Value {
    object(
        &["resource", "as", "lookup", "columns"],
        &json!({
            "resource": described(selector(), "Where the resource's id stands"),
            "as": described(parameter(), "The look-up's parameter that gets the id"),
            "with": with(),
            "optional": {"type": "boolean", "description": "A call without the resource has no state to compare"},
            "lookup": described(name(), "The look-up that tells the state"),
            "columns": one_or_more(&text(), "Columns that must be as they were when the approval was asked for")
        }),
    )
}

fn sign(word: &str, description: &str) -> Value {
    let column = object(
        &["column", "one_of"],
        &json!({
            "column": text(),
            "one_of": {"type": "array", "minItems": 1, "items": {"type": ["string", "number", "boolean"]}}
        }),
    );
    json!({"anyOf": [{"const": word}, column], "description": description})
}

fn reconcile() -> Value {
    object(
        &["lookup"],
        &json!({
            "lookup": described(name(), "The look-up that asks the upstream's books; :ticket is bound"),
            "with": with(),
            "done": sign("row", "What says that the call took effect; row (default): there is one"),
            "not_done": sign("no_row", "What says that it did not and never will; no_row (default): there is none"),
            "after": duration("So long after the call not_done counts; 5m by default, at most 168h")
        }),
    )
}

fn mandate() -> Value {
    object(
        &["uses", "for"],
        &json!({
            "amount": pointer("The amount's argument"),
            "currency": pointer("The currency's argument"),
            "at_most": {"type": ["number", "string"], "description": "Most that all calls of a mandate may come to"},
            "uses": {"type": "integer", "minimum": 2, "maximum": 1000, "description": "Most calls of a mandate"},
            "for": duration("How long a mandate may hold, such as 24h"),
            "same": one_or_more(&pointer("JSON Pointer"), "Arguments that must be what they were when it was given, such as the payee")
        }),
    )
}

pub(super) fn rule() -> Value {
    object(
        &["gate", "ttl"],
        &json!({
            "gate": {"enum": ["confirm", "approve"], "description": "confirm: the same user; approve: somebody else"},
            "approvals": {"type": "integer", "minimum": 1, "maximum": 10, "description": "With approve: how many different people; 1 by default"},
            "role": described(name(), "Role that the approver must have"),
            "roles": {"type": "array", "minItems": 1, "items": name(), "description": "Roles of which the approver must have one"},
            "fresh_login": {"type": "boolean", "description": "Who approves must have logged in just now"},
            "ttl": duration("Such as 15m; at most 720h"),
            "hold": duration("How long a held call waits for the answer; at most 55s"),
            "scope": {"enum": ["session", "principal"], "description": "Where an approval holds; session by default"},
            "volatile": one_or_more(&pointer("JSON Pointer"), "Scalars that may differ from call to call, such as trace ids"),
            "summary": described(text(), "For the approver; {/pointer} is replaced by the argument"),
            "unless": rules(&conditions::rule(), "Where all of these hold no ticket is needed"),
            "state": one_or_more(&state(), "What must be as it was when the approval was asked for"),
            "reconcile": described(reconcile(), "How to find out what became of a call whose outcome is unknown"),
            "idempotent": duration("How long the upstream honours an Idempotency-Key"),
            "freeze": {"type": "boolean", "description": "While an outcome is unknown, refuse other gated calls that name the same resource"},
            "mandate": described(mandate(), "To what an approver may widen an approval"),
            "issuers": one_or_more(&name(), "Issuers of the config whose signed tickets stand for an approval")
        }),
    )
}
