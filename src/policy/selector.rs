//! Argument selectors: JSON Pointer with two wildcard steps, `*` (each child) and `**` (this value and everything below).

use std::fmt;

use serde_json::Value;

use crate::item::Place;
use crate::wire::json::{Kind, Node, folded};

/// What a selector walks: JSON as a tree, with numbers as doubles ([`Value`]) or as they are written ([`Node`]).
pub trait Tree: Sized {
    /// Shows each member of an object.
    fn members<'v>(&'v self, visit: &mut dyn FnMut(&'v str, &'v Self));

    /// Shows each element of an array.
    fn elements<'v>(&'v self, visit: &mut dyn FnMut(usize, &'v Self));

    /// One element of an array.
    fn element(&self, index: usize) -> Option<&Self>;
}

impl Tree for Value {
    fn members<'v>(&'v self, visit: &mut dyn FnMut(&'v str, &'v Self)) {
        if let Self::Object(map) = self {
            map.iter().for_each(|(name, child)| visit(name, child));
        }
    }

    fn elements<'v>(&'v self, visit: &mut dyn FnMut(usize, &'v Self)) {
        if let Self::Array(items) = self {
            items
                .iter()
                .enumerate()
                .for_each(|(i, child)| visit(i, child));
        }
    }

    fn element(&self, index: usize) -> Option<&Self> {
        self.get(index)
    }
}

impl Tree for Node {
    fn members<'v>(&'v self, visit: &mut dyn FnMut(&'v str, &'v Self)) {
        if let Kind::Object(members) = &self.kind {
            for member in members {
                visit(&member.key, &member.value);
            }
        }
    }

    fn elements<'v>(&'v self, visit: &mut dyn FnMut(usize, &'v Self)) {
        if let Kind::Array(items) = &self.kind {
            items
                .iter()
                .enumerate()
                .for_each(|(i, child)| visit(i, child));
        }
    }

    fn element(&self, index: usize) -> Option<&Self> {
        match &self.kind {
            Kind::Array(items) => items.get(index),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// As written, and [`folded`].
    Key(String, String),
    Each,
    Deep,
}

/// Names values inside a call's arguments, such as `/to`, `/attendees/*/email` or `/**`.
///
/// A step takes every key that some reader takes for it: where the rule says `/to`, a backend that ignores case acts on `To`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    steps: Vec<Step>,
}

impl Selector {
    /// Reads a selector.
    ///
    /// # Errors
    /// One line that says what is wrong, for the policy's author.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self { steps: Vec::new() });
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("a selector starts with '/', such as \"/{text}\""));
        };
        let steps = rest.split('/').map(step).collect::<Result<_, _>>()?;
        Ok(Self { steps })
    }

    /// Selects every value below the root: `/**`.
    pub fn everything() -> Self {
        Self {
            steps: vec![Step::Deep],
        }
    }

    /// The selected values with their JSON Pointers, in document order; each value once.
    pub fn select<'v, T: Tree>(&self, root: &'v T) -> Vec<(String, &'v T)> {
        let mut found = Vec::new();
        let mut at = At::default();
        walk(&self.steps, root, &mut at, &mut |at, value| {
            found.push((at.pointer.clone(), value));
        });
        found
    }

    /// Children that a `*` names and in which the steps behind it find nothing: for `/people/*/email` a person without.
    pub fn strays<'v, T: Tree>(&self, root: &'v T) -> Vec<(String, &'v T)> {
        let Some(last) = self.steps.iter().rposition(|step| *step == Step::Each) else {
            return Vec::new();
        };
        let part = |steps: &[Step]| Self {
            steps: steps.to_vec(),
        };
        let (until, rest) = self.steps.split_at(last + 1);
        let (until, rest) = (part(until), part(rest));
        let mut children = until.select(root);
        children.retain(|(_, child)| rest.select(*child).is_empty());
        children
    }

    /// Where each branch of the selector ends: every element of a list, also one that has not what the selector asks of it.
    pub fn branches<'v>(&self, root: &'v Value) -> Vec<Branch<'v>> {
        let mut found = Vec::new();
        branch(&self.steps, root, &mut String::new(), &mut found);
        found
    }

    /// Leading steps that both have: what is found below the same place belongs together.
    pub fn shared_steps(&self, other: &Self) -> usize {
        let pairs = self.steps.iter().zip(&other.steps);
        pairs
            .take_while(|(one, two)| one == two && **one != Step::Deep)
            .count()
    }

    /// Shows every value at or below the selected ones, one after the other: there may be very many.
    pub fn each_below<'v, T: Tree>(&self, root: &'v T, mut visit: impl FnMut(&At<'v>, &'v T)) {
        let mut steps = self.steps.clone();
        steps.push(Step::Deep);
        walk(&steps, root, &mut At::default(), &mut visit);
    }
}

/// The end of one branch of a selector, with its JSON Pointer.
#[derive(Clone, Debug, PartialEq)]
pub enum Branch<'v> {
    /// A value.
    Value(String, &'v Value),
    /// The key is absent, the list is empty, or there is a null in its place.
    Missing(String),
    /// A value of another shape: text where the selector expects a list, say.
    Misfit(String),
}

/// The first `steps` steps of a JSON Pointer.
pub fn leading(pointer: &str, steps: usize) -> &str {
    let mut slashes = pointer.match_indices('/').skip(steps);
    let end = slashes.next().map_or(pointer.len(), |(at, _)| at);
    pointer.get(..end).unwrap_or(pointer)
}

fn branch<'v>(steps: &[Step], value: &'v Value, at: &mut String, found: &mut Vec<Branch<'v>>) {
    let Some((first, rest)) = steps.split_first() else {
        found.push(Branch::Value(at.clone(), value));
        return;
    };
    let before = found.len();
    match (first, value) {
        (Step::Deep, _) => {
            let mut deep = At {
                pointer: at.clone(),
                key: "",
            };
            walk(steps, value, &mut deep, &mut |at, value| {
                found.push(Branch::Value(at.pointer.clone(), value));
            });
        }
        (_, Value::Null) => {}
        (Step::Key(key, fold), Value::Object(map)) => {
            let named = map.iter().filter(|(name, _)| is_key(name, key, fold));
            named.for_each(|(name, child)| below(name, child, rest, at, found));
        }
        (Step::Key(key, _), Value::Array(items)) => {
            match key.parse().ok().and_then(|i: usize| items.get(i)) {
                Some(child) => below(key, child, rest, at, found),
                None => found.push(Branch::Misfit(at.clone())),
            }
        }
        (Step::Each, Value::Object(map)) => {
            map.iter()
                .for_each(|(name, child)| below(name, child, rest, at, found));
        }
        (Step::Each, Value::Array(items)) => {
            for (index, child) in items.iter().enumerate() {
                below(&index.to_string(), child, rest, at, found);
            }
        }
        _ => found.push(Branch::Misfit(at.clone())),
    }
    if found.len() == before {
        found.push(Branch::Missing(at.clone()));
    }
}

fn below<'v>(
    name: &str,
    child: &'v Value,
    rest: &[Step],
    at: &mut String,
    found: &mut Vec<Branch<'v>>,
) {
    let length = at.len();
    Place::push_step(at, name);
    branch(rest, child, at, found);
    at.truncate(length);
}

/// Where a value stands.
#[derive(Clone, Debug, Default)]
pub struct At<'v> {
    /// JSON Pointer, as [`Place::push_step`] cuts it.
    pub pointer: String,
    /// The nearest key: elements of an array stand under the array's.
    pub key: &'v str,
}

type Visit<'a, 'v, T> = &'a mut dyn FnMut(&At<'v>, &'v T);

fn step(text: &str) -> Result<Step, String> {
    match text {
        "*" => Ok(Step::Each),
        "**" => Ok(Step::Deep),
        _ if text.contains('*') => Err(format!(
            "'*' stands alone in a step of a selector, not inside \"{text}\""
        )),
        _ => {
            let key = text.replace("~1", "/").replace("~0", "~");
            let folded = folded(&key);
            Ok(Step::Key(key, folded))
        }
    }
}

fn walk<'v, T: Tree>(steps: &[Step], value: &'v T, at: &mut At<'v>, visit: Visit<'_, 'v, T>) {
    let Some((first, rest)) = steps.split_first() else {
        visit(at, value);
        return;
    };
    match first {
        Step::Key(key, fold) => {
            value.members(&mut |name, child| {
                if is_key(name, key, fold) {
                    member(name, child, rest, at, visit);
                }
            });
            if let Some((i, child)) = key.parse().ok().and_then(|i| Some((i, value.element(i)?))) {
                element(i, child, rest, at, visit);
            }
        }
        Step::Each => children(value, rest, at, visit),
        Step::Deep => {
            if matches!(rest.first(), Some(Step::Deep)) {
                return walk(rest, value, at, visit);
            }
            walk(rest, value, at, visit);
            children(value, steps, at, visit);
        }
    }
}

/// Most names are plain and cost no copy.
fn is_key(name: &str, key: &str, fold: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    name == key
        || if name.bytes().all(plain) {
            name == fold
        } else {
            folded(name) == fold
        }
}

fn children<'v, T: Tree>(value: &'v T, rest: &[Step], at: &mut At<'v>, visit: Visit<'_, 'v, T>) {
    value.members(&mut |name, child| member(name, child, rest, at, visit));
    value.elements(&mut |i, child| element(i, child, rest, at, visit));
}

fn member<'v, T: Tree>(
    name: &'v str,
    child: &'v T,
    rest: &[Step],
    at: &mut At<'v>,
    visit: Visit<'_, 'v, T>,
) {
    let (length, key) = (at.pointer.len(), at.key);
    Place::push_step(&mut at.pointer, name);
    at.key = name;
    walk(rest, child, at, visit);
    at.pointer.truncate(length);
    at.key = key;
}

fn element<'v, T: Tree>(
    index: usize,
    child: &'v T,
    rest: &[Step],
    at: &mut At<'v>,
    visit: Visit<'_, 'v, T>,
) {
    let length = at.pointer.len();
    Place::push_step(&mut at.pointer, &index.to_string());
    walk(rest, child, at, visit);
    at.pointer.truncate(length);
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match step {
                Step::Key(key, _) => write!(f, "/{}", key.replace('~', "~0").replace('/', "~1"))?,
                Step::Each => f.write_str("/*")?,
                Step::Deep => f.write_str("/**")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointers(selector: &str, value: &Value) -> Vec<String> {
        let selector = Selector::parse(selector).unwrap();
        selector
            .select(value)
            .into_iter()
            .map(|(at, _)| at)
            .collect()
    }

    #[test]
    fn keys_wildcards_and_depth() {
        let value = json!({"to": ["a", "b"], "x": {"to": "c"}, "a/b": 1});
        assert_eq!(pointers("/to", &value), ["/to"]);
        assert_eq!(pointers("/to/*", &value), ["/to/0", "/to/1"]);
        assert_eq!(pointers("/**/to", &value), ["/to", "/x/to"]);
        assert_eq!(pointers("/a~1b", &value), ["/a~1b"]);
        assert_eq!(pointers("", &value), [""]);
        assert_eq!(pointers("/nothing", &value), [] as [&str; 0]);
    }

    #[test]
    fn values_below_are_shown_once_however_deep() {
        let value = json!({"a": {"b": ["x", {"c": "y"}]}, "n": 1});
        let mut found = Vec::new();
        Selector::everything().each_below(&value, |at, value| {
            found.extend(
                value
                    .as_str()
                    .map(|text| (at.pointer.clone(), at.key, text)),
            );
        });
        let expected = [("/a/b/0", "b", "x"), ("/a/b/1/c", "c", "y")];
        assert_eq!(
            found,
            expected.map(|(at, key, text)| (at.to_owned(), key, text))
        );
    }

    #[test]
    fn a_step_takes_every_key_that_some_reader_takes_for_it() {
        let value = json!({"To": 1, "to": 2, "TO\u{0}": 3, "t\u{200b}o": 4, "too": 5, "t_o": 6});
        assert_eq!(pointers("/to", &value).len(), 4);
        let value = json!({"orderid": 1, "orderId": 2, "a\u{17f}k": 3});
        assert_eq!(pointers("/orderId", &value).len(), 2);
        assert_eq!(pointers("/ASK", &value).len(), 1);
    }

    #[test]
    fn long_keys_do_not_grow_with_what_is_below() {
        let value = json!({"k".repeat(10_000): {"k".repeat(10_000): vec![1; 100]}});
        let found = pointers("/**", &value);
        assert_eq!(found.len(), 103);
        assert!(found.iter().all(|at| at.len() < 1_000));
    }

    #[test]
    fn children_without_the_named_key_are_told() {
        let value = json!({"people": [{"email": "a"}, {"name": "b"}, "c", null]});
        let strays = |selector: &str| -> Vec<String> {
            let found = Selector::parse(selector).unwrap().strays(&value);
            found.into_iter().map(|(at, _)| at).collect()
        };
        assert_eq!(
            strays("/people/*/email"),
            ["/people/1", "/people/2", "/people/3"]
        );
        assert_eq!(strays("/people/*"), [] as [&str; 0]);
        assert_eq!(strays("/people"), [] as [&str; 0]);
    }

    #[test]
    fn every_branch_has_an_end() {
        let ends = |selector: &str, value: &Value| -> Vec<String> {
            let selector = Selector::parse(selector).unwrap();
            let ends = selector.branches(value).into_iter().map(|end| match end {
                Branch::Value(at, value) => format!("{at} = {value}"),
                Branch::Missing(at) => format!("{at} lacks it"),
                Branch::Misfit(at) => format!("{at} is another"),
            });
            ends.collect()
        };
        let value = json!({"ids": ["a", null], "of": [{"id": 1}, {}, "x", null], "one": "b", "none": [], "Ids": "c"});
        assert_eq!(
            ends("/ids/*", &value),
            ["/ids/0 = \"a\"", "/ids/1 = null", "/Ids is another"]
        );
        assert_eq!(
            ends("/of/*/id", &value),
            [
                "/of/0/id = 1",
                "/of/1 lacks it",
                "/of/2 is another",
                "/of/3 lacks it"
            ]
        );
        assert_eq!(ends("/one", &value), ["/one = \"b\""]);
        assert_eq!(ends("/one/*", &value), ["/one is another"]);
        assert_eq!(ends("/none/*", &value), ["/none lacks it"]);
        assert_eq!(ends("/else/*/id", &value), [" lacks it"]);
        assert_eq!(ends("/**/id", &value), ["/of/0/id = 1"]);
        assert_eq!(ends("/one/**/id", &value), ["/one lacks it"]);
    }

    #[test]
    fn what_belongs_together_shares_its_first_steps() {
        let shared = |one: &str, two: &str| {
            Selector::parse(one)
                .unwrap()
                .shared_steps(&Selector::parse(two).unwrap())
        };
        assert_eq!(shared("/orders/*/id", "/orders/*/items/*"), 2);
        assert_eq!(shared("/order_id", "/item_ids/*"), 0);
        assert_eq!(shared("/**/id", "/**/item"), 0);
        assert_eq!(leading("/orders/3/items/0", 2), "/orders/3");
        assert_eq!(leading("/orders/3", 2), "/orders/3");
        assert_eq!(leading("/orders/3", 0), "");
    }

    #[test]
    fn a_selector_without_slash_names_the_right_form() {
        assert!(Selector::parse("to").unwrap_err().contains("\"/to\""));
    }
}
