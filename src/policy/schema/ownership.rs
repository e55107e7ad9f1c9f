//! `ownership` of a tool.

use serde_json::{Value, json};

use super::{described, name, object, parameter, selector};

pub(super) fn rule() -> Value {
    object(
        &["resource", "as", "owner"],
        &json!({
            "resource": selector(),
            "as": described(parameter(), "Parameter of the look-up that gets the id"),
            "with": {
                "type": "object",
                "minProperties": 1,
                "propertyNames": parameter(),
                "additionalProperties": selector(),
                "description": "Further parameters from other arguments"
            },
            "optional": {"type": "boolean", "description": "A call without the resource passes (default: false)"},
            "owners": {"enum": ["all", "any"], "description": "Who must be the principal where there are several owners: all (default), or any"},
            "owner": described(name(), "Look-up that returns the owner's subject")
        }),
    )
}
