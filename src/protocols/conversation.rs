//! Which conversation a request to a model goes on with, where nobody names a session: the one that begins so.

use aws_lc_rs::digest::{SHA256, digest};

use crate::wire::json::{Kind, Node};

/// A name for the conversation: a digest of the first text of the user. That is what stays from turn to turn: system prompts
/// hold the time of day, and marks for the provider's cache (`cache_control`) move on. `None`: the user has said nothing.
pub fn conversation(body: &Node) -> Option<String> {
    let mut messages = body.get("messages")?.elements().iter();
    let is_user = |message: &&Node| message.get("role").and_then(Node::as_str) == Some("user");
    let first = messages.find(is_user)?.get("content")?;
    let mut text = Vec::new();
    said(first, &mut text);
    if text.is_empty() {
        return None;
    }
    let digest = digest(&SHA256, &text);
    let short = digest.as_ref().get(..16)?;
    Some(format!(
        "conversation-{}",
        data_encoding::HEXLOWER.encode(short)
    ))
}

fn said(node: &Node, out: &mut Vec<u8>) {
    match &node.kind {
        Kind::String(text) => {
            if !text.is_empty() {
                out.extend_from_slice(text.as_bytes());
                out.push(0);
            }
        }
        Kind::Array(elements) => elements.iter().for_each(|element| said(element, out)),
        Kind::Object(members) => members
            .iter()
            .filter(|member| &*member.key != "cache_control")
            .for_each(|member| said(&member.value, out)),
        Kind::Null | Kind::Bool(_) | Kind::Number => {}
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::json::Document;

    fn named(messages: &str) -> Option<String> {
        let body = Bytes::from(format!("{{\"messages\":{messages}}}"));
        conversation(Document::read(body, 32).unwrap().root())
    }

    #[test]
    fn a_conversation_keeps_its_name_from_turn_to_turn() {
        let begun =
            named(r#"[{"role":"system","content":"10:00"},{"role":"user","content":"pay Ann"}]"#);
        assert!(begun.is_some());
        for later in [
            r#"[{"role":"system","content":"10:01"},{"role":"user","content":"pay Ann"},{"role":"assistant","content":"ok"},{"role":"user","content":"now"}]"#,
            r#"[{"content":"pay Ann","role":"user"},{"role":"tool","content":"x"}]"#,
        ] {
            assert_eq!(named(later), begun, "{later}");
        }
        let marked = r#"[{"role":"user","content":[{"type":"text","text":"pay","cache_control":{"type":"ephemeral"}}]}]"#;
        let moved = r#"[{"role":"user","content":[{"type":"text","text":"pay"}]},{"role":"assistant","content":"ok"}]"#;
        assert_eq!(named(marked), named(moved));
    }

    #[test]
    fn another_beginning_is_another_conversation() {
        let ann = named(r#"[{"role":"user","content":"pay Ann"}]"#);
        assert_ne!(named(r#"[{"role":"user","content":"pay Bob"}]"#), ann);
        assert_ne!(named(r#"[{"role":"user","content":["pay"," Ann"]}]"#), ann);
        for none in [
            "[]",
            r#"[{"role":"user","content":""}]"#,
            r#"[{"role":"system","content":"x"}]"#,
        ] {
            assert_eq!(named(none), None, "{none}");
        }
    }
}
