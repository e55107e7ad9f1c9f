//! YAML 1.2, core schema, read strictly from parser events: events alone know how a scalar was written and where both
//! places of a duplicate key are.
//!
//! Refused, because a reviewer does not see through them: duplicate keys, anchors, aliases, merge keys, tags, directives,
//! more than one document, keys that are not text.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, options};

use super::hints::hint;
use super::scalar::plain;
use super::{Entry, Kind, Node, Problem, Problems, SourceFile, Spot, Tree};

/// Deepest nesting of lists and maps.
const DEPTH: usize = 64;
/// More problems than this do not help anybody.
const MOST: usize = 50;

/// Reads YAML text; `path` is for messages only.
///
/// # Errors
/// Every place that is not strict YAML; after a syntax error reading stops.
pub fn parse(path: &str, text: String) -> Result<Tree, Problems> {
    parse_with(path, text, false)
}

/// As [`parse`]; with `bare_keys` a key may also be a number, as written: documents that others write have such keys.
///
/// # Errors
/// As [`parse`].
pub(super) fn parse_with(path: &str, text: String, bare_keys: bool) -> Result<Tree, Problems> {
    let file = Arc::new(SourceFile {
        path: path.to_owned(),
        text,
    });
    let mut builder = Builder {
        file: Arc::clone(&file),
        open: Vec::new(),
        root: None,
        documents: 0,
        bare_keys,
        problems: Problems::default(),
    };
    let options = options! {
        disallow_directives: true,
        emit_anchor_events: true,
        emit_comments: false,
        emit_unresolved_aliases: true,
        flow_nesting_limit: DEPTH,
        block_nesting_limit: DEPTH,
    };
    for next in Parser::new_from_str_with_options(&file.text, options) {
        match next {
            Ok((event, span)) => builder.event(event, &span),
            Err(error) => {
                builder.syntax(&error);
                break;
            }
        }
        if builder.problems.0.len() >= MOST {
            break;
        }
    }
    builder.finish()
}

/// A list or map that is not closed yet.
struct Open {
    span: Range<usize>,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    Map(Vec<Entry>, Option<(String, Spot)>),
}

struct Builder {
    file: Arc<SourceFile>,
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
    bare_keys: bool,
    problems: Problems,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, span: &Span) {
        if self.documents > 1 {
            return;
        }
        let bytes = self.bytes(span);
        if span.tag_span().is_some() {
            let tag = span
                .tag_span()
                .map_or(bytes.clone(), |tag| self.bytes(&tag));
            self.problem(tag, "tags are not read", "remove it; quote what is text");
        }
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    let help = "keep one document per file; remove what follows `---`";
                    self.problem(bytes, "a second document starts here", help);
                }
            }
            Event::Scalar(text, style, ..) => self.scalar(&text, style, bytes),
            Event::SequenceStart(..) => self.start(bytes, Inside::List(Vec::new())),
            Event::MappingStart(..) => self.start(bytes, Inside::Map(Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => self.end(&bytes),
            Event::Anchor(..) => {
                let help = "write the value out where it is needed; quote it if it is text";
                self.problem(bytes, "anchors are not read", help);
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                let word = self.file.text.get(bytes.clone()).unwrap_or_default();
                let help = format!("if it is text, quote it: \"{word}\"; else write it out");
                self.problem(bytes.clone(), "aliases are not read", &help);
                self.node(bytes, Kind::Null);
            }
            _ => {}
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, bytes: Range<usize>) {
        if style == ScalarStyle::Plain {
            self.node(bytes, plain(text));
        } else {
            self.node(bytes, Kind::Text(text.to_owned()));
        }
    }

    fn start(&mut self, span: Range<usize>, inside: Inside) {
        self.open.push(Open { span, inside });
    }

    fn end(&mut self, last: &Range<usize>) {
        let Some(open) = self.open.pop() else {
            return;
        };
        let (kind, inner) = match open.inside {
            Inside::List(items) => {
                let end = items.last().map(|item| item.spot.1.end);
                (Kind::List(items), end)
            }
            Inside::Map(entries, _) => {
                let end = entries.last().map(|entry| entry.value.spot.1.end);
                self.duplicates(&entries);
                (Kind::Map(entries), end)
            }
        };
        // The end of a block collection is reported at what follows it; a flow collection ends with its bracket.
        let closing = self.file.text.get(last.clone()).unwrap_or_default();
        let end = match inner {
            Some(inner) if !matches!(closing, "]" | "}") => inner,
            _ => last.end,
        };
        self.node(open.span.start..end.max(open.span.start), kind);
    }

    /// Puts a finished value where it belongs.
    fn node(&mut self, bytes: Range<usize>, kind: Kind) {
        let spot = (Arc::clone(&self.file), bytes);
        match self.open.last_mut().map(|open| &mut open.inside) {
            None => self.root = Some(Node { spot, kind }),
            Some(Inside::List(items)) => items.push(Node { spot, kind }),
            Some(Inside::Map(entries, key)) => {
                if let Some((key, key_spot)) = key.take() {
                    let spot = match (&kind, spot.1.is_empty()) {
                        (Kind::Null, true) => key_spot.clone(),
                        _ => spot,
                    };
                    let value = Node { spot, kind };
                    entries.push(Entry {
                        key,
                        key_spot,
                        value,
                    });
                    return;
                }
                let bare = self.bare_keys && matches!(kind, Kind::Number(_));
                let (text, fault) = as_key(&spot, kind);
                let fault = fault.filter(|_| !bare);
                *key = Some((text, spot.clone()));
                if let Some((message, help)) = fault {
                    self.problem(spot.1, message, &help);
                }
            }
        }
    }

    fn duplicates(&mut self, entries: &[Entry]) {
        let mut seen: HashMap<&str, &Spot> = HashMap::new();
        for entry in entries {
            if let Some(first) = seen.get(entry.key.as_str()) {
                let problem = Problem::new(format!("the key `{}` stands here twice", entry.key))
                    .help("keep one of them")
                    .at(entry.key_spot.clone())
                    .related(first.1.clone(), "first here");
                self.problems.0.push(problem);
            } else {
                seen.insert(&entry.key, &entry.key_spot);
            }
        }
    }

    fn syntax(&mut self, error: &serde_saphyr::granit_parser::ScanError) {
        let at = self.char_at(error.marker().byte_offset().unwrap_or_default());
        let problem = Problem::new(format!("not valid YAML: {}", error.info()))
            .help(hint(error.kind()))
            .at((Arc::clone(&self.file), at));
        self.problems.0.push(problem);
    }

    fn problem(&mut self, bytes: Range<usize>, message: &str, help: &str) {
        let problem = Problem::new(message)
            .help(help)
            .at((Arc::clone(&self.file), bytes));
        self.problems.0.push(problem);
    }

    /// The character at a byte, or nothing at the end.
    fn char_at(&self, byte: usize) -> Range<usize> {
        let text = &self.file.text;
        let mut start = byte.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let next = text.get(start..).and_then(|rest| rest.chars().next());
        let length = next.filter(|c| *c != '\n').map_or(0, char::len_utf8);
        start..start + length
    }

    fn bytes(&self, span: &Span) -> Range<usize> {
        let bytes = span.byte_range().unwrap_or_default();
        let end = bytes.end.min(self.file.text.len());
        bytes.start.min(end)..end
    }

    fn finish(self) -> Result<Tree, Problems> {
        if !self.problems.is_empty() {
            return Err(self.problems.sorted());
        }
        match self.root {
            Some(root) if root.kind != Kind::Null => Ok(Tree {
                file: self.file,
                root,
            }),
            _ => Err(Problem::new(format!("`{}` is empty", self.file.path))
                .help("is it the right file?")
                .into()),
        }
    }
}

/// The text of a key, and what is wrong with it.
fn as_key(spot: &Spot, kind: Kind) -> (String, Option<(&'static str, String)>) {
    let (file, bytes) = spot;
    let source = file.text.get(bytes.clone()).unwrap_or_default();
    match kind {
        Kind::Text(text) if text == "<<" && source == "<<" => {
            let help = "write the keys out".to_owned();
            (text, Some(("merge keys are not read", help)))
        }
        Kind::Text(text) | Kind::Loose(text) => (text, None),
        Kind::Null if source.is_empty() => {
            let help = "write a key before `:`".to_owned();
            (String::new(), Some(("a key is missing", help)))
        }
        Kind::Bool(_) | Kind::Number(_) | Kind::Null => {
            let help = format!("quote it: \"{source}\"");
            (source.to_owned(), Some(("a key must be text", help)))
        }
        Kind::List(_) | Kind::Map(_) => {
            let help = "write a single word; quote text that starts with `[` or `{`".to_owned();
            (String::new(), Some(("a key must be text", help)))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Tree {
        parse("t.yaml", text.to_owned()).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn refused(text: &str) -> String {
        parse("t.yaml", text.to_owned()).unwrap_err().to_string()
    }

    #[test]
    fn values_are_typed_as_written() {
        let tree = read(concat!(
            "a: 123\nb: \"123\"\nc: 1.50\nd: true\ne: yes\nf: off\ng: ~\nh:\ni: 0x1f\nj: 007\n",
            "k: 15m\nl: .nan\nm: |\n  two\n  lines\nn: 2026-01-01\no: {}\np: []\nq: 'it''s'\n",
        ));
        let expected = json!({"a": 123, "b": "123", "c": 1.5, "d": true, "e": "yes", "f": "off", "g": null,
            "h": null, "i": 31, "j": 7, "k": "15m", "l": ".nan", "m": "two\nlines\n", "n": "2026-01-01",
            "o": {}, "p": [], "q": "it's"});
        assert_eq!(tree.root.json(), expected);
        assert_eq!(tree.root.get("c").unwrap().source(), "1.50");
        assert_eq!(tree.root.get("b").unwrap().source(), "\"123\"");
    }

    #[test]
    fn every_key_and_value_knows_its_bytes() {
        let text =
            "# é\nx:\n  - {tool: \"*\", at: [/to, /cc]}\n  - name: é\n\n# end\ny: [ ]\nz:\nw: 1\n";
        let tree = read(text);
        let x = tree.root.get("x").unwrap();
        let Kind::List(items) = &x.kind else { panic!() };
        assert_eq!(items[0].source(), "{tool: \"*\", at: [/to, /cc]}");
        assert_eq!(items[0].get("at").unwrap().source(), "[/to, /cc]");
        assert_eq!(items[0].get("tool").unwrap().source(), "\"*\"");
        assert_eq!(items[1].source(), "name: é");
        assert!(
            x.source().starts_with("- {tool") && x.source().ends_with("name: é"),
            "{}",
            x.source()
        );
        assert_eq!(tree.root.get("y").unwrap().source(), "[ ]");
        // An empty value stands at its key.
        assert_eq!(tree.root.get("z").unwrap().source(), "z");
        let Kind::Map(entries) = &tree.root.kind else {
            panic!()
        };
        for entry in entries {
            let (file, bytes) = &entry.key_spot;
            assert_eq!(file.text.get(bytes.clone()), Some(entry.key.as_str()));
        }
    }

    #[test]
    fn a_byte_order_mark_and_windows_lines_do_not_move_places() {
        let tree = read("\u{feff}a: 1\r\nb:\r\n  - \"x y\"\r\n  - z\r\n");
        assert_eq!(tree.root.get("a").unwrap().source(), "1");
        let b = tree.root.get("b").unwrap();
        let Kind::List(items) = &b.kind else { panic!() };
        assert_eq!(items[0].source(), "\"x y\"");
        assert_eq!(items[1].source(), "z");
    }

    #[test]
    fn what_hides_from_a_reviewer_is_refused_at_its_place() {
        for (text, place, words) in [
            ("a: 1\nb: 2\na: 3\n", "t.yaml:3:1", "stands here twice"),
            ("a: {b: 1, b: 2}\n", "t.yaml:1:11", "stands here twice"),
            ("a: &x 1\nb: 2\n", "t.yaml:1:4", "anchors"),
            ("a: [*.cdn.example]\n", "t.yaml:1:5", "\"*.cdn.example\""),
            ("a: &x {b: 1}\nc: *x\n", "t.yaml:2:4", "aliases"),
            ("<<: {a: 1}\n", "t.yaml:1:1", "merge keys"),
            ("a: !!str 1\n", "t.yaml:1:4", "tags"),
            ("a: 1\n---\nb: 2\n", "t.yaml:2:1", "second document"),
            ("1: a\n", "t.yaml:1:1", "quote it: \"1\""),
            ("? [a]\n: b\n", "t.yaml:1:3", "a key must be text"),
            ("%YAML 1.1\n---\na: 1\n", "t.yaml:1:1", "directive"),
        ] {
            let said = refused(text);
            assert!(
                said.contains(place) && said.contains(words),
                "{text}\n{said}"
            );
        }
    }

    #[test]
    fn all_faults_of_a_document_come_at_once() {
        let said = refused("a: &x 1\na: *x\n2: b\n");
        assert_eq!(said.matches("error:").count(), 4, "{said}");
    }

    #[test]
    fn bad_syntax_is_one_problem_with_a_hint() {
        for (text, place, words) in [
            ("a: [1, 2\nb: 3\n", "t.yaml:", "close"),
            ("a:\n\t- b\n", "t.yaml:2:", "spaces"),
            ("a: b: c\n", "t.yaml:1:", "quote"),
            ("a: \"x\n", "t.yaml:", "closing quote"),
            ("tool: *\n", "t.yaml:1:", "quote"),
            ("a: @x\n", "t.yaml:1:", "quote"),
            ("a: 1\n b: 2\n", "t.yaml:2:", "indent"),
        ] {
            let said = refused(text);
            assert_eq!(said.matches("error:").count(), 1, "{said}");
            assert!(
                said.contains(place) && said.contains("help:") && said.contains(words),
                "{text}\n{said}"
            );
        }
        assert!(refused(&"[".repeat(500)).contains("nested"));
        assert!(refused("# nothing\n").contains("is empty"));
        assert!(refused("").contains("is empty"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*", ascii in "[ -~\n\t]{0,80}") {
            for text in [text, ascii] {
                if let Err(problems) = parse("t.yaml", text) {
                    prop_assert!(problems.has_errors());
                    prop_assert!(problems.to_string().contains("error"));
                }
            }
        }

        #[test]
        fn yaml_like_text_keeps_its_spans(text in "([ab?&*!<>|\"'#:,\\[\\]{}\n é-]|: |- |\n  ){0,40}") {
            if let Ok(tree) = parse("t.yaml", text) {
                inside(&tree.root, &(0..tree.file.text.len()));
            }
        }

        #[test]
        fn json_is_read_as_it_is(value in json_value()) {
            let tree = parse("t.yaml", value.to_string());
            if value.is_null() {
                prop_assert!(tree.is_err());
            } else {
                prop_assert_eq!(tree.unwrap().root.json(), value);
            }
        }
    }

    fn inside(node: &Node, outer: &Range<usize>) {
        let bytes = node.bytes();
        assert!(node.spot.0.text.get(bytes.clone()).is_some());
        assert!(
            outer.start <= bytes.start && bytes.end <= outer.end,
            "{bytes:?} {outer:?}"
        );
        match &node.kind {
            Kind::List(items) => items.iter().for_each(|item| inside(item, &bytes)),
            Kind::Map(entries) => entries.iter().for_each(|e| inside(&e.value, &bytes)),
            _ => {}
        }
    }

    fn json_value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            "[ -~é\n\t]{0,12}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::btree_map("[a-z]{1,4}", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }
}
