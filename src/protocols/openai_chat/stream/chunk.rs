//! What a chunk says, and what is left of it.

use super::choice::REPEATED;
use crate::wire::json::{Kind, Node};

/// The text that a delta says, if it says any.
pub(super) fn text(delta: &Node) -> Option<(&str, &Node)> {
    let content = delta.get("content")?;
    let said = content.as_str().filter(|said| !said.is_empty())?;
    Some((said, content))
}

/// Whether an `error` says that there is one: some backends have an empty one in every chunk, which clients pass over.
pub(super) fn is_error(error: &Node) -> bool {
    match &error.kind {
        Kind::Null | Kind::Bool(false) => false,
        Kind::String(text) => !text.is_empty(),
        Kind::Array(elements) => !elements.is_empty(),
        Kind::Object(members) => !members.is_empty(),
        _ => true,
    }
}

/// Whether a chunk has nothing besides its choices that another chunk does not say.
pub(super) fn says_nothing(chunk: &Node) -> bool {
    chunk.members().iter().all(|member| {
        let key = &*member.key;
        REPEATED.contains(&key)
            || matches!(key, "choices" | "obfuscation")
            || member.value.is_null()
    })
}

/// Whether nothing of a choice is left without these members of its delta.
pub(super) fn is_only(choice: &Node, gone: impl Fn(&str) -> bool) -> bool {
    choice.members().iter().all(|member| match &*member.key {
        "index" => true,
        "delta" => member
            .value
            .members()
            .iter()
            .all(|member| gone(&member.key) || member.value.is_null()),
        _ => member.value.is_null(),
    })
}
