//! Pieces of a text that comes in pieces. What stands before a piece has left already, and what comes behind it is not known:
//! a piece passes only if it leads nowhere else whatever these are.

use std::ops::Range;

use super::super::code::{Code, Denied};
use super::{Rendered, Shown, Use, applied, notice, reference};
use crate::item::{Around, ModelText};

type Edits = Vec<(Range<usize>, String)>;

const UNENDED: Denied = Denied::new(Code::MalformedUrl, "a tag that does not end on its line");
const LONG: Denied = Denied::new(
    Code::MalformedUrl,
    "no end that all readers agree on within what is held back",
);
const ELEMENT: Denied = Denied::new(
    Code::SchemeNotAllowed,
    "an element whose content is not read as text",
);
const MANY: Denied = Denied::new(
    Code::MalformedUrl,
    "an image by name behind more definitions than are kept",
);

/// What stands before a piece within its line: it makes no definition then.
const WORDS: &str = "x ";

/// Behind it nothing is Markdown, and what a link says is words.
const TAG: &str = "<div>";

/// Elements that a whole text may have, since their content is seen there.
const UNSEEN: [&str; 2] = ["<style", "<iframe"];

/// The words of a piece with destinations, without these, and where they stand.
fn labels(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    let has_destination = text.contains("](");
    let segments = text.split("](").enumerate().map(move |(number, segment)| {
        let from = match number {
            0 => 0,
            _ => segment.find(')').map_or(segment.len(), |end| end + 1),
        };
        let start = at + from;
        at += segment.len() + "](".len();
        (start, segment.get(from..).unwrap_or_default())
    });
    segments.filter(move |(_, words)| has_destination && !words.is_empty())
}

impl Rendered {
    /// Why a text must not be rendered as it is, and the edits that neutralise it; `None`: it may.
    pub fn neutralised(&self, text: &ModelText) -> Option<(Denied, Edits)> {
        let Some(around) = &text.around else {
            let refused = self.refused(&text.text);
            let first = refused.first()?;
            return Some((first.denied, self.edits(&text.text, &refused)));
        };
        self.piece(&text.text, around)
    }

    fn piece(&self, text: &str, around: &Around) -> Option<(Denied, Edits)> {
        let whole = |denied, words: String| Some((denied, vec![(0..text.len(), words)]));
        if around.is_open {
            return if text == "<" {
                whole(UNENDED, "&lt;".to_owned())
            } else {
                whole(LONG, withheld(text, around, "(text withheld)"))
            };
        }
        if around.is_named
            && let Err(denied) = self.named(around)
        {
            // Of an image without an end only the bracket is there, and is made one that opens nothing.
            return if text == "![" {
                whole(denied, "!&#91;".to_owned())
            } else {
                whole(denied, withheld(text, around, "(image withheld)"))
            };
        }
        let lower = text.to_ascii_lowercase();
        if UNSEEN.iter().any(|element| lower.contains(element)) {
            return whole(ELEMENT, withheld(text, around, "(image withheld)"));
        }
        if let Some(denied) = self.destinations(text, around) {
            return whole(denied, withheld(text, around, "(link withheld)"));
        }
        let refused = self.refused_anywhere(text);
        let first = refused.first()?;
        // A tag without a part of it would be another one.
        if text.starts_with('<') {
            return whole(first.denied, notice(first.how, ""));
        }
        let edits = self.edits(text, &refused);
        let edited = applied(text, &edits).unwrap_or_default();
        if self.refused_anywhere(&edited).is_empty() {
            return Some((first.denied, edits));
        }
        whole(first.denied, withheld(text, around, "(text withheld)"))
    }

    /// What must not be rendered of a piece, at the start of a line, within one, and where nothing is Markdown.
    fn refused_anywhere(&self, text: &str) -> Vec<Shown> {
        let mut refused = self.refused(text);
        let within = self.refused_behind(WORDS, text);
        // What a definition may lead to is judged as such, not as a URL among words.
        let is_defined = |shown: &Shown| {
            let url = text.get(shown.span.clone()).unwrap_or_default();
            text.contains("]:")
                && shown.how == Use::Followed
                && url.starts_with(|c: char| c.is_ascii_alphabetic())
                && self.destination(Use::Fetched, url).is_ok()
        };
        refused.extend(within.filter(|shown| !is_defined(shown)));
        for (at, words) in labels(text) {
            let shown = self.refused_behind(TAG, words);
            refused.extend(shown.map(|shown| Shown {
                span: shown.span.start + at..shown.span.end + at,
                ..shown
            }));
        }
        refused.sort_by_key(|shown| (shown.span.start, shown.span.end, shown.how));
        refused.dedup_by(|a, b| a.span == b.span && a.how == b.how);
        refused
    }

    /// What is refused of a piece with this before it.
    fn refused_behind(&self, before: &'static str, text: &str) -> impl Iterator<Item = Shown> {
        let refused = self.refused(&format!("{before}{text}")).into_iter();
        refused.map(|shown| Shown {
            span: shown.span.start.saturating_sub(before.len())
                ..shown.span.end.saturating_sub(before.len()),
            ..shown
        })
    }

    /// Whether an image may have the destination of any definition that came.
    fn named(&self, around: &Around) -> Result<(), Denied> {
        let definitions = around.definitions.as_deref().ok_or(MANY)?;
        for (at, close) in definitions.match_indices("]:") {
            let rest = definitions.get(at + close.len()..).unwrap_or_default();
            self.destination(Use::Fetched, target(rest, false))?;
        }
        Ok(())
    }

    /// Why a destination of the piece is refused whose bracket opens before it, or for which an image is waiting.
    fn destinations(&self, text: &str, around: &Around) -> Option<Denied> {
        let fetched = |raw| self.destination(Use::Fetched, raw).err();
        let followed = |raw| self.destination(Use::Followed, raw).err();
        let is_own = text.starts_with('[') || text.starts_with("![");
        for (at, close) in text.match_indices("](").chain(text.match_indices("]:")) {
            let raw = target(text.get(at + 2..).unwrap_or_default(), close == "](");
            let denied = match close {
                // Those of its own brackets are read with them.
                "](" if is_own => None,
                "](" if around.in_image => followed(raw).or_else(|| fetched(raw)),
                "](" => followed(raw),
                _ if around.has_named => fetched(raw),
                _ if is_own => None,
                _ => fetched(raw).and_then(|_| followed(raw)),
            };
            if denied.is_some() {
                return denied;
            }
        }
        None
    }

    /// Judges a destination as it is written.
    fn destination(&self, how: Use, raw: &str) -> Result<(), Denied> {
        if raw.is_empty() {
            return Ok(());
        }
        let construct = match how {
            Use::Fetched => format!("![x]({raw})"),
            Use::Followed => format!("[x]({raw})"),
        };
        self.judge_text(&construct)?;
        let rule = match how {
            Use::Fetched => &self.images,
            Use::Followed => &self.links,
        };
        // Not every client takes an escape for one.
        reference(rule, how, &raw.trim_matches(['<', '>']).replace('\\', ""))
    }
}

/// The notice in place of a piece. A closing bracket stays: what it closes has left.
fn withheld(text: &str, around: &Around, words: &str) -> String {
    if !text.starts_with(']') {
        return words.to_owned();
    }
    let how = if around.in_image {
        Use::Fetched
    } else {
        Use::Followed
    };
    format!("] {}", notice(how, ""))
}

/// The destination behind `](` (`closes`) or `]:`, as it is written.
fn target(rest: &str, closes: bool) -> &str {
    let (line, below) = rest.split_once(['\n', '\r']).unwrap_or((rest, ""));
    let rest = if line.trim().is_empty() {
        below.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '>')
    } else {
        line.trim_start_matches([' ', '\t'])
    };
    if rest.starts_with('<')
        && let Some(end) = rest.find(['>', '\n', '\r'])
        && let Some(inside) = rest.get(..=end).filter(|inside| inside.ends_with('>'))
    {
        return inside;
    }
    let mut depth = 0_usize;
    let mut escaped = false;
    let end = rest.find(|c: char| {
        let is_end = match c {
            c if c <= ' ' || c == '\u{7f}' => true,
            ')' if closes && !escaped && depth == 0 => true,
            ')' if closes && !escaped => {
                depth -= 1;
                false
            }
            '(' if closes && !escaped => {
                depth += 1;
                false
            }
            _ => false,
        };
        escaped = c == '\\' && !escaped;
        is_end
    });
    rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
}
