//! Rulings over found texts, written back into the document.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::json;

use super::{Found, Slot};
use crate::item::Item;
use crate::protocols::{Malformed, note, unwritable};
use crate::verdict::{Reason, Ruling, Verdict};
use crate::wire::json::Node;
use crate::wire::splice::{Splice, quote};

/// An element that must go. The adapter takes it out, with what makes no sense without it.
#[derive(Clone, Copy, Debug)]
pub struct Gone<'d> {
    /// The array.
    pub list: &'d Node,
    /// Which element.
    pub index: usize,
    /// Which of the found items it is.
    pub item: usize,
}

/// Writes the rulings over texts and keys; gives the elements that must go. A ruling over something that can only stay
/// ([`Slot::Whole`]) is the caller's.
///
/// # Errors
/// A ruling that does not fit what was found.
pub fn write<'d>(
    splice: &mut Splice<'_>,
    found: &[Found<'d>],
    rulings: &[Ruling],
) -> Result<Vec<Gone<'d>>, Malformed> {
    if found.len() != rulings.len() {
        return Err(unwritable());
    }
    let mut edits = Edits::default();
    let mut gone = Vec::new();
    for (item, (found, ruling)) in found.iter().zip(rulings).enumerate() {
        match (&ruling.verdict, &found.slot) {
            (Verdict::Allow, _) | (_, Slot::Joined(_) | Slot::Whole) => {}
            (Verdict::Rewrite(rewrite), Slot::Text(node, range)) => {
                let text = node.as_str().and_then(|text| text.get(range.clone()));
                text.and_then(|text| rewrite.apply(text))
                    .ok_or_else(unwritable)?;
                for (span, instead) in &rewrite.edits {
                    let span = range.start + span.start..range.start + span.end;
                    edits.add(node, span, instead.as_str().to_owned());
                }
            }
            (verdict, Slot::Text(node, range)) => {
                edits.add(node, range.clone(), note::withheld(reason(verdict)));
            }
            (verdict, Slot::Keys(spans)) => {
                let text = match (verdict, &found.located.item) {
                    (Verdict::Rewrite(rewrite), Item::ToolOutput(output)) => {
                        rewrite.apply(&output.text).ok_or_else(unwritable)?
                    }
                    _ => note::withheld(reason(verdict)),
                };
                // Keys of one object stay distinct.
                let key = quote(&format!("{text} #{item}"));
                for span in spans {
                    splice.replace_span(span.clone(), key.clone());
                }
            }
            // The model's own words: to mark them would change what it called.
            (Verdict::Rewrite(rewrite), Slot::Arguments(_)) if rewrite.says_all() => {}
            (verdict, Slot::Arguments(node)) => {
                let words = note::withheld(reason(verdict));
                splice.replace_text(node, &json!({ "withheld": words }).to_string());
            }
            (_, Slot::Element(list, index)) => gone.push(Gone {
                list,
                index: *index,
                item,
            }),
        }
    }
    joined(found, rulings, &mut edits);
    edits.write(splice)?;
    Ok(gone)
}

/// Withholds each part that a ruling over the joined text touches and that no ruling of its own has changed.
fn joined<'d>(found: &[Found<'d>], rulings: &[Ruling], edits: &mut Edits<'d>) {
    for (joined, ruling) in found.iter().zip(rulings) {
        let Slot::Joined(parts) = &joined.slot else {
            continue;
        };
        let touched = |range: &Range<usize>| match &ruling.verdict {
            Verdict::Allow => false,
            Verdict::Rewrite(rewrite) => rewrite
                .removed()
                .any(|span| span.start < range.end && range.start < span.end),
            Verdict::Deny(_) | Verdict::Hold(_) => true,
        };
        for (index, range) in parts {
            let own = rulings.get(*index).map(|ruling| &ruling.verdict);
            // What was only cleaned or marked still says all of it.
            let stands = own.is_some_and(Verdict::says_all);
            if let (true, true, Some(part)) = (touched(range), stands, found.get(*index))
                && let Slot::Text(node, range) = &part.slot
            {
                edits.clear(node, range);
                edits.add(node, range.clone(), note::withheld(reason(&ruling.verdict)));
            }
        }
    }
}

fn reason(verdict: &Verdict) -> Reason {
    verdict
        .finding()
        .map_or(Reason::Undecided, |finding| finding.reason)
}

/// Edits of decoded strings, by where the string stands.
#[derive(Default)]
struct Edits<'d>(BTreeMap<usize, Edited<'d>>);

#[derive(Default)]
struct Edited<'d> {
    node: Option<&'d Node>,
    edits: Vec<(Range<usize>, String)>,
}

impl<'d> Edits<'d> {
    fn add(&mut self, node: &'d Node, span: Range<usize>, text: String) {
        let Edited { node: known, edits } = self.0.entry(node.span.start).or_default();
        *known = Some(node);
        // Both views of joined texts may say the same.
        if !edits
            .iter()
            .any(|(taken, _)| span.start < taken.end && taken.start < span.end || *taken == span)
        {
            edits.push((span, text));
        }
    }

    /// Forgets the edits within a range: all of it goes.
    fn clear(&mut self, node: &'d Node, range: &Range<usize>) {
        if let Some(Edited { edits, .. }) = self.0.get_mut(&node.span.start) {
            edits.retain(|(taken, text)| {
                taken.start < range.start || taken.end > range.end || note::is_withheld(text)
            });
        }
    }

    fn write(self, splice: &mut Splice<'_>) -> Result<(), Malformed> {
        for Edited { node, mut edits } in self.0.into_values() {
            let text = node.and_then(Node::as_str);
            let (Some(node), Some(text)) = (node, text) else {
                return Err(unwritable());
            };
            edits.sort_by_key(|(span, _)| span.start);
            let mut out = String::with_capacity(text.len());
            let mut done = 0;
            for (span, new) in &edits {
                out.push_str(text.get(done..span.start).ok_or_else(unwritable)?);
                out.push_str(new);
                done = span.end;
            }
            out.push_str(text.get(done..).ok_or_else(unwritable)?);
            splice.replace_text(node, &out);
        }
        Ok(())
    }
}
