//! Edits of a JSON document in place: what is not edited keeps its bytes.

use std::ops::Range;

use bytes::Bytes;

use super::json::{Document, Member, Node};

/// Edits over one document, applied at once.
#[derive(Debug)]
pub struct Splice<'d> {
    document: &'d Document,
    edits: Vec<(Range<usize>, Vec<u8>)>,
}

impl<'d> Splice<'d> {
    /// No edits yet.
    pub const fn new(document: &'d Document) -> Self {
        Self {
            document,
            edits: Vec::new(),
        }
    }

    /// Replaces one value by JSON text. Values must not overlap.
    pub fn replace(&mut self, node: &Node, json: impl Into<Vec<u8>>) {
        self.replace_span(node.span.clone(), json);
    }

    /// Replaces the bytes of one key or value by JSON text.
    pub fn replace_span(&mut self, span: Range<usize>, json: impl Into<Vec<u8>>) {
        self.edits.push((span, json.into()));
    }

    /// Replaces one value by a string.
    pub fn replace_text(&mut self, node: &Node, text: &str) {
        self.replace(node, quote(text));
    }

    /// Keeps only some elements of an array, each with its bytes.
    pub fn keep_elements(&mut self, array: &Node, keep: impl Fn(usize) -> bool) {
        let kept = array
            .elements()
            .iter()
            .enumerate()
            .filter(|(index, _)| keep(*index))
            .map(|(_, element)| self.document.raw(element));
        let mut json = vec![b'['];
        for (index, element) in kept.enumerate() {
            if index > 0 {
                json.push(b',');
            }
            json.extend_from_slice(&element);
        }
        json.push(b']');
        self.replace(array, json);
    }

    /// Removes elements of an array. What stays keeps its bytes and may be edited itself.
    pub fn remove_elements(&mut self, array: &Node, remove: impl Fn(usize) -> bool) {
        let elements = array.elements().iter().enumerate();
        self.remove(
            array.span.start + 1,
            elements.map(|(index, element)| (element.span.clone(), remove(index))),
        );
    }

    /// Removes members of an object. What stays keeps its bytes and may be edited itself.
    pub fn remove_members(&mut self, object: &Node, remove: impl Fn(&str) -> bool) {
        let members = object.members().iter();
        self.remove(
            object.span.start + 1,
            members.map(|member| {
                let span = member.key_span.start..member.value.span.end;
                (span, remove(&member.key))
            }),
        );
    }

    /// Removes parts of a list that opens at `start`, each with the comma that it needs no more.
    fn remove(&mut self, start: usize, parts: impl Iterator<Item = (Range<usize>, bool)>) {
        let mut previous_end = start;
        let mut kept_before = false;
        let mut removed_since: Option<usize> = None;
        for (span, remove) in parts {
            if remove {
                removed_since.get_or_insert(previous_end);
            } else {
                if let Some(from) = removed_since.take() {
                    let comma = if kept_before {
                        b",".to_vec()
                    } else {
                        Vec::new()
                    };
                    self.edits.push((from..span.start, comma));
                }
                kept_before = true;
            }
            previous_end = span.end;
        }
        if let Some(from) = removed_since {
            self.edits.push((from..previous_end, Vec::new()));
        }
    }

    /// Replaces one member of an object, key and value.
    pub fn replace_member(&mut self, member: &Member, key: &str, json: &[u8]) {
        let mut text = quote(key);
        text.push(b':');
        text.extend_from_slice(json);
        let span = member.key_span.start..member.value.span.end;
        self.edits.push((span, text));
    }

    /// Adds a member at the end of an object. At most once per object.
    pub fn add_member(&mut self, object: &Node, key: &str, json: &[u8]) {
        let (at, comma) = match object.members().last() {
            Some(last) => (last.value.span.end, true),
            None => (object.span.start + 1, false),
        };
        let mut text = Vec::new();
        if comma {
            text.push(b',');
        }
        text.extend_from_slice(&quote(key));
        text.push(b':');
        text.extend_from_slice(json);
        self.edits.push((at..at, text));
    }

    /// Adds an element at the end of an array. At most once per array, and not where elements are removed.
    pub fn add_element(&mut self, array: &Node, json: &[u8]) {
        let (at, comma) = match array.elements().last() {
            Some(last) => (last.span.end, &b","[..]),
            None => (array.span.start + 1, &b""[..]),
        };
        self.edits.push((at..at, [comma, json].concat()));
    }

    /// Whether nothing is edited.
    pub const fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// The edited bytes; the original ones where nothing is edited.
    pub fn finish(mut self) -> Bytes {
        let original = self.document.bytes();
        if self.edits.is_empty() {
            return original.clone();
        }
        self.edits
            .sort_by_key(|(range, _)| (range.start, range.end));
        let mut out = Vec::with_capacity(original.len() + 256);
        let mut done = 0;
        for (range, json) in &self.edits {
            out.extend_from_slice(original.get(done..range.start).unwrap_or_default());
            out.extend_from_slice(json);
            done = range.end;
        }
        out.extend_from_slice(original.get(done..).unwrap_or_default());
        out.into()
    }
}

/// A JSON string.
pub fn quote(text: &str) -> Vec<u8> {
    serde_json::Value::from(text).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(text: &'static str, edit: impl Fn(&mut Splice<'_>, &Node)) -> String {
        let document = Document::read(Bytes::from_static(text.as_bytes()), 8).unwrap();
        let mut splice = Splice::new(&document);
        edit(&mut splice, document.root());
        String::from_utf8(splice.finish().to_vec()).unwrap()
    }

    #[test]
    fn what_is_not_edited_keeps_its_bytes() {
        let text = r#"{ "n" : 12345678901234567890123, "t":"a\u0062",  "z": [1 , 2] }"#;
        assert_eq!(edit(text, |_, _| {}), text);
        let edited = edit(text, |splice, root| {
            splice.replace_text(root.get("t").unwrap(), "q\"");
        });
        assert_eq!(edited, text.replace(r#""a\u0062""#, r#""q\"""#));
    }

    #[test]
    fn members_go_with_their_comma() {
        let text = r#"{"a":1, "b":2,"c":3}"#;
        for (remove, left) in [
            ("a", r#"{"b":2,"c":3}"#),
            ("b", r#"{"a":1,"c":3}"#),
            ("c", r#"{"a":1, "b":2}"#),
            ("ab", r#"{"c":3}"#),
            ("bc", r#"{"a":1}"#),
            ("abc", "{}"),
            ("ac", r#"{"b":2}"#),
        ] {
            let edited = edit(text, |splice, root| {
                splice.remove_members(root, |key| remove.contains(key));
            });
            assert_eq!(edited, left);
        }
    }

    #[test]
    fn elements_go_with_their_comma_and_the_rest_may_be_edited() {
        let text = r#"[ {"i":0} , {"i":1},{"i":2} ]"#;
        for (removed, left) in [
            (&[0][..], r#"[{"i":9},{"i":9} ]"#),
            (&[1], r#"[ {"i":9},{"i":9} ]"#),
            (&[2], r#"[ {"i":9} , {"i":9} ]"#),
            (&[0, 2], r#"[{"i":9} ]"#),
            (&[0, 1, 2], "[ ]"),
        ] {
            let edited = edit(text, |splice, root| {
                splice.remove_elements(root, |i| removed.contains(&i));
                for (i, element) in root.elements().iter().enumerate() {
                    if !removed.contains(&i) {
                        splice.replace(element.get("i").unwrap(), "9");
                    }
                }
            });
            assert_eq!(edited, left);
        }
        let edited = edit(r#"{"a":[1], "b":2}"#, |splice, root| {
            splice.replace_member(&root.members()[0], "c", b"null");
            splice.remove_members(root, |key| key == "b");
        });
        assert_eq!(edited, r#"{"c":null}"#);
    }

    #[test]
    fn elements_and_new_members() {
        let edited = edit(r#"{"x":[ {"a":1} ,2, 3 ]}"#, |splice, root| {
            splice.keep_elements(root.get("x").unwrap(), |i| i != 1);
            splice.add_member(root, "y", b"true");
        });
        assert_eq!(edited, r#"{"x":[{"a":1},3],"y":true}"#);
        let empty = edit("{}", |splice, root| splice.add_member(root, "y", b"1"));
        assert_eq!(empty, r#"{"y":1}"#);
    }
}
