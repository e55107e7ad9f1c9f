//! `recipients` of a tool.

use serde_json::{Value, json};

use super::allowed::allow;
use super::{at, object, otherwise};

pub(super) fn rule() -> Value {
    object(
        &["at", "kind", "allow"],
        &json!({
            "at": at(),
            "kind": {"enum": ["email", "account", "iban"]},
            "allow": allow("Lists"),
            "otherwise": otherwise()
        }),
    )
}
