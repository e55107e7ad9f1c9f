//! Kinds that reach people and accounts.

use serde_json::Value;

use super::vectors::Decided;

/// Not yet.
pub fn decide(kind: &str, _policy: &Value, _input: &str) -> Decided {
    Err(format!("there is no kind `{kind}`"))
}
