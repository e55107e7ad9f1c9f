//! Text of a chunk, where a rule asks what clients would fetch or follow in it: in parts, and as it leaves.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::super::call::choice_index;
use super::super::present;
use super::super::shown::{self, Shown};
use super::choice::Choice;
use crate::item::Located;
use crate::protocols::rendered::{self, Part, Text};
use crate::protocols::strict::array;
use crate::protocols::{Malformed, note};
use crate::verdict::Ruling;
use crate::wire::json::{Document, Node};
use crate::wire::splice::Splice;

/// Text that leaves with an event.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Of each choice of the chunk, by position.
    inside: Vec<(u64, Shown)>,
    /// What waited of choices that end, where the chunk has no string of theirs.
    apart: Vec<(u64, Vec<Part>)>,
}

impl Texts {
    /// Takes a chunk that ends the choices `ripe`; without anything where no rule asks.
    pub fn read(
        choices: &mut BTreeMap<u64, Choice>,
        document: &Document,
        ripe: &[u64],
    ) -> Result<Self, Malformed> {
        let mut texts = Self::default();
        for (position, node) in array(document.root(), "choices")?.iter().enumerate() {
            let index = choice_index(document, node, position)?;
            let Some(text) = choices.get_mut(&index).and_then(Choice::text) else {
                continue;
            };
            let mut shown = Shown::default();
            if let Some(delta) = present(node, "delta") {
                shown = Shown::read(text, delta);
            }
            texts.inside.push((index, shown));
        }
        for index in ripe {
            let Some(text) = choices.get_mut(index).and_then(Choice::text) else {
                continue;
            };
            let mut own = texts.inside.iter_mut().rev().filter(|(of, _)| of == index);
            if !own.any(|(_, shown)| shown.end(text)) {
                texts.apart.push((*index, text.end()));
            }
        }
        Ok(texts)
    }

    /// What still waits of these choices.
    pub fn rest(choices: &mut BTreeMap<u64, Choice>, ripe: &[u64]) -> Self {
        let mut texts = Self::default();
        for index in ripe {
            let text = choices.get_mut(index).and_then(Choice::text);
            let parts = text.map(Text::end).unwrap_or_default();
            texts.apart.push((*index, parts));
        }
        texts
    }

    /// The pieces to judge.
    pub fn located(&self) -> Vec<Located> {
        let inside = self.inside.iter();
        let mut all: Vec<_> = inside
            .flat_map(|(index, shown)| shown.located(*index))
            .collect();
        for (index, parts) in &self.apart {
            all.extend(rendered::located(parts, &shown::pointer(*index)));
        }
        all
    }

    /// The strings of each choice of the chunk as they leave, by position; what stands apart is sent.
    pub fn written<'r>(
        &self,
        choices: &mut BTreeMap<u64, Choice>,
        rulings: &mut impl Iterator<Item = &'r Ruling>,
        send: &mut Vec<Bytes>,
    ) -> Result<Vec<Vec<String>>, Malformed> {
        let mut inside = Vec::new();
        for (index, shown) in &self.inside {
            let strings = shown.written(rulings)?;
            let says = strings.iter().any(|string| !string.is_empty());
            if let Some(choice) = choices.get_mut(index).filter(|_| says) {
                choice.says();
            }
            inside.push(strings);
        }
        for (index, parts) in &self.apart {
            let text = rendered::written(parts, rulings)?;
            if let Some(choice) = choices.get_mut(index).filter(|_| !text.is_empty()) {
                send.push(choice.text_chunk(&text)?);
            }
        }
        Ok(inside)
    }
}

/// Writes the strings of a delta's text, where they change, and the note behind it.
pub(super) fn write(
    splice: &mut Splice<'_>,
    delta: &Node,
    strings: Option<&[String]>,
    note: Option<&str>,
) {
    let content = delta.get("content");
    let own = content.and_then(|content| Some((content, content.as_str()?)));
    if let (Some((content, own)), Some(note)) = (own, note) {
        let said = strings.and_then(|strings| strings.first());
        let said = said.map_or(own, |said| said);
        return splice.replace_text(content, &note::after(said, note));
    }
    for (string, said) in shown::strings(delta)
        .into_iter()
        .zip(strings.unwrap_or_default())
    {
        if string.as_str() != Some(said) {
            splice.replace_text(string, said);
        }
    }
}
