//! A typed walk over a tree that collects every problem instead of stopping at the first.

use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::fields::{Fields, Key};
use super::scalar::{duration, is_name, number, size};
use super::{Entry, Kind, Node, Problem, Problems, Spot, Tree, did_you_mean};

/// Collects the problems of one or more trees.
#[derive(Debug, Default)]
pub struct Reader {
    problems: RefCell<Vec<Problem>>,
}

impl Reader {
    /// No problems yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The tree's only value.
    pub fn root<'r>(&'r self, tree: &'r Tree) -> Field<'r> {
        Field {
            reader: self,
            node: &tree.root,
            path: String::new(),
        }
    }

    /// Adds a problem.
    pub fn report(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    /// What was built, if there was no error; warnings are dropped.
    ///
    /// # Errors
    /// All errors and warnings in file order.
    pub fn finish<T>(self, built: Option<T>) -> Result<T, Problems> {
        self.finish_with_warnings(built).map(|(built, _)| built)
    }

    /// What was built and the warnings, if there was no error.
    ///
    /// # Errors
    /// All errors and warnings in file order.
    pub fn finish_with_warnings<T>(self, built: Option<T>) -> Result<(T, Problems), Problems> {
        let mut problems = Problems(self.problems.into_inner()).sorted();
        match built {
            Some(built) if !problems.has_errors() => Ok((built, problems)),
            _ => {
                if !problems.has_errors() {
                    problems.0.push(Problem::new("the file could not be used"));
                }
                Err(problems)
            }
        }
    }
}

/// One value with its name and place. Every method that wants a type reports a problem and gives `None` where the value
/// is of another.
#[derive(Clone)]
pub struct Field<'r> {
    reader: &'r Reader,
    node: &'r Node,
    path: String,
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({})", self.path)
    }
}

impl<'r> Field<'r> {
    /// Where it stands in the document: `tools[2].ticket.ttl`; empty for the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value itself.
    pub const fn node(&self) -> &'r Node {
        self.node
    }

    /// Its bytes.
    pub fn spot(&self) -> Spot {
        self.node.spot.clone()
    }

    /// A problem at this value, not yet reported.
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(message).at(self.spot())
    }

    /// Adds a problem, from [`Field::problem`] as a rule.
    pub fn report(&self, problem: Problem) {
        self.reader.report(problem);
    }

    /// Reports an error at this value.
    pub fn error(&self, message: impl Into<String>, help: impl Into<String>) {
        self.report(self.problem(message).help(help));
    }

    /// Reports a warning at this value.
    pub fn warn(&self, message: impl Into<String>, help: impl Into<String>) {
        self.report(self.problem(message).help(help).warning());
    }

    fn wanted(&self, what: &str, help: impl Into<String>) {
        let found = match &self.node.kind {
            Kind::Null => "it is empty".to_owned(),
            kind => format!("not {}", kind.label()),
        };
        self.error(format!("{} must be {what}, {found}", self.title()), help);
    }

    pub(super) fn title(&self) -> String {
        if self.path.is_empty() {
            return "the document".to_owned();
        }
        format!("`{}`", self.path)
    }

    /// Text that is not empty.
    pub fn text(&self) -> Option<&'r str> {
        let text = self.any_text()?;
        if text.is_empty() {
            self.error(
                format!("{} must not be empty", self.title()),
                "write a text or remove the key",
            );
            return None;
        }
        Some(text)
    }

    /// Text, perhaps empty.
    pub fn any_text(&self) -> Option<&'r str> {
        match &self.node.kind {
            Kind::Text(text) | Kind::Loose(text) => return Some(text),
            Kind::Bool(_) | Kind::Number(_) => {
                self.wanted("text", format!("quote it: \"{}\"", self.node.source()));
            }
            _ => self.wanted("text", "write a text"),
        }
        None
    }

    /// A name: ASCII letters, digits, `_` and `-`, first a letter, at most 64 characters.
    pub fn name(&self) -> Option<&'r str> {
        let text = self.text()?;
        if is_name(text) {
            return Some(text);
        }
        self.error(format!("`{text}` is not a name"), NAME_HELP);
        None
    }

    /// `true` or `false`.
    pub fn bool(&self) -> Option<bool> {
        match &self.node.kind {
            Kind::Bool(value) => return Some(*value),
            Kind::Loose(text) if text == "true" => return Some(true),
            Kind::Loose(text) if text == "false" => return Some(false),
            _ => self.wanted("a boolean", "write `true` or `false`, without quotes"),
        }
        None
    }

    /// A whole number in the range of the type.
    pub fn whole<T: TryFrom<i64>>(&self) -> Option<T> {
        let number = match &self.node.kind {
            Kind::Number(number) => Some(number.clone()),
            Kind::Loose(text) => number(text),
            _ => None,
        };
        let Some(number) = number.filter(|number| !number.is_f64()) else {
            self.wanted("a whole number", "write digits, without quotes");
            return None;
        };
        let source = self.node.source();
        if source.len() > 1 && source.starts_with('0') && !source.contains(['x', 'o']) {
            self.error(
                format!("{} has a leading zero", self.title()),
                "remove it, or quote the value if it is text",
            );
            return None;
        }
        let value = number.as_i64().and_then(|number| T::try_from(number).ok());
        if value.is_none() {
            self.error(
                format!("{} is out of range: {number}", self.title()),
                "write a smaller or larger whole number",
            );
        }
        value
    }

    /// A finite number.
    pub fn number(&self) -> Option<f64> {
        let value = match &self.node.kind {
            Kind::Number(number) => number.as_f64(),
            Kind::Loose(text) => number(text).and_then(|number| number.as_f64()),
            _ => None,
        };
        if value.is_none() {
            self.wanted("a number", "write digits such as `0.5`, without quotes");
        }
        value
    }

    /// A duration with its unit: `15m`, `1h 30m`, `250ms`.
    pub fn duration(&self) -> Option<Duration> {
        let value = self.with_unit().and_then(duration);
        if value.is_none() {
            let help = "write a number with its unit (ms, s, m, h), such as `15m` or `1h 30m`";
            self.error(format!("{} must be a duration", self.title()), help);
        }
        value
    }

    /// A size in bytes with its unit: `64KiB`, `32MiB`.
    pub fn size(&self) -> Option<usize> {
        let value = self.with_unit().and_then(size);
        if value.is_none() {
            let help = "write a whole number with its unit (B, KiB, MiB, GiB), such as `32MiB`";
            self.error(format!("{} must be a size in bytes", self.title()), help);
        }
        value
    }

    fn with_unit(&self) -> Option<&'r str> {
        match &self.node.kind {
            Kind::Text(text) | Kind::Loose(text) => Some(text),
            _ => None,
        }
    }

    /// One of a few words.
    pub fn choice<T: Clone>(&self, words: &[(&'static str, T)]) -> Option<T> {
        let all = || words.iter().map(|(word, _)| *word);
        let text = match &self.node.kind {
            Kind::Text(text) | Kind::Loose(text) => text.as_str(),
            _ => {
                let list: Vec<_> = all().map(|word| format!("`{word}`")).collect();
                let help = format!("write one of {}", list.join(", "));
                self.wanted("a word", help);
                return None;
            }
        };
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            self.error(
                format!("{} cannot be `{text}`", self.title()),
                did_you_mean("choices", text, all()),
            );
        }
        found.map(|(_, value)| value.clone())
    }

    /// The elements of a list.
    pub fn list(&self) -> Option<Vec<Field<'r>>> {
        let Kind::List(items) = &self.node.kind else {
            self.wanted("a list", "write `[a, b]` or one `- a` per line");
            return None;
        };
        let elements = items.iter().enumerate().map(|(index, node)| Field {
            reader: self.reader,
            node,
            path: format!("{}[{index}]", self.path),
        });
        Some(elements.collect())
    }

    /// The elements of a list that is not empty.
    pub fn filled_list(&self) -> Option<Vec<Field<'r>>> {
        let elements = self.list()?;
        if elements.is_empty() {
            self.error(
                format!("{} must not be empty", self.title()),
                "name at least one, or remove the key",
            );
            return None;
        }
        Some(elements)
    }

    /// A single value, or the elements of a list that is not empty.
    pub fn one_or_more(&self) -> Option<Vec<Field<'r>>> {
        match &self.node.kind {
            Kind::List(_) => self.filled_list(),
            _ => Some(vec![self.clone()]),
        }
    }

    /// A map with known keys.
    pub fn map(&self) -> Option<Fields<'r>> {
        Some(Fields::new(self.clone(), self.raw_entries()?))
    }

    /// A map whose keys are names that the author chooses.
    pub fn entries(&self) -> Option<Vec<(Key<'r>, Field<'r>)>> {
        let entries = self.raw_entries()?;
        let pairs = entries
            .iter()
            .map(|entry| (Key::new(self.reader, entry), self.child(entry)));
        Some(pairs.collect())
    }

    /// The keys of a map, if this is one.
    pub fn keys(&self) -> Option<Vec<&'r str>> {
        match &self.node.kind {
            Kind::Map(entries) => Some(entries.iter().map(|entry| entry.key.as_str()).collect()),
            _ => None,
        }
    }

    fn raw_entries(&self) -> Option<&'r [Entry]> {
        if let Kind::Map(entries) = &self.node.kind {
            return Some(entries);
        }
        self.wanted("a map", "write `key: value`, one per line and indented");
        None
    }

    pub(super) fn child(&self, entry: &'r Entry) -> Field<'r> {
        let path = if self.path.is_empty() {
            entry.key.clone()
        } else {
            format!("{}.{}", self.path, entry.key)
        };
        Field {
            reader: self.reader,
            node: &entry.value,
            path,
        }
    }

    /// The value under a key, if this is a map that has it. Does not count as asked for: see [`Field::map`].
    pub fn peek(&self, key: &str) -> Option<Field<'r>> {
        match &self.node.kind {
            Kind::Map(entries) => entries
                .iter()
                .find(|entry| entry.key == key)
                .map(|entry| self.child(entry)),
            _ => None,
        }
    }

    /// Whether the value is empty (`null`, `~` or nothing).
    pub const fn is_null(&self) -> bool {
        matches!(self.node.kind, Kind::Null)
    }

    /// Whether the value is a map.
    pub const fn is_map(&self) -> bool {
        matches!(self.node.kind, Kind::Map(_))
    }

    /// The value as JSON, whatever it is.
    pub fn json(&self) -> Value {
        self.node.json()
    }
}

pub(super) const NAME_HELP: &str =
    "use ASCII letters, digits, `_` and `-`, first a letter, at most 64";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::parse;

    fn problems<T>(text: &str, read: impl Fn(&Field<'_>) -> Option<T>) -> String {
        let tree = parse("t.yaml", text.to_owned()).unwrap();
        let reader = Reader::new();
        let built = read(&reader.root(&tree));
        reader
            .finish(built)
            .err()
            .map(|problems| problems.to_string())
            .unwrap_or_default()
    }

    fn everything(field: &Field<'_>) -> Option<()> {
        let mut fields = field.map()?;
        let text = fields.required("text").and_then(|f| f.text().map(drop));
        let name = fields.required("name").and_then(|f| f.name().map(drop));
        let flag = fields.required("flag").and_then(|f| f.bool().map(drop));
        let count = fields.required("count").and_then(|f| f.whole::<u16>());
        let share = fields.required("share").and_then(|f| f.number());
        let ttl = fields.required("ttl").and_then(|f| f.duration());
        let most = fields.required("most").and_then(|f| f.size());
        let mode = fields
            .required("mode")
            .and_then(|f| f.choice(&[("off", 0), ("shadow", 1)]));
        let list = fields.required("list").and_then(|f| f.filled_list());
        for (key, value) in fields.required("free")?.entries()? {
            key.name();
            value.one_or_more();
        }
        text.and(name)?;
        flag.and(count)?;
        share.and(ttl)?;
        most.and(mode)?;
        list.map(drop)
    }

    #[test]
    fn a_good_document_has_no_problems() {
        let text = "{text: a, name: b_1, flag: true, count: 7, share: 0.5, ttl: 15m, most: 1KiB, mode: off, list: [1], free: {a: 1, b: [2]}}";
        assert_eq!(problems(text, everything), "");
    }

    #[test]
    fn every_wrong_type_is_told_at_once() {
        let text = "text: 123\nname: 1x\nflag: yes\ncount: 70000\nshare: \"0.5\"\nttl: 15\nmost: 5MB\nmode: shdow\nlist: []\nfree: {a b: []}\nlsit: 1\n";
        insta::assert_snapshot!(problems(text, everything));
    }

    #[test]
    fn missing_keys_and_a_wrong_document() {
        let said = problems("[1]", everything);
        assert!(
            said.contains("the document must be a map, not a list"),
            "{said}"
        );
        let said = problems("a: 1", everything);
        assert!(
            said.contains("the document lacks the key `text`")
                && said.contains("unknown key `a`")
                && said.contains("t.yaml:1:1"),
            "{said}"
        );
    }

    #[test]
    fn one_of_several_keys() {
        let read = |field: &Field<'_>| {
            let mut fields = field.map()?;
            fields.exactly_one(&["a", "b"]).map(|(key, _)| key)
        };
        assert_eq!(problems("a: 1", read), "");
        assert!(problems("c: 1", read).contains("neither of `a`, `b`"));
        assert!(problems("{a: 1, b: 1}", read).contains("exclude each other"));
    }

    #[test]
    fn leading_zeros_are_not_guessed_at() {
        let said = problems("a: 007", |f| f.map()?.required("a")?.whole::<u8>());
        assert!(said.contains("leading zero"), "{said}");
    }

    proptest! {
        #[test]
        fn no_document_makes_the_reader_panic(text in "((text|name|flag|count|share|ttl|most|mode|list|free|x): ([a-z0-9.\\[\\]{}é]{0,4}|\\{a: [0-9]\\})\n){0,8}") {
            if let Ok(tree) = parse("t.yaml", text) {
                let reader = Reader::new();
                let built = everything(&reader.root(&tree));
                let ok = built.is_some();
                prop_assert!(reader.finish(built).is_ok() <= ok);
            }
        }
    }
}
