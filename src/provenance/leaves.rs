//! The values of structured output: JSON, YAML, and the dictionaries that Python prints, which YAML's flow form reads.
//!
//! Read strictly: what is not all structure is one free text. A value is never read for fields of its own, since whoever wrote
//! the text in a field would else write fields; only a printed list of plain values is read as that list, under the same key.

use bytes::Bytes;
use serde_saphyr::granit_parser::{Event, Parser, options};

use super::text::Text;
use crate::wire::json::{Document, Kind, Node};

/// Deepest nesting.
const DEPTH: usize = 64;

/// Most values of one output; behind them is free text.
const MOST: usize = 1 << 16;

/// One value of structured output.
#[derive(Debug)]
pub(super) struct Leaf {
    /// Keys and indices that lead to it; empty where the output is one value.
    pub(super) path: Vec<Step>,
    /// The value as text.
    pub(super) text: Text,
    /// It is the key of a member of the object at `path`.
    pub(super) is_key: bool,
}

impl Leaf {
    fn new(path: Vec<Step>, text: &str) -> Self {
        Self {
            path,
            text: Text::new(text.into()),
            is_key: false,
        }
    }

    /// The key of a member of the object at `path`: many tools key what they list by id or address.
    fn key(path: Vec<Step>, text: &str) -> Self {
        Self {
            is_key: true,
            ..Self::new(path, text)
        }
    }
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A key of an object.
    Key(String),
    /// An element of an array.
    Index(usize),
}

/// Every value of an output.
pub(super) fn leaves(text: &str) -> Vec<Leaf> {
    let mut leaves = structured(text).unwrap_or_default();
    if leaves.is_empty() {
        return vec![Leaf::new(Vec::new(), text)];
    }
    let mut inner = Vec::new();
    for leaf in &leaves {
        let printed = leaf.text.as_str().trim();
        let Some(list) = Some(printed)
            .filter(|text| text.starts_with('[') && !leaf.path.is_empty() && !leaf.is_key)
        else {
            continue;
        };
        let elements = structured(list).unwrap_or_default();
        if elements
            .iter()
            .all(|element| !element.is_key && matches!(element.path[..], [Step::Index(_)]))
        {
            inner.extend(elements.into_iter().map(|element| {
                let path = leaf.path.iter().chain(&element.path).cloned().collect();
                Leaf { path, ..element }
            }));
        }
    }
    leaves.extend(inner);
    leaves
}

fn structured(text: &str) -> Option<Vec<Leaf>> {
    if text.trim_start().starts_with(['{', '['])
        && let Ok(document) = Document::read(Bytes::copy_from_slice(text.as_bytes()), DEPTH)
    {
        let mut leaves = Vec::new();
        json(&document, document.root(), &mut Vec::new(), &mut leaves);
        return Some(leaves);
    }
    yaml(text)
}

fn json(document: &Document, node: &Node, path: &mut Vec<Step>, leaves: &mut Vec<Leaf>) {
    if leaves.len() >= MOST {
        return;
    }
    match &node.kind {
        Kind::String(text) => leaves.push(Leaf::new(path.clone(), text)),
        Kind::Number => {
            let digits = document.raw(node);
            leaves.push(Leaf::new(path.clone(), &String::from_utf8_lossy(&digits)));
        }
        Kind::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                path.push(Step::Index(index));
                json(document, element, path, leaves);
                path.pop();
            }
        }
        Kind::Object(members) => {
            for member in members {
                leaves.push(Leaf::key(path.clone(), &member.key));
                path.push(Step::Key(member.key.to_string()));
                json(document, &member.value, path, leaves);
                path.pop();
            }
        }
        Kind::Null | Kind::Bool(_) => {}
    }
}

/// What the reader of YAML is inside of.
enum Open {
    List(usize),
    /// With the key whose value comes next.
    Map(Option<String>),
}

/// Values of a YAML document; `None` where it is none, or uses what nobody prints by accident.
fn yaml(text: &str) -> Option<Vec<Leaf>> {
    let options = options! {
        disallow_directives: true,
        emit_comments: false,
        flow_nesting_limit: DEPTH,
        block_nesting_limit: DEPTH,
    };
    let mut open: Vec<Open> = Vec::new();
    let mut leaves = Vec::new();
    let mut documents = 0;
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.ok()?;
        if span.tag_span().is_some() || leaves.len() > MOST {
            return None;
        }
        match event {
            Event::DocumentStart(..) => documents += 1,
            Event::Scalar(text, ..) => {
                if let Some((Open::Map(key @ None), outer)) = open.split_last_mut() {
                    leaves.push(Leaf::key(path(outer), &text));
                    *key = Some(text.into_owned());
                } else {
                    leaves.push(Leaf::new(path(&open), &text));
                    passed(&mut open);
                }
            }
            Event::SequenceStart(..) => begins(&mut open, Open::List(0))?,
            Event::MappingStart(..) => begins(&mut open, Open::Map(None))?,
            Event::SequenceEnd | Event::MappingEnd => {
                open.pop();
                passed(&mut open);
            }
            Event::Alias(_) => return None,
            _ => {}
        }
    }
    (documents == 1).then_some(leaves)
}

/// Keys that are lists or maps are no keys of a printed value.
fn begins(open: &mut Vec<Open>, inner: Open) -> Option<()> {
    if matches!(open.last(), Some(Open::Map(None))) {
        return None;
    }
    open.push(inner);
    Some(())
}

/// A value has ended.
fn passed(open: &mut [Open]) {
    match open.last_mut() {
        Some(Open::List(index)) => *index += 1,
        Some(Open::Map(key)) => *key = None,
        None => {}
    }
}

fn path(open: &[Open]) -> Vec<Step> {
    open.iter()
        .map(|open| match open {
            Open::List(index) => Step::Index(*index),
            Open::Map(key) => Step::Key(key.clone().unwrap_or_default()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        leaves(text)
            .iter()
            .filter(|leaf| !leaf.is_key)
            .map(|leaf| {
                let steps = leaf.path.iter().map(|step| match step {
                    Step::Key(key) => key.clone(),
                    Step::Index(index) => index.to_string(),
                });
                format!(
                    "{}={}",
                    steps.collect::<Vec<_>>().join("/"),
                    leaf.text.as_str()
                )
            })
            .collect()
    }

    #[test]
    fn json_yaml_and_printed_dictionaries_are_read_alike() {
        let expected = ["0/email=ann@x.example", "0/n=007", "1/email=b: c"];
        for text in [
            r#"[{"email":"ann@x.example","n":"007"},{"email":"b: c"}]"#,
            "- email: ann@x.example\n  n: 007\n- email: 'b: c'",
            "[{'email': 'ann@x.example', 'n': '007'}, {'email': 'b: c'}]",
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        assert_eq!(
            shown(r#"{"n":12345678901234567890123}"#),
            ["n=12345678901234567890123"]
        );
    }

    #[test]
    fn keys_stand_at_their_object() {
        for text in [
            r#"{"shared": {"ann@x.example": "rw"}}"#,
            "shared:\n  ann@x.example: rw",
            "{'shared': {'ann@x.example': 'rw'}}",
        ] {
            let found = leaves(text);
            let keys = found.iter().filter(|leaf| leaf.is_key);
            let keys: Vec<_> = keys
                .map(|leaf| (&leaf.path[..], leaf.text.as_str()))
                .collect();
            let shared = [Step::Key("shared".to_owned())];
            assert_eq!(
                keys,
                [(&[][..], "shared"), (&shared[..], "ann@x.example")],
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_all_structure_is_one_text() {
        for text in [
            "Bill for May\nIBAN: GB82",
            "{\"a\": 1} and more",
            "a: &x 1\nb: *x",
            "--- \na: 1\n---\nb: 2",
            "!t a",
            "plain words",
        ] {
            assert_eq!(shown(text), [format!("={text}")], "{text}");
        }
    }

    #[test]
    fn a_printed_list_is_a_list_of_the_same_key() {
        let text = r#"{"repos": "['a/b', 'c']", "note": "[{'email': 'x'}]"}"#;
        let note = "note=[{'email': 'x'}]";
        assert_eq!(
            shown(text),
            ["repos=['a/b', 'c']", note, "repos/0=a/b", "repos/1=c"]
        );
    }

    #[test]
    fn a_text_in_a_field_has_no_fields() {
        let text = r#"{"body":"{\"email\":\"evil@x.example\"}"}"#;
        assert_eq!(shown(text), [r#"body={"email":"evil@x.example"}"#]);
        let text = "body: |\n  email: evil@x.example\n";
        assert_eq!(shown(text), ["body=email: evil@x.example\n"]);
    }
}
