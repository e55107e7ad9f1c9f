//! Parts of a text: as items, and as they leave.

use crate::item::{Item, Located, ModelText, Place};
use crate::protocols::{MOST_TEXTS, Malformed, unwritable};
use crate::verdict::{Ruling, Verdict};

/// In place of a piece that was denied.
const WITHHELD: &str = "(text withheld)";

/// A part of a text, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// May leave.
    Plain(String),
    /// To be judged.
    Piece(ModelText),
}

pub(super) fn push_plain(parts: &mut Vec<Part>, text: &str) {
    if let Some(Part::Plain(last)) = parts.last_mut() {
        last.push_str(text);
    } else {
        parts.push(Part::Plain(text.to_owned()));
    }
}

/// How many of the parts are to be judged.
pub fn pieces(parts: &[Part]) -> usize {
    let is_piece = |part: &&Part| matches!(part, Part::Piece(_));
    parts.iter().filter(is_piece).count()
}

/// Refuses a response with too many pieces.
///
/// # Errors
/// It has more than [`MOST_TEXTS`].
pub fn check_pieces(count: usize) -> Result<(), Malformed> {
    if count > MOST_TEXTS {
        return Err(Malformed {
            code: "upstream_too_large",
            message: format!("the response's text has more than {MOST_TEXTS} links and tags"),
        });
    }
    Ok(())
}

/// The pieces as items; `pointer`: of the text.
pub fn located<'p>(parts: &'p [Part], pointer: &'p str) -> impl Iterator<Item = Located> + 'p {
    parts.iter().filter_map(move |part| {
        let Part::Piece(piece) = part else {
            return None;
        };
        Some(Located {
            place: Place {
                pointer: pointer.to_owned(),
                span: None,
            },
            item: Item::ModelText(piece.clone()),
        })
    })
}

/// The parts as they leave, by the rulings over the pieces among them.
///
/// # Errors
/// Rulings that do not fit.
pub fn written<'r>(
    parts: &[Part],
    rulings: &mut impl Iterator<Item = &'r Ruling>,
) -> Result<String, Malformed> {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Plain(text) => out.push_str(text),
            Part::Piece(piece) => {
                let ruling = rulings.next().ok_or_else(unwritable)?;
                match &ruling.verdict {
                    Verdict::Allow => out.push_str(&piece.text),
                    Verdict::Rewrite(rewrite) => {
                        out.push_str(&rewrite.apply(&piece.text).ok_or_else(unwritable)?);
                    }
                    Verdict::Hold(_) | Verdict::Deny(_) => out.push_str(WITHHELD),
                }
            }
        }
    }
    Ok(out)
}
