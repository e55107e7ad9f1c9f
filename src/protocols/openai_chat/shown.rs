//! Text that a client shows: of a message or a delta, in one string or in parts. A refusal of the model is none, nor is its
//! reasoning.

use super::present;
use crate::item::Located;
use crate::protocols::Malformed;
use crate::protocols::rendered::{self, Part, Text};
use crate::verdict::Ruling;
use crate::wire::json::{Kind, Node};

/// The strings with text for the client, in order.
pub(super) fn strings(message: &Node) -> Vec<&Node> {
    let Some(content) = present(message, "content") else {
        return Vec::new();
    };
    match &content.kind {
        Kind::String(_) => vec![content],
        Kind::Array(parts) => parts.iter().filter_map(string).collect(),
        _ => Vec::new(),
    }
}

fn string(part: &Node) -> Option<&Node> {
    let string = match part.kind {
        Kind::String(_) => part,
        _ => part.get("text")?,
    };
    string.as_str().is_some().then_some(string)
}

/// Text of one choice in a whole response or a chunk: the parts of each of its strings.
#[derive(Debug, Default)]
pub(super) struct Shown(Vec<Vec<Part>>);

impl Shown {
    /// Takes the text of a message or a delta.
    pub fn read(text: &mut Text, message: &Node) -> Self {
        let strings = strings(message).into_iter();
        let said = strings.map(|string| text.push(string.as_str().unwrap_or_default()));
        Self(said.collect())
    }

    /// The text ends here; `false`: there is no string to add what waited to.
    pub fn end(&mut self, text: &mut Text) -> bool {
        let Some(last) = self.0.last_mut() else {
            return false;
        };
        last.extend(text.end());
        true
    }

    /// The pieces to judge.
    pub fn located(&self, choice: u64) -> Vec<Located> {
        let pointer = pointer(choice);
        let parts = self.0.iter();
        parts
            .flat_map(|parts| rendered::located(parts, &pointer))
            .collect()
    }

    /// How many there are.
    pub fn pieces(&self) -> usize {
        self.0.iter().map(|parts| rendered::pieces(parts)).sum()
    }

    /// Each of its strings as it leaves.
    pub fn written<'r>(
        &self,
        rulings: &mut impl Iterator<Item = &'r Ruling>,
    ) -> Result<Vec<String>, Malformed> {
        let parts = self.0.iter();
        parts
            .map(|parts| rendered::written(parts, rulings))
            .collect()
    }
}

/// Where the text of a choice stands.
pub(super) fn pointer(choice: u64) -> String {
    format!("/choices/{choice}/content")
}
