//! Bytes that pass without a text that could be judged. They are counted by reason, never passed over in silence.

use std::collections::HashSet;

use crate::item::Located;
use crate::unscanned::Unscanned;
use crate::wire::json::{Kind, Node};

/// Shortest string that is taken for binary content by its letters alone.
const BASE64: usize = 128;

/// Keys whose value only the provider can read.
const SEALED: [&str; 6] = [
    "encrypted_content",
    "encrypted_index",
    "encrypted_stdout",
    "signature",
    "thought_signature",
    "thoughtSignature",
];

/// Whether only the provider can read what stands under this key.
pub fn is_sealed(key: &str) -> bool {
    SEALED.contains(&key)
}

/// How many bytes pass for which reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unjudged(Vec<(Unscanned, usize)>);

impl Unjudged {
    /// Nothing.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// So many bytes for one reason.
    pub fn of(reason: Unscanned, bytes: usize) -> Self {
        let mut unjudged = Self::default();
        unjudged.add(reason, bytes);
        unjudged
    }

    /// Binary, sealed and provider's content below a node of JSON, but for the strings that are items.
    pub fn below(node: &Node, items: &[Located]) -> Self {
        let judged: HashSet<usize> = items
            .iter()
            .filter_map(|located| located.place.span.as_ref())
            .map(|span| span.start)
            .collect();
        let mut unjudged = Self::default();
        unjudged.walk(node, None, &judged);
        unjudged
    }

    /// Counts more.
    pub fn add(&mut self, reason: Unscanned, bytes: usize) {
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => *sum += bytes,
            None if bytes > 0 => self.0.push((reason, bytes)),
            None => {}
        }
    }

    /// Counts all of the other's.
    pub fn extend(&mut self, other: Self) {
        for (reason, bytes) in other.0 {
            self.add(reason, bytes);
        }
    }

    /// All bytes together.
    pub fn total(&self) -> usize {
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The sums, one for each reason that there is.
    pub fn iter(&self) -> impl Iterator<Item = (Unscanned, usize)> {
        self.0.iter().copied()
    }

    /// `within`: what every string below here is.
    fn walk(&mut self, node: &Node, within: Option<Unscanned>, judged: &HashSet<usize>) {
        match &node.kind {
            Kind::String(text) if !judged.contains(&node.span.start) => {
                let reason = within.or_else(|| is_binary(text).then_some(Unscanned::Binary));
                if let Some(reason) = reason {
                    self.add(reason, text.len());
                }
            }
            Kind::Array(elements) => {
                for element in elements {
                    self.walk(element, within, judged);
                }
            }
            Kind::Object(members) => {
                let kind = node.get("type").and_then(Node::as_str).unwrap_or_default();
                let within = match kind {
                    "redacted_thinking" => Some(Unscanned::Sealed),
                    kind if kind.ends_with("_tool_result") => Some(Unscanned::ProviderResult),
                    _ => within,
                };
                // What says of itself that it is no text, however short.
                let coded = matches!(kind, "base64" | "image" | "audio" | "input_audio")
                    || node.get("mimeType").is_some()
                    // The sound of a Chat Completions part.
                    || node.get("format").is_some();
                for member in members {
                    let key = &*member.key;
                    let within = match key {
                        "data" | "blob" if coded => within.or(Some(Unscanned::Binary)),
                        _ => within,
                    };
                    let sealed = is_sealed(key).then_some(Unscanned::Sealed);
                    if key != "type" {
                        self.walk(&member.value, sealed.or(within), judged);
                    }
                }
            }
            Kind::String(_) | Kind::Null | Kind::Bool(_) | Kind::Number => {}
        }
    }
}

/// A `data:` URL of something other than text, or a long run of base64.
fn is_binary(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix("data:") {
        return !rest.starts_with("text/");
    }
    let letter = |b: u8| b.is_ascii_alphanumeric() || b"+/-_=".contains(&b);
    text.len() >= BASE64 && text.bytes().all(letter)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::item::{Item, Origin, Place, ToolOutput};
    use crate::wire::json::{BODY_DEPTH, Document};

    fn counted(json: &str, judged: &[&str]) -> Vec<(Unscanned, usize)> {
        let bytes = Bytes::copy_from_slice(json.as_bytes());
        let document = Document::read(bytes, BODY_DEPTH).unwrap();
        let items: Vec<_> = judged
            .iter()
            .map(|text| {
                let start = json.find(&format!("\"{text}\"")).unwrap();
                Located {
                    place: Place {
                        pointer: String::new(),
                        span: Some(start..start + text.len() + 2),
                    },
                    item: Item::ToolOutput(ToolOutput {
                        tool: None,
                        call_id: None,
                        origin: Origin::Tool,
                        text: (*text).into(),
                    }),
                }
            })
            .collect();
        Unjudged::below(document.root(), &items).iter().collect()
    }

    #[test]
    fn what_has_no_text_is_counted_by_reason_and_items_are_not() {
        let image = "iVBORw0KGgo".repeat(20);
        let long = "a plain sentence that goes on for longer than any threshold, ".repeat(4);
        for (json, judged, expected) in [
            (
                format!(r#"{{"source":{{"type":"base64","data":"{image}"}},"text":"{long}"}}"#),
                vec![],
                vec![(Unscanned::Binary, image.len())],
            ),
            (
                r#"{"image_url":{"url":"data:image/png;base64,AAAA"}}"#.to_owned(),
                vec![],
                vec![(Unscanned::Binary, 26)],
            ),
            (
                r#"{"url":"data:text/plain,hello"}"#.to_owned(),
                vec![],
                vec![],
            ),
            (
                format!(r#"{{"content":"{image}"}}"#),
                vec![image.as_str()],
                vec![],
            ),
            (
                r#"[{"type":"thinking","thinking":"hm","signature":"abc"},{"type":"redacted_thinking","data":"xyz"}]"#
                    .to_owned(),
                vec![],
                vec![(Unscanned::Sealed, 6)],
            ),
            (
                r#"[{"type":"web_search_tool_result","content":[{"title":"ab","encrypted_content":"cde"}]},{"type":"tool_result","content":"f"}]"#
                    .to_owned(),
                vec![],
                vec![(Unscanned::ProviderResult, 2), (Unscanned::Sealed, 3)],
            ),
        ] {
            assert_eq!(counted(&json, &judged), expected, "{json}");
        }
    }
}
